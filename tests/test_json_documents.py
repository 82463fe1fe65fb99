"""JSON arrays and objects printed over many lines: the same records as from JSON lines, whatever the blocks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import documents_of, read_all, rejects_of, write
from tokenmill.errors import MissingColumnError, UnreadableFileError

#: What brackets, quotes, escapes and newlines can do inside of strings.
nasty_texts = st.text('ab"\\[]{},:\n\r é😀', max_size=12)
values = st.recursive(st.none() | st.integers() | nasty_texts, lambda inner: st.lists(inner, max_size=2), max_leaves=4)


def as_array(records: list[Any], indent: int | None, ascii_only: bool) -> str:
    return json.dumps(records, indent=indent, ensure_ascii=ascii_only)


def as_objects(records: list[Any], indent: int | None, ascii_only: bool) -> str:
    return "\n".join(json.dumps(record, indent=indent or 1, ensure_ascii=ascii_only) for record in records)


@settings(deadline=None, max_examples=150)
@given(
    records=st.lists(st.fixed_dictionaries({"text": nasty_texts, "more": values}), min_size=1, max_size=6),
    dump=st.sampled_from([as_array, as_objects]),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
    around=st.sampled_from(["", "\n", " \r\n\t", "\ufeff"]),
    batch_bytes=st.integers(1, 60),
    limit=st.none() | st.integers(1, 7),
)
def test_records_are_those_of_json_lines(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[dict[str, Any]],
    dump: Any,
    indent: int | None,
    ascii_only: bool,
    around: str,
    batch_bytes: int,
    limit: int | None,
) -> None:
    content = around + dump(records, indent, ascii_only) + ("" if around == "\ufeff" else around)
    path = write(tmp_path_factory.mktemp("json"), content.encode(), name="a.json")
    batches = read_all(path, split_bytes=32, batch_bytes=batch_bytes, limit=limit)
    assert documents_of(batches) == [(f"a.json:{row}", record["text"]) for row, record in enumerate(records[:limit])]
    assert rejects_of(batches) == []


def test_odd_elements_are_rejects_with_their_places(tmp_path: Path) -> None:
    content = b'[{"text":"a"}, {"text": 1}, nope,\n "x", {"text":"b\nc"}, {"text":"d"}]'
    path = write(tmp_path, content, name="a.json")
    batches = read_all(path)
    assert documents_of(batches) == [("a.json:0", "a"), ("a.json:5", "d")]
    assert [(reject.row, reject.reason) for reject in rejects_of(batches)] == [
        (1, "column 'text' holds a number, not a string"),
        (2, "malformed JSON: Expecting value at character 1"),
        (3, "not a JSON object but a string"),
        (4, "malformed JSON: Invalid control character at at character 11"),
    ]
    offsets = [reject.offset for reject in rejects_of(batches)]
    assert [content[offset:].lstrip()[:4] for offset in offsets] == [b'{"te', b"nope", b'"x",', b'{"te']


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"text":"a"},', "ends inside its JSON document"),
        (b'[{"text":"a"}', "ends inside its JSON document"),
        (b'[{"text":"a', "ends inside its JSON document"),
        (b'{\n"text":"a"', "ends inside its JSON document"),
        (b'[\n{"text":"a"}\n] x', "other bytes follow the end of its JSON array"),
        (b'[\n{"text":"a"}}\n]', "other bytes follow the end of its JSON array"),
        (b'[\n{"text":"a"}\n]' + b" " * 300 + b"[]", "other bytes follow the end of its JSON array"),
    ],
)
def test_damaged_documents_end_the_run(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, content, name="a.json")
    for batch_bytes in (4 << 20, 8):
        with pytest.raises(UnreadableFileError, match=message) as caught:
            read_all(path, batch_bytes=batch_bytes)
        assert str(caught.value).startswith(str(path))


def test_a_record_without_an_end_does_not_fill_memory(tmp_path: Path) -> None:
    path = write(tmp_path, b'[{"text":"a"},\n{"text": "' + b"x" * 5000 + b'"}]', name="a.json")
    with pytest.raises(UnreadableFileError, match=r"the record at byte 14 is larger than 0 MB, or its brackets or quotes do not"):
        read_all(path, batch_bytes=100, max_document_bytes=1000)


def test_empty_arrays_and_compressed_ones(tmp_path: Path) -> None:
    assert read_all(write(tmp_path, b" [ ] \n", name="a.json")) == []
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps([{"text": "a"}] * 3, indent=2).encode()))
    assert [text for _, text in documents_of(read_all(tmp_path / "b.json.gz", batch_bytes=10))] == ["a"] * 3


def test_the_columns_are_looked_at_before_any_work(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps([{"body": "a", "n": 1}] * 3, indent=2).encode(), name="a.json")
    with pytest.raises(MissingColumnError, match="no column 'text' in its first records; the columns there are: body, n"):
        read_all(path)
    assert len(documents_of(read_all(path, text_column="body", id_column="n"))) == 3
