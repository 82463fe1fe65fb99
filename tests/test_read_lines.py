"""Text files: what a line is, cutting anywhere, the policy for invalid UTF-8, limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.reading import documents_of, read_all, rejects_of, write
from tokenmill.errors import InvalidTextError, UnreadableFileError
from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.transforms.encodings import guess_wide_encoding, is_binary
from tokenmill.transforms.read import read_range, read_split
from tokenmill.transforms.read_lines import LineCount, count_rows
from tokenmill.transforms.splits import Range, ReadOptions, Reject, SourceFile, Split

BOM = b"\xef\xbb\xbf"


def plain_lines(content: bytes) -> list[bytes]:
    """The definition of a line, in plain words."""
    lines = content.removeprefix(BOM).split(b"\n")
    last = lines.pop()
    return [line.removesuffix(b"\r") for line in lines] + ([last] if last else [])


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"\na\n\n", ["", "a", ""]),
        (b"a\r\nb\rc\r\n\r\nd\r", ["a", "b\rc", "", "d\r"]),
        (b"a\r\r\nb", ["a\r", "b"]),
        (BOM, []),
        (BOM + b"\n", [""]),
        (BOM + b"a\r\n" + BOM + b"b", ["a", "\ufeffb"]),
        (b"nul \x00 stays\n\x0b\x0c\xc2\x85\xe2\x80\xa8 ends no line", ["nul \x00 stays", "\x0b\x0c\x85\u2028 ends no line"]),
    ],
)
def test_what_a_line_is(tmp_path: Path, content: bytes, texts: list[str]) -> None:
    batches = read_all(write(tmp_path, content))
    assert documents_of(batches) == [(f"a.txt:{row}", text) for row, text in enumerate(texts)]
    assert rejects_of(batches) == []


@settings(deadline=None, max_examples=150)
@given(
    content=strategies.line_files(),
    split_bytes=st.integers(1, 12),
    batch_bytes=st.integers(1, 12),
    limit=st.none() | st.integers(0, 12),
)
def test_cuts_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, split_bytes: int, batch_bytes: int, limit: int | None
) -> None:
    path = write(tmp_path_factory.mktemp("cuts"), content)
    assume(guess_wide_encoding(content) is None and not is_binary(content) and not content.startswith(b"\xff\xff\xff\xff"))
    batches = read_all(path, split_bytes=split_bytes, batch_bytes=batch_bytes, limit=limit)
    seen = {int(name.split(":")[1]): text.encode() for name, text in documents_of(batches)}
    seen |= {reject.row: reject.raw for reject in rejects_of(batches)}
    assert seen == dict(enumerate(plain_lines(content)[:limit]))
    assert len(seen) == sum(batch.documents.num_rows + len(batch.rejects) for batch in batches)
    for reject in rejects_of(batches):
        assert content[reject.offset :].startswith(reject.raw)
        assert b"\xff" in reject.raw or b"\xef" in reject.raw


@settings(deadline=None, max_examples=100)
@given(content=strategies.line_files(), cut=st.integers(0, 40), block_bytes=st.integers(1, 9))
def test_counts_of_ranges_add_up(tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int, block_bytes: int) -> None:
    path = write(tmp_path_factory.mktemp("counts"), content)
    file = SourceFile(str(path), "a.txt", "text", size=len(content))
    cut = min(cut, len(content))
    parts = [
        count_rows(Range(file, *bounds), with_blank=True, block_bytes=block_bytes).lines
        for bounds in ((0, cut), (cut, len(content)))
    ]
    assert sum(parts) == len(plain_lines(content))


def test_count_stops_at_the_limit(tmp_path: Path) -> None:
    path = write(tmp_path, b"line\n" * 1000)
    part = Range(SourceFile(str(path), "a.txt", "text", size=5000), 0, 5000)
    assert count_rows(part, with_blank=True, block_bytes=10) == LineCount(1000, 1000)
    assert count_rows(part, 3, with_blank=True, block_bytes=10) == LineCount(4, 4)


def test_a_line_longer_than_splits_and_blocks(tmp_path: Path) -> None:
    path = write(tmp_path, b"short\n" + b"x" * 5000 + b"\nend\n")
    batches = read_all(path, split_bytes=100, batch_bytes=64)
    assert documents_of(batches) == [("a.txt:0", "short"), ("a.txt:1", "x" * 5000), ("a.txt:2", "end")]


def test_batches_hold_about_batch_bytes(tmp_path: Path) -> None:
    batches = read_all(write(tmp_path, b"0123456\n" * 1000), batch_bytes=1024)
    assert [batch.first_row for batch in batches] == list(range(0, 1000, 128))
    assert {batch.documents.num_rows for batch in batches} == {128, 104}


BAD = b"ok\n\xff bad\nok \xed\xa0\x80\n\xc3"


def test_invalid_utf8_is_rejected_by_default(tmp_path: Path) -> None:
    batches = read_all(write(tmp_path, BAD))
    assert documents_of(batches) == [("a.txt:0", "ok")]
    assert rejects_of(batches) == [
        Reject("a.txt", 1, 3, "invalid UTF-8: byte 0 of the text is 0xff", b"\xff bad"),
        Reject("a.txt", 2, 9, "invalid UTF-8: byte 3 of the text is 0xed", b"ok \xed\xa0\x80"),
        Reject("a.txt", 3, 16, "invalid UTF-8: byte 0 of the text is 0xc3", b"\xc3"),
    ]


def test_invalid_utf8_is_replaced_and_counted(tmp_path: Path) -> None:
    batches = read_all(write(tmp_path, BAD), invalid_utf8="replace")
    assert [text for _, text in documents_of(batches)] == ["ok", "\ufffd bad", "ok \ufffd\ufffd\ufffd", "\ufffd"]
    assert sum(len(batch.replaced) for batch in batches) == 3
    assert rejects_of(batches) == []


def test_invalid_utf8_as_error_names_file_row_byte_and_way_out(tmp_path: Path) -> None:
    path = write(tmp_path, b"fine\nx\xffy\n")
    with pytest.raises(InvalidTextError) as caught:
        read_all(path, invalid_utf8="error")
    assert str(caught.value) == (
        f"{path}: row 1: byte 6 of the file is 0xff, not valid UTF-8; "
        "`--invalid-utf8 replace` or `--invalid-utf8 reject` reads on"
    )


@pytest.mark.parametrize("content", [b"", b"one\r\ntwo\n", BOM + b"x"])
def test_a_file_as_one_document_is_exact(tmp_path: Path, content: bytes) -> None:
    batches = read_all(write(tmp_path, content), split_bytes=2, document="file")
    assert documents_of(batches) == [("a.txt:0", content.removeprefix(BOM).decode())]


def test_limit_of_files_as_documents(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, b"of\n" + name.encode(), name=name)
    batches = read_all(tmp_path, document="file", limit=2)
    assert documents_of(batches) == [("a:0", "of\na"), ("b:0", "of\nb")]


def test_limit_counts_rejects_and_crosses_files(tmp_path: Path) -> None:
    write(tmp_path, b"1\n\xff\n3", name="a.txt")
    write(tmp_path, b"4\n5\n6\n", name="b.txt")
    for split_bytes in (1, 3, 100):
        batches = read_all(tmp_path, split_bytes=split_bytes, limit=4)
        assert [text for _, text in documents_of(batches)] == ["1", "3", "4"]
        assert [reject.row for reject in rejects_of(batches)] == [1]


def test_a_file_that_vanished(tmp_path: Path) -> None:
    path = write(tmp_path, b"a\n")
    (split,) = plan_splits(resolve_inputs([str(path)]), options=ReadOptions())
    path.unlink()
    with pytest.raises(UnreadableFileError) as caught:
        list(read_split(split, ReadOptions()))
    assert str(caught.value) == f"{path}: cannot be read as text: No such file or directory; make it anew, or leave it out"


def test_read_split_goes_through_its_ranges_in_order(tmp_path: Path) -> None:
    files = [SourceFile(str(write(tmp_path, b"x\n", name=name)), name, "text", size=2) for name in ("b", "a")]
    split = Split(0, tuple(Range(file, 0, 2) for file in files))
    assert [batch.file for batch in read_split(split, ReadOptions())] == ["b", "a"]
    assert list(read_range(Range(files[0], 2, 2), ReadOptions())) == []
