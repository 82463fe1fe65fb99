"""Parquet: cut by row groups; only the wanted columns are read, a few pages at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow.parquet as pq

from transforms.decompress import open_seekable
from transforms.read_batches import DocumentBatch
from transforms.read_columns import check_columns, group_parts, read_columns, rows_per_batch, take_rows, wanted_columns
from transforms.splits import Range, ReadOptions, SizedRange, SourceFile

_BUFFER_BYTES = 1 << 20


@contextlib.contextmanager
def _open_parquet(file: SourceFile) -> Iterator[pq.ParquetFile]:
    """Open without reading ahead: with `pre_buffer` a row group is in memory whole, however large."""
    with open_seekable(file) as stream, pq.ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER_BYTES) as parquet:
        yield parquet


def cut_parquet(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file between row groups, each range of about `split_bytes` of text before compression.

    Raises `UnreadableFileError` and `MissingColumnError`.
    """
    with _open_parquet(file) as parquet:
        check_columns(parquet.schema_arrow, file, options)
        groups = [(group.num_rows, _text_bytes(group, options)) for group in _row_groups(parquet)]
    return group_parts(file, groups, split_bytes=split_bytes, least=len(groups) if file.compression else 1)


def _row_groups(parquet: pq.ParquetFile) -> Iterator[pq.RowGroupMetaData]:
    return (parquet.metadata.row_group(position) for position in range(parquet.num_row_groups))


def _text_bytes(group: pq.RowGroupMetaData, options: ReadOptions) -> int:
    columns = (group.column(position) for position in range(group.num_columns))
    return sum(column.total_uncompressed_size for column in columns if column.path_in_schema == options.text_column)


def read_parquet(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the row groups of a range. Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`."""
    groups = range(part.start, part.end)
    with _open_parquet(part.file) as parquet:
        metadata = [parquet.metadata.row_group(group) for group in groups]
        size = sum(_text_bytes(group, options) for group in metadata)
        batches = parquet.iter_batches(
            batch_size=rows_per_batch(options, rows=sum(group.num_rows for group in metadata), size=size),
            row_groups=groups,
            columns=wanted_columns(options),
            use_threads=False,
        )
        yield from read_columns(take_rows(batches, part.rows), part.file, options, first_row=part.first_row)
