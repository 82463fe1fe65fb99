"""What becomes of each character by itself, over batches as `normalize.py` says: several normalizers in one pass.

Nearly all characters stay as they are or become a few bytes that a table holds: ASCII goes 64 bytes at a time (`map_run`), what
is two or three bytes long by one look into `quick` and one store of eight bytes. All the rest, and the last bytes of arrays, goes
by `map_character`, one character at a time.

Decomposing (NFD) is such a map but for the order of marks. So the table says of marks which class they have, and the kernel stops
where one stands behind another of a higher class (`note_marks`). Marks that the map drops have no place in any order: where
accents are stripped, next to nothing is left to watch. `state` has four numbers more for this, of the last run of marks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel, part
from tokenmill.kernels.intrinsics import borrow, count_trailing_zeros, load_u64, mark_bytes_between, shift_64_bytes, store_u64
from tokenmill.kernels.normalize import (
    BLOCK,
    DOCUMENT,
    MISSING,
    POSITION,
    WRITTEN,
    copy_character,
    note_copied,
    note_origins,
    read_character,
    read_three,
    read_two,
    room_of,
)
from tokenmill.kernels.scan_bytes import decode_character

#: In `state`: where a run of marks ends in `out` (-1: nowhere), the class of its last; where it begins in the text and in `out`.
MARKS_END, LAST_CLASS, RUN_POSITION, RUN_WRITTEN = 4, 5, 6, 7
#: In `state[MISSING]`: the run of marks at `state[RUN_POSITION]` is not in order.
DISORDER = -1
#: In `CharacterMap.quick`: see what `entries` say.
CAREFUL = np.int64(-(2**63))
#: Bytes of an entry that are copied at once.
ENTRY_BYTES = 16
#: Where `CharacterMap.quick` has the number of bytes.
LENGTH_BIT = 56

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)


class CharacterMap(NamedTuple):
    """What becomes of each character.

    `entries`: int32[0x110000], the entry of a code point that changes or is a mark to watch, or -1. Entry e is
    data[starts[e] : starts[e + 1]] (uint8 with ENTRY_BYTES more behind it, int64), UTF-8, nothing for a character that goes;
    `classes`: uint8[e, 2], the combining classes of its first and last character, 0 where there is none.
    `quick`: int64[0x10000]: up to seven bytes, the lowest first, and their number from LENGTH_BIT on; -1 - entry; or CAREFUL.
    `shift`: what is added to the capitals of ASCII. `cleans`: whether of ASCII's controls tab, line feed and carriage return
    become spaces, and others are in `entries`. `others`: int64[k], of ASCII what these two rules do not tell.
    `longest`: bytes of the longest entry, 4 at least.
    """

    entries: np.ndarray
    data: np.ndarray
    starts: np.ndarray
    classes: np.ndarray
    quick: np.ndarray
    shift: np.int64
    cleans: np.bool_
    others: np.ndarray
    longest: np.int64


@inline_part
def map_block(table, text, position, end, out, written):
    """ASCII from `position` on, 64 bytes at most; returns how many. Both arrays must have 64 bytes."""
    shift_64_bytes(text, position, out, written, 0x41, 0x5A, table.shift)
    stops = mark_bytes_between(text, position, 0x80, 0xFF)
    for other in table.others:
        stops |= mark_bytes_between(text, position, other, other)
    if not table.cleans:
        return min(count_trailing_zeros(stops), end - position)
    white = mark_bytes_between(text, position, 0x09, 0x0A) | mark_bytes_between(text, position, 0x0D, 0x0D)
    stops |= ~(white | mark_bytes_between(text, position, 0x20, 0x7E))
    run = min(count_trailing_zeros(stops), end - position)
    if run < BLOCK:
        white &= (_ONE << np.uint64(run)) - _ONE
    while white:
        out[written + count_trailing_zeros(white)] = 0x20
        white &= white - _ONE
    return run


@part
def note_marks(table, entry, position, written, after, state):
    """Keep `state` for an entry that would fill out[written:after]; returns whether its marks are in order with those before."""
    first, last = np.int64(table.classes[entry, 0]), np.int64(table.classes[entry, 1])
    if not first | last:
        return True
    if first and state[MARKS_END] == written:
        if first < state[LAST_CLASS]:
            return False
    else:
        state[RUN_POSITION], state[RUN_WRITTEN] = position, written
    state[MARKS_END], state[LAST_CLASS] = (after if last else -1), last
    return True


@inline_part
def map_short(table, point, length, text, position, out, written, origins, state):
    """Map a character of two or three bytes; returns where it ends in `out`, -1 where it is to be left to `map_character`."""
    target = table.quick[point]
    if target >= 0:
        store_u64(out, written, np.uint64(target))
        after = written + (target >> LENGTH_BIT)
    else:
        if target == CAREFUL:
            return np.int64(-1)
        entry = -1 - target
        start = table.starts[entry]
        after = written + table.starts[entry + 1] - start
        if not note_marks(table, entry, position, written, after, state):
            return np.int64(-1)
        store_u64(out, written, load_u64(table.data, start))
        store_u64(out, written + 8, load_u64(table.data, start + 8))
    note_origins(origins, written, after, position, position + length)
    return after


@part
def map_run(table, text, position, end, out, written, origins, state):
    """Map what is simple from `position` on; returns where it ends in `text` and in `out`.

    Each length of characters has its own loop: where a loaded byte decides how far to go, each step waits for the one before.
    """
    table, text, out, origins, state = borrow(table), borrow(text), borrow(out), borrow(origins), borrow(state)
    room, last, keeps_spaces = room_of(out, origins) - BLOCK, min(end, text.size - 8), table.entries[0x20] < 0
    while position < last and written <= room:
        first = position
        if text[position] == 0x20 and text[position + 1] >= 0x80 and keeps_spaces:
            out[written] = 0x20
            note_copied(origins, written, 1, position)
            position, written = position + 1, written + 1
        elif text[position] < 0x80:
            if position + BLOCK > text.size:
                break
            run = map_block(table, text, position, end, out, written)
            note_copied(origins, written, run, position)
            position, written = position + run, written + run
            if position < last and text[position] < 0x80 and written <= room and table.quick[text[position]] != CAREFUL:
                after = map_short(table, text[position], 1, text, position, out, written, origins, state)
                if after < 0:
                    break
                position, written = position + 1, after
        while position + 2 <= last and written <= room:
            point = read_two(text, position)
            after = map_short(table, point, 2, text, position, out, written, origins, state) if point >= 0 else np.int64(-1)
            if after < 0:
                break
            position, written = position + 2, after
        while position + 3 <= last and written <= room:
            point = read_three(text, position)
            after = map_short(table, point, 3, text, position, out, written, origins, state) if point >= 0 else np.int64(-1)
            if after < 0:
                break
            position, written = position + 3, after
        if position == first:
            break
    return position, written


@part
def map_character(table, text, position, end, out, written, origins, state):
    """One character; returns its length, 0 where its marks are not in order, and where `out` ends then."""
    table, text, out, origins = borrow(table), borrow(text), borrow(out), borrow(origins)
    code_point, length = np.int64(text[position]), np.int64(1)
    if code_point >= 0x80:
        code_point, length = decode_character(text, position, end)
    entry = np.int64(table.entries[code_point]) if code_point >= 0 else np.int64(-1)
    if entry < 0:
        return np.int64(length), copy_character(text, position, length, out, written, origins)
    first, start, stop = written, table.starts[entry], table.starts[entry + 1]
    if not note_marks(table, entry, position, written, written + stop - start, state):
        return np.int64(0), written
    for place in range(start, stop):
        out[written] = table.data[place]
        written += 1
    note_origins(origins, first, written, position, position + length)
    return np.int64(length), written


@kernel
def map_characters(table, text, doc_ends, state, out, out_ends, origins):
    """Put each character of a batch through `table`, from `state` (int64[8]) on; arrays as `normalize.py` says."""
    table, text, doc_ends, state = borrow(table), borrow(text), borrow(doc_ends), borrow(state)
    out, out_ends, origins = borrow(out), borrow(out_ends), borrow(origins)
    document, position, written = state[DOCUMENT], state[POSITION], state[WRITTEN]
    missing = np.int64(0)
    while document < min(doc_ends.size, out_ends.size) and not missing:
        end = doc_ends[document]
        while position < end and not missing:
            position, written = map_run(table, text, position, end, out, written, origins, state)
            if position == end:
                break
            if written + table.longest > room_of(out, origins):
                missing = table.longest
                break
            length, written = map_character(table, text, position, end, out, written, origins, state)
            position += length
            if length == 0:
                missing = np.int64(DISORDER)
        if not missing:
            out_ends[document] = written
            state[MARKS_END] = -1
            document += 1
    state[DOCUMENT], state[POSITION], state[WRITTEN], state[MISSING] = document, position, written, missing


@kernel
def changes_any(table, text):
    """Whether `table`, which leaves ASCII alone, has an entry for a character of `text` (uint8[n])."""
    table, text = borrow(table), borrow(text)
    position = np.int64(0)
    while position < text.size:
        if text[position] < 0x80:
            run = np.int64(1)
            if position + BLOCK <= text.size:
                run = count_trailing_zeros(mark_bytes_between(text, position, 0x80, 0xFF))
            position += run
            continue
        point, length = read_character(text, position, text.size)
        if point >= 0 and table.entries[point] >= 0:
            return True
        position += length
    return False
