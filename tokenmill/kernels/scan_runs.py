"""What the patterns of the cl100k line have in common: contractions in any case, groups of digits, whitespace with line breaks.

Each rule comes twice, as in `scan_bytes.py` and `scan_blocks.py`: for the character at a position, and for masks of a block. Runs
in masks are walked by addition: the sum of a mask and the first bits of some of its runs has the bit behind each of those runs,
and no bit of the runs themselves.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import count_trailing_zeros
from tokenmill.kernels.scan_bytes import read_class
from tokenmill.kernels.scan_classes import LETTER, NUMBER, WHITESPACE

_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)

_LINE_FEED, _RETURN, _SPACE, _APOSTROPHE = b"\n\r '"
_D, _E, _L, _M, _R, _S, _T, _V = b"delmrstv"
_LONG_S = (0xC5, 0xBF)  # ſ, which is an s in another case


@part
def any_case_contraction_length(text, position, end):
    """Length of the match of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `position`, 0 if there is none: `'RE` gives 3, `'ſ` 3, `'x` 0."""
    if position + 1 >= end or text[position] != _APOSTROPHE:
        return 0
    first = text[position + 1] | 0x20
    if first in (_S, _T, _M, _D):
        return 2
    if position + 2 >= end:
        return 0
    if text[position + 1] == _LONG_S[0] and text[position + 2] == _LONG_S[1]:
        return 3
    second = text[position + 2] | 0x20
    full = (first == _R and second == _E) or (first == _V and second == _E) or (first == _L and second == _L)
    return 3 if full else 0


@part
def is_line_break(byte):
    """Whether a byte is a line feed or a carriage return, the only line breaks that the patterns know."""
    return byte in (_LINE_FEED, _RETURN)


@part
def end_of_numbers(text, position, end, classes, most):
    """End of the match of `\\p{N}{1,most}` at `position`, where a number stands: `1234` gives 3 for three."""
    for _ in range(most):
        found, length = read_class(text, position, end, classes) if position < end else (np.int64(0), 0)
        if not found & NUMBER:
            break
        position += length
    return position


@part
def end_of_others(text, position, end, classes):
    """End of the match of ` ?[^\\s\\p{L}\\p{N}]+` at `position`, which is where it begins if there is none: ` (!a` gives 3."""
    start = stop = position + (text[position] == _SPACE)
    while stop < end:
        found, length = read_class(text, stop, end, classes)
        if found & (LETTER | NUMBER | WHITESPACE):
            break
        stop += length
    return stop if stop > start else position


@part
def end_of_white(text, position, end, classes, whole_tail):
    """End of the match of `\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+` at `position`, where whitespace stands; after `\\s+$` if `whole_tail`.

    It reaches to behind the last line break; without one, to before the last character, which is left to the word behind it. Two
    spaces, a line feed, two spaces and `a` give 3; from 3 on 4; from 4 on 5.
    """
    last, line_end, stop = position, position, position
    while stop < end:
        found, length = read_class(text, stop, end, classes)
        if not found & WHITESPACE:
            break
        last = stop
        stop += length
        if is_line_break(text[last]):
            line_end = stop
    if stop == end and whole_tail:
        return end
    if line_end > position:
        return line_end
    return stop if stop == end or last == position else last


@inline_part
def fill_runs(runs, places):
    """The bits of `runs` from `places`, bits of them, to the ends of those runs: 0b0111011, 0b0010001 gives 0b0110011."""
    return (((runs + places) ^ runs) & runs) | places


@inline_part
def mark_joined(others, inner, free, letters):
    """First bits of the letter runs that a single other character stands before, in a word with it.

    `free` are the first bits of the runs of `others` that no space before has taken; `inner` as in `classify_characters`.
    `(a ((b` gives 0b000010: two characters are a word by themselves.
    """
    further = others & (others << _ONE) & ~inner
    return ((others & ~further) + free) & letters


@inline_part
def mark_number_groups(numbers):
    """Starts of groups of three in runs of one-byte numbers, counted from the left: `12345` gives 0b01001."""
    inside = numbers & (numbers << _ONE) & (numbers << _TWO)
    group = numbers & ~(numbers << _ONE)
    starts = group
    while group:
        group = (group << _THREE) & inside
        starts |= group
    return starts


@inline_part
def mark_white_starts(white, blank, taken, digits, limit, tail):
    """Starts of words in whitespace, by the rule of `end_of_white`.

    `blank` is `white` but for line breaks; `taken` are the line breaks that belong to the word before them; before `digits`
    whitespace ends as at the end of a document; `limit` is the bit behind the last known byte; `tail` is whether the document
    ends there, and whether whitespace at an end is one word. What is behind a line break is a start unless another line break
    follows in the same run. Where the run reaches to the limit that is not known, and the bit is left out.

    Two spaces, a line feed, two spaces and `a` give 0b11001: the fifth may belong to what follows.
    """
    at_end, whole_tail = tail
    free = white & ~taken
    before_white = ((white | digits) >> _ONE) | (limit >> _ONE if at_end else np.uint64(0))
    starts = (free & ~(free << _ONE)) | (blank & ~before_white)
    after_break = blank & ((free & ~blank) << _ONE)
    closing = (white & ~blank) | (np.uint64(0) if at_end and not whole_tail else limit)
    closing |= digits if whole_tail else np.uint64(0)
    if (blank + after_break) & ~blank & closing:
        after_break = drop_inner_lines(after_break, blank, closing)
    return starts | after_break


@part
def drop_inner_lines(after_break, blank, closing):
    """The bits of `after_break` whose run of `blank` does not end at a bit of `closing`: 0b1001, 0b1011, 0b0100 gives 0b1000."""
    kept = after_break
    while after_break:
        offset = np.uint64(count_trailing_zeros(after_break))
        behind = offset + np.uint64(count_trailing_zeros(~(blank >> offset)))
        if closing >> behind & _ONE:
            kept &= ~(_ONE << offset)
        after_break &= after_break - _ONE
    return kept
