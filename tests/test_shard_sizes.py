"""Shards have rows, and no more text than is stated, whatever the input: one split gives none, one or several."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import hash_folder, make_texts
from tests.training import few_cases
from tokenmill import TokenDataset, errors, schemas
from tokenmill.pipeline import driver
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.accounting import MaxRejects
from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.pipeline.outputs import OutputFolder
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.pipeline.tokenize_command import read_rows
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.trainers import TrainingOptions
from tokenmill.transforms import encode
from tokenmill.transforms.encode import EncodeOptions, encode_split
from tokenmill.transforms.splits import ReadOptions

RUN = Execution(reporter(quiet=True), workers=1)
SPLIT = 1_000
LIMIT = 2 * SPLIT


@pytest.fixture(scope="module")
def mill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tokenizer.json` that has no token for Z, and `in` with files of every kind that gives no shard, one or several."""
    folder = tmp_path_factory.mktemp("mill")
    (folder / "in").mkdir()
    (folder / "text.txt").write_text("".join(text + "\n" for text in make_texts(300) if text))
    options = TrainingOptions(model="char-bpe", pretokenizer="gpt2", vocab_size=400, special_tokens=("<eos>", "<pad>"))
    driver.train_on_corpus(Corpus((str(folder / "text.txt"),)), options, str(folder / "tokenizer.json"), RUN)
    write_corpus(folder / "in")
    return folder


def write_corpus(folder: Path) -> None:
    texts = make_texts(60)
    pack = gzip.compress("".join(text + "\n" for text in texts).encode(), mtime=0)
    (folder / "a.txt.gz").write_bytes(pack)
    (folder / "b.txt").write_bytes(b"re" * 5_000 + b"\nlow\n")  # its splits in the middle hold no line
    (folder / "c.txt.gz").write_bytes(gzip.compress((b"Z" * 999 + b"\n") * 11, mtime=0))  # nothing but rejects
    (folder / "d.jsonl").write_text('{"text": 1}\n{"no": 2}\n')
    (folder / "e.txt.gz").write_bytes(gzip.compress(b"", mtime=0))
    (folder / "f.txt").write_bytes(b"")
    table = pa.table({"text": [None if place % 7 == 3 else text for place, text in enumerate(make_texts(40, seed=4))]})
    pq.write_table(table, folder / "g.parquet", use_dictionary=False)


def documents_of(folder: Path) -> list[tuple[str, str]]:
    """What `write_corpus` wrote and the tokenizer has tokens for."""
    found = [(f"a.txt.gz:{row}", text) for row, text in enumerate(make_texts(60))]
    found += [("b.txt:0", "re" * 5_000), ("b.txt:1", "low")]
    return found + [(f"g.parquet:{row}", text) for row, text in enumerate(make_texts(40, seed=4)) if row % 7 != 3]


def encode_all(mill: Path, output: Path, run: Execution = RUN, split_bytes: int = SPLIT, **rows: Any) -> dict[str, Any]:
    corpus = Corpus((str(mill / "in"),), split_bytes=split_bytes, max_rejects=MaxRejects.parse("100%"))
    how = {"update": rows.pop("update", False), "overwrite": rows.pop("overwrite", False)}
    return driver.encode_corpus(corpus, str(mill / "tokenizer.json"), str(output), run, rows=RowOptions(**rows), **how)


def text_bytes(entry: dict[str, Any]) -> int:
    return sum(account["bytes"] for account in entry["files"])


def check_sizes(manifest: dict[str, Any], output: Path) -> None:
    for number, shard in enumerate(manifest["shards"]):
        assert shard["path"] == schemas.shard_name(number, len(manifest["shards"]))
        rows = pq.read_metadata(output / shard["path"]).num_rows
        assert rows == schemas.count_rows(shard) > 0
        assert text_bytes(shard) <= LIMIT or sum(account["documents"] for account in shard["files"]) == 1
    assert sorted(path.name for path in output.glob("*.parquet")) == [shard["path"] for shard in manifest["shards"]]
    assert all("path" not in entry and not schemas.count_rows(entry) for entry in manifest["unwritten"])


ROWS: list[dict[str, Any]] = [
    {},
    {"shuffle": 5},
    {"max_length": 16, "overflow": "rows", "stride": 2},
    {"block": 32, "eos": "<eos>"},
    {"block": 32, "eos": "<eos>", "tail": "drop", "shuffle": 5},
    {"block": 32, "pack": "best-fit", "pad": "<pad>", "segment_ids": True},
    {"block": 32, "pack": "none", "pad": "<pad>"},
]
#: The others differ from these in no step of their own.
QUICK = (ROWS[0], ROWS[4])


@pytest.mark.parametrize("rows", [pytest.param(rows, marks=() if rows in QUICK else pytest.mark.deep) for rows in ROWS])
def test_every_kind_of_file(mill: Path, tmp_path: Path, rows: dict[str, Any]) -> None:
    """Sizes hold, the books are right, the source gives the same parts again, and each can be repaired."""
    manifest = encode_all(mill, tmp_path / "out", **rows)
    check_sizes(manifest, tmp_path / "out")
    several = [shard for shard in manifest["shards"] if "part" in shard]
    assert {shard["source"][0]["file"] for shard in several} >= {"a.txt.gz", "g.parquet"}
    assert {entry["files"][0]["name"] for entry in manifest["unwritten"] if entry["files"]} >= {"b.txt"}
    before = hash_folder(tmp_path / "out")
    assert "deep" in proof.verify(str(tmp_path / "out"), deep=True, source=[str(mill / "in")])
    victims = [several[1]["path"], several[-1]["path"], manifest["shards"][0]["path"]]
    rejects = sorted((tmp_path / "out" / "rejects").iterdir())
    for path in [*(tmp_path / "out" / name for name in victims), *rejects]:
        path.unlink()
    with pytest.raises(errors.DataError, match="missing"):
        proof.verify(str(tmp_path / "out"))
    assert "repaired" in proof.verify(str(tmp_path / "out"), repair=True, source=[str(mill / "in")])
    assert hash_folder(tmp_path / "out") == before


def test_documents_are_those_of_the_corpus(mill: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(mill / "tokenizer.json")
    expected = [(name, tokenizer.encode(text)) for name, text in documents_of(mill / "in")]
    manifest = encode_all(mill, tmp_path / "out")
    assert list(read_rows(str(tmp_path / "out"))) == expected
    dataset = TokenDataset(str(tmp_path / "out"))
    for name, ids in [*expected[:3], expected[30], *expected[-3:]]:
        assert dataset.document(name).tolist() == ids
    assert [dataset.row(number)["doc_id"] for number in (0, 30, dataset.rows - 1)] == [
        expected[number][0] for number in (0, 30, len(expected) - 1)
    ]
    assert manifest["totals"]["rejected"] == sum(file["rejected"] for file in manifest["files"])
    proof.pin(str(tmp_path / "out"), str(tmp_path / "pinned"))
    proof.verify(str(tmp_path / "pinned"), deep=True, source=[str(mill / "in")])


def test_the_manifest_says_which_rows_a_shard_holds(mill: Path, tmp_path: Path) -> None:
    manifest = encode_all(mill, tmp_path / "out")
    held = [part for entry in schemas.list_entries(manifest) for part in entry.get("holds", []) if part["file"] == "a.txt.gz"]
    assert [held[0]["from_row"], held[-1]["to_row"]] == [0, 60]
    assert all(one["to_row"] == other["from_row"] for one, other in itertools.pairwise(held))
    for shard in manifest["shards"]:
        if shard["source"][0]["file"] == "a.txt.gz" and len(shard.get("holds", [])) == 1:
            ids = pq.read_table(tmp_path / "out" / shard["path"])["doc_id"].to_pylist()
            (part,) = shard["holds"]
            assert ids == [f"a.txt.gz:{row}" for row in range(part["from_row"], part["to_row"])]


@pytest.mark.parametrize("rows", [{}, pytest.param({"block": 32, "eos": "<eos>", "shuffle": 5}, marks=pytest.mark.deep)])
def test_workers_change_no_byte(mill: Path, tmp_path: Path, rows: dict[str, Any]) -> None:
    encode_all(mill, tmp_path / "one", **rows)
    encode_all(mill, tmp_path / "two", Execution(reporter(quiet=True), workers=2), **rows)
    assert hash_folder(tmp_path / "one") == hash_folder(tmp_path / "two")


@pytest.mark.parametrize("rows", [{}, {"block": 32, "pack": "best-fit", "pad": "<pad>"}])
def test_new_files_and_a_run_that_was_cut_short(
    mill: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, Any]
) -> None:
    """What is published, and what a run has left, is taken over part by part; the result is that of one run."""
    shutil.copytree(mill, tmp_path / "mill")
    encode_all(tmp_path / "mill", tmp_path / "out", **rows)
    pack = gzip.compress("".join(text + "\n" for text in make_texts(70, seed=9)).encode(), mtime=0)
    (tmp_path / "mill" / "in" / "A.txt.gz").write_bytes(pack)
    (tmp_path / "mill" / "in" / "b.txt").unlink()
    encode_all(tmp_path / "mill", tmp_path / "fresh", **rows)
    read: list[str] = []
    real = encode.read_documents

    def spy(split: Any, *how: Any) -> Any:
        read.extend(part.file.name for part in split.ranges)
        return real(split, *how)

    with monkeypatch.context() as patched:
        patched.setattr(encode, "read_documents", spy)
        patched.setattr(OutputFolder, "publish", lambda *_: (_ for _ in ()).throw(errors.OutputError("the disk is full")))
        with pytest.raises(errors.OutputError):
            encode_all(tmp_path / "mill", tmp_path / "out", update=True, **rows)
    assert "A.txt.gz" in read and "g.parquet" not in read
    monkeypatch.setattr(encode, "read_documents", None)
    encode_all(tmp_path / "mill", tmp_path / "out", update=True, **rows)
    assert hash_folder(tmp_path / "out") == hash_folder(tmp_path / "fresh")


def test_a_corpus_without_a_document(mill: Path, tmp_path: Path) -> None:
    """A dataset without shards is one: it opens, has no rows, and is sound."""
    (tmp_path / "in").mkdir()
    shutil.copy(mill / "tokenizer.json", tmp_path)
    (tmp_path / "in" / "a.txt").write_bytes(b"")
    (tmp_path / "in" / "b.txt.gz").write_bytes(gzip.compress(b"", mtime=0))
    manifest = encode_all(tmp_path, tmp_path / "out")
    assert manifest["shards"] == [] and len(manifest["unwritten"]) == 1
    dataset = TokenDataset(str(tmp_path / "out"))
    assert dataset.rows == 0 and list(read_rows(str(tmp_path / "out"))) == []
    proof.verify(str(tmp_path / "out"), deep=True, source=[str(tmp_path / "in")])
    published = json.loads((tmp_path / "out" / "manifest.json").read_text())
    again = encode_all(tmp_path, tmp_path / "out", update=True)
    assert again | {"sha256": published["sha256"]} == published


def test_a_limit_that_changes_encodes_anew(mill: Path, tmp_path: Path) -> None:
    encode_all(mill, tmp_path / "out")
    encode_all(mill, tmp_path / "out", split_bytes=3 * SPLIT, update=True)
    encode_all(mill, tmp_path / "fresh", split_bytes=3 * SPLIT)
    assert hash_folder(tmp_path / "out") == hash_folder(tmp_path / "fresh")


def write_texts(folder: Path, texts: list[str], kind: str) -> Path:
    path = folder / f"a.{kind}"
    content = "".join(text + "\n" for text in texts).encode()
    if kind == "parquet":
        pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path)
    else:
        path.write_bytes(gzip.compress(content) if kind == "txt.gz" else content)
    return path


@few_cases(60, 10)
@given(
    texts=st.lists(st.text("reZ", max_size=9), max_size=25),
    kind=st.sampled_from(["txt", "txt.gz", "parquet"]),
    split=st.integers(1, 60),
    limit=st.integers(1, 40),
    batch=st.integers(1, 50),
)
def test_any_documents_splits_and_limits(
    mill: Path, tmp_path_factory: pytest.TempPathFactory, texts: list[str], kind: str, split: int, limit: int, batch: int
) -> None:
    """Shards end to end are the documents in order, none is empty, none has more text unless a document has; batches are nothing
    to them, and the parts of a split account for each of its records once.
    """
    folder, tokenizer = tmp_path_factory.mktemp("any"), Tokenizer.from_file(mill / "tokenizer.json")
    files = resolve_inputs([str(write_texts(folder, texts, kind))])
    hashes = []
    for read in (ReadOptions(batch_bytes=batch), ReadOptions()):
        options = EncodeOptions(read, "", "", *[str(folder)] * 3, shard_bytes=limit)
        splits = plan_splits(files, options=read, split_bytes=split)
        records = [encode_split(split, tokenizer, options, len(splits)) for split in splits]
        parts = [part for record in records for part in record["shards"]]
        hashes.append([part.get("sha256") for part in parts])
    found = []
    for part in parts:
        read_bytes = sum(account["bytes"] for account in part["files"].values())
        sizes = [size for account in part["files"].values() for size in [account["documents"] - account["empty"]]]
        assert read_bytes <= limit or sum(sizes) == 1
        if "path" in part:
            rows = pq.read_table(folder / part["path"]).to_pylist()
            assert rows
            found += [(int(row["doc_id"].rpartition(":")[2]), row["input_ids"]) for row in rows]
    assert found == [(row, tokenizer.encode(text)) for row, text in enumerate(texts) if "Z" not in text]
    assert hashes[0] == hashes[1]
    for record in records:
        for name, account in record["files"].items():
            for key in ("documents", "encoded", "rejected", "empty", "bytes"):
                assert account[key] == sum(part["files"][name][key] for part in record["shards"] if name in part["files"])
