"""Decoding of zstd files, frame by frame, so that what a frame asks for and where it ends are known.

    frame          magic, header, blocks of a 3-byte header and their data, check sum
    skippable      magic, length, as many bytes of no meaning

A frame's header says how far back its blocks refer, and a decoder keeps that much of the text: its window. A few bytes can ask
for 2 GB, so frames with windows above `SourceFile.max_window_bytes` are refused by their headers. The decoder itself is libzstd.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NoReturn, cast

import zstandard

from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.transforms.splits import SourceFile

MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
#: libzstd takes no larger window, whatever it is told.
MOST_WINDOW_BYTES = 1 << zstandard.WINDOWLOG_MAX
_LONGEST_HEADER = 18
_RLE_BLOCK = 1
#: How much of a file is shown where it is not what it should be.
_SHOWN_BYTES = 8
#: More than any block has.
_READ_BYTES = 256 << 10


def window_bytes_of(window_mb: float) -> int:
    """The option `--max-window` in bytes."""
    if not 0 < window_mb <= MOST_WINDOW_BYTES >> 20:
        raise UsageError(f"--max-window {window_mb}: give a size in MB, above 0 and up to {MOST_WINDOW_BYTES >> 20:,}")
    return max(1 << 10, int(window_mb * (1 << 20)))


def begins_frame(head: bytes) -> bool:
    """Whether bytes begin a frame, or one that readers skip."""
    return head.startswith(MAGIC) or head[1:4] == _SKIPPABLE_MAGIC


def decode_frames(stream: IO[bytes], file: SourceFile, block_bytes: int) -> Iterator[bytes]:
    """What all frames of a stream hold, in blocks of at most `block_bytes`.

    Raises EOFError for a frame that is cut, OSError for other bytes between frames, `zstandard.ZstdError` for damage and
    `UnreadableFileError` for a window that is too large.
    """
    decoder = zstandard.ZstdDecompressor(max_window_size=file.max_window_bytes)
    while magic := stream.read(len(MAGIC)):
        if magic == MAGIC:
            with decoder.stream_reader(cast(IO[bytes], _Frame(stream, file)), read_size=_READ_BYTES) as reader:
                while block := reader.read(block_bytes):
                    yield block
        elif magic[1:] == _SKIPPABLE_MAGIC:
            _skip(stream, int.from_bytes(_take(stream, 4), "little"))
        elif MAGIC.startswith(magic):
            _refuse_cut()
        else:
            raise OSError(describe_rest(stream.tell() - len(magic), magic + stream.read(_SHOWN_BYTES - len(magic)), "zstd"))


class _Frame:
    """The bytes of one frame, whose magic was read, for a reader that asks for the next ones; empty behind its end."""

    def __init__(self, stream: IO[bytes], file: SourceFile) -> None:
        self._parts = _read_frame(stream, file)

    def read(self, size: int) -> bytes:
        return next(self._parts, b"")


def _read_frame(stream: IO[bytes], file: SourceFile) -> Iterator[bytes]:
    """A frame as it stands in the file: its header, then one block after the other. Only their lengths are looked at."""
    start = stream.tell() - len(MAGIC)
    header = MAGIC + _take(stream, 1)
    header += _take(stream, zstandard.frame_header_size(header) - len(header))
    has_checksum = check_window(file, header, start)
    yield header
    is_last = False
    while not is_last:
        head = _take(stream, 3)
        number = int.from_bytes(head, "little")
        is_last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
        yield head + _take(stream, 1 if kind == _RLE_BLOCK else size)
    if has_checksum:
        yield _take(stream, 4)


def check_window(file: SourceFile, header: bytes, start: int = 0) -> bool:
    """Refuse a frame, of which `header` is the beginning, for a window that is too large; returns whether it has a check sum.

    What else may be wrong with a header is for the decoder to say.
    """
    try:
        found = zstandard.get_frame_parameters(header[:_LONGEST_HEADER])
    except zstandard.ZstdError as error:
        if "memory" in str(error):
            _refuse_window(file, start, None)
        return False
    if found.window_size > min(file.max_window_bytes, MOST_WINDOW_BYTES):
        _refuse_window(file, start, found.window_size)
    return bool(found.has_checksum)


def _refuse_window(file: SourceFile, start: int, window: int | None) -> NoReturn:
    if window is None or window > MOST_WINDOW_BYTES:
        raise UnreadableFileError(
            f"{file.path}: the zstd frame at byte {start:,} needs a window of more than {MOST_WINDOW_BYTES >> 20:,} MB, which "
            "zstd does not read; compress it again, or leave it out"
        )
    needed = -(-window >> 20)
    raise UnreadableFileError(
        f"{file.path}: the zstd frame at byte {start:,} needs a window of {needed:,} MB, more than the "
        f"{file.max_window_bytes >> 20:,} MB of --max-window; give --max-window {needed}, for which each worker takes up to that "
        "much memory, or compress it again without --long"
    )


def describe_rest(end: int, rest: bytes, tool: str) -> str:
    """What to say of bytes behind compressed data that ends at byte `end`."""
    return (
        f"its compressed data ends at byte {end:,}, and {rest[:_SHOWN_BYTES]!r} follows, which is not {tool}; "
        f"`head -c {end} FILE` gives the file without it"
    )


def _take(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        _refuse_cut()
    return data


def _skip(stream: IO[bytes], size: int) -> None:
    while size:
        size -= len(_take(stream, min(size, _READ_BYTES)))


def _refuse_cut() -> NoReturn:
    raise EOFError("truncated: the file ends in the middle of a zstd frame")
