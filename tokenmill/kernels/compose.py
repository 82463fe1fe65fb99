"""The Unicode forms NFC, NFD, NFKC and NFKD of one stretch of text: decomposed, put into canonical order, composed again.

A stretch begins at a character that nothing before it can touch (STARTS), and goes up to the next such. `forms.py` finds those
that may change.

Source: Unicode Standard Annex #15, and chapter 3.11 and 3.12 (Hangul) of the Unicode Standard.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import part
from tokenmill.kernels.intrinsics import borrow
from tokenmill.kernels.normalize import note_origins, read_character, room_of
from tokenmill.kernels.utf8 import write_code_point

#: Bits of `flags`: nothing before the character changes with it; it does not stay as it is; it can be joined to the one before;
#: the one behind can be joined to it, or change it.
STARTS, CHANGES, FOLLOWS, LEADS = 1, 2, 4, 8
#: Columns of the scratch memory of a stretch: code point, where in the text its source begins and ends, combining class.
POINT, FIRST, LAST, CLASS = 0, 1, 2, 3
#: The most code points that one character becomes.
LONGEST_DECOMPOSITION = 18
_SORTED_SIMPLY = 24

_S, _L, _V, _T = 0xAC00, 0x1100, 0x1161, 0x11A7
_LS, _VS, _TS = 19, 21, 28


class FormTables(NamedTuple):
    """One form.

    `flags`: uint8[0x110000], the bits STARTS, CHANGES, FOLLOWS, LEADS; `combining`: uint8[0x110000]. `decompositions`:
    int32[0x110000], the entry of a code point that decomposes, or -1; entry e is data[starts[e] : starts[e + 1]] (int32, int64),
    code points. `pairs`: int64[p, 2], first << 32 | second and the composite, in order; of no rows for the D forms.
    """

    flags: np.ndarray
    combining: np.ndarray
    decompositions: np.ndarray
    data: np.ndarray
    starts: np.ndarray
    pairs: np.ndarray


# --- one stretch of text ------------------------------------------------------------------------------------------------------


@part
def add_point(tables, stretch, size, point, first, last):
    """Add a code point to a stretch of `size` of them."""
    stretch[size, POINT], stretch[size, FIRST], stretch[size, LAST] = point, first, last
    stretch[size, CLASS] = tables.combining[point]
    return size + 1


@part
def add_decomposed(tables, stretch, size, point, first, last):
    """Add what a code point decomposes to, the character being text[first:last]."""
    syllable = point - _S
    if 0 <= syllable < _LS * _VS * _TS:
        size = add_point(tables, stretch, size, _L + syllable // (_VS * _TS), first, last)
        size = add_point(tables, stretch, size, _V + syllable % (_VS * _TS) // _TS, first, last)
        return size if syllable % _TS == 0 else add_point(tables, stretch, size, _T + syllable % _TS, first, last)
    entry = tables.decompositions[point]
    if entry < 0:
        return add_point(tables, stretch, size, point, first, last)
    for place in range(tables.starts[entry], tables.starts[entry + 1]):
        size = add_point(tables, stretch, size, np.int64(tables.data[place]), first, last)
    return size


@part
def copy_row(source, row, target, at):
    for column in range(4):
        target[at, column] = source[row, column]


@part
def sort_run(stretch, start, stop, spare):
    """Put the rows [start, stop), all of them marks, in order of their classes, equal ones as they stand."""
    if stop - start <= _SORTED_SIMPLY:
        for row in range(start + 1, stop):
            copy_row(stretch, row, spare, 0)
            place = row
            while place > start and stretch[place - 1, CLASS] > spare[0, CLASS]:
                copy_row(stretch, place - 1, stretch, place)
                place -= 1
            copy_row(spare, 0, stretch, place)
        return
    places = np.zeros(257, np.int64)
    for row in range(start, stop):
        places[stretch[row, CLASS] + 1] += 1
    for class_ in range(256):
        places[class_ + 1] += places[class_]
    for row in range(start, stop):
        copy_row(stretch, row, spare, places[stretch[row, CLASS]])
        places[stretch[row, CLASS]] += 1
    for row in range(start, stop):
        copy_row(spare, row - start, stretch, row)


@part
def order_marks(stretch, size, spare):
    """Put a stretch into canonical order."""
    start = np.int64(0)
    while start < size:
        stop = start
        while stop < size and stretch[stop, CLASS]:
            stop += 1
        if stop - start > 1:
            sort_run(stretch, start, stop, spare)
        start = stop + 1


@part
def find_composite(pairs, first, second):
    """The character that two compose to, or -1."""
    if 0 <= first - _L < _LS and 0 <= second - _V < _VS:
        return _S + ((first - _L) * _VS + second - _V) * _TS
    if 0 <= first - _S < _LS * _VS * _TS and (first - _S) % _TS == 0 and 0 < second - _T < _TS:
        return first + second - _T
    key, low, high = first << 32 | second, np.int64(0), pairs.shape[0]
    while low < high:
        middle = (low + high) // 2
        if pairs[middle, 0] < key:
            low = middle + 1
        else:
            high = middle
    return pairs[low, 1] if low < pairs.shape[0] and pairs[low, 0] == key else np.int64(-1)


@part
def compose_stretch(pairs, stretch, size):
    """Compose what composes, in place; returns how many code points are left. A composite comes from all that its parts do."""
    kept, starter, between = np.int64(0), np.int64(-1), np.int64(-1)
    for row in range(size):
        class_ = stretch[row, CLASS]
        if starter >= 0 and between < class_:
            composite = find_composite(pairs, stretch[starter, POINT], stretch[row, POINT])
            if composite >= 0:
                stretch[starter, POINT] = composite
                stretch[starter, FIRST] = min(stretch[starter, FIRST], stretch[row, FIRST])
                stretch[starter, LAST] = max(stretch[starter, LAST], stretch[row, LAST])
                continue
        if class_ == 0:
            starter, between = kept, np.int64(-1)
        else:
            between = class_
        copy_row(stretch, row, stretch, kept)
        kept += 1
    return kept


@part
def write_stretch(stretch, size, out, written, origins):
    for row in range(size):
        first = written
        written = write_code_point(stretch[row, POINT], out, written)
        note_origins(origins, first, written, stretch[row, FIRST], stretch[row, LAST])
    return written


@part
def collect_stretch(tables, text, position, end, stretch, spare):
    """Decompose the stretch that begins at `position`; returns how many code points it has (-1: no room), and where it ends."""
    size, first = np.int64(0), position
    while position < end:
        point, length = np.int64(text[position]), np.int64(1)
        if point >= 0x80:
            point, length = read_character(text, position, end)
        if point < 0 or (position > first and tables.flags[point] & STARTS):
            break
        if size + LONGEST_DECOMPOSITION > min(stretch.shape[0], spare.shape[0]):
            return np.int64(-1), first
        size = add_decomposed(tables, stretch, size, point, position, position + length)
        position += length
    return size, position


@part
def rewrite_stretch(tables, text, position, end, stretch, spare, out, written, origins):
    """Normalize the stretch that begins at `position`; returns where it ends, where `out` ends then, and the room it lacked.

    The room is in bytes of `out` where positive, in code points of `stretch` where negative.
    """
    tables, text, stretch, spare = borrow(tables), borrow(text), borrow(stretch), borrow(spare)
    out, origins = borrow(out), borrow(origins)
    size, stop = collect_stretch(tables, text, position, end, stretch, spare)
    if size < 0:
        return position, written, -2 * stretch.shape[0]
    order_marks(stretch, size, spare)
    if tables.pairs.shape[0]:
        size = compose_stretch(tables.pairs, stretch, size)
    if written + 4 * size > room_of(out, origins):
        return position, written, 4 * size
    return stop, write_stretch(stretch, size, out, written, origins), np.int64(0)
