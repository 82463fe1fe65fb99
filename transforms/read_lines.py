"""Files of lines: cutting them at byte positions, counting their lines, and reading plain text.

A line ends with `\\n` or `\\r\\n`, which are not part of it; a lone `\\r` is text. The last line needs none. A byte order mark at
the start of a file is not text. A line belongs to the range that its first byte lies in, so that ranges can be cut anywhere:

    a file `ab\\ncd\\n` as ranges [0, 2) [2, 4) [4, 6): the lines `ab`, `cd` and none
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from transforms.decompress import read_blocks
from transforms.read_batches import DocumentBatch, Records, finish_batch, name_rows
from transforms.splits import Range, ReadOptions, SizedRange, SourceFile

BOM = b"\xef\xbb\xbf"
JSON_SPACE = b" \t\r\n"
_NEWLINE, _RETURN = 10, 13


@dataclass(frozen=True)
class LineCount:
    """What stands in a range: all `lines`, and those of them that are `records` (in JSONL a blank line is none)."""

    lines: int
    records: int


def is_one_document(file: SourceFile, options: ReadOptions) -> bool:
    """Whether a file is a single document rather than one per line."""
    return file.format == "text" and "file" in (file.document, options.document)


def cut_lines(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file into ranges of equal size, none above `split_bytes`. Rows are not known yet: `first_row` is 0 throughout."""
    if is_one_document(file, options):
        return [SizedRange(Range(file, 0, file.size), 1, file.size)]
    if file.compression:
        return [SizedRange(Range(file, 0, file.size), None, file.size)]
    parts = -(-file.size // split_bytes)
    edges = [file.size * part // parts for part in range(parts + 1)] if parts else []
    return [SizedRange(Range(file, start, end), None, end - start) for start, end in itertools.pairwise(edges)]


def read_line_blocks(part: Range, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a range as (byte position, whole lines); only the file's last line may lack its newline.

    A block is about `block_bytes` long; a longer line is held whole. Raises `UnreadableFileError`.
    """
    if part.file.compression:
        lines = _group_lines(read_blocks(part.file, block_bytes=block_bytes))
    else:
        start = _find_line_start(part, block_bytes)
        if start is None:
            return
        blocks = read_blocks(part.file, start=start, end=part.end, block_bytes=block_bytes)
        lines = _group_lines(blocks, start=start, end=part.end)
    for offset, block in lines:
        mark = len(BOM) if offset == 0 and block.startswith(BOM) else 0
        if len(block) > mark:
            yield offset + mark, block[mark:]


def _find_line_start(part: Range, block_bytes: int) -> int | None:
    """Position of the first line that begins inside the range; None when it is empty or a longer line covers all of it."""
    if part.start == 0:
        return 0 if part.end else None
    position = part.start - 1
    for block in read_blocks(part.file, start=position, end=part.end, block_bytes=block_bytes):
        found = block.find(b"\n", 0, part.end - 1 - position)
        if found >= 0:
            return position + found + 1
        position += len(block)
        if position >= part.end - 1:
            break
    return None


def _group_lines(blocks: Iterator[bytes], *, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Cut blocks behind their last newline and carry the rest over. Stops behind the line that reaches `end` (None: reads on)."""
    carried: list[bytes] = []
    offset = position = start
    for block in blocks:
        final = -1 if end is None else block.find(b"\n", max(0, end - 1 - position))
        cut = (block.rfind(b"\n") if final < 0 else final) + 1
        position += len(block)
        if not cut:
            carried.append(block)
            continue
        lines = b"".join([*carried, block[:cut]])
        yield offset, lines
        if final >= 0:
            return
        offset += len(lines)
        carried = [block[cut:]]
    if rest := b"".join(carried):
        yield offset, rest


def count_rows(part: Range, *, limit: int | None = None, block_bytes: int = 8 << 20) -> LineCount:
    """Count the lines and records that begin in a range, stopping at the block in which record number `limit` is reached."""
    lines = records = 0
    skip_blank = part.file.format == "jsonl"
    for _, block in read_line_blocks(part, block_bytes):
        found = block.count(b"\n") + (not block.endswith(b"\n"))
        lines += found
        records += count_records(split_lines(block)) if skip_blank and limit is not None else found
        if limit is not None and records >= limit:
            break
    return LineCount(lines, records)


def split_lines(block: bytes) -> list[bytes]:
    r"""Lines without their `\n`. `split_lines(b"a\n\nb\n")` is `[b"a", b"", b"b"]`."""
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def count_records(lines: list[bytes]) -> int:
    """How many lines of JSONL are not blank."""
    return sum(1 for line in lines if line.strip(JSON_SPACE))


def read_text(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the lines of a range, or a whole file, as documents. An empty line is an empty document.

    Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`.
    """
    if is_one_document(part.file, options):
        yield _read_whole(part, options)
        return
    row, remaining = part.first_row, part.rows
    for offset, block in read_line_blocks(part, options.batch_bytes):
        records = _make_records(block, offset, part.file, row)
        if remaining is not None:
            records = _take(records, remaining)
            remaining -= len(records.rows)
        yield finish_batch(records, part.file, options, first_row=row)
        row += len(records.rows)
        if remaining == 0:
            return


def _read_whole(part: Range, options: ReadOptions) -> DocumentBatch:
    content = b"".join(read_blocks(part.file)).removeprefix(BOM)
    bounds = np.array([0, len(content)], dtype=np.int64)
    text = pa.LargeStringArray.from_buffers(1, pa.py_buffer(bounds), pa.py_buffer(content))
    rows = np.zeros(1, dtype=np.int64)
    return finish_batch(Records(name_rows(part.file.name, rows), text, rows, rows), part.file, options, first_row=0)


def _make_records(block: bytes, offset: int, file: SourceFile, first_row: int) -> Records:
    r"""Lines as one Arrow array: their ends are found and removed for all at once.

    Bounds are the newlines' positions less the bytes removed before them: `a\r\nbc\n` has the text `abc` and the bounds 0 1 3.
    """
    content = np.frombuffer(block, dtype=np.uint8)
    newlines = np.flatnonzero(content == _NEWLINE)
    ends = newlines if block.endswith(b"\n") else np.append(newlines, len(block))
    starts = np.concatenate([[0], ends[:-1] + 1])
    after_return = (ends > starts) & (content[np.maximum(ends, 1) - 1] == _RETURN)
    after_return[len(newlines) :] = False
    bounds = np.concatenate([[0], np.cumsum(ends - starts - after_return)])
    text = (block.replace(b"\r\n", b"\n") if after_return.any() else block).replace(b"\n", b"")
    rows = first_row + np.arange(len(ends), dtype=np.int64)
    strings = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(text))
    return Records(name_rows(file.name, rows), strings, rows, offset + starts.astype(np.int64))


def _take(records: Records, count: int) -> Records:
    offsets = None if records.offsets is None else records.offsets[:count]
    return replace(records, ids=records.ids[:count], text=records.text[:count], rows=records.rows[:count], offsets=offsets)
