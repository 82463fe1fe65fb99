"""Normalizing text, what is common to both ways: characters by themselves (character_map.py), Unicode forms (compose.py).

Both go over a batch of documents and write the new text to `out` (uint8[m]) and where its documents end to `out_ends` (int64[d]).
`state` (int64[8]) says where to go on: the document, the position in the text, how much of `out` is written, and the most room
that was missing when a call ended before the last document. Then the caller gives a larger `out` with the same beginning; what a
negative number asks for, the kernels say.

`origins` is an int64[m, 2] array, or one of no rows where nobody asks: for each byte written, where the characters that it came
from begin and end in `text`. Bytes that are no UTF-8 stay as they are.
"""

from __future__ import annotations

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import borrow, copy_64_bytes, count_trailing_zeros, mark_bytes_between

#: Bits of `kinds` in the table: a nonspacing mark (Mn); a control, format or private use character (Cc, Cf, Co).
NONSPACING, CONTROL = 1, 2
DOCUMENT, POSITION, WRITTEN, MISSING = 0, 1, 2, 3
STATE_SIZE = 8
BLOCK = 64


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


@part
def copy_ascii(text, position, end, out, written, origins):
    """Copy ASCII from `position` on as far as it goes, 64 bytes at a time; returns how many bytes.

    Some are left to the caller where one of the arrays has no 64 bytes more.
    """
    text, out, origins = borrow(text), borrow(out), borrow(origins)
    first = position
    while position < end and position + BLOCK <= text.size and written + BLOCK <= out.size:
        copy_64_bytes(text, position, out, written)
        run = min(count_trailing_zeros(mark_bytes_between(text, position, 0x80, 0xFF)), end - position)
        note_copied(origins, written, run, position)
        position, written = position + run, written + run
        if run < BLOCK:
            break
    return position - first
