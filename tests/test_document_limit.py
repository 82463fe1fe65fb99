"""`--max-document-mb`: a larger document is a reject with its size, found without keeping it in memory, in every format."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import documents_of, read_all, rejects_of, write
from tokenmill.errors import UsageError
from tokenmill.pipeline.planning import document_bytes_of
from tokenmill.text.normalizers import Normalizer
from tokenmill.transforms.document_limit import HEAD_BYTES, describe_long
from tokenmill.transforms.growth import bound_growth
from tokenmill.transforms.read_batches import DocumentBatch, make_documents, name_rows
from tokenmill.transforms.rejects import render_reject

#: Texts around the limit of `MOST` bytes, and far above it.
MOST = 40
TEXTS = st.lists(
    st.one_of(
        st.text("ab\u00e9\r", max_size=8),
        st.integers(0, 12).map(lambda more: "x" * (MOST - 6 + more)),
        st.integers(90, 400).map(lambda size: "y" * size),
    ).map(lambda text: text.rstrip("\r")),
    max_size=12,
)


def expect(texts: list[str], sizes: list[int]) -> tuple[list[tuple[str, str]], list[tuple[int, int]]]:
    """Documents (row, text) and rejects (row, size) where `sizes` are what counts."""
    documents = [(row, text) for row, text in enumerate(texts) if sizes[row] <= MOST]
    return [(str(row), text) for row, text in documents], [(row, size) for row, size in enumerate(sizes) if size > MOST]


def check(path: Path, expected: tuple[Any, Any], **options: Any) -> None:
    batches = read_all(path, max_document_bytes=MOST, **options)
    assert [(name.rpartition(":")[2], text) for name, text in documents_of(batches)] == expected[0]
    rejects = rejects_of(batches)
    assert [(reject.row, reject.size) for reject in rejects] == expected[1]
    assert [reject.reason for reject in rejects] == [describe_long(size, MOST) for _, size in expected[1]]
    assert all(json.loads(render_reject(reject))["bytes"] == reject.size for reject in rejects)


@settings(deadline=None, max_examples=40)
@given(TEXTS, st.integers(1, 300), st.integers(1, 200), st.booleans(), st.booleans())
def test_lines(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch: int, split: int, ends: bool, packed: bool
) -> None:
    """Whatever the blocks, the splits and the compression; a last line without an end too."""
    content = b"".join(text.encode() + b"\n" for text in texts)
    content = content if ends else content.removesuffix(b"\n")
    if not ends and texts and not texts[-1]:
        texts = texts[:-1]
    folder = tmp_path_factory.mktemp("lines")
    path = write(folder, gzip.compress(content) if packed else content, name="a.txt.gz" if packed else "a.txt")
    check(path, expect(texts, [len(text.encode()) for text in texts]), batch_bytes=batch, split_bytes=split)


@settings(deadline=None, max_examples=40)
@given(TEXTS, st.integers(1, 300), st.integers(1, 200), st.booleans())
def test_json_lines(tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch: int, split: int, returns: bool) -> None:
    """The line counts, without its end."""
    lines = [json.dumps({"text": text}).encode() for text in texts]
    end = b"\r\n" if returns else b"\n"
    path = write(tmp_path_factory.mktemp("jsonl"), b"".join(line + end for line in lines), name="a.jsonl")
    check(path, expect(texts, list(map(len, lines))), batch_bytes=batch, split_bytes=split)


@settings(deadline=None, max_examples=40)
@given(TEXTS, st.integers(1, 300), st.integers(1, 5))
def test_columns(tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch: int, group: int) -> None:
    folder, table = tmp_path_factory.mktemp("columns"), pa.table({"text": pa.array(texts, pa.string())})
    pq.write_table(table, folder / "a.parquet", row_group_size=group)
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=group)
    for name in ("a.parquet", "a.arrow"):
        check(folder / name, expect(texts, [len(text.encode()) for text in texts]), batch_bytes=batch)


@pytest.mark.parametrize("size", [0, MOST, MOST + 1, HEAD_BYTES + 3])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_file_as_one_document(tmp_path: Path, size: int, mark: bytes) -> None:
    path = write(tmp_path, mark + b"z" * size)
    check(path, expect(["z" * size], [size]), document="file")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_long_line_behind_a_mark(tmp_path: Path, end: bytes) -> None:
    for size in range(MOST - 2, MOST + 8):
        path = write(tmp_path, b"\xef\xbb\xbf" + b"z" * size + end + b"\nlast")
        texts = ["z" * size, *([""] if end else []), "last"]
        check(path, expect(texts, list(map(len, texts))), batch_bytes=4)


def test_both_texts_of_a_pair_count(tmp_path: Path) -> None:
    table = pa.table({"text": ["a" * 30, "b", "c" * 100], "more": ["d" * 10, "e" * 40, "f"]})
    pq.write_table(table, tmp_path / "a.parquet")
    (batch,) = read_all(tmp_path / "a.parquet", max_document_bytes=MOST, pair_column="more")
    assert batch.documents["pair"].to_pylist() == ["d" * 10]
    assert [(reject.row, reject.size) for reject in batch.rejects] == [(1, 41), (2, 101)]


def batch_of(texts: list[str]) -> DocumentBatch:
    rows = np.arange(len(texts), dtype=np.int64)
    return DocumentBatch("a.txt", make_documents(name_rows("a.txt", rows), pa.array(texts, pa.large_string())), rows, (), 0)


STEPS: tuple[Any, ...] = (
    {"name": "replace", "pattern": "a", "content": "xyz" * 4},
    {"name": "replace", "pattern": "ab", "content": ""},
    {"name": "replace_regex", "pattern": "b+|q*", "content": "\u00e9" * 9},
    "lowercase",
    "nfd",
)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.text("abA\u00e9", max_size=9), max_size=9),
    st.lists(st.sampled_from(STEPS), max_size=3, unique_by=str),
    st.integers(1, 90),
)
def test_normalizers_that_make_texts_longer(texts: list[str], steps: list[Any], most: int) -> None:
    """Nothing is lost, and no batch is longer than the limit, or has one document, when it is normalized."""
    normalizer = Normalizer.of(steps)
    parts = list(bound_growth([batch_of(texts)], normalizer, most))
    kept = [text for part in parts for text in part.documents["text"].to_pylist()]
    rejects = [reject for part in parts for reject in part.rejects]
    rejected = {reject.row for reject in rejects}
    assert kept == [text for row, text in enumerate(texts) if row not in rejected]
    assert all(reject.size == len(texts[reject.row].encode()) for reject in rejects)
    if normalizer.growth == 1:
        assert not rejects
        return
    for part in parts:
        sizes = [len(normalizer.normalize(text).encode()) for text in part.documents["text"].to_pylist()]
        assert sum(sizes) <= most or len(sizes) == 1 or "nfd" in steps
    if "nfd" not in steps and len(steps) == 1:
        assert rejected == {row for row, text in enumerate(texts) if len(normalizer.normalize(text).encode()) > most}


@settings(deadline=None, max_examples=40)
@given(st.text("ab\u00e9", max_size=20), st.sampled_from(STEPS))
def test_measuring_is_normalizing(text: str, step: Any) -> None:
    normalizer = Normalizer.of([step])
    assert normalizer.measure(text.encode(), 1 << 20) == len(normalizer.normalize(text).encode())


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf"), 2048])
def test_sizes_that_are_none(size: float) -> None:
    with pytest.raises(UsageError, match=r"--max-document-mb .*: give a size in MB, above 0 and up to 2,047"):
        document_bytes_of(size)


_READ = """
import re, sys
from pathlib import Path
from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.transforms.read import read_documents
from tokenmill.transforms.splits import ReadOptions
from tokenmill.text.normalizers import Normalizer
options = ReadOptions()
splits = plan_splits(resolve_inputs([sys.argv[1]]), options=options)
normalizer = Normalizer.of({"name": "replace", "pattern": "a", "content": "b" * 999})
batches = [batch for split in splits for batch in read_documents(split, options, normalizer)]
print([(reject.row, reject.size) for batch in batches for reject in batch.rejects])
# Not ru_maxrss: a process inherits that from the one that started it.
print(re.search("VmHWM:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["text", "jsonl", "growth"])
def test_memory_stays_bounded(tmp_path: Path, kind: str) -> None:
    """2 GB of zeros in one line of a small file, one JSON text of 1 GiB, a text that gets 999 times as long."""
    size = {"text": 2 << 30, "jsonl": (1 << 30) + 13, "growth": 1 << 20}[kind]
    path = tmp_path / {"text": "a.txt.gz", "jsonl": "a.jsonl.gz", "growth": "a.txt.gz"}[kind]
    with gzip.open(path, "wb", compresslevel=1) as file:
        letter = b"a" if kind == "growth" else b"0"
        body = size - 13 if kind == "jsonl" else size
        file.write(b'{"text": "' if kind == "jsonl" else b"")
        for _ in range(body >> 20):
            file.write(letter * (1 << 20))
        file.write(b'"} ' if kind == "jsonl" else b"")
    run = subprocess.run([sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, check=True)
    rejects, memory = run.stdout.splitlines()
    assert rejects == f"[(0, {size})]"
    assert int(memory) < 1 << 20, f"{memory} kB"
