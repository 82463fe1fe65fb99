"""Parquet: cut by row groups; only the wanted columns are read, a few pages at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow.parquet as pq

from tokenmill.parquet.footer import ParquetFooter, check_rows, open_parquet
from tokenmill.transforms.decompress import open_seekable
from tokenmill.transforms.read_batches import DocumentBatch
from tokenmill.transforms.read_columns import Columns, find_columns, group_parts, read_columns, rows_per_batch, take_rows
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile

_BUFFER_BYTES = 1 << 20


@contextlib.contextmanager
def _open_parquet(file: SourceFile) -> Iterator[tuple[pq.ParquetFile, ParquetFooter]]:
    """Open without reading ahead: with `pre_buffer` a row group is in memory whole, however large."""
    with open_seekable(file) as stream:
        parquet, footer = open_parquet(stream, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        with parquet:
            yield parquet, footer


def cut_parquet(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file between row groups, each range of about `split_bytes` of text before compression.

    Raises `UnreadableFileError` and `MissingColumnError`.
    """
    with _open_parquet(file) as (parquet, footer):
        columns = find_columns(parquet.schema_arrow, file, options)
        groups = list(zip(footer.rows.tolist(), _text_bytes(footer, columns), strict=True))
    return group_parts(file, groups, split_bytes=split_bytes, least=len(groups) if file.compression else 1)


def _text_bytes(footer: ParquetFooter, columns: Columns) -> list[int]:
    """Of each row group the text before compression. What is read beside it is looked up too: it may be encrypted."""
    leaves = {path: footer.find_leaves_below(path.leaf) for path in columns.paths}
    sizes: list[int] = footer.raw_sizes[:, leaves[columns.texts[0]]].sum(axis=1).tolist()
    return sizes


def read_parquet(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the row groups of a range. Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`."""
    groups = range(part.start, part.end)
    with _open_parquet(part.file) as (parquet, footer):
        columns = find_columns(parquet.schema_arrow, part.file, options)
        size = sum(_text_bytes(footer, columns)[part.start : part.end])
        rows = sum(footer.rows[part.start : part.end].tolist())
        batches = parquet.iter_batches(
            batch_size=rows_per_batch(options, rows=rows, size=size),
            row_groups=groups,
            columns=columns.leaves,
            use_threads=False,
        )
        whole = take_rows(check_rows(batches, rows), part.rows)
        yield from read_columns(whole, columns, part.file, options, first_row=part.first_row)
