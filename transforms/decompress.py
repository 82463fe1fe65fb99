"""Opening input files: blocks of bytes out of any Beam file system, compressed or not, with every fault as `UnreadableFileError`.

A compressed file is read to its end and checked there. The usual readers for these formats are not used, since each forgives what
would lose part of a corpus: `bz2.open` and `lzma.open` skip whatever follows the last good member, Beam's own reader returns the
half of a .gz that was cut.
"""

from __future__ import annotations

import bz2
import contextlib
import lzma
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from zstandard import ZstdError

from tokenmill.errors import UnreadableFileError
from tokenmill.transforms.encodings import turn_into_utf_8
from tokenmill.transforms.splits import SourceFile
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.zstd_frames import MAGIC, begins_frame, decode_frames, describe_rest

#: How much is asked of a file system at once where the reader has no wish of its own.
BLOCK_BYTES = 8 << 20

#: How much compressed input a decoder is given at once: the output of one step stays small beside a block.
_COMPRESSED_BYTES = 256 << 10

_TOOLS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
_MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00", "zst": MAGIC}
_MAGIC_BYTES = max(map(len, _MAGIC.values()))


@contextlib.contextmanager
def reading(file: SourceFile) -> Iterator[None]:
    """Turn whatever goes wrong while a file is opened, read or decoded into an `UnreadableFileError` that names it."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ZstdError, pa.ArrowException, MemoryError) as error:
        # Of memory there is too little when a damaged length makes Arrow ask for more than any machine has.
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UnreadableFileError(
            f"{file.path}: cannot be read as {_kind(file)}: {_on_one_line(reason)}; make it anew, or leave it out"
        ) from error


def _on_one_line(reason: str) -> str:
    """A library's message, which may have several lines and hold bytes of the file."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in reason).split())


def _kind(file: SourceFile) -> str:
    return f"{file.format} ({_TOOLS[file.compression]})" if file.compression else file.format


def open_stored(file: SourceFile) -> IO[bytes]:
    """Open a file's bytes as they are stored. Seekable; the caller closes it and holds `reading(file)` around its use."""
    stream: IO[bytes] = FileSystems.open(file.path, compression_type=CompressionTypes.UNCOMPRESSED)
    return stream


def read_blocks(file: SourceFile, *, start: int = 0, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a file's bytes, decompressed and as UTF-8, in blocks of 1 to `block_bytes` bytes.

    They begin at `start`, which is 0 for a file that is a stream. A compressed file is checked at its end.

    Raises `UnreadableFileError` for a file that is missing, cut, damaged, not of its format, or followed by other bytes.
    """
    blocks = _read_stored(file, start, block_bytes)
    return turn_into_utf_8(blocks, file.encoding, block_bytes) if file.encoding else blocks


def _read_stored(file: SourceFile, start: int, block_bytes: int) -> Iterator[bytes]:
    with reading(file), contextlib.closing(open_stored(file)) as stream:
        if file.compression:
            yield from _regroup(_decompress(stream, file, block_bytes), block_bytes)
        else:
            stream.seek(start)
            while block := stream.read(block_bytes):
                yield block


def _regroup(blocks: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """Join what decoders give in bits (a .gz of many small members) until it is worth a reader's while."""
    held: list[bytes] = []
    size = 0
    for block in blocks:
        if held and size + len(block) > block_bytes:
            yield b"".join(held)
            held, size = [], 0
        held.append(block)
        size += len(block)
    if held:
        yield b"".join(held)


def _decompress(stream: IO[bytes], file: SourceFile, block_bytes: int) -> Iterator[bytes]:
    head = stream.read(_MAGIC_BYTES)
    stream.seek(0)
    check_compression(file, head)
    if file.compression == "zst":
        return decode_frames(stream, file, block_bytes)
    return _decode_members(stream, file.compression, block_bytes)


def check_compression(file: SourceFile, head: bytes) -> None:
    """Say what is wrong in plain words where a decoder would speak of headers: `.gz` over plain text, an empty `.xz`."""
    tool, magic = _TOOLS[file.compression], _MAGIC[file.compression]
    if begins_frame(head) if file.compression == "zst" else head.startswith(magic):
        return
    what = "is empty" if not head else f"begins with {head[: len(magic)]!r}"
    raise UnreadableFileError(
        f"{file.path}: named .{file.compression} but is not {tool}: it {what}; rename it by what it holds, or make it anew"
    )


class _GzipMember:
    """`zlib` with the interface of the decompressors of `bz2` and `lzma`, for one member of a .gz file."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(wbits=31)
        self._pending = False

    def decompress(self, data: bytes, max_length: int) -> bytes:
        output = self._inflater.decompress(self._inflater.unconsumed_tail + data, max_length)
        self._pending = len(output) == max_length or bool(self._inflater.unconsumed_tail)
        return output

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._pending


_MEMBERS: dict[str, Callable[[], Any]] = {
    "gz": _GzipMember,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ),
}


def _decode_members(stream: IO[bytes], compression: str, block_bytes: int) -> Iterator[bytes]:
    """Decode one member after the other. gzip and xz allow zero bytes behind a member (tape blocks, padding), bzip2 does not."""
    member, data = None, b""
    while data := data or stream.read(_COMPRESSED_BYTES):
        if member is None:
            data = _find_member(stream, data, compression)
            member = _MEMBERS[compression]() if data else None
        if member is not None:
            yield from _feed(member, data, block_bytes)
            data, member = (member.unused_data, None) if member.eof else (b"", member)
    if member is not None:
        raise EOFError("truncated: the file ends in the middle of a compressed member")


def _find_member(stream: IO[bytes], data: bytes, compression: str) -> bytes:
    """What begins with a member, behind the padding that `data` may begin with; empty at the end of the file.

    Raises OSError where something else follows.
    """
    padding, magic = b"" if compression == "bz2" else b"\0", _MAGIC[compression]
    while len(data := data.lstrip(padding)) < len(magic) and (more := stream.read(_COMPRESSED_BYTES)):
        data += more
    if data and not data.startswith(magic):
        raise OSError(describe_rest(stream.tell() - len(data), data, _TOOLS[compression]))
    return data


def _feed(member: Any, data: bytes, block_bytes: int) -> Iterator[bytes]:
    """Give one decoder its input and take out all it can say to that, `block_bytes` at a time."""
    while True:
        if output := member.decompress(data, block_bytes):
            yield output
        if member.eof or member.needs_input:
            return
        data = b""


@contextlib.contextmanager
def open_seekable(file: SourceFile) -> Iterator[IO[bytes]]:
    """Open a file for random access, as Parquet needs. A compressed one is first unpacked into a temporary file."""
    if not file.compression:
        with reading(file), contextlib.closing(open_stored(file)) as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as unpacked:
        for block in read_blocks(file):
            unpacked.write(block)
        unpacked.seek(0)
        with reading(file):
            yield unpacked
