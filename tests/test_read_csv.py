"""CSV and TSV against Python's `csv`: hostile quoting, ragged rows, newlines in cells, blocks of any size."""

from __future__ import annotations

import csv
import gzip
import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import documents_of, read_all, rejects_of, write
from tests.test_read_compressed import parquet_bytes
from tokenmill.errors import MissingColumnError, UnreadableFileError, UsageError

nasty_cells = st.text('ab",\n\r\t é\ufeff', max_size=8)


def read_by_csv(content: bytes, delimiter: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table."""
    lines = content.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    rows = [row for row in csv.reader((line.decode("latin-1") for line in lines), delimiter=delimiter) if row]
    decoded = [[cell.encode("latin-1").decode() for cell in row] for row in rows]
    return decoded[0], decoded[1:]


@settings(deadline=None, max_examples=150)
@given(
    table=st.integers(1, 3).flatmap(lambda width: st.lists(st.lists(nasty_cells, min_size=width, max_size=width), max_size=6)),
    delimiter=st.sampled_from([",", "\t"]),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=st.booleans(),
    cut_end=st.booleans(),
    batch_bytes=st.integers(1, 40),
    limit=st.none() | st.integers(1, 7),
)
def test_tables_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[list[str]],
    delimiter: str,
    line_end: str,
    quoting: Any,
    mark: bool,
    cut_end: bool,
    batch_bytes: int,
    limit: int | None,
) -> None:
    written = io.StringIO(newline="")
    width = len(table[0]) if table else 1
    writer = csv.writer(written, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    writer.writerows([["text", "b", "c"][:width], *table])
    content = (b"\xef\xbb\xbf" if mark else b"") + (written.getvalue().removesuffix(line_end if cut_end else "")).encode()
    path = write(tmp_path_factory.mktemp("csv"), content, name="a.csv" if delimiter == "," else "a.tsv")
    batches = read_all(path, batch_bytes=batch_bytes, limit=limit)
    header, rows = read_by_csv(content, delimiter)
    assert header == ["text", "b", "c"][:width]
    assert rows == table or quoting == csv.QUOTE_MINIMAL  # which leaves "\r" without quotes where lines do not end with it
    if any(len(row) != width for row in rows):
        return
    wanted = [row[0] for row in rows][:limit]
    assert documents_of(batches) == [(f"{path.name}:{row}", text) for row, text in enumerate(wanted)]
    assert rejects_of(batches) == []


@settings(deadline=None, max_examples=300)
@given(
    body=st.lists(st.sampled_from(['"', '""', ",", "\n", "\r\n", "\r", "a", "é", ""]), max_size=24).map("".join),
    batch_bytes=st.integers(1, 30),
)
def test_garbage_is_read_as_python_does(tmp_path_factory: pytest.TempPathFactory, body: str, batch_bytes: int) -> None:
    content = ("text,b\n" + body).encode()
    batches = read_all(write(tmp_path_factory.mktemp("csv"), content, name="a.csv"), batch_bytes=batch_bytes)
    _, rows = read_by_csv(content, ",")
    got = dict(documents_of(batches))
    rejected = {reject.row: reject.reason for reject in rejects_of(batches)}
    assert sorted([*rejected, *(int(name.rpartition(":")[2]) for name in got)]) == list(range(len(rows)))
    for number, row in enumerate(rows):
        if number not in rejected:
            assert len(row) == 2 and got[f"a.csv:{number}"] == row[0]
        elif rejected[number] != "a quoted cell does not end":
            assert rejected[number] == f"has {len(row)} cells; the header has 2" and len(row) != 2
        else:
            assert number == len(rows) - 1 and content.count(b'"')


def test_odd_rows_are_rejects(tmp_path: Path) -> None:
    content = b'id,text\n1,a word or two\n2\n3,c,x\n\n4,\xff\n5,b\n6,"open\n7,x\n'
    batches = read_all(write(tmp_path, content, name="a.csv"), id_column="id")
    assert documents_of(batches) == [("1", "a word or two"), ("5", "b")]
    assert [(reject.row, reject.reason, reject.raw) for reject in rejects_of(batches)] == [
        (1, "has 1 cells; the header has 2", b"2\n"),
        (2, "has 3 cells; the header has 2", b"3,c,x\n"),
        (3, "invalid UTF-8: byte 0 of the text is 0xff", b"\xff"),
        (5, "a quoted cell does not end", b'6,"open\n7,x\n'),
    ]


def test_headers(tmp_path: Path) -> None:
    with pytest.raises(MissingColumnError, match="no column 'text'; the columns there are: a, b c"):
        read_all(write(tmp_path, b'a,"b c"\n', name="a.csv"))
    with pytest.raises(MissingColumnError, match="2 columns 'text'"):
        read_all(write(tmp_path, b"text,text\n", name="a.csv"))
    with pytest.raises(MissingColumnError, match="is empty; its first line has to name the columns"):
        read_all(write(tmp_path, b"\n\n", name="a.csv"))
    assert read_all(write(tmp_path, b"text", name="a.csv")) == []


def test_a_row_without_an_end_does_not_fill_memory(tmp_path: Path) -> None:
    path = write(tmp_path, b'text\na\n"' + b"x\n" * 5000, name="a.csv")
    with pytest.raises(UnreadableFileError, match="has more than 2,000 bytes; a quote that opens a cell may lack its second one"):
        read_all(path, batch_bytes=100, max_document_bytes=1000)


def test_long_cells_and_compressed_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"n,text\n1," + b"x" * 300_000 + b'\n2,"y\ny"\n'))
    assert [text for _, text in documents_of(read_all(tmp_path / "a.csv.gz", batch_bytes=1000))] == ["x" * 300_000, "y\ny"]
    batches = read_all(tmp_path / "a.csv.gz", max_document_bytes=1000, batch_bytes=1 << 20)
    assert [text for _, text in documents_of(batches)] == ["y\ny"]
    assert [reject.size for reject in rejects_of(batches)] == [300_000]


@settings(deadline=None, max_examples=60)
@given(
    table=st.lists(st.tuples(nasty_cells, nasty_cells), max_size=6),
    delimiter=st.sampled_from([";", "|", "\t", ",", " ", "\x01"]),
    extension=st.sampled_from(["csv", "tsv"]),
    batch_bytes=st.integers(1, 40),
)
def test_any_delimiter(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]], delimiter: str, extension: str, batch_bytes: int
) -> None:
    written = io.StringIO(newline="")
    writer = csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *table])
    path = write(tmp_path_factory.mktemp("csv"), written.getvalue().encode(), name=f"a.{extension}")
    given = "\\t" if delimiter == "\t" else delimiter
    batches = read_all(path, batch_bytes=batch_bytes, delimiter=given)
    assert [text for _, text in documents_of(batches)] == [text for _, text in table] and not rejects_of(batches)


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("a.csv", "id;text\n1;a, b\n2;c, d\n", "give --delimiter ';'"),
        ("a.csv", "id\ttext\n1\ta\n", r"give --delimiter '\t'"),
        ("a.tsv", "id,text,b\n1,a,b\n", "give --delimiter ','"),
        ("a.csv", "id;text;note, long\n", "give --delimiter ';'"),
    ],
)
def test_another_delimiter_is_advised(tmp_path: Path, name: str, content: str, advice: str) -> None:
    with pytest.raises(MissingColumnError, match=re.escape(advice) + "$"):
        read_all(write(tmp_path, content.encode(), name=name))
    delimiter = advice.split("'")[1]
    assert not rejects_of(read_all(tmp_path / name, delimiter=delimiter))


def test_a_missing_column_alone_advises_no_delimiter(tmp_path: Path) -> None:
    with pytest.raises(MissingColumnError, match=r"there are: id, note$"):
        read_all(write(tmp_path, b"id,note\n1;2,3\n", name="a.csv"))


@pytest.mark.parametrize("delimiter", ["", ";;", "é", '"', "\n", "\r", "\0"])
def test_what_is_no_delimiter(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(UsageError, match=r"--delimiter .*: give one ASCII character"):
        read_all(write(tmp_path, b"text\na\n", name="a.csv"), delimiter=delimiter)


@pytest.mark.parametrize(("name", "content"), [("a.txt", b"a;b\n"), ("a.csv", parquet_bytes())])
def test_a_delimiter_of_no_table_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(UsageError, match="has no delimiter; leave out --delimiter"):
        read_all(write(tmp_path, content, name=name), delimiter=";")
