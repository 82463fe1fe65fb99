"""Scanners of the patterns of cl100k_base, Llama 3 and Qwen 2, which differ in two things alone.

    (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\\r\\n\\p{L}\\p{N}]?\\p{L}+ | \\p{N}{1,3} |  ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*
                                 | \\s+$ | \\s*[\\r\\n]+ | \\s+(?!\\S) | \\s+

That is cl100k_base, with spaces put between the alternatives here. Llama 3 has no `\\s+$`: whitespace at the end of a document is
cut behind its last line break. Neither has Qwen 2, and a number is one character there. `options` of the rules are these two:
how many characters a number has, 1 or 3, and whether whitespace at the end is one word.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_blocks import BLOCK_BYTES, classify_characters, keep_certain, mark_first, mark_letters
from tokenmill.kernels.scan_bytes import end_of_run, read_class
from tokenmill.kernels.scan_classes import DECIMAL, LETTER, NO_CLASS, NUMBER, WHITESPACE
from tokenmill.kernels.scan_digits import keep_whole_runs, mark_digit_groups, mark_digits
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


@part
def end_of_cl100k_word(text, position, end, classes, options):
    """End of the word at `position`: ` (a` gives 2, `(a` 2, `'REd` 3, `1234` 3 (or 1)."""
    most_digits, whole_tail = options
    contraction = any_case_contraction_length(text, position, end)
    if contraction:
        return position + contraction
    found, length = read_class(text, position, end, classes)
    if found & NUMBER:
        return end_of_numbers(text, position, end, classes, most_digits)
    letters = position if found & LETTER or is_line_break(text[position]) else position + length
    stop = end_of_run(text, letters, end, classes, LETTER, True)
    if stop > letters:
        return stop
    stop = end_of_others(text, position, end, classes)
    if stop == position:
        return end_of_white(text, position, end, classes, whole_tail)
    while stop < end and is_line_break(text[stop]):
        stop += 1
    return stop


@inline_part
def mark_cl100k_starts(text, position, end, classes, options, group):
    """Certain word starts in the block at `position` by the rule of `end_of_cl100k_word`, and whether the document ends in it.

    A letter run takes a blank before it along, or a single other character that no space has taken. `Hi (it's)` and the end give
    starts at ` (`, `it`, `'s`, `)`: 0b101010100. Numbers beyond ASCII, which come in groups too, are left to the other rule.
    """
    most_digits, whole_tail = options
    stop = WHITESPACE | DECIMAL if group else WHITESPACE
    stop |= NUMBER if most_digits > 1 else NO_CLASS
    letters, numbers, inner, known = classify_characters(text, position, end, classes, LETTER, NUMBER, stop)
    known = min(known, BLOCK_BYTES - 1)  # so that there is a bit behind the last known byte
    at_end = known == end - position
    valid, limit = mark_first(known), _ONE << np.uint64(known)
    letters = (letters | mark_letters(text, position)) & valid
    numbers = (numbers | mark_bytes_between(text, position, 0x30, 0x39)) & valid
    digits = mark_digits(text, position, known, group)
    space = mark_bytes_between(text, position, 0x20, 0x20) & valid
    breaks = (mark_bytes_between(text, position, 0x0A, 0x0A) | mark_bytes_between(text, position, 0x0D, 0x0D)) & valid
    white = (mark_bytes_between(text, position, 0x09, 0x0D) & valid) | space
    blank = white & ~breaks
    others = valid & ~(letters | numbers | white)
    taken = fill_runs(breaks, breaks & (others << _ONE))
    free = others & ~((others | space) << _ONE)
    joined = mark_joined(others, inner, free, letters)
    starts = free | (letters & ~((letters | blank) << _ONE) & ~joined)
    numbers &= ~digits
    starts |= numbers & ~inner if most_digits == 1 else mark_number_groups(numbers)
    starts |= mark_digit_groups(digits, group) | mark_white_starts(white, blank, taken, digits, limit, (at_end, whole_tail))
    apostrophes = mark_bytes_between(text, position, 0x27, 0x27) & free & (joined >> _ONE)
    starts = end_contractions(text, position, end, starts, apostrophes)
    return keep_certain(starts, keep_whole_runs(digits, known, at_end, group), at_end), at_end


@inline_part
def end_contractions(text, position, end, starts, apostrophes):
    """`starts` with a word behind every contraction that begins at one of `apostrophes`: `'select` has starts at `'` and `e`."""
    while apostrophes:
        offset = count_trailing_zeros(apostrophes)
        length = any_case_contraction_length(text, position + offset, end)
        if length:
            starts |= (_ONE << np.uint64(length)) << np.uint64(offset)
        apostrophes &= apostrophes - _ONE
    return starts


scan_cl100k = make_tiling_scanners(mark_cl100k_starts, end_of_cl100k_word, (3, 1))
scan_llama3 = make_tiling_scanners(mark_cl100k_starts, end_of_cl100k_word, (3, 0))
scan_qwen2 = make_tiling_scanners(mark_cl100k_starts, end_of_cl100k_word, (1, 0))
scan_qwen2[3] = scan_qwen2[1]  # groups of three are cut once more
