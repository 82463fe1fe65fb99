"""What Parquet, Arrow and datasets have in common: ranges over their parts, text and ids out of Arrow columns."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.arrow import holds_strings
from tokenmill.errors import MissingColumnError, UnreadableFileError
from transforms.read_batches import DocumentBatch, Records, finish_batch, name_rows, sort_rejects
from transforms.splits import Range, ReadOptions, Reject, SizedRange, SourceFile

#: The most rows that are read at once, however short their texts are said to be (dictionary pages hide how long they are).
_MAX_ROWS = 16_384


def wanted_columns(options: ReadOptions) -> list[str]:
    """The columns to read: the text's, and those of the second text and of the id if they are asked for."""
    return list(dict.fromkeys(name for name in (*options.text_columns, options.id_column) if name is not None))


def check_columns(schema: pa.Schema, file: SourceFile, options: ReadOptions) -> None:
    """Raise `MissingColumnError` unless the schema has the text columns, of strings, and the id column, of scalars."""
    for column in options.text_columns:
        text_type = _find_type(schema, column, file)
        if not holds_strings(text_type):
            strings = ", ".join(field.name for field in schema if holds_strings(field.type)) or "none"
            raise MissingColumnError(
                f"{file.path}: column {column!r} holds {text_type}, not text; the columns that hold text are: {strings}"
            )
    if options.id_column is not None and pa.types.is_nested(id_type := _find_type(schema, options.id_column, file)):
        scalars = ", ".join(field.name for field in schema if not pa.types.is_nested(field.type))
        raise MissingColumnError(
            f"{file.path}: column {options.id_column!r} holds {id_type}, no id; the columns that can be ids are: {scalars}"
        )


def _find_type(schema: pa.Schema, column: str, file: SourceFile) -> pa.DataType:
    places = schema.get_all_field_indices(column)
    if len(places) == 1:
        return schema.field(places[0]).type
    what = f"{len(places)} columns" if places else "no column"
    try:
        names = schema.names
    except UnicodeDecodeError:
        raise UnreadableFileError(f"{file.path}: the name of a column is not UTF-8; the file is damaged") from None
    raise MissingColumnError(f"{file.path}: {what} {column!r}; the columns there are: {', '.join(names) or 'none'}")


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
    batches: Iterable[pa.RecordBatch], file: SourceFile, options: ReadOptions, *, first_row: int
) -> Iterator[DocumentBatch]:
    """Documents out of record batches that hold at least the wanted columns; null texts and null ids become rejects."""
    for batch in batches:
        ids = None if options.id_column is None else _read_ids(batch.column(options.id_column))
        texts = [_as_strings(batch.column(column), pa.large_string()) for column in options.text_columns]
        for start, end in _cut_by_bytes(texts, options.batch_bytes):
            part_ids = None if ids is None else ids[start:end]
            yield _make_batch([text[start:end] for text in texts], part_ids, file, options, first_row=first_row + start)
        first_row += batch.num_rows


def _read_ids(column: pa.Array) -> pa.StringArray:
    """Ids as strings; those that are not UTF-8 become null."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_binary = column.type in (pa.binary(), pa.large_binary(), pa.binary_view())
    ids = column if is_binary else column.cast(pa.string())
    try:
        ids = ids.cast(pa.string())
        ids.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_decode_id(raw) for raw in ids.cast(pa.binary()).to_pylist()], pa.string())
    return ids


def _decode_id(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _as_strings(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(kind)


def _cut_by_bytes(texts: Sequence[pa.LargeStringArray], batch_bytes: int) -> list[tuple[int, int]]:
    """Cut rows `[0, n)` where a multiple of `batch_bytes` is passed by the texts in them.

    Three texts of 3 bytes each, with batches of 4: `[(0, 1), (1, 2), (2, 3)]`.
    """
    rows = len(texts[0])
    if not rows:
        return []
    ends = np.zeros(rows, np.int64)
    for text in texts:
        offsets = np.frombuffer(text.buffers()[1], dtype=np.int64)[text.offset : text.offset + rows + 1]
        ends += offsets[1:] - offsets[0]
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
