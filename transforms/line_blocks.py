"""Blocks of whole lines out of files, stored or compressed, in a buffer that is used again and again.

A line ends with `\\n`; the last one of a file needs none. A byte order mark at the start of a file is not text. A line belongs to
the range that its first byte lies in, so that ranges can be cut anywhere:

    a file `ab\\ncd\\n` as ranges [0, 2) [2, 4) [4, 6): the lines `ab`, `cd` and none
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tokenmill.arrow import read_only
from tokenmill.kernels.lines import PADDING, end_of_line
from tokenmill.transforms.decompress import open_stored, read_blocks, reading
from tokenmill.transforms.document_limit import HEAD_BYTES, LongLine, reject_long
from tokenmill.transforms.read_batches import DocumentBatch, reject_batch
from tokenmill.transforms.splits import DOCUMENT_BYTES, Range, ReadOptions, SourceFile

BOM = b"\xef\xbb\xbf"
JSON_SPACE = b" \t\r\n"

#: How much is read at once where only the end of a line is looked for.
_SEARCH_BYTES = 64 << 10
#: How much a decoder gives at once.
_DECODED_BYTES = 1 << 20

Bytes = npt.NDArray[np.uint8]
Fill = Callable[[memoryview], int]


def read_line_blocks(part: Range, block_bytes: int, most: int = DOCUMENT_BYTES) -> Iterator[tuple[int, Bytes | LongLine]]:
    """Yield the lines of a range as (byte position, block); blocks are as `tokenmill.kernels.lines` says.

    A block holds about `block_bytes` (a longer line is held whole), and is only valid until the next one is asked for. A line
    that is far longer than `most` and than a block is read over: a `LongLine` stands in its place. Whether other lines have more
    than `most` bytes is for the reader to find out. Raises `UnreadableFileError`.
    """
    start, end = _find_line_start(part), None if part.file.is_stream else part.end
    if start is None:
        return
    with _open_filler(part.file, start) as fill:
        for offset, block in _fill_blocks(fill, start=start, end=end, block_bytes=block_bytes, most=most + len(BOM)):
            if isinstance(block, LongLine):
                yield _strip_line(offset, block)
                continue
            mark = len(BOM) if offset == 0 and block[: len(BOM)].tobytes() == BOM else 0
            if block.size > mark + PADDING:
                yield offset + mark, block[mark:]


def _strip_line(offset: int, line: LongLine) -> tuple[int, LongLine]:
    """Where a line begins, and the line, without a byte order mark."""
    mark = len(BOM) if offset == 0 and line.head.startswith(BOM) else 0
    return offset + mark, LongLine(line.size - mark, line.head[mark:])


def reject_line(file: SourceFile, row: int, offset: int, line: LongLine, options: ReadOptions) -> DocumentBatch:
    """The batch that accounts for a line that was read over."""
    return reject_batch(reject_long(file.name, row, offset, line.size, line.head, options.max_document_bytes))


def _find_line_start(part: Range) -> int | None:
    """Position of the first line that begins inside the range; None when it is empty or a longer line covers all of it."""
    if part.start == 0 or part.file.is_stream:
        return 0 if part.end or part.file.is_stream else None
    position = part.start - 1
    for block in read_blocks(part.file, start=position, block_bytes=_SEARCH_BYTES):
        found = block.find(b"\n", 0, part.end - 1 - position)
        if found >= 0:
            return position + found + 1
        position += len(block)
        if position >= part.end - 1:
            break
    return None


@contextlib.contextmanager
def _open_filler(file: SourceFile, start: int) -> Iterator[Fill]:
    """What writes a file's next bytes (decompressed, as UTF-8), from `start` on, into the memory it is given.

    It returns how many, 0 at the end.
    """
    if file.is_stream:
        yield _fill_from(read_blocks(file, block_bytes=_DECODED_BYTES))
        return
    with reading(file), contextlib.closing(open_stored(file)) as stream:
        stream.seek(start)
        yield lambda room: _read_into(stream, room)


def _read_into(stream: IO[bytes] | Any, room: memoryview) -> int:
    if hasattr(stream, "readinto"):
        return int(stream.readinto(room))
    found = stream.read(len(room))
    room[: len(found)] = found
    return len(found)


def _fill_from(blocks: Iterator[bytes]) -> Fill:
    rest = memoryview(b"")

    def fill(room: memoryview) -> int:
        nonlocal rest
        rest = rest or memoryview(next(blocks, b""))
        count = min(len(rest), len(room))
        room[:count] = rest[:count]
        rest = rest[count:]
        return count

    return fill


def _fill_blocks(
    fill: Fill, *, start: int, end: int | None, block_bytes: int, most: int
) -> Iterator[tuple[int, Bytes | LongLine]]:
    """Cut behind the last newline that is there and keep the rest for the next block. Ends behind the line that reaches `end`."""
    buffer = bytearray(block_bytes + PADDING)
    offset, held, searched = start, 0, 0
    while True:
        buffer = _make_room(buffer, held)
        full = block_bytes if held < block_bytes else len(buffer) - PADDING
        size = _next_size(offset + held, end=end, most=full - held)
        filled = held + fill(memoryview(buffer)[held : held + size])
        if filled == searched:
            break
        final = -1 if end is None else buffer.find(b"\n", max(searched, end - 1 - offset), filled)
        cut = (buffer.rfind(b"\n", searched, filled) if final < 0 else final) + 1
        held = searched = filled - cut
        if cut:
            yield offset, _view(buffer, cut)
            if final >= 0:
                return
            offset += cut
            buffer[:held] = buffer[cut:filled]
        elif held > max(most + len(b"\r\n"), block_bytes):
            line, length, held = _skip_line(fill, buffer, held)
            searched = 0
            yield offset, line
            offset += length
            if end is not None and offset >= end:
                return
    if held:
        buffer[held] = b"\n"[0]
        yield offset, _view(buffer, held)


def _skip_line(fill: Fill, buffer: bytearray, held: int) -> tuple[LongLine, int, int]:
    """Read on to the end of a line of which `held` bytes are in the buffer: the line, how far it goes, and how many bytes of the
    next lines are in the buffer now.
    """
    head, size, last = bytes(buffer[: min(held, HEAD_BYTES)]), held, buffer[held - 1 : held]
    room = memoryview(buffer)[: min(_DECODED_BYTES, len(buffer) - PADDING)]
    while filled := fill(room):
        found = buffer.find(b"\n", 0, filled)
        last = buffer[found - 1 : found] if found > 0 else last if found == 0 else buffer[filled - 1 : filled]
        size += filled if found < 0 else found
        if found >= 0:
            rest = filled - found - 1
            buffer[:rest] = buffer[found + 1 : filled]
            return _end_line(head, size, last), size + 1, rest
    return _end_line(head, size, last), size, 0


def _end_line(head: bytes, size: int, last: bytearray) -> LongLine:
    r"""A line of `size` bytes without `\n`, the last of which may be `\r`."""
    size -= last == b"\r"
    return LongLine(size, head[:size])


def _make_room(buffer: bytearray, held: int) -> bytearray:
    """The buffer, or one twice as large with the same `held` bytes when it is full of them."""
    if held + PADDING < len(buffer):
        return buffer
    larger = bytearray(2 * held + PADDING)
    larger[:held] = buffer[:held]
    return larger


def _next_size(position: int, *, end: int | None, most: int) -> int:
    """How much to read. Beyond `end` only the rest of the last line is needed."""
    if end is None:
        return most
    return min(most, end - position if position < end else _SEARCH_BYTES)


def _view(buffer: bytearray, size: int) -> Bytes:
    return read_only(np.frombuffer(buffer, np.uint8, size + PADDING))


def line_at(block: Bytes, start: int) -> bytes:
    r"""The line that begins at `start`, without its `\n`."""
    return block[start : end_of_line(block, start)].tobytes()


def iterate_lines(block: Bytes) -> Iterator[bytes]:
    r"""The lines of a block without their `\n`."""
    position = 0
    while position < block.size - PADDING:
        line = line_at(block, position)
        yield line
        position += len(line) + 1
