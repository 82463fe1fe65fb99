"""Normalizing text: each character by itself (`map_characters`), and the four Unicode forms (`apply_form` in compose.py).

Both go over a batch of documents and write the new text to `out` (uint8[m]) and where its documents end to `out_ends` (int64[d]).
`state` (int64[4]) says where to go on: the document, the position in the text, how much of `out` is written, and the most room
that was missing when a call ended before the last document. Then the caller gives a larger `out` with the same beginning.

`origins` is an int64[m, 2] array, or one of no rows where nobody asks: for each byte written, where the characters that it came
from begin and end in `text`. Bytes that are no UTF-8 stay as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel, part
from tokenmill.kernels.intrinsics import borrow, copy_64_bytes, count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_bytes import decode_character

#: Bits of `kinds` in the table: a nonspacing mark (Mn); a control, format or private use character (Cc, Cf, Co).
NONSPACING, CONTROL = 1, 2
DOCUMENT, POSITION, WRITTEN, MISSING = 0, 1, 2, 3
#: In `CharacterMap.ascii`: not one ASCII character.
LOOK = 0xFF
BLOCK = 64


class CharacterMap(NamedTuple):
    """What becomes of each character by itself.

    `ascii`: uint8[256], what an ASCII character becomes, or LOOK; LOOK for all other bytes. `entries`: int32[0x110000], the entry
    of a code point that changes, or -1. Entry e is data[starts[e] : starts[e + 1]] (uint8, int64), UTF-8, nothing for a character
    that goes. `keeps_ascii`: whether no ASCII character changes; `longest`: bytes of the longest entry, 4 at least.
    """

    ascii: np.ndarray
    entries: np.ndarray
    data: np.ndarray
    starts: np.ndarray
    keeps_ascii: np.bool_
    longest: np.int64


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


@part
def map_ascii(ascii_map, text, position, end, out, written, origins):
    """As `copy_ascii`, each character through the map, as far as they are LOOK neither."""
    ascii_map, text, out, origins = borrow(ascii_map), borrow(text), borrow(out), borrow(origins)
    first = position
    while position < end and position + BLOCK <= text.size and written + BLOCK <= out.size:
        found = np.uint8(0)
        for byte in range(BLOCK):
            target = ascii_map[text[position + byte]]
            out[written + byte] = target
            found = max(found, target)
        run = min(BLOCK, end - position)
        if found == LOOK:
            run = 0
            while position + run < end and ascii_map[text[position + run]] != LOOK:
                run += 1
        note_copied(origins, written, run, position)
        position, written = position + run, written + run
        if run < BLOCK:
            break
    return position - first


@part
def map_character(table, text, position, end, out, written, origins):
    """One character; returns its length and where `out` ends then."""
    table, text, out, origins = borrow(table), borrow(text), borrow(out), borrow(origins)
    code_point, length = np.int64(text[position]), np.int64(1)
    if code_point >= 0x80:
        code_point, length = decode_character(text, position, end)
    entry = table.entries[code_point] if code_point >= 0 else np.int32(-1)
    if entry < 0:
        return length, copy_character(text, position, length, out, written, origins)
    first = written
    for place in range(table.starts[entry], table.starts[entry + 1]):
        out[written] = table.data[place]
        written += 1
    note_origins(origins, first, written, position, position + length)
    return length, written


@kernel
def map_characters(table, text, doc_ends, state, out, out_ends, origins):
    """Put each character of a batch through `table`, from `state` on; arrays as the module says."""
    table, text, doc_ends, state = borrow(table), borrow(text), borrow(doc_ends), borrow(state)
    out, out_ends, origins = borrow(out), borrow(out_ends), borrow(origins)
    document, position, written = state[DOCUMENT], state[POSITION], state[WRITTEN]
    missing = np.int64(0)
    while document < doc_ends.size and not missing:
        end = doc_ends[document]
        while position < end and not missing:
            if text[position] < 0x80:
                if table.keeps_ascii:
                    run = copy_ascii(text, position, end, out, written, origins)
                else:
                    run = map_ascii(table.ascii, text, position, end, out, written, origins)
                position, written = position + run, written + run
            if position < end:
                if written + table.longest > out.size:
                    missing = table.longest
                else:
                    length, written = map_character(table, text, position, end, out, written, origins)
                    position += length
        if not missing:
            out_ends[document] = written
            document += 1
    state[DOCUMENT], state[POSITION], state[WRITTEN], state[MISSING] = document, position, written, missing


@kernel
def changes_any(entries, text):
    """Whether `entries` (as in `CharacterMap`), which leaves ASCII alone, changes a character of `text` (uint8[n])."""
    entries, text = borrow(entries), borrow(text)
    position = np.int64(0)
    while position < text.size:
        if text[position] < 0x80:
            run = np.int64(1)
            if position + BLOCK <= text.size:
                run = count_trailing_zeros(mark_bytes_between(text, position, 0x80, 0xFF))
            position += run
            continue
        code_point, length = decode_character(text, position, text.size)
        if code_point >= 0 and entries[code_point] >= 0:
            return True
        position += length
    return False
