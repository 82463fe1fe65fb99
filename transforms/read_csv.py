"""CSV and TSV: a header with the names of the columns, then a record per row; quotes as Python's `csv` module reads them.

    "a ""quoted"" cell", "b          a quote opens a cell only as its first character, and stands for itself elsewhere
    "two                             a quoted cell may hold newlines
    lines"

What becomes of a row:

    an empty line                                     no record
    more or fewer cells than the header has           a reject
    a quote that is still open at the end             a reject, with all that follows the quote
    a cell that is not UTF-8                          as `invalid_utf8` says

Arrow's reader is three times as fast as `csv`, but reads stray quotes and lone carriage returns otherwise. It gets the blocks in
which every quote opens or closes a cell or is doubled, where both read the same. From the first other block on, `csv` reads all.
"""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as arrow_csv

from tokenmill.errors import MissingColumnError, UnreadableFileError, UsageError
from tokenmill.transforms.decompress import read_blocks
from tokenmill.transforms.document_limit import HEAD_BYTES
from tokenmill.transforms.line_blocks import BOM
from tokenmill.transforms.read_batches import DocumentBatch, reject_batch
from tokenmill.transforms.read_columns import Columns, find_columns, read_columns
from tokenmill.transforms.read_lines import LineCount
from tokenmill.transforms.splits import Range, ReadOptions, Reject, SizedRange, SourceFile

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_USUAL_DELIMITERS = ";\t|,"
_QUOTE, _NEWLINE, _RETURN = b'"\n\r'
#: How many rows of `csv` make a batch.
_ROWS = 1024


def name_delimiter(text: str | None) -> str:
    r"""The character that the option `--delimiter` asks for, empty where it is not given.

    >>> name_delimiter(";"), name_delimiter("\\t"), name_delimiter(None)
    (';', '\t', '')
    """
    delimiter = "\t" if text == "\\t" else "" if text is None else text
    if text is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\n\r\0'):
        raise UsageError(
            f"--delimiter {text!r}: give one ASCII character, such as ';' or '\\t', which is no quote and no end of a line"
        )
    return delimiter


@dataclass(frozen=True)
class _BadRow:
    """A row that is no record, and why."""

    reason: str
    raw: bytes


def cut_csv(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """One range: whether a newline ends a row depends on all quotes before it. Raises `MissingColumnError`."""
    _Table(file, options)
    return [SizedRange(Range(file, 0, file.size), None, file.size)]


def count_csv_rows(part: Range, limit: int | None = None) -> LineCount:
    """Rows of a file, counted no further than the block in which row number `limit` stands."""
    rows = 0
    for piece in _Table(part.file, None).read():
        rows += 1 if isinstance(piece, _BadRow) else piece.num_rows
        if limit is not None and rows >= limit:
            break
    return LineCount(rows, rows)


def read_csv(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the rows of a file. Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`."""
    table = _Table(part.file, options)
    row, remaining = 0, sys.maxsize if part.rows is None else part.rows
    for piece in table.read():
        if isinstance(piece, _BadRow):
            yield reject_batch(Reject(part.file.name, row, -1, piece.reason, piece.raw[:HEAD_BYTES]))
            count = 1
        else:
            rows = piece.slice(0, remaining)
            yield from read_columns([rows], table.columns, part.file, options, first_row=row)
            count = rows.num_rows
        row, remaining = row + count, remaining - count
        if not remaining:
            return


class _Table:
    """A file of which the header was read. With `options` only the wanted columns are kept, without them the first one."""

    def __init__(self, file: SourceFile, options: ReadOptions | None) -> None:
        self._file = file
        self._delimiter = file.delimiter or _DELIMITERS[file.format]
        used = options or ReadOptions()
        self._most = 2 * max(used.max_document_bytes, used.batch_bytes)
        self._blocks = read_blocks(file, block_bytes=used.batch_bytes)
        self._held, self._at = b"", 0
        while len(self._held) < len(BOM) and (block := next(self._blocks, b"")):
            self._held += block
        self._held = self._held.removeprefix(BOM)
        self._pending: deque[bytes] = deque()
        self._width = 0
        names = self._read_header()
        self._width = len(names)
        schema = pa.schema([(name, pa.string()) for name in names])
        self.columns = Columns(()) if options is None else self._find_columns(schema, options)
        self._roots = self.columns.roots or names[:1]
        self._wanted = [names.index(name) for name in self._roots]

    def _find_columns(self, schema: pa.Schema, options: ReadOptions) -> Columns:
        try:
            return find_columns(schema, self._file, options)
        except MissingColumnError as error:
            raise MissingColumnError(f"{error}{advise_delimiter(schema.names, self._delimiter)}") from None

    def _read_header(self) -> list[str]:
        for cells, _, _ in self._read_records(self._take_lines()):
            if cells:
                return [cell.encode("latin-1").decode("utf-8", "replace") for cell in cells]
        raise MissingColumnError(f"{self._file.path}: is empty; its first line has to name the columns")

    def _take_lines(self) -> Iterator[bytes]:
        """Lines with their ends, `\\r` being one too, as `csv` wants them. What was not asked for stays held."""
        while line := self._pending.popleft() if self._pending else self._take_line():
            first, *rest = line.splitlines(keepends=True)
            self._pending.extendleft(reversed(rest))
            yield first

    def _take_line(self) -> bytes:
        while (end := self._held.find(b"\n", self._at)) < 0 and (block := next(self._blocks, b"")):
            self._held, self._at = self._join(self._held[self._at :], block), 0
        end = len(self._held) if end < 0 else end + 1
        line, self._at = self._held[self._at : end], end
        return line

    def _join(self, held: bytes, block: bytes) -> bytes:
        if len(held) > self._most:
            raise UnreadableFileError(f"{self._file.path}: {_describe_long(self._most)}")
        return held + block

    def read(self) -> Iterator[pa.RecordBatch | _BadRow]:
        """The rows, in order."""
        data = self._held[self._at :]
        while not self._pending and (rows := find_rows(np.frombuffer(data, np.uint8), self._delimiter)) is not None:
            if rows:
                yield from self._parse(data[:rows])
            data = data[rows:]
            if not (block := next(self._blocks, b"")):
                break
            data = self._join(data, block)
        if not self._pending:
            self._held, self._at = data, 0
        yield from self._make_batches(self._read_records(self._take_lines()))

    def _parse(self, rows: bytes) -> Iterator[pa.RecordBatch | _BadRow]:
        if rows.startswith(BOM):  # Arrow would leave it out, but in front of a row it is text.
            rows = b"\n" + rows
        names = [str(place) for place in range(self._width)]
        wanted = [names[place] for place in self._wanted]
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(rows),
                arrow_csv.ReadOptions(use_threads=False, block_size=len(rows) + 1, column_names=names),
                arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                arrow_csv.ConvertOptions(
                    check_utf8=False, column_types=dict.fromkeys(names, pa.binary()), include_columns=wanted
                ),
            )
        except pa.ArrowInvalid:  # a row of more or fewer cells, or nothing but empty lines
            yield from self._make_batches(self._read_records(iter(rows.splitlines(keepends=True))))
            return
        yield from table.rename_columns(self._roots).combine_chunks().to_batches()

    def _read_records(self, lines: Iterator[bytes]) -> Iterator[tuple[list[str], bytes, bool]]:
        """Rows as `csv` reads them: (cells as Latin-1, raw bytes, whether a quote is still open at the end)."""
        csv.field_size_limit(max(csv.field_size_limit(), self._most))
        feed = _Feed(lines, self._most)
        rows = csv.reader(feed, delimiter=self._delimiter)
        while True:
            try:
                cells = next(rows)
            except StopIteration:
                return
            except (csv.Error, _TooLongError) as error:
                raise UnreadableFileError(f"{self._file.path}: line {feed.count}: cannot be read as CSV: {error}") from error
            yield cells, b"".join(feed.taken), feed.is_exhausted
            feed.taken.clear()

    def _make_batches(self, records: Iterator[tuple[list[str], bytes, bool]]) -> Iterator[pa.RecordBatch | _BadRow]:
        held: list[list[str]] = []
        for cells, raw, is_open in records:
            if not cells:
                continue
            if is_open or len(cells) != self._width:
                if held:
                    yield self._make_batch(held)
                    held = []
                reason = "a quoted cell does not end" if is_open else f"has {len(cells)} cells; the header has {self._width}"
                yield _BadRow(reason, raw)
                continue
            held.append(cells)
            if len(held) == _ROWS:
                yield self._make_batch(held)
                held = []
        if held:
            yield self._make_batch(held)

    def _make_batch(self, rows: list[list[str]]) -> pa.RecordBatch:
        columns = [pa.array([row[place].encode("latin-1") for row in rows], pa.large_binary()) for place in self._wanted]
        return pa.RecordBatch.from_arrays(columns, self._roots)


def _describe_long(most: int) -> str:
    return f"a row has more than {most:,} bytes; a quote that opens a cell may lack its second one"


def advise_delimiter(names: list[str], delimiter: str) -> str:
    r"""What to add to a message where another character than `delimiter` seems to stand between the names of a header.

    >>> advise_delimiter(["id;text"], ","), advise_delimiter(["id", "content"], ",")
    ("; ';' seems to stand between them: give --delimiter ';'", '')
    """
    header = delimiter.join(names)
    other = max(_USUAL_DELIMITERS, key=header.count)
    if header.count(other) < len(names):
        return ""
    shown = repr(other)
    return f"; {shown} seems to stand between them: give --delimiter {shown}"


class _TooLongError(Exception):
    """A row that is too long to be held."""


class _Feed:
    """Lines for `csv.reader`, as Latin-1. `taken`: those of the row that is being read; `count`: all so far."""

    def __init__(self, lines: Iterator[bytes], most: int) -> None:
        self._lines = lines
        self._most = most
        self.taken: list[bytes] = []
        self.count = 0
        self.is_exhausted = False

    def __iter__(self) -> Iterator[str]:
        size = 0
        for line in self._lines:
            size = size + len(line) if self.taken else len(line)
            if size > self._most:
                raise _TooLongError(
                    f"a row has more than {self._most:,} bytes; a quote that opens a cell may lack its second one"
                )
            self.taken.append(line)
            self.count += 1
            yield line.decode("latin-1")
        self.is_exhausted = bool(self.taken)


def find_rows(data: npt.NDArray[np.uint8], delimiter: str) -> int | None:
    """How many bytes are whole rows; None where readers may differ about a quote or a carriage return.

    >>> find_rows(np.frombuffer(b'a,"b"\\nc', np.uint8), ","), find_rows(np.frombuffer(b'a"b\\n', np.uint8), ",")
    (6, None)
    """
    padded = np.concatenate([[np.uint8(_NEWLINE)], data, [np.uint8(_NEWLINE)]])
    quotes = np.flatnonzero(data == _QUOTE)
    before, behind = padded[quotes[0::2]], padded[quotes[1::2] + 2]
    opens = np.isin(before, (ord(delimiter), _NEWLINE, _QUOTE))
    closes = np.isin(behind, (ord(delimiter), _NEWLINE, _RETURN, _QUOTE))
    if not (opens.all() and closes.all()):
        return None
    returns = _outside(np.flatnonzero(data == _RETURN), quotes)
    if (padded[returns + 2] != _NEWLINE).any():
        return None
    ends = _outside(np.flatnonzero(data == _NEWLINE), quotes)
    return int(ends[-1]) + 1 if ends.size else 0


def _outside(places: npt.NDArray[np.int64], quotes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The places that are not within quotes."""
    return places if not quotes.size else places[np.searchsorted(quotes, places) % 2 == 0]
