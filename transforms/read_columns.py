"""What Parquet, Arrow and datasets have in common: ranges over their parts, text and ids out of Arrow columns."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.arrow import decode_strings, split_values
from tokenmill.errors import MissingColumnError, UnreadableFileError
from tokenmill.transforms.column_paths import ColumnPath, TextColumn, find_path, holds_text, is_path, list_texts, take_column
from tokenmill.transforms.read_batches import DocumentBatch, Records, finish_batch, is_valid_utf8, name_rows, sort_rejects
from tokenmill.transforms.splits import Range, ReadOptions, Reject, SizedRange, SourceFile

#: The most rows that are read at once, however short their texts are said to be (dictionary pages hide how long they are).
_MAX_ROWS = 16_384


@dataclass(frozen=True)
class Columns:
    """Where the wanted columns stand in a schema: those of the texts, and that of the id if it is asked for."""

    texts: tuple[ColumnPath, ...]
    id: ColumnPath | None = None

    @property
    def paths(self) -> tuple[ColumnPath, ...]:
        return self.texts if self.id is None else (*self.texts, self.id)

    @property
    def roots(self) -> list[str]:
        """The columns of the schema to read."""
        return list(dict.fromkeys(path.root for path in self.paths))

    @property
    def leaves(self) -> list[str]:
        """What to read of Parquet, where a part of a nested column can be read alone."""
        return list(dict.fromkeys(path.leaf for path in self.paths))


def find_columns(schema: pa.Schema, file: SourceFile, options: ReadOptions) -> Columns:
    """Where the wanted columns stand.

    Raises `MissingColumnError` unless the schema has them: texts that hold strings or bytes, an id that is a scalar.
    """
    texts = tuple(_find_column(schema, column, file) for column in options.text_columns)
    for column in texts:
        if not holds_text(column.kind):
            raise MissingColumnError(
                f"{file.path}: column {column.name!r} holds {column.kind}, not text; "
                f"the columns that hold text are: {', '.join(list_texts(schema)) or 'none'}"
            )
    if options.id_column is None:
        return Columns(texts)
    found = _find_column(schema, options.id_column, file)
    if pa.types.is_nested(found.kind) or found.in_list:
        scalars = ", ".join(field.name for field in schema if not pa.types.is_nested(field.type))
        raise MissingColumnError(
            f"{file.path}: column {found.name!r} holds {'a list' if found.in_list else found.kind}, no id; "
            f"the columns that can be ids are: {scalars}"
        )
    return Columns(texts, found)


def _find_column(schema: pa.Schema, column: str, file: SourceFile) -> ColumnPath:
    if (found := find_path(schema, column)) is not None:
        return found
    places = schema.get_all_field_indices(column)
    what = f"{len(places)} columns" if places else "no column"
    try:
        names = schema.names
        inside = [name for name in list_texts(schema) if name not in names] if is_path(column) else []
    except UnicodeDecodeError:
        raise UnreadableFileError(f"{file.path}: the name of a column is not UTF-8; the file is damaged") from None
    there = ", ".join([*names, *inside]) or "none"
    raise MissingColumnError(f"{file.path}: {what} {column!r}; the columns there are: {there}")


def group_parts(file: SourceFile, parts: list[tuple[int, int]], *, split_bytes: int, least: int = 1) -> list[SizedRange]:
    """Ranges over consecutive parts (row groups, record batches) given as (rows, bytes).

    A range takes at least `least` parts, and more while it stays within `split_bytes`. Two parts of 30 MB and one of 1 MB, with
    `split_bytes` of 32 MB: `[0, 1)` and `[1, 3)`.
    """
    ranges: list[SizedRange] = []
    start = first_row = rows = size = 0
    for position, (part_rows, part_size) in enumerate(parts):
        if position - start >= least and size + part_size > split_bytes:
            ranges.append(SizedRange(Range(file, start, position, first_row), rows, size))
            start, first_row, rows, size = position, first_row + rows, 0, 0
        rows, size = rows + part_rows, size + part_size
    if start < len(parts):
        ranges.append(SizedRange(Range(file, start, len(parts), first_row), rows, size))
    return ranges


def rows_per_batch(options: ReadOptions, *, rows: int, size: int) -> int:
    """How many rows hold `batch_bytes` of text where `rows` of them hold `size` bytes."""
    return max(1, min(_MAX_ROWS, options.batch_bytes * rows // max(1, size)))


def take_rows(batches: Iterable[pa.RecordBatch], count: int | None) -> Iterator[pa.RecordBatch]:
    """The first `count` rows (None: all), asking for no batch more than they need."""
    for batch in batches:
        if count is not None:
            batch = batch.slice(0, count)
            count -= batch.num_rows
        yield batch
        if count == 0:
            return


def read_columns(
    batches: Iterable[pa.RecordBatch], columns: Columns, file: SourceFile, options: ReadOptions, *, first_row: int
) -> Iterator[DocumentBatch]:
    """Documents out of record batches that hold at least the wanted columns; null texts and null ids become rejects.

    Texts are decoded `batch_bytes` at a time, however much of them a batch stands for.
    """
    for batch in batches:
        ids = None if columns.id is None else _read_ids(take_column(batch.column(columns.id.root), columns.id).elements)
        texts = [take_column(batch.column(path.root), path) for path in columns.texts]
        for start, end in _cut_by_bytes(texts, options.batch_bytes):
            part_ids = None if ids is None else ids[start:end]
            yield _make_batch([text.decode(start, end) for text in texts], part_ids, file, options, first_row=first_row + start)
        first_row += batch.num_rows


def _read_ids(column: pa.Array) -> pa.Array:
    """Ids as string or large_string; those that are not UTF-8 become null."""
    if holds_text(column.type):
        ids = decode_strings(column)
        return (
            ids
            if is_valid_utf8(ids)
            else pa.array([_decode_id(raw) for raw in ids.cast(pa.large_binary()).to_pylist()], pa.large_string())
        )
    values, places = split_values(column)
    ids = values.cast(pa.string())
    return ids if places is None else ids.take(places)


def _decode_id(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _cut_by_bytes(texts: Sequence[TextColumn], batch_bytes: int) -> list[tuple[int, int]]:
    """Cut rows `[0, n)` where a multiple of `batch_bytes` is passed by the texts in them.

    Three texts of 3 bytes each, with batches of 4: `[(0, 1), (1, 2), (2, 3)]`.
    """
    rows = len(texts[0])
    if not rows:
        return []
    ends = np.cumsum(np.sum([text.sizes for text in texts], axis=0))
    parts = (ends - 1) // batch_bytes
    edges = [0, *(np.flatnonzero(np.diff(parts) > 0) + 1).tolist(), rows]
    return list(itertools.pairwise(edges))


def _make_batch(
    texts: Sequence[pa.LargeStringArray], ids: pa.StringArray | None, file: SourceFile, options: ReadOptions, *, first_row: int
) -> DocumentBatch:
    rows = first_row + np.arange(len(texts[0]), dtype=np.int64)
    ids = name_rows(file.name, rows) if ids is None else ids
    rejects: tuple[Reject, ...] = ()
    if any(column.null_count for column in (*texts, ids)):
        rejects = _reject_nulls(texts, ids, file, options, first_row=first_row)
        whole = functools.reduce(pc.and_, (column.is_valid() for column in (*texts, ids)))
        texts, ids = [text.filter(whole) for text in texts], ids.filter(whole)
        rows = rows[whole.to_numpy(zero_copy_only=False)]
    pair = texts[1] if len(texts) > 1 else None
    return finish_batch(Records(ids, texts[0], rows, pair=pair), file, options, first_row=first_row, rejects=rejects)


def _reject_nulls(
    texts: Sequence[pa.LargeStringArray], ids: pa.StringArray, file: SourceFile, options: ReadOptions, *, first_row: int
) -> tuple[Reject, ...]:
    """A reject for each row with a null, for the first one that it has: in the text, in its second text, in the id."""
    reasons = [f"column {name!r} is null" for name in options.text_columns]
    reasons.append(f"the id in column {options.id_column!r} is null or not UTF-8")
    found: dict[int, Reject] = {}
    for column, reason in zip((*texts, ids), reasons, strict=True):
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            raw = texts[0][row].cast(pa.large_binary()).as_py() or b""
            found.setdefault(row, Reject(file.name, first_row + row, -1, reason, raw))
    return sort_rejects(list(found.values()))
