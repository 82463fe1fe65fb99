"""JSON documents as lines: an array of objects, or objects printed over many lines, are cut into records as they stream by.

    [                                     {"text": "a"}
      {"text": "a"},          becomes     {"text": "b"}
      {"text": "b"}
    ]

Nothing is parsed here. Brackets are counted outside of strings; commas between elements and the ends of objects become newlines,
and the newlines inside a record become spaces. So every byte keeps its place, and the reader of JSON lines does the rest.
An element that is no JSON is a reject of its own as long as its brackets and quotes are balanced.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tokenmill.arrow import read_only
from tokenmill.errors import UnreadableFileError
from tokenmill.kernels.lines import PADDING
from tokenmill.transforms.decompress import read_blocks
from tokenmill.transforms.line_blocks import BOM, JSON_SPACE, Bytes
from tokenmill.transforms.parse_json import RejectedLineError, is_array_of_objects, load_json
from tokenmill.transforms.splits import SourceFile

#: How much of a file is looked at to tell a document from lines.
_HEAD_BYTES = 64 << 10
_QUOTE, _BACKSLASH, _COMMA, _NEWLINE, _RETURN, _SPACE = b'"\\,\n\r '
#: What stands for a newline inside a string, which JSON does not allow either.
_CONTROL = 1


def is_json_document(file: SourceFile) -> bool:
    """Whether a file is a JSON array, or an object printed over many lines; `[1, 2]` alone in the first line is a bad record."""
    head = next(read_blocks(file, block_bytes=_HEAD_BYTES), b"").removeprefix(BOM).lstrip(JSON_SPACE)
    first, _, rest = head.partition(b"\n")
    if first.strip(JSON_SPACE) == b"{":
        return True
    if first[:1] != b"[":
        return False
    try:
        value = load_json(first.decode("utf-8", "replace"))
    except RejectedLineError:
        return True
    return (value == [] or is_array_of_objects(value)) and not rest.strip(JSON_SPACE)


def read_record_blocks(file: SourceFile, block_bytes: int, most: int) -> Iterator[tuple[int, Bytes]]:
    """The records of a JSON document as (byte position, block of lines); blocks are as `tokenmill.kernels.lines` says.

    Raises `UnreadableFileError` for a document that is cut, that other bytes follow, or that has a record far larger than `most`.
    """
    document = _Document(file)
    held, offset = b"", 0
    for data in read_blocks(file, block_bytes=block_bytes):
        held += data
        if len(held) < 2 * document.scanned:  # A record that is longer than a block is not scanned again for each block.
            continue
        lines, taken = document.take(held, final=False)
        if lines is not None:
            yield offset, lines
        held, offset = held[taken:], offset + taken
        document.scanned = len(held)
        if len(held) > 2 * max(most, block_bytes):
            raise UnreadableFileError(
                f"{file.path}: the record at byte {offset} is larger than {most >> 20} MB, or its brackets or "
                "quotes do not close; mend it, or write an object per line"
            )
    lines, taken = document.take(held, final=True)
    if lines is not None:
        yield offset, lines
    document.finish(held[taken:])


class _Document:
    """Cuts one document into records. `base` is the number of brackets around each, None before the first byte is seen."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._base: int | None = None
        self._ended = False
        self.scanned = 0

    def take(self, data: bytes, *, final: bool) -> tuple[Bytes | None, int]:
        """The whole records at the beginning of `data` as a block of lines, and how many bytes they are."""
        if self._ended:
            self._refuse_rest(data)
            return None, len(data)
        skipped = 0
        if self._base is None:
            skipped = self._open(data)
        if self._base is None or skipped == len(data):
            return None, skipped
        lines, taken = self._cut(np.frombuffer(data, np.uint8)[skipped:], self._base, final=final)
        return _pad(lines, skipped), skipped + taken

    def finish(self, rest: bytes) -> None:
        if self._ended or (self._base == 0 and not rest.strip(JSON_SPACE)):
            self._refuse_rest(rest)
            return
        raise UnreadableFileError(f"{self._file.path}: ends inside its JSON document, so it is cut or damaged; make it anew")

    def _open(self, data: bytes) -> int:
        """Find the first bracket; returns how many bytes are read over."""
        if BOM.startswith(data[: len(BOM)]) and len(data) < len(BOM):  # The rest of the mark comes with the next block.
            return 0
        rest = data.removeprefix(BOM).lstrip(JSON_SPACE)
        if rest:
            self._base = int(rest[:1] == b"[")
        return len(data) - len(rest) + (self._base or 0)

    def _cut(self, data: Bytes, base: int, *, final: bool) -> tuple[Bytes, int]:
        inside = _find_strings(data)
        depth = base + _count_brackets(data, inside)
        newline = (data == _NEWLINE) | (data == _RETURN)
        lines = np.where(newline, np.where(inside, np.uint8(_CONTROL), np.uint8(_SPACE)), data)
        if base == 0:
            return self._end_objects(data, lines, depth, final=final)
        closed = np.flatnonzero(depth == 0)[:1]
        ends = np.flatnonzero((data == _COMMA) & ~inside & (depth == 1))
        if closed.size:
            self._ended = True
            ends = np.append(ends[ends < closed[0]], closed)
            self._refuse_rest(data[closed[0] + 1 :].tobytes())
        lines[ends] = _NEWLINE
        taken = int(ends[-1]) + 1 if ends.size else 0
        return lines[:taken], data.size if self._ended else taken

    def _end_objects(self, data: Bytes, lines: Bytes, depth: npt.NDArray[np.int32], *, final: bool) -> tuple[Bytes, int]:
        """Objects one after the other: the white space behind each becomes a newline."""
        ends = np.flatnonzero((np.diff(depth, prepend=np.int32(0)) < 0) & (depth <= 0)) + 1
        if final and ends.size and ends[-1] == data.size:
            lines, ends = np.append(lines, np.uint8(_NEWLINE)), ends
        ends = ends[ends < lines.size]
        ends = ends[np.isin(lines[ends], (_SPACE, ord("\t"), _NEWLINE))]
        lines[ends] = _NEWLINE
        taken = int(ends[-1]) + 1 if ends.size else 0
        return lines[:taken], min(taken, data.size)

    def _refuse_rest(self, rest: bytes) -> None:
        if rest.strip(JSON_SPACE):
            raise UnreadableFileError(
                f"{self._file.path}: other bytes follow the end of its JSON array; "
                "write a file for each array, or an object per line"
            )


def _find_strings(data: Bytes) -> npt.NDArray[np.bool_]:
    """bool[n]: the bytes inside strings, with the quote that opens each and without the one that closes it."""
    quotes = data == _QUOTE
    slashes = np.flatnonzero(data == _BACKSLASH)
    if slashes.size:  # Of a run of backslashes every second one is escaped itself.
        first = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
        lengths = np.diff(np.append(first, slashes.size))
        behind = (slashes[first] + lengths)[lengths % 2 == 1]
        quotes[behind[behind < data.size]] = False
    return (np.cumsum(quotes, dtype=np.uint8) & 1).astype(np.bool_)


def _count_brackets(data: Bytes, inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """int32[n]: how many brackets are open behind each byte. The two kinds differ by one bit: `[` and `{`, `]` and `}`."""
    either = data | 0x20
    steps = (either == ord("{")).astype(np.int8) - (either == ord("}")).astype(np.int8)
    steps[inside] = 0
    return np.cumsum(steps, dtype=np.int32)


def _pad(lines: Bytes, skipped: int) -> Bytes | None:
    """A block of lines, with blanks in place of what was read over in front of the first record."""
    if not lines.size:
        return None
    block = np.zeros(skipped + lines.size + PADDING, np.uint8)
    block[:skipped] = _SPACE
    block[skipped : skipped + lines.size] = lines
    return read_only(block)
