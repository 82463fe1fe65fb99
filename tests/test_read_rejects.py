"""Rejects on their way to their file: order, names, what is kept of a record, and when there is no file at all."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.reading import write
from tests.training import WAYS_OUT
from tokenmill import Tokenizer, schemas
from tokenmill.encoding.encoder import Encoded
from tokenmill.formats import native
from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.word_counts import WordCounter
from tokenmill.transforms import count, encode
from tokenmill.transforms.accounts import SplitAccount
from tokenmill.transforms.count import CountOptions, count_split
from tokenmill.transforms.encode import EncodeOptions, encode_documents, encode_split
from tokenmill.transforms.read import DocumentBatch
from tokenmill.transforms.read_batches import make_documents
from tokenmill.transforms.rejects import REJECT_RAW_BYTES, RejectWriter, render_reject
from tokenmill.transforms.splits import Range, ReadOptions, Reject, SourceFile, Split
from tokenmill.transforms.write import ShardWriter

FIRST = Reject("a.txt", 3, 17, "why", b"\xff")
SECOND = Reject("a.txt", 5, -1, "wh\u00ff", b"")


@pytest.fixture
def tokenizer() -> Tokenizer:
    """Knows the characters `a` and `b`."""
    return native.loads(b'{"merge_rules": [], "vocab": {"a": 0, "b": 1}}')


def encode_options(folder: Path, **read: Any) -> EncodeOptions:
    tokenizer, *folders = (str(folder / "out" / name) for name in ("tokenizer.json", "shards", "journal", "rejects"))
    return EncodeOptions(ReadOptions(**read), tokenizer, "0" * 64, *folders)


def plan_one(path: Path, **read: Any) -> Split:
    (split,) = plan_splits(resolve_inputs([str(path)]), options=ReadOptions(**read))
    return split


def rows_of(folder: Path, name: str = "part-00000-of-00001.jsonl") -> list[int]:
    return [json.loads(line)["row"] for line in (folder / "out" / "rejects" / name).read_text().splitlines()]


def test_names() -> None:
    assert schemas.reject_name(0, 64) == "part-00000-of-00064.jsonl"
    assert schemas.reject_name(123456, 200000) == "part-123456-of-200000.jsonl"


def test_a_line_says_all_of_a_reject() -> None:
    fields = {"file": "a.txt", "row": 3, "offset": 17, "reason": "why", "bytes": 1, "raw": "/w=="}
    assert render_reject(FIRST) == json.dumps(fields).encode() + b"\n"
    assert b"\xc3\xbf" in render_reject(SECOND)
    assert json.loads(render_reject(Reject("a", 0, 0, "lone \ud83d", b"")))["reason"] == "lone ?"


def test_long_records_are_cut_and_say_how_long_they_were() -> None:
    fields = json.loads(render_reject(Reject("a", 0, 0, "long", b"x" * (REJECT_RAW_BYTES + 1))))
    assert fields["bytes"] == REJECT_RAW_BYTES + 1 and base64.b64decode(fields["raw"]) == b"x" * REJECT_RAW_BYTES


def test_file_appears_whole_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "rejects" / "part.jsonl"
    with RejectWriter(str(path)) as writer:
        writer.write([])
        assert not path.parent.exists()
        writer.write([FIRST])
        writer.write([SECOND])
        assert not path.exists()
    assert path.read_bytes() == render_reject(FIRST) + render_reject(SECOND)
    assert list(path.parent.iterdir()) == [path]


def test_no_reject_no_file(tmp_path: Path) -> None:
    with RejectWriter(str(tmp_path / "rejects" / "part.jsonl")) as writer:
        writer.write([])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rejects", [[], [FIRST]])
def test_an_exception_leaves_no_file(tmp_path: Path, rejects: list[Reject]) -> None:
    with pytest.raises(RuntimeError), RejectWriter(str(tmp_path / "part.jsonl")) as writer:
        writer.write(rejects)
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_both_kinds_in_row_order_under_ids_of_their_own(tmp_path: Path, tokenizer: Tokenizer) -> None:
    lines = [{"id": f"a.jsonl:{9 - row}", "text": text} for row, text in enumerate(("az", None, "ab", "z", "", None, "b"))]
    path = write(tmp_path, b"".join(json.dumps(line).encode() + b"\n" for line in lines), name="a.jsonl")
    options = encode_options(tmp_path, id_column="id")
    record = encode_split(plan_one(path, id_column="id"), tokenizer, options, 1)
    assert rows_of(tmp_path) == [0, 1, 3, 5]
    numbers = record["files"]["a.jsonl"]
    assert (numbers["documents"], numbers["encoded"], numbers["rejected"]) == (7, 3, 4)
    shard = pa.parquet.read_table(tmp_path / "out" / "shards" / record["shards"][0]["path"])
    assert shard.to_pydict() == {"doc_id": ["a.jsonl:7", "a.jsonl:5", "a.jsonl:3"], "input_ids": [[0, 1], [], [1]]}


def test_each_batch_is_encoded_once(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    encode_counted = Tokenizer.encode_counted

    def record_call(self: Tokenizer, texts: pa.Array, **options: Any) -> Encoded:
        calls.append(texts.to_pylist())
        return encode_counted(self, texts, **options)

    monkeypatch.setattr(Tokenizer, "encode_counted", record_call)
    documents = make_documents(pa.array(["skipped", "x", "y", "z"]), pa.array(["", "ab", "z", "b"], pa.large_string())).slice(1)
    early = Reject("f", 10, 2, "bad")
    batch = DocumentBatch("f", documents, np.array([7, 11, 12]), (early,), 7)
    split = Split(0, (Range(SourceFile("f", "f", "text"), 0, 9),))
    account = SplitAccount(split, made_ids=False)
    with ShardWriter(str(tmp_path / "part.parquet"), {}) as writer:
        rejects = list(encode_documents(batch, tokenizer, writer, account))
    reason = "document y, character 0: 'z' (U+007A) is not in the alphabet; " + WAYS_OUT
    assert rejects == [early, Reject("f", 11, -1, reason, b"z")]
    assert calls == [["ab", "z", "b"]]
    assert pa.parquet.read_table(tmp_path / "part.parquet").to_pydict() == {"doc_id": ["x", "z"], "input_ids": [[0, 1], [1]]}


def test_a_batch_of_nothing_but_rejects(tmp_path: Path, tokenizer: Tokenizer) -> None:
    record = encode_split(plan_one(write(tmp_path, b"z\nz\n\xff\n")), tokenizer, encode_options(tmp_path), 1)
    assert rows_of(tmp_path) == [0, 1, 2]
    assert record["shards"][0]["documents"] == record["tokens"] == 0


def test_data_that_fails_keeps_the_rejects_before_it(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = write(tmp_path, b"a\n\xff\n")
    split = plan_one(path)
    gone = Range(SourceFile(str(tmp_path / "gone"), "gone", "text", size=2), 0, 2)
    record = encode_split(Split(0, (*split.ranges, gone)), tokenizer, encode_options(tmp_path), 1)
    assert record["failure"]["error"] == "UnreadableFileError" and rows_of(tmp_path) == [1]
    assert list((tmp_path / "out" / "shards").iterdir()) == []


def failing_read(split: Split, options: ReadOptions, *normalizers: object) -> Iterator[DocumentBatch]:
    documents = make_documents(pa.array([], pa.string()), pa.array([], pa.large_string()))
    yield DocumentBatch("a.txt", documents, np.array([], np.int64), (FIRST,), 0)
    raise RuntimeError("a fault of ours")


def test_a_fault_of_ours_leaves_no_rejects(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (count, encode):
        monkeypatch.setattr(module, "read_documents", failing_read)
    split = Split(0, (Range(SourceFile("a.txt", "a.txt", "text"), 0, 1),))
    with pytest.raises(RuntimeError):
        encode_split(split, tokenizer, encode_options(tmp_path), 1)
    with pytest.raises(RuntimeError):
        list(count_split(split, WordCounter(PreTokenizer("gpt2")), count_options(tmp_path), 1))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def count_options(folder: Path) -> CountOptions:
    names = ("journal", "partitions", "rejects", "groups")
    folders = {f"{name}_folder": str(folder / "out" / name) for name in names}
    return CountOptions(read=ReadOptions(), pretokenizer=PreTokenizer("gpt2"), **folders)


def test_counting_writes_rejects_before_its_record(tmp_path: Path) -> None:
    split = plan_one(write(tmp_path, b"a\n\xff\nb\n\xfe\n"))
    tables = list(count_split(split, WordCounter(PreTokenizer("gpt2")), count_options(tmp_path), 2))
    assert sorted(word for _, table in tables for word in table["word"].to_pylist()) == [b"a", b"b"]
    assert rows_of(tmp_path, "part-00000-of-00002.jsonl") == [1, 3]
