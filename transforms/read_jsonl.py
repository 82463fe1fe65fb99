"""JSON Lines: one JSON object per line, its text under one key, its id and a second text perhaps under others.

Row numbers count lines, so that an editor finds them. What becomes of a line:

    blank (spaces, tabs)                                    no record: neither a document nor a reject
    an object whose text is a string                        a document; NUL characters and empty texts too
    no JSON, half a last line, a list, a number             rejected
    no such column, a column twice, text null or a number   rejected
    lone surrogates or invalid UTF-8 in the text            as `invalid_utf8` says: error, replace (U+FFFD), reject
    invalid UTF-8 elsewhere in the line                     the same; a lone surrogate elsewhere is JSON, and not looked at
    NaN, Infinity, or a key twice, elsewhere in the line    not looked at: Python writes the first, and JSON allows the second

A file that is one JSON array, or objects printed over many lines, is read too (`transforms/json_documents.py`): its rows are the
elements, and it is one range.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tokenmill.arrow import read_only
from tokenmill.errors import MissingColumnError
from tokenmill.kernels.json_lines import DOCUMENT, REFUSED, read_records
from tokenmill.kernels.lines import count_lines, end_of_line
from tokenmill.transforms.decompress import reading
from tokenmill.transforms.document_limit import LongLine, reject_long
from tokenmill.transforms.files import is_local
from tokenmill.transforms.json_documents import is_json_document, read_record_blocks
from tokenmill.transforms.line_blocks import Bytes, iterate_lines, line_at, read_line_blocks, reject_line
from tokenmill.transforms.parse_json import (
    DamagedTextError,
    LineParser,
    Parsed,
    RejectedLineError,
    column_names,
    has_column,
    load_json,
)
from tokenmill.transforms.read_batches import DocumentBatch, Int64s, invalid_text, make_documents, name_rows
from tokenmill.transforms.read_lines import LineCount, count_rows, cut_lines
from tokenmill.transforms.splits import DOCUMENT_BYTES, Range, ReadOptions, Reject, SizedRange, SourceFile

#: A column is missing when none of so many first records has it; one odd record among good ones is only a reject.
_PROBED_RECORDS = 100
_PROBED_BYTES = 1 << 16
_NO_LIMIT = (1 << 63) - 1


def read_jsonl(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the records of a range. Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`."""
    reader = _JsonlReader(part.file, options)
    row, remaining = part.first_row, _NO_LIMIT if part.rows is None else part.rows
    for offset, block in _read_blocks(part, options.batch_bytes, options.max_document_bytes):
        if isinstance(block, LongLine):
            yield reject_line(part.file, row, offset, block, options)
            row, remaining = row + 1, remaining - 1
            if not remaining:
                return
            continue
        records = reader.scan(block, remaining)
        yield reader.read(records, offset=offset, first_row=row)
        row += records.kinds.size
        remaining -= records.count
        if not remaining:
            return


def _read_blocks(part: Range, block_bytes: int, most: int = DOCUMENT_BYTES) -> Iterator[tuple[int, Bytes | LongLine]]:
    """The lines of a range, or the records of a JSON document, as blocks of lines."""
    if part.start == 0 and is_json_document(part.file):
        return read_record_blocks(part.file, block_bytes, most)
    return read_line_blocks(part, block_bytes, most)


def cut_jsonl(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file of lines as `cut_lines` does; a JSON document stays whole."""
    ranges = cut_lines(file, options, split_bytes)
    if len(ranges) > 1 and is_json_document(file):
        return [SizedRange(Range(file, 0, file.size), None, file.size)]
    return ranges


def count_jsonl_rows(part: Range, limit: int | None = None) -> LineCount:
    """Count the lines that begin in a range, or the elements of a JSON document; a blank line is no record."""
    return count_rows(part, limit, with_blank=False, read_blocks=_read_blocks)


def check_jsonl_columns(file: SourceFile, options: ReadOptions) -> None:
    """Look at the first records of a file: raises `MissingColumnError` when none has the columns asked for.

    Raises `UnreadableFileError` for a JSON document that is damaged there.
    """
    missing = [column for column in (*options.text_columns, options.id_column) if column is not None]
    if (first := _load_first_line(file)) is not None and all(has_column(first, column) for column in missing):
        return  # by far the most files, in a tenth of the time that reading a block takes
    names: dict[str, None] = {}
    seen = False
    for record in filter(None, map(_try_load, itertools.islice(_iterate_first_lines(file), _PROBED_RECORDS))):
        seen = True
        names |= dict.fromkeys(column_names(record) or ())
        missing = [column for column in missing if not has_column(record, column)]
        if not missing:
            return
    if seen:
        raise MissingColumnError(
            f"{file.path}: no column {missing[0]!r} in its first records; the columns there are: {', '.join(names) or 'none'}"
        )


def _load_first_line(file: SourceFile) -> Any:
    """The object in the first line of a plain local file, None where a closer look is needed."""
    if file.compression or not is_local(file.path):
        return None
    with reading(file), open(file.path, "rb") as stream:
        line = stream.readline(_PROBED_BYTES)
    return _try_load(line) if line.endswith(b"\n") else None


def _iterate_first_lines(file: SourceFile) -> Iterator[bytes]:
    for _, block in _read_blocks(Range(file, 0, file.size), _PROBED_BYTES):
        if not isinstance(block, LongLine):
            yield from iterate_lines(block)


def _try_load(line: bytes) -> Any:
    """The object in a line, None where there is none."""
    try:
        value = load_json(line.decode("utf-8", "replace"))
    except RejectedLineError:
        return None
    return None if column_names(value) is None else value


@dataclass(frozen=True, eq=False)
class _Lines:
    """What the kernel made of a block: where its lines start, what became of each, and the documents among them.

    `count` are the records, lines that are not blank. `pair`: the second texts, where pairs are read.
    """

    block: Bytes
    starts: Int64s
    kinds: Bytes
    text: pa.LargeStringArray
    ids: pa.StringArray | None
    count: int
    pair: pa.LargeStringArray | None = None


class _JsonlReader:
    """Turns blocks of lines of one file into batches."""

    def __init__(self, file: SourceFile, options: ReadOptions) -> None:
        self._file = file
        self._options = options
        self._parser = LineParser(options)

    def scan(self, block: Bytes, most: int) -> _Lines:
        """Read what is in order, up to record number `most`."""
        lines = _scan_column(block, most, self._options.text_column, self._options.id_column)
        if self._options.pair_column is not None:
            lines = _join_columns(lines, _scan_column(block, most, self._options.pair_column, None))
        return lines if block.size <= self._options.max_document_bytes else _refuse_long(lines, self._options.max_document_bytes)

    def read(self, lines: _Lines, *, offset: int, first_row: int) -> DocumentBatch:
        """One batch: the kernel's documents, and between them what the parser makes of the lines that the kernel refused."""
        rows, text, ids, pair = first_row + np.flatnonzero(lines.kinds == DOCUMENT), lines.text, lines.ids, lines.pair
        parsed, rejects = self._parse_refused(lines, offset=offset, first_row=first_row)
        if parsed:
            rows = np.concatenate([rows, np.array(list(parsed), np.int64)])
            order = np.argsort(rows)
            rows, places = rows[order], pa.array(order)
            text = _append(text, [record.text for record in parsed.values()]).take(places)
            ids = None if ids is None else _append(ids, [record.id for record in parsed.values()]).take(places)
            pair = None if pair is None else _append(pair, [record.pair for record in parsed.values()]).take(places)
        documents = make_documents(name_rows(self._file.name, rows) if ids is None else ids, text, pair)
        replaced = tuple(row for row, record in parsed.items() if record.replaced)
        return DocumentBatch(self._file.name, documents, rows, tuple(rejects), first_row, replaced)

    def _parse_refused(self, lines: _Lines, *, offset: int, first_row: int) -> tuple[dict[int, Parsed], list[Reject]]:
        """By their rows: the refused lines that are documents all the same, and those that are not."""
        parsed: dict[int, Parsed] = {}
        rejects: list[Reject] = []
        for place in np.flatnonzero(lines.kinds == REFUSED).tolist():
            start, row = int(lines.starts[place]), first_row + place
            outcome = self._parse(line_at(lines.block, start), row, offset + start)
            if isinstance(outcome, Parsed):
                parsed[row] = outcome
            else:
                rejects.append(outcome)
        return parsed, rejects

    def _parse(self, line: bytes, row: int, offset: int) -> Parsed | Reject:
        if len(line.removesuffix(b"\r")) > (most := self._options.max_document_bytes):
            return reject_long(self._file.name, row, offset, len(line.removesuffix(b"\r")), line, most)
        try:
            return self._parser.parse(line)
        except RejectedLineError as error:
            if isinstance(error, DamagedTextError) and self._options.invalid_utf8 == "error":
                raise invalid_text(self._file, row, f"byte {offset} of the file begins a line with {error}") from error
            return Reject(self._file.name, row, offset, str(error), line)


def _scan_column(block: Bytes, most: int, column: str, id_column: str | None) -> _Lines:
    """The lines of a block that have a text in this column, and an id in that one if it is asked for."""
    lines, _ = count_lines(block)
    text = pa.allocate_buffer(block.size)
    ids = np.empty(block.size if id_column is not None else 0, np.uint8)
    starts, kinds, bounds = np.empty(lines, np.int64), np.empty(lines, np.uint8), np.zeros((2, lines + 1), np.int64)
    keys, sinks = (_key_of(column), _key_of(id_column or "")), (np.frombuffer(text, np.uint8), ids)
    lines, records, documents = read_records(block, keys, sinks, starts, kinds, bounds, np.int64(most))
    bounds = bounds[:, : documents + 1]
    texts = pa.LargeStringArray.from_buffers(documents, pa.py_buffer(bounds[0]), text)
    made_ids = None if id_column is None else _make_ids(ids, bounds[1])
    return _Lines(block, starts[:lines], kinds[:lines], texts, made_ids, records)


def _make_ids(ids: Bytes, bounds: Int64s) -> pa.StringArray:
    buffers = pa.py_buffer(bounds), pa.py_buffer(ids[: bounds[-1]].tobytes())
    return pa.LargeStringArray.from_buffers(bounds.size - 1, *buffers).cast(pa.string())


def _join_columns(lines: _Lines, others: _Lines) -> _Lines:
    """Lines with both texts; what the kernel refused for one of them is refused, and the parser says why."""
    first, second = lines.kinds == DOCUMENT, others.kinds == DOCUMENT
    both = first & second
    in_first, in_second = pa.array(both[first]), pa.array(both[second])
    kinds = np.where(first & ~second, np.uint8(REFUSED), lines.kinds)
    ids = None if lines.ids is None else lines.ids.filter(in_first)
    return replace(lines, kinds=kinds, text=lines.text.filter(in_first), ids=ids, pair=others.text.filter(in_second))


def _refuse_long(lines: _Lines, most: int) -> _Lines:
    """Lines of more than `most` bytes are refused: the parser, which says why, does not read them."""
    ends = np.append(lines.starts[1:] - 1, [end_of_line(lines.block, start) for start in lines.starts[-1:].tolist()])
    kept = (lines.kinds != DOCUMENT) | (ends - lines.starts <= most)
    documents = pa.array(kept[lines.kinds == DOCUMENT])
    ids, pair = (None if column is None else column.filter(documents) for column in (lines.ids, lines.pair))
    return replace(
        lines, kinds=np.where(kept, lines.kinds, np.uint8(REFUSED)), text=lines.text.filter(documents), ids=ids, pair=pair
    )


def _key_of(column: str) -> Bytes:
    """A column's name as it stands between quotes when it is written without escapes."""
    return read_only(np.frombuffer(column.encode("utf-8", "surrogatepass"), np.uint8))


def _append(strings: pa.Array, more: list[str | None]) -> pa.Array:
    return pa.concat_arrays([strings, pa.array(more, strings.type)])
