"""Reading splits: the one place that knows which format is cut and read by what.

driver:  cut_file(file, ...) -> ranges with sizes          worker:  read_split(split, options) -> batches of documents
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from transforms.read_arrow import cut_arrow, read_arrow
from transforms.read_batches import DocumentBatch
from transforms.read_dataset import cut_dataset, read_dataset
from transforms.read_jsonl import read_jsonl
from transforms.read_lines import cut_lines, read_text
from transforms.read_parquet import cut_parquet, read_parquet
from transforms.splits import Range, ReadOptions, SizedRange, SourceFile, Split

__all__ = ["DocumentBatch", "cut_file", "read_range", "read_split"]

_CUT: dict[str, Callable[[SourceFile, ReadOptions, int], list[SizedRange]]] = {
    "text": cut_lines,
    "jsonl": cut_lines,
    "parquet": cut_parquet,
    "arrow": cut_arrow,
    "dataset": cut_dataset,
}

_READ: dict[str, Callable[[Range, ReadOptions], Iterator[DocumentBatch]]] = {
    "text": read_text,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "dataset": read_dataset,
}


def cut_file(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file into ranges of at most about `split_bytes`, in order; a file without records may give none.

    Raises `UnreadableFileError`, and `MissingColumnError` where the format has a schema.
    """
    return _CUT[file.format](file, options, split_bytes)


def read_split(split: Split, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read a split's ranges, one after the other. A batch holds about `options.batch_bytes` of one file.

    Each record of the ranges is in exactly one batch, as a document or as a reject. Raises `UnreadableFileError`, and
    `InvalidTextError` under the policy `error`.
    """
    for part in split.ranges:
        yield from read_range(part, options)


def read_range(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read one range; batches that account for nothing are left out."""
    for batch in _READ[part.file.format](part, options):
        if batch.documents.num_rows or batch.rejects:
            yield batch
