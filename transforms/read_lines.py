"""Files of lines: cutting them at byte positions, counting their lines, and reading plain text.

A line of text ends with `\\n` or `\\r\\n`, which are not part of it; a lone `\\r` is text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tokenmill.kernels.lines import count_lines, take_lines
from tokenmill.transforms.decompress import read_blocks
from tokenmill.transforms.document_limit import HEAD_BYTES, LongLine, reject_long
from tokenmill.transforms.line_blocks import BOM, Bytes, read_line_blocks, reject_line
from tokenmill.transforms.read_batches import DocumentBatch, Records, finish_batch, name_rows, reject_batch
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile

ReadBlocks = Callable[[Range, int], Iterator[tuple[int, Bytes | LongLine]]]


@dataclass(frozen=True)
class LineCount:
    """What stands in a range: all `lines`, and those of them that are `records` (in JSONL a blank line is none)."""

    lines: int
    records: int


def is_one_document(file: SourceFile, options: ReadOptions) -> bool:
    """Whether a text file is a single document rather than one per line."""
    return "file" in (file.document, options.document)


def cut_text(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a text file as `cut_lines` does, unless it is one document."""
    if is_one_document(file, options):
        return [SizedRange(Range(file, 0, file.size), 1, file.size)]
    return cut_lines(file, options, split_bytes)


def cut_lines(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file into ranges of equal size, none above `split_bytes`. Rows are not known yet: `first_row` is 0 throughout."""
    if file.is_stream:
        return [SizedRange(Range(file, 0, file.size), None, file.size)]
    parts = -(-file.size // split_bytes)
    edges = [file.size * part // parts for part in range(parts + 1)] if parts else []
    return [SizedRange(Range(file, start, end), None, end - start) for start, end in itertools.pairwise(edges)]


def count_text_rows(part: Range, limit: int | None = None) -> LineCount:
    """Count the lines that begin in a range: each is a record."""
    return count_rows(part, limit, with_blank=True)


def count_rows(
    part: Range,
    limit: int | None = None,
    *,
    with_blank: bool,
    block_bytes: int = 1 << 20,
    read_blocks: ReadBlocks = read_line_blocks,
) -> LineCount:
    """Count the lines and records that begin in a range, stopping at the block in which record number `limit` is reached.

    `with_blank`: a blank line is a record. `read_blocks` gives the lines.
    """
    lines = records = 0
    for _, block in read_blocks(part, block_bytes):
        found, blank = (1, 0) if isinstance(block, LongLine) else count_lines(block)
        lines += found
        records += found if with_blank else found - blank
        if limit is not None and records >= limit:
            break
    return LineCount(lines, records)


def read_text(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the lines of a range, or a whole file, as documents. An empty line is an empty document.

    Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`.
    """
    if is_one_document(part.file, options):
        yield _read_whole(part, options)
        return
    row, remaining = part.first_row, part.rows
    for offset, block in read_line_blocks(part, options.batch_bytes, options.max_document_bytes):
        if isinstance(block, LongLine):
            yield reject_line(part.file, row, offset, block, options)
            row += 1
            remaining = None if remaining is None else remaining - 1
            if remaining == 0:
                return
            continue
        records = _make_records(block, offset, part.file, row)
        if remaining is not None:
            records = _take(records, remaining)
            remaining -= len(records.rows)
        yield finish_batch(records, part.file, options, first_row=row)
        row += len(records.rows)
        if remaining == 0:
            return


def _read_whole(part: Range, options: ReadOptions) -> DocumentBatch:
    most = options.max_document_bytes
    content, size = _read_content(part.file, most + len(BOM))
    if size > most:
        return reject_batch(reject_long(part.file.name, 0, 0, size, content[:HEAD_BYTES], most))
    bounds = np.array([0, len(content)], dtype=np.int64)
    text = pa.LargeStringArray.from_buffers(1, pa.py_buffer(bounds), pa.py_buffer(content))
    rows = np.zeros(1, dtype=np.int64)
    return finish_batch(Records(name_rows(part.file.name, rows), text, rows, rows), part.file, options, first_row=0)


def _read_content(file: SourceFile, most: int) -> tuple[bytes, int]:
    """The content of a file without a byte order mark, and its size; of more than `most` bytes only the first are kept.

    A file is read to its end all the same: a compressed one is checked there.
    """
    kept, size = [], 0
    for block in read_blocks(file):
        kept.append(block[: max(0, most - size)])
        size += len(block)
    content = b"".join(kept)
    mark = len(BOM) if content.startswith(BOM) else 0
    return content[mark:], size - mark


def _make_records(block: Bytes, offset: int, file: SourceFile, first_row: int) -> Records:
    """The lines of a block as one Arrow array."""
    lines, _ = count_lines(block)
    starts, bounds, text = np.empty(lines, np.int64), np.zeros(lines + 1, np.int64), np.empty(block.size, np.uint8)
    take_lines(block, starts, text, bounds)
    rows = first_row + np.arange(lines, dtype=np.int64)
    strings = pa.LargeStringArray.from_buffers(lines, pa.py_buffer(bounds), pa.py_buffer(text))
    return Records(name_rows(file.name, rows), strings, rows, offset + starts)


def _take(records: Records, count: int) -> Records:
    offsets = None if records.offsets is None else records.offsets[:count]
    return replace(records, ids=records.ids[:count], text=records.text[:count], rows=records.rows[:count], offsets=offsets)
