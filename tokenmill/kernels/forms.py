"""The Unicode forms over batches as `normalize.py` says.

Nearly all text is in the form already: `end_of_form` goes over it as far as that is certain, and it is copied as a whole. Behind
it stands a stretch that may change, and that `compose.py` writes anew.

Source: Unicode Standard Annex #15, chapter 9 (detecting normalization forms).
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel, part
from tokenmill.kernels.compose import CHANGES, FOLLOWS, LEADS, STARTS, rewrite_stretch
from tokenmill.kernels.intrinsics import borrow, count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.normalize import (
    BLOCK,
    DOCUMENT,
    MISSING,
    POSITION,
    WRITTEN,
    note_origins,
    read_character,
    read_three,
    read_two,
    room_of,
)
from tokenmill.kernels.scan_bytes import copy_bytes


@inline_part
def count_ascii(text, position, end):
    """How many characters of ASCII stand at `position`, where one does; 64 at most. A space is often alone."""
    if text[position] == 0x20 or position + BLOCK > text.size:
        return np.int64(1)
    return min(count_trailing_zeros(mark_bytes_between(text, position, 0x80, 0xFF)), end - position)


@inline_part
def skip_plain(flags, length, text, position, last):
    """Where the characters end, from `position` on, that have `length` bytes, two or three, and stay whatever stands before."""
    while position + length <= last:
        point = read_two(text, position) if length == 2 else read_three(text, position)
        if point < 0 or flags[point] | LEADS != STARTS | LEADS:
            break
        position += length
    return position


@part
def end_of_form(flags, combining, text, position, end):
    """Where the first stretch begins that may change, from `position` on, where one may begin; `end` if there is none.

    That is at the last character that STARTS, for what stands behind can change it. What FOLLOWS stays as it is behind what does
    not LEAD, as vowel signs of Bengali and Tamil mostly do. In NFC, `Ae` and U+0301 give 1.
    """
    flags, combining, text = borrow(flags), borrow(combining), borrow(text)
    stretch, before, leads, last = position, np.uint8(0), np.uint8(0), min(end, text.size - 8)
    while position < end:
        if text[position] < 0x80:
            position += count_ascii(text, position, end)
            stretch, before, leads = position - 1, np.uint8(0), flags[text[position - 1]]
        for length in (2, 3):
            first, position = position, skip_plain(flags, length, text, position, last)
            if position > first:
                stretch, before = position - length, np.uint8(0)
                leads = flags[read_character(text, stretch, end)[0]]
        if position == end or text[position] < 0x80:
            continue
        point, length = read_character(text, position, end)
        if point < 0:
            position += 1
            stretch, before, leads = position, np.uint8(0), np.uint8(0)
            continue
        flag, class_ = flags[point], np.uint8(0)
        if flag & CHANGES:
            return position if flag & STARTS else stretch
        if flag & STARTS:
            stretch = position
        else:
            class_ = combining[point]
            if class_ < before or (flag & FOLLOWS != 0 and (before != 0 or leads & LEADS != 0)):
                return stretch
        before, leads = class_, flag
        position += length
    return end


@part
def copy_run(text, position, stop, out, written, origins):
    """Copy text[position:stop] as it is; returns where it ends in `out`, which has room for it."""
    text, out, origins = borrow(text), borrow(out), borrow(origins)
    after = copy_bytes(text, position, stop, out, written)
    if origins.shape[0]:
        while position < stop:
            if text[position] < 0x80:
                length = np.int64(1)
            else:
                _, length = read_character(text, position, stop)
            note_origins(origins, written, written + length, position, position + length)
            position, written = position + length, written + length
    return after


@part
def normalize_document(tables, text, position, end, stretch, spare, out, written, origins):
    """Normalize from `position`, where a stretch may begin; returns position, `written`, and the room that was missing."""
    tables, text, stretch, spare = borrow(tables), borrow(text), borrow(stretch), borrow(spare)
    out, origins, flags, combining = borrow(out), borrow(origins), borrow(tables.flags), borrow(tables.combining)
    missing = np.int64(0)
    while position < end and not missing:
        stop = end_of_form(flags, combining, text, position, end)
        if written + stop - position > room_of(out, origins):
            return position, written, stop - position
        position, written = stop, copy_run(text, position, stop, out, written, origins)
        if position < end:
            position, written, missing = rewrite_stretch(tables, text, position, end, stretch, spare, out, written, origins)
    return position, written, missing


@kernel
def apply_form(tables, text, doc_ends, state, stretch, spare, out, out_ends, origins):
    """Normalize a batch from `state` on; `stretch` and `spare` are int64[k, 4], scratch memory. Arrays as `normalize.py` says.

    Where `state[MISSING]` is negative, `stretch` and `spare` need so many rows.
    """
    tables, text, doc_ends, state = borrow(tables), borrow(text), borrow(doc_ends), borrow(state)
    stretch, spare, out, out_ends, origins = borrow(stretch), borrow(spare), borrow(out), borrow(out_ends), borrow(origins)
    document, position, written = state[DOCUMENT], state[POSITION], state[WRITTEN]
    missing = np.int64(0)
    while document < min(doc_ends.size, out_ends.size):
        end = doc_ends[document]
        position, written, missing = normalize_document(tables, text, position, end, stretch, spare, out, written, origins)
        if missing:
            break
        out_ends[document] = written
        document += 1
    state[DOCUMENT], state[POSITION], state[WRITTEN], state[MISSING] = document, position, written, missing


@kernel
def is_in_form(flags, combining, text, doc_ends):
    """Whether a batch is in the form for certain."""
    flags, combining, text, doc_ends = borrow(flags), borrow(combining), borrow(text), borrow(doc_ends)
    position = np.int64(0)
    for document in range(doc_ends.size):
        end = doc_ends[document]
        if end_of_form(flags, combining, text, position, end) < end:
            return False
        position = end
    return True
