"""Texts inside nested columns and in every Arrow layout: paths, lists, dictionaries, runs, views, bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import documents_of, read_all, rejects_of
from tokenmill.arrow import large_strings, measure_strings
from tokenmill.errors import InvalidTextError, MissingColumnError
from tokenmill.transforms.column_paths import find_path, split_path

RECORDS: list[dict[str, Any]] = [
    {
        "meta": {"text": "a", "deep": {"er": "x"}, "id": 7},
        "paragraphs": ["p", "q"],
        "messages": [{"content": "m", "parts": ["1", "2"]}, {"content": "n", "parts": []}],
        "a.b": "literal",
        "a": {"b": "nested"},
    },
    {
        "meta": {"text": "é", "deep": {"er": ""}, "id": 8},
        "paragraphs": [],
        "messages": [],
        "a.b": "",
        "a": {"b": "nested"},
    },
]
WANTED = {
    "meta.text": ["a", "é"],
    "meta.deep.er": ["x", ""],
    "paragraphs[]": ["p\nq", ""],
    "messages[].content": ["m\nn", ""],
    "messages[].parts[]": ["1\n2", ""],
    "a.b": ["literal", ""],
}


def write_jsonl(folder: Path, records: list[dict[str, Any]]) -> str:
    (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(folder / "a.jsonl")


def write_parquet(folder: Path, records: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(records), folder / "a.parquet")
    return str(folder / "a.parquet")


def write_arrow(folder: Path, records: list[dict[str, Any]], *, stream: bool = False) -> str:
    table = pa.Table.from_pylist(records)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    return str(folder / "a.arrow")


def write_stream(folder: Path, records: list[dict[str, Any]]) -> str:
    return write_arrow(folder, records, stream=True)


def write_dataset(folder: Path, records: list[dict[str, Any]]) -> str:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset(pa.Table.from_pylist(records)).save_to_disk(folder / "saved")
    return f"disk:{folder / 'saved'}"


every_format = pytest.mark.parametrize("write", [write_jsonl, write_parquet, write_arrow, write_stream, write_dataset])


@every_format
def test_paths_mean_the_same_in_every_format(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path, RECORDS)
    for column, texts in WANTED.items():
        assert [text for _, text in documents_of(read_all(path, text_column=column))] == texts, column
    batches = read_all(path, text_column="meta.text", id_column="meta.id", pair_column="messages[].content")
    assert documents_of(batches) == [("7", "a"), ("8", "é")]
    assert [text for batch in batches for text in batch.pair.to_pylist()] == ["m\nn", ""]


@every_format
def test_a_null_on_the_way_rejects_the_record(tmp_path: Path, write: Any) -> None:
    rows: list[Any] = [["a"], None, ["b", None], []]
    path = write(tmp_path, [{"p": row} for row in rows])
    batches = read_all(path, text_column="p[]")
    assert [text for _, text in documents_of(batches)] == ["a", ""]
    assert [reject.row for reject in rejects_of(batches)] == [1, 2]
    assert all("'p[]'" in reject.reason for reject in rejects_of(batches))


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_a_path_that_leads_nowhere_is_an_error_before_any_work(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path, RECORDS)
    with pytest.raises(MissingColumnError, match=r"no column 'meta\.body'"):
        read_all(path, text_column="meta.body")


def test_errors_name_the_paths_that_hold_text(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, RECORDS)
    with pytest.raises(
        MissingColumnError, match=r"the columns that hold text are: meta\.text, meta\.deep\.er, paragraphs\[\], mess"
    ):
        read_all(path, text_column="meta")
    with pytest.raises(MissingColumnError, match=r"'paragraphs\[\]' holds a list, no id"):
        read_all(path, text_column="meta.text", id_column="paragraphs[]")


def test_keys_that_hold_dots_and_brackets_win() -> None:
    assert [key for key, _, _ in split_path("a.b[].c")] == ["a.b[].c", "a.b[]", "a.b", "a"]
    schema = pa.schema({"a.b": pa.struct({"c": pa.string()}), "a": pa.struct({"b": pa.struct({"c": pa.int8()})})})
    found = find_path(schema, "a.b.c")
    assert found is not None and found.kind == pa.string() and found.root == "a.b"


LAYOUTS = {
    "string": lambda texts: texts,
    "large": lambda texts: texts.cast(pa.large_string()),
    "view": lambda texts: texts.cast(pa.string_view()),
    "binary": lambda texts: texts.cast(pa.binary()),
    "binary view": lambda texts: texts.cast(pa.binary_view()),
    "dictionary": lambda texts: texts.dictionary_encode(),
    "dictionary of views": lambda texts: texts.dictionary_encode().cast(pa.dictionary(pa.int32(), pa.string_view())),
    "dictionary of bytes": lambda texts: texts.cast(pa.binary()).dictionary_encode(),
    "runs": lambda texts: pc.run_end_encode(texts),
    "runs of bytes": lambda texts: pc.run_end_encode(texts.cast(pa.large_binary())),
}


@settings(deadline=None, max_examples=150)
@given(
    texts=st.lists(st.none() | st.text("ab€", max_size=20), max_size=8),
    layout=st.sampled_from(sorted(LAYOUTS)),
    cut=st.integers(0, 4),
    in_list=st.booleans(),
    batch_bytes=st.integers(1, 50),
)
def test_every_layout_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str | None],
    layout: str,
    cut: int,
    in_list: bool,
    batch_bytes: int,
) -> None:
    column = LAYOUTS[layout](pa.array(texts, pa.string()))[cut:]
    texts = texts[cut:]
    assert measure_strings(column).tolist() == [len((text or "").encode()) for text in texts]
    if in_list:
        column = pa.LargeListArray.from_arrays(pa.array(range(len(texts) + 1), pa.int64()), column)
    path = tmp_path_factory.mktemp("layout") / "a.arrow"
    with pa.ipc.new_file(path, pa.schema({"text": column.type})) as writer:
        writer.write_batch(pa.record_batch([column], ["text"]))
    batches = read_all(path, batch_bytes=batch_bytes, text_column="text[]" if in_list else "text")
    assert documents_of(batches) == [(f"a.arrow:{row}", text) for row, text in enumerate(texts) if text is not None]
    assert [reject.row for reject in rejects_of(batches)] == [row for row, text in enumerate(texts) if text is None]
    assert all(batch.documents.num_rows <= 1 or batch.documents["text"].nbytes < 200 + batch_bytes + 60 for batch in batches)


@pytest.mark.parametrize("layout", ["dictionary", "runs", "binary", "view"])
def test_bytes_that_are_no_utf8_are_the_policys_business(tmp_path: Path, layout: str) -> None:
    texts = pa.array([b"a", b"\xff", b"\xff", b"b"], pa.binary())
    column = {
        "binary": texts,
        "view": texts.cast(pa.binary_view()).view(pa.string_view()),
        "dictionary": texts.view(pa.string()).dictionary_encode(),
        "runs": pc.run_end_encode(texts).view(pa.run_end_encoded(pa.int32(), pa.string())),
    }[layout]
    with pa.ipc.new_file(tmp_path / "a.arrow", pa.schema({"text": column.type})) as writer:
        writer.write_batch(pa.record_batch([column], ["text"]))
    batches = read_all(tmp_path / "a.arrow")
    assert [text for _, text in documents_of(batches)] == ["a", "b"]
    assert [(reject.row, reject.raw) for reject in rejects_of(batches)] == [(1, b"\xff"), (2, b"\xff")]
    assert "invalid UTF-8: byte 0 of the text is 0xff" in rejects_of(batches)[0].reason
    assert [text for _, text in documents_of(read_all(tmp_path / "a.arrow", invalid_utf8="replace"))] == ["a", "�", "�", "b"]
    with pytest.raises(InvalidTextError, match="row 1"):
        read_all(tmp_path / "a.arrow", invalid_utf8="error")


def test_a_small_dictionary_of_long_texts_is_decoded_in_small_batches(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 1000]))
    table = pa.table({"text": column, "rows": pa.array([["y" * 1000]] * 1000, pa.list_(pa.string()))})
    pq.write_table(table, tmp_path / "a.parquet")
    for text_column in ("text", "rows[]"):
        batches = read_all(tmp_path / "a.parquet", batch_bytes=10_000, text_column=text_column)
        assert {batch.documents.num_rows for batch in batches} == {10}


def test_chunks_of_every_layout_become_one_array() -> None:
    plain = ["low", None, "lower", "low"]
    for make in LAYOUTS.values():
        column = make(pa.array(plain, pa.string()))
        if pa.types.is_binary(column.type) or "binary" in str(column.type):
            continue
        chunks = pa.chunked_array([column, column[1:]])
        assert large_strings(chunks).to_pylist() == plain + plain[1:]


@pytest.mark.deep
def test_more_than_two_gigabytes_behind_a_dictionary(tmp_path: Path) -> None:
    """The offsets of `string` are 32-bit: 12,000 texts of 180 kB do not fit in one array of it."""
    texts = [letter * 180_000 for letter in "abc"]
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 4000, pa.int32()), pa.array(texts))
    for number, (text_column, array) in enumerate(
        {"text": column, "text[]": pa.ListArray.from_arrays(pa.array(range(12_001), pa.int32()), column)}.items()
    ):
        pq.write_table(pa.table({"text": array}), tmp_path / f"{number}.parquet", compression="zstd")
        row = 0
        for batch in _read_lazily(tmp_path / f"{number}.parquet", text_column):
            wanted = pa.array([texts[(row + place) % 3] for place in range(batch.documents.num_rows)], pa.large_string())
            assert batch.documents["text"].equals(wanted)
            row += batch.documents.num_rows
        assert row == 12_000


def _read_lazily(path: Path, text_column: str) -> Any:
    from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
    from tokenmill.transforms.read import read_split
    from tokenmill.transforms.splits import ReadOptions

    options = ReadOptions(text_column=text_column)
    for split in plan_splits(resolve_inputs([str(path)]), options=options):
        yield from read_split(split, options)


@pytest.mark.deep
def test_chunks_of_more_than_two_gigabytes_become_one_array() -> None:
    chunk = pa.array(["x" * (1 << 20)] * 350)
    joined = large_strings(pa.chunked_array([chunk] * 6 + [pa.array(["last"])]))
    assert len(joined) == 2101 and joined[-1].as_py() == "last" and joined[2099].as_py() == "x" * (1 << 20)
