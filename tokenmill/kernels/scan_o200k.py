"""Scanner of the pattern of o200k_base, which cuts words where the case changes and leaves contractions to the word before them.

    [^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
    [^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
    \\p{N}{1,3} |  ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]* | \\s*[\\r\\n]+ | \\s+(?!\\S) | \\s+

These are its alternatives, one after another. Three kinds of characters make up a word: uppers (Lu, Lt), lowers (Ll), and boths
(Lm, Lo, M), which are in either class. What the first two alternatives match comes to this. A word is uppers and boths, then
lowers and boths; where no lower follows, it ends behind its last both; where there is none either, it is all uppers.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_blocks import BLOCK_BYTES, keep_certain, mark_first
from tokenmill.kernels.scan_bytes import end_of_run, read_class
from tokenmill.kernels.scan_classes import LETTER, LOWER, MARK, NUMBER, OTHER_LETTER, UPPER, WHITESPACE
from tokenmill.kernels.scan_digits import keep_whole_runs, mark_digit_groups
from tokenmill.kernels.scan_runs import (
    any_case_contraction_length,
    end_of_numbers,
    end_of_others,
    end_of_white,
    fill_runs,
    is_line_break,
    mark_joined,
    mark_number_groups,
    mark_white_starts,
)
from tokenmill.kernels.scan_tiling import make_tiling_scanners

_ONE = np.uint64(1)
_NO_BITS = np.uint64(0)
_SLASH = ord("/")
_BOTH = OTHER_LETTER | MARK
_MOST_DIGITS = 3


@part
def end_of_cased_run(text, position, end, classes):
    """End of the match of the first two alternatives but for prefix and contraction, `position` if there is none.

    `HTTPServerError` gives 10, `文字AB` 6, `ABC` 3.
    """
    both_end, stop = position, position
    while stop < end:
        found, length = read_class(text, stop, end, classes)
        if not found & (UPPER | _BOTH):
            break
        stop += length
        if found & _BOTH:
            both_end = stop
    lower_end = end_of_run(text, stop, end, classes, LOWER | _BOTH, True)
    if lower_end > stop:
        return lower_end
    return both_end if both_end > position else stop


@part
def end_of_o200k_word(text, position, end, classes, options):
    """End of the word at `position`: ` (a` gives 2, `don'tx` 5, `1234` 3, `;` and a line feed and `//` 4."""
    found, length = read_class(text, position, end, classes)
    if found & NUMBER:
        return end_of_numbers(text, position, end, classes, _MOST_DIGITS)
    letters = position if found & (LETTER | MARK) or is_line_break(text[position]) else position + length
    stop = end_of_cased_run(text, letters, end, classes)
    if stop > letters:
        return stop + any_case_contraction_length(text, stop, end)
    stop = end_of_others(text, position, end, classes)
    if stop == position:
        return end_of_white(text, position, end, classes, False)
    while stop < end and (is_line_break(text[stop]) or text[stop] == _SLASH):
        stop += 1
    return stop


@part
def classify_cases(text, position, end, classes):
    """Of the block's characters beyond ASCII: masks of uppers, lowers, boths, marks, bytes inside a character; the bytes known.

    As `classify_characters`; the block is known up to the first whitespace or number beyond ASCII. `aÉ文` and the end gives
    0b00110, 0, 0b111000, 0, 0b110100, 6.
    """
    known = min(np.int64(BLOCK_BYTES), end - position)
    upper, lower, both, marks, inner = _NO_BITS, _NO_BITS, _NO_BITS, _NO_BITS, _NO_BITS
    high = mark_bytes_between(text, position, 0x80, 0xFF) & mark_first(known)
    while high:
        offset = count_trailing_zeros(high)
        found, length = read_class(text, position + offset, end, classes)
        if found & (WHITESPACE | NUMBER) or offset + length > known:
            return upper, lower, both, marks, inner, offset
        character = mark_first(length) << np.uint64(offset)
        upper |= character if found & UPPER else _NO_BITS
        lower |= character if found & LOWER else _NO_BITS
        both |= character if found & _BOTH else _NO_BITS
        marks |= character if found & MARK else _NO_BITS
        inner |= character & (character << _ONE)
        high &= ~character
    return upper, lower, both, marks, inner, known


@inline_part
def mark_o200k_starts(text, position, end, classes, options, group):
    """Certain word starts in the block at `position` by the rule of `end_of_o200k_word`, and whether the document ends in it.

    Letter runs begin as in `mark_cl100k_starts`, with marks as letters; `mark_case_starts` and `join_contractions` do the rest.
    `Hi (it's)` and the end gives starts at ` (`, `it's`, `)`: 0b100010100. A mark behind another character is one of those, not
    of the letters, where that character is no prefix: such places are left to the other rule.
    """
    upper, lower, both, marks, inner, known = classify_cases(text, position, end, classes)
    known = min(known, BLOCK_BYTES - 1)  # so that there is a bit behind the last known byte
    valid = mark_first(known)
    upper |= mark_bytes_between(text, position, 0x41, 0x5A)
    lower |= mark_bytes_between(text, position, 0x61, 0x7A)
    numbers = mark_bytes_between(text, position, 0x30, 0x39) & valid
    digits = numbers if group else _NO_BITS
    space = mark_bytes_between(text, position, 0x20, 0x20) & valid
    breaks = (mark_bytes_between(text, position, 0x0A, 0x0A) | mark_bytes_between(text, position, 0x0D, 0x0D)) & valid
    white = (mark_bytes_between(text, position, 0x09, 0x0D) & valid) | space
    others = valid & ~(upper | lower | both | numbers | white)
    unsure = marks & valid & (others << _ONE)
    if unsure:
        known = min(known, count_trailing_zeros(unsure))
        valid = mark_first(known)
        others &= valid
    at_end, limit = known == end - position, _ONE << np.uint64(known)
    upper, lower, both = upper & valid, lower & valid, both & valid
    letters, blank = upper | lower | both, white & ~breaks
    slashes = mark_bytes_between(text, position, 0x2F, 0x2F) & valid
    taken = fill_runs(breaks | slashes, breaks & (others << _ONE))
    others &= ~taken
    free = others & ~((others | space) << _ONE)
    joined = mark_joined(others, inner, free, letters)
    starts = free | (letters & ~((letters | blank) << _ONE) & ~joined)
    starts |= mark_digit_groups(digits, group) if group else mark_number_groups(numbers)
    starts |= mark_white_starts(white, blank, taken, digits, limit, (at_end, False))
    cases, known = mark_case_starts(upper, lower, both, inner, known, at_end)
    starts |= cases
    apostrophes = mark_bytes_between(text, position, 0x27, 0x27) & (letters << _ONE) & valid
    if apostrophes:
        starts, known = join_contractions(text, position, end, starts, apostrophes, both, known)
    at_end = known == end - position
    return keep_certain(starts, keep_whole_runs(digits, known, at_end, group), at_end), at_end


@part
def mark_case_starts(upper, lower, both, inner, known, at_end):
    """Word starts inside runs of letters, and how many bytes they are known for: `aBCd` gives 0b0010, `文A` and the end 0b1000.

    An upper is a start behind a lower, or behind boths that are. Behind other boths it is a start when its run of uppers ends in
    no letter; where the run reaches to the limit, the block is known up to the run alone.
    """
    settled = fill_runs(both, both & (lower << _ONE))
    first = upper & ~inner
    starts = first & ((lower | settled) << _ONE)
    unsettled = first & ((both & ~settled) << _ONE)
    while unsettled:
        offset = count_trailing_zeros(unsettled)
        behind = offset + count_trailing_zeros(~(upper >> np.uint64(offset)))
        if behind >= known and not at_end:
            return starts, offset
        if not ((lower | both) >> np.uint64(behind)) & _ONE:
            starts |= _ONE << np.uint64(offset)
        unsettled &= unsettled - _ONE
    return starts, known


@part
def join_contractions(text, position, end, starts, apostrophes, both, known):
    """`starts` with contractions in the word before them, and how many bytes they are known for.

    `apostrophes` stand behind letters. One that stands behind a contraction begins a word. `it'select` has starts at `'`; it has
    one at `e` instead. Boths behind a contraction are at the start of a word, which `mark_case_starts` does not see: the block is
    known up to them.
    """
    used = np.int64(-1)
    while apostrophes:
        offset = count_trailing_zeros(apostrophes)
        length = any_case_contraction_length(text, position + offset, end) if offset != used else 0
        if length:
            used, behind = offset + length, (_ONE << np.uint64(length)) << np.uint64(offset)
            starts = (starts & ~(mark_first(length) << np.uint64(offset))) | behind
            if both & behind:
                return starts, used
        apostrophes &= apostrophes - _ONE
    return starts, known


scan_o200k = make_tiling_scanners(mark_o200k_starts, end_of_o200k_word, ())
