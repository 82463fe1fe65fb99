"""One scanner per pre-tokenizer: the text of a batch of documents goes in, the ends of its words come out.

All scanners have one signature, `scan(text, doc_ends, classes, cursor, word_ends, doc_words, marked) -> (words, documents)`:

    text       uint8[n], read-only or not: all documents of a batch, end to end
    doc_ends   int64[d]: document i ends at doc_ends[i] and begins where document i - 1 ends, the first one at cursor[1]
    classes    uint16[0x110000]: the class table (bits in scan_classes.py)
    cursor     int64[2], in and out: the current document and the byte position to go on from; int64[3] where digits are cut out,
               zeros to begin with: where the next digits behind the position are, as far as they were looked for
    word_ends  int64[w], out: end of each word, in the order of the text; word_ends[:words] is filled
    doc_words  int64[k], out: doc_words[i] is how many words of this call were written when the i-th document completed in this
               call ended; doc_words[:documents] is filled
    marked     uint8[m], out: where scanners that drop whitespace write their words; the others leave it alone

A call ends when all documents are done or one of the out arrays is full; the next call goes on at the cursor. No word reaches
beyond its document; an empty document is completed with no word. Words of a lossless scanner tile the text and word_ends are
positions in `text`; those of a scanner that drops whitespace are positions in `marked`, from 0 in each call.

A scanner is one of three, by how it cuts out decimal digits (`scan_digits.py`): not (0), singly (1), in groups of three (3).

Each rule looks at a character a bounded number of times, so time is linear in the text, whatever it repeats.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_blocks import classify_characters, keep_certain, mark_first, mark_last, mark_letters
from tokenmill.kernels.scan_bytes import contraction_length, end_of_lossless_word
from tokenmill.kernels.scan_classes import DECIMAL, LETTER, NO_CLASS, NUMBER, WHITESPACE
from tokenmill.kernels.scan_digits import keep_whole_runs, mark_digit_groups, mark_digits
from tokenmill.kernels.scan_tiling import make_tiling_scanners

_NO_BITS = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


@part
def split_contractions(text, position, end, starts, apostrophes):
    """`starts` with contractions as words: an apostrophe that begins a word takes `s`, `re` ... and a word begins behind them.

    `it'select` has starts at `'` and `s`; it becomes `'` and `e`.
    """
    apostrophes &= starts | _ONE
    while apostrophes:
        offset = count_trailing_zeros(apostrophes)
        length = contraction_length(text, position + offset, end)
        if length:
            starts &= ~(_TWO << np.uint64(offset))
            starts |= (_ONE << np.uint64(length)) << np.uint64(offset)
        apostrophes &= apostrophes - _ONE
    return starts


@inline_part
def mark_lossless_starts(text, position, end, classes, kinds, group):
    """Certain word starts in the block at `position` by the rule of `end_of_lossless_word`, and whether the document ends in it.

    A word starts where the class changes, unless behind a space, which it takes along. A run of whitespace is a word, but for its
    last character; one that ends the document, or stands before digits that are cut out, is a word as a whole. `Hi, I'm` and the
    end gives, under gpt2, starts at `,`, ` I` and `'m`: 0b0101100.
    """
    stop = WHITESPACE | DECIMAL if group else WHITESPACE
    letters, numbers, _, known = classify_characters(text, position, end, classes, kinds[0], kinds[1], stop)
    at_end = known == end - position
    valid = mark_first(known)
    digits = mark_digits(text, position, known, group)
    space = mark_bytes_between(text, position, 0x20, 0x20) & valid
    white = space | (mark_bytes_between(text, position, 0x09, 0x0D) & valid)
    if kinds[0]:
        letters |= mark_letters(text, position) & valid
        numbers |= mark_bytes_between(text, position, 0x30, 0x39) & valid & ~digits
    others = valid & ~(letters | numbers | white | digits)
    inside = (letters & (letters << _ONE)) | (numbers & (numbers << _ONE)) | (others & (others << _ONE))
    before_white = ((white | digits) >> _ONE) | (mark_last(known) if at_end else _NO_BITS)
    starts = (valid & ~(white | digits | inside | (space << _ONE))) | (white & ~((white << _ONE) & before_white))
    starts |= mark_digit_groups(digits, group)
    if kinds[0]:
        starts = split_contractions(text, position, end, starts, mark_bytes_between(text, position, 0x27, 0x27) & valid)
    return keep_certain(starts, keep_whole_runs(digits, known, at_end, group), at_end), at_end


@inline_part
def mark_segment_starts(text, position, end, classes, options, group):
    """Of the block at `position`: starts of groups of digits and of what is between; whether the document ends in the block.

    `a12b` and the end gives 0b1010 by three, and nothing where digits are not cut out.
    """
    if not group:
        return _NO_BITS, False
    _, _, _, known = classify_characters(text, position, end, classes, NO_CLASS, NO_CLASS, DECIMAL)
    at_end = known == end - position
    digits = mark_digits(text, position, known, group)
    starts = mark_digit_groups(digits, group) | ((digits << _ONE) & ~digits)
    return keep_certain(starts, keep_whole_runs(digits, known, at_end, group), at_end), at_end


@part
def end_of_document(text, position, end, classes, options):
    """The word at `position` ends where the document ends."""
    return end


# `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: `Hi, I'm` gives the ends 2, 3, 5, 7.
scan_gpt2 = make_tiling_scanners(mark_lossless_starts, end_of_lossless_word, (LETTER, NUMBER))
# ` ?\S+|\s+(?!\S)|\s+`: `Hi, I'm` gives the ends 3, 7.
scan_whitespace = make_tiling_scanners(mark_lossless_starts, end_of_lossless_word, (NO_CLASS, NO_CLASS))
# Each document is one word: `Hi, I'm` gives the end 7.
scan_none = make_tiling_scanners(mark_segment_starts, end_of_document, ())
