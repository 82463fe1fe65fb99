"""Cutting files and reading splits, whatever their format; `input_formats.py` has the table of formats.

driver:  cut_file(file, ...) -> ranges with sizes          worker:  read_split(split, options) -> batches of documents
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tokenmill.text.normalizers import Normalizer
from tokenmill.transforms.encodings import name_damage
from tokenmill.transforms.folder_keys import find_folder_key, set_ids, without_folder_key
from tokenmill.transforms.growth import bound_growth
from tokenmill.transforms.input_formats import format_of
from tokenmill.transforms.read_batches import DocumentBatch
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile, Split

__all__ = ["DocumentBatch", "cut_file", "read_documents", "read_range", "read_split"]


def cut_file(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file into ranges of at most about `split_bytes`, in order; a file without records may give none.

    Raises `UnreadableFileError`, and `MissingColumnError` where the format has a schema.
    """
    return format_of(file).cut(file, without_folder_key(file, options), split_bytes)


def read_split(split: Split, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read a split's ranges, one after the other. A batch holds about `options.batch_bytes` of one file.

    Each record of the ranges is in exactly one batch, as a document or as a reject. Raises `UnreadableFileError`, and
    `InvalidTextError` under the policy `error`.
    """
    for part in split.ranges:
        yield from read_range(part, options)


def read_documents(split: Split, options: ReadOptions, *normalizers: Normalizer) -> Iterator[DocumentBatch]:
    """As `read_split`, for texts that are normalized next: what would become too long is a reject."""
    batches = read_split(split, options)
    for normalizer in normalizers:
        batches = bound_growth(batches, normalizer, options.max_document_bytes)
    yield from batches


def read_range(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read one range, the rows that are wanted; batches that account for nothing are left out."""
    if part.to_row is not None and part.to_row <= part.from_row:
        return
    folder_key = find_folder_key(part.file, options.id_column)
    for batch in format_of(part.file).read(part, without_folder_key(part.file, options)):
        if folder_key is not None:
            batch = set_ids(batch, folder_key)
        if part.file.encoding:
            batch = _name_encoding(batch, part.file.encoding)
        if part.to_row is not None:
            if batch.first_row >= part.to_row:
                return
            batch = batch.between(part.from_row, part.to_row)
        if batch.documents.num_rows or batch.rejects:
            yield batch


def _name_encoding(batch: DocumentBatch, encoding: str) -> DocumentBatch:
    """The batch, with rejects that say which encoding their text is not in."""
    rejects = tuple(replace(reject, reason=name_damage(reject.reason, encoding)) for reject in batch.rejects)
    return replace(batch, rejects=rejects)
