"""Scanner of the words of Python's `\\w+(?:'\\w+)?|[^\\w\\s]`, each with a mark before it if whitespace precedes it."""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_blocks import classify_characters, keep_certain, mark_first, mark_last, mark_letters
from tokenmill.kernels.scan_bytes import end_of_wordpunct_word
from tokenmill.kernels.scan_classes import DECIMAL, NO_CLASS, RE_SPACE, RE_WORD
from tokenmill.kernels.scan_digits import keep_whole_runs, mark_digit_groups, mark_digits
from tokenmill.kernels.scan_dropping import make_dropping_scanners

_NO_BITS = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


@part
def join_apostrophes(starts, word, apostrophes):
    """`starts` without those of `'` and of what follows in `\\w+(?:'\\w+)?`: in `a'b'c` the words are `a'b`, `'`, `c`."""
    apostrophes &= (word << _ONE) & (word >> _ONE)
    used = np.int64(-1)
    while apostrophes:
        offset = count_trailing_zeros(apostrophes)
        if offset != used:
            starts &= ~((_ONE | _TWO) << np.uint64(offset))
            used = offset + 1 + count_trailing_zeros(~word >> np.uint64(offset + 1))
        apostrophes &= apostrophes - _ONE
    return starts


@inline_part
def mark_wordpunct_starts(text, position, end, classes, group):
    """Of the block at `position`: certain word starts of wordpunct; whitespace to drop, and to make a space; at the end or not.

    Whitespace before whitespace, or before the document's end, is dropped; what is left stands right before a word and is its
    mark. `Hi,  I'm` and the end gives starts at `,` and ` I` (the second space) and drops the first: 0b10100, 0b01000, 0, True.
    """
    stop = RE_SPACE | DECIMAL if group else RE_SPACE
    word, _, inner, known = classify_characters(text, position, end, classes, RE_WORD, NO_CLASS, stop)
    at_end = known == end - position
    valid = mark_first(known)
    digits = mark_digits(text, position, known, group)
    word |= mark_letters(text, position) | mark_bytes_between(text, position, 0x30, 0x39)
    word = (word | mark_bytes_between(text, position, 0x5F, 0x5F)) & valid & ~digits
    space = mark_bytes_between(text, position, 0x20, 0x20)
    white = space | mark_bytes_between(text, position, 0x09, 0x0D) | mark_bytes_between(text, position, 0x1C, 0x1F)
    white &= valid
    dropped = white & ((white >> _ONE) | (mark_last(known) if at_end else _NO_BITS))
    inside = inner | (word & (word << _ONE)) | (digits & ~mark_digit_groups(digits, group))
    starts = (white & ~dropped) | (valid & ~(white | (white << _ONE) | inside))
    starts = join_apostrophes(starts, word, mark_bytes_between(text, position, 0x27, 0x27) & valid)
    known = keep_whole_runs(digits, known, at_end, group)
    return keep_certain(starts, known, at_end), dropped, white & ~dropped & ~space, at_end


# The text `Hi,  I'm` gives `marked` `Hi, I'm` and the ends 2, 3, 7. The words of a text are never longer than the text.
scan_wordpunct = make_dropping_scanners(mark_wordpunct_starts, end_of_wordpunct_word, RE_SPACE, True)
