"""JSON Lines: one JSON object per line, its text under one key, its id perhaps under another.

Row numbers count lines, so that an editor finds them. What becomes of a line:

    blank (spaces, tabs)                                    no record: neither a document nor a reject
    an object whose text is a string                        a document; NUL characters and empty texts too
    no JSON, half a last line, a list, a number             rejected
    no such column, a column twice, text null or a number   rejected
    lone surrogates or invalid UTF-8 in the text            as `invalid_utf8` says: error, replace (U+FFFD), reject
    invalid UTF-8 elsewhere in the line                     ignored

A file whose first record opens a JSON array or object that goes on in the next lines is not JSONL: `UnreadableFileError`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tokenmill.errors import MissingColumnError, UnreadableFileError
from transforms.parse_json import (
    DamagedTextError,
    LineParser,
    Parsed,
    RejectedLineError,
    column_names,
    is_array_of_objects,
    load_json,
)
from transforms.read_batches import DocumentBatch, Int64s, invalid_text, make_documents, name_rows
from transforms.read_lines import JSON_SPACE, count_records, read_line_blocks, split_lines
from transforms.splits import Range, ReadOptions, Reject, SourceFile

#: A column is missing when none of so many first records has it; one odd record among good ones is only a reject.
_PROBED_RECORDS = 100
_PROBED_BYTES = 1 << 20


def read_jsonl(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the records of a range. Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`."""
    reader = _JsonlReader(part.file, options)
    row, remaining = part.first_row, part.rows
    for offset, block in read_line_blocks(part, options.batch_bytes):
        lines = split_lines(block)
        if part.start == 0 and row == part.first_row:
            _refuse_document(part.file, lines)
        if remaining is not None:
            lines = _take_records(lines, remaining)
            remaining -= count_records(lines)
            block = b"\n".join(lines)
        yield reader.read(lines, block, offset=offset, first_row=row)
        row += len(lines)
        if remaining == 0:
            return


def check_jsonl_columns(file: SourceFile, options: ReadOptions) -> None:
    """Look at the first records of a file: raises `MissingColumnError` when none has the columns asked for.

    Raises `UnreadableFileError` for a file that is one JSON document.
    """
    lines = _first_lines(file)
    _refuse_document(file, lines)
    records = [names for line in lines[:_PROBED_RECORDS] if (names := _try_names(line)) is not None]
    for column in (options.text_column, options.id_column):
        if column is not None and records and not any(column in names for names in records):
            there = ", ".join(dict.fromkeys(name for names in records for name in names)) or "none"
            raise MissingColumnError(f"{file.path}: no column {column!r} in its first records; the columns there are: {there}")


def _first_lines(file: SourceFile) -> list[bytes]:
    lines: list[bytes] = []
    for _, block in read_line_blocks(Range(file, 0, file.size), _PROBED_BYTES):
        lines += split_lines(block)
        if len(lines) >= _PROBED_RECORDS:
            break
    return lines


def _try_names(line: bytes) -> list[str] | None:
    try:
        return column_names(load_json(line.decode("utf-8", "replace")))
    except RejectedLineError:
        return None


def _refuse_document(file: SourceFile, lines: list[bytes]) -> None:
    """Tell a JSON document from JSON Lines at the first line that is not blank; one line of a list alone is only a bad record."""
    first = next((line.strip(JSON_SPACE) for line in lines if line.strip(JSON_SPACE)), b"")
    if first == b"{":
        raise UnreadableFileError(f"{file.path}: is one JSON document over many lines, not JSON lines; write an object per line")
    if first[:1] != b"[":
        return
    try:
        value = load_json(first.decode("utf-8", "replace"))
    except RejectedLineError:
        value = None
    if value is None or (is_array_of_objects(value) and count_records(lines) == 1):
        raise UnreadableFileError(f"{file.path}: is a JSON array, not JSON lines; write its elements one per line")


def _take_records(lines: list[bytes], count: int) -> list[bytes]:
    """The lines up to and with record number `count`; blank lines are none."""
    for position, line in enumerate(lines):
        count -= bool(line.strip(JSON_SPACE))
        if count == 0:
            return lines[: position + 1]
    return lines


class _JsonlReader:
    """Turns blocks of lines of one file into batches."""

    def __init__(self, file: SourceFile, options: ReadOptions) -> None:
        self._file = file
        self._options = options
        self._parser = LineParser(options)

    def read(self, lines: list[bytes], block: bytes, *, offset: int, first_row: int) -> DocumentBatch:
        """One batch: all lines at once where every line is in order, else line by line."""
        columns = self._parser.parse_all(lines, block)
        if columns is None:
            return self._read_carefully(lines, offset=offset, first_row=first_row)
        rows = first_row + np.arange(len(lines), dtype=np.int64)
        return DocumentBatch(self._file.name, self._make(*columns, rows=rows), rows, (), first_row)

    def _make(self, texts: list[str], ids: list[str] | None, *, rows: Int64s) -> pa.RecordBatch:
        names = name_rows(self._file.name, rows) if ids is None else pa.array(ids, pa.string())
        return make_documents(names, pa.array(texts, pa.large_string()))

    def _read_carefully(self, lines: list[bytes], *, offset: int, first_row: int) -> DocumentBatch:
        records: list[Parsed] = []
        numbers: list[int] = []
        rejects: list[Reject] = []
        for row, line in enumerate(lines, first_row):
            outcome = self._parse(line, row, offset)
            if isinstance(outcome, Parsed):
                records.append(outcome)
                numbers.append(row)
            elif outcome is not None:
                rejects.append(outcome)
            offset += len(line) + 1
        texts = [record.text for record in records]
        ids = None if self._options.id_column is None else [record.id or "" for record in records]
        rows = np.array(numbers, dtype=np.int64)
        replaced = sum(record.replaced for record in records)
        return DocumentBatch(self._file.name, self._make(texts, ids, rows=rows), rows, tuple(rejects), first_row, replaced)

    def _parse(self, line: bytes, row: int, offset: int) -> Parsed | Reject | None:
        if not line.strip(JSON_SPACE):
            return None
        try:
            return self._parser.parse(line)
        except RejectedLineError as error:
            if isinstance(error, DamagedTextError) and self._options.invalid_utf8 == "error":
                raise invalid_text(self._file, row, f"byte {offset} of the file begins a line with {error}") from error
            return Reject(self._file.name, row, offset, str(error), line)
