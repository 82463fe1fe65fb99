"""Normalizing text, what is common to both ways: characters by themselves (character_map.py), Unicode forms (forms.py).

Both go over a batch of documents and write the new text to `out` (uint8[m]) and where its documents end to `out_ends` (int64[d]).
`state` (int64[8]) says where to go on: the document, the position in the text, how much of `out` is written, and the room that
was missing when a call ended before the last document. The caller then gives arrays with room for so many bytes more than are
written, and the same beginning; what a negative number asks for, the kernels say.

`origins` is an int64[k, 2] array, or one of no rows where nobody asks: for each byte written, where the characters that it came
from begin and end in `text`. Its length need not be that of `out`: `room_of` says how many bytes both have room for. Bytes that
are no UTF-8 stay as they are.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import load_u64
from tokenmill.kernels.scan_bytes import decode_character

#: Bits of `kinds` in the table: a nonspacing mark (Mn); a control, format or private use character (Cc, Cf, Co).
NONSPACING, CONTROL = 1, 2
DOCUMENT, POSITION, WRITTEN, MISSING = 0, 1, 2, 3
STATE_SIZE = 8
BLOCK = 64

_TWO_BYTES, _THREE_BYTES = np.uint64(0xFFFF), np.uint64(0xFFFFFF)


@part
def room_of(out, origins):
    """How many bytes may be written: as many as the shorter of the arrays holds that are written to."""
    return min(out.size, origins.shape[0]) if origins.shape[0] else out.size


@part
def note_origins(origins, start, end, first, last):
    """Written bytes [start, end) came from text[first:last]."""
    if origins.shape[0]:
        for byte in range(start, end):
            origins[byte, 0] = first
            origins[byte, 1] = last


@part
def copy_character(text, position, length, out, written, origins):
    """Copy one character; returns where it ends in `out`."""
    for byte in range(length):
        out[written + byte] = text[position + byte]
    note_origins(origins, written, written + length, position, position + length)
    return written + length


@inline_part
def note_copied(origins, written, count, position):
    """`count` bytes were written one for one."""
    if origins.shape[0]:
        for byte in range(count):
            origins[written + byte, 0] = position + byte
            origins[written + byte, 1] = position + byte + 1


@inline_part
def read_two(text, position):
    """Code point of a character of two bytes at `position`, where eight must lie; -1 if there is none: C3 A9 gives 0xE9."""
    word = np.int64(load_u64(text, position) & _TWO_BYTES)
    valid = word & 0xC0E0 == 0x80C0 and word & 0x1E != 0
    return (word & 0x1F) << 6 | word >> 8 & 0x3F if valid else np.int64(-1)


@inline_part
def read_three(text, position):
    """As `read_two`, of three bytes: E4 BD A0 gives 0x4F60. Surrogates count."""
    word = np.int64(load_u64(text, position) & _THREE_BYTES)
    point = (word & 0x0F) << 12 | word >> 2 & 0xFC0 | word >> 16 & 0x3F
    return point if word & 0xC0C0F0 == 0x8080E0 and point >= 0x800 else np.int64(-1)


@inline_part
def read_character(text, position, end):
    """Code point (-1: no UTF-8) and length of a character beyond ASCII at `position`."""
    if position + 8 <= text.size:
        if text[position] < 0xE0:
            point = read_two(text, position)
            if point >= 0 and position + 2 <= end:
                return point, np.int64(2)
        else:
            point = read_three(text, position)
            if point >= 0 and position + 3 <= end and point >> 11 != 0x1B:
                return point, np.int64(3)
    point, length = decode_character(text, position, end)
    return np.int64(point), np.int64(length)
