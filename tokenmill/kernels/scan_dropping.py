"""Scanners that drop whitespace: BERT's, and that of Hugging Face's `Whitespace`. Words are written to `marked`, end to end.

The loop is put around two rules, as in `scan_tiling.py`.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel, part
from tokenmill.kernels.intrinsics import borrow, count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_blocks import (
    BLOCK_BYTES,
    classify_characters,
    copy_kept,
    keep_certain,
    mark_first,
    mark_letters,
    write_kept_ends,
    write_spaces,
)
from tokenmill.kernels.scan_bytes import copy_bytes, end_of_run, read_class
from tokenmill.kernels.scan_classes import BERT_ALONE, DECIMAL, NO_CLASS, UNICODE_WORD, WHITESPACE
from tokenmill.kernels.scan_digits import end_of_group, end_of_segment, keep_whole_runs, mark_digit_groups, mark_digits

_SPACE = ord(" ")
_NO_BITS = np.uint64(0)
_ONE = np.uint64(1)
# int64 from the start: with a literal 0 numba would compile every callee once more.
_ZERO = np.int64(0)


def make_dropping_scanners(mark_starts, end_of_word, white, marks):
    """Scanners (signature in `scan.py`) whose words are what whitespace leaves, by how they cut digits out (0, 1, 3).

    `mark_starts(text, position, end, classes, group)` gives the certain word starts behind bit 0 of the block at `position`, the
    whitespace to drop, the whitespace that is kept but to become a space, and whether the document ends in the block; where
    bit 0 is not dropped, it is a word start. `end_of_word(text, position, end, classes)` gives the end of the word at `position`,
    where no whitespace stands. `white` is the class of whitespace, `marks`: a word that follows it has a space in front.

    A call that completes nothing and writes no word wants a larger `marked`: the next word does not fit.
    """
    return {group: make_dropping_scanner(mark_starts, end_of_word, white, marks, group) for group in (0, 1, 3)}


def make_dropping_scanner(mark_starts, end_of_word, white, marks, group):
    """One of `make_dropping_scanners`."""

    @kernel
    def scan(text, doc_ends, classes, cursor, word_ends, doc_words, marked):
        text, classes, word_ends, marked = borrow((text, classes, word_ends, marked))
        document, position, words, documents = cursor[0], cursor[1], _ZERO, _ZERO
        last_block = text.size - 2 * BLOCK_BYTES
        while document < doc_ends.size and documents < doc_words.size:
            begin, end = doc_ends[document - 1] if document else _ZERO, doc_ends[document]
            while position < end:
                before, written = position, word_ends[words - 1] if words else _ZERO
                if position <= last_block and words + BLOCK_BYTES < word_ends.size and written + 2 * BLOCK_BYTES <= marked.size:
                    starts, dropped, replaced, at_end = mark_starts(text, position, end, classes, group)
                    if dropped & _ONE:
                        position += min(count_trailing_zeros(~dropped), end - position)
                        continue
                    words, length = write_kept_ends(starts, dropped, written, word_ends, words)
                    length = end - position if at_end else length
                    stop = copy_kept(text, position, dropped, length, marked, written)
                    write_spaces(replaced, dropped, marked, written)
                    if at_end:
                        word_ends[words] = stop
                        words += 1
                    position += length
                if position == before:
                    start = end_of_run(text, position, end, classes, white, True)
                    stop = end_of_group(text, start, (begin, end), classes, group) if group and start < end else start
                    if stop == start < end:
                        limit = end_of_segment(text, start, end, classes, cursor) if group else end
                        stop = end_of_word(text, start, limit, classes)
                    position, words = write_word(text, (start, stop), position, word_ends, words, marked, marks)
                if position == before:
                    break
            if position < end:
                break
            doc_words[documents] = words
            document, documents = document + 1, documents + 1
        cursor[0], cursor[1] = document, position
        return words, documents

    return scan


@part
def write_word(text, word, position, word_ends, words, marked, marks):
    """Write text[start:stop], where `word` is (start, stop), if it is not empty, as a word to `marked`; returns (stop, words).

    Without room it is (position, words). If it `marks`, a space comes first where `position` is before the start.
    """
    start, stop = word
    if start == stop:
        return stop, words
    written = word_ends[words - 1] if words else _ZERO
    space = np.int64(marks and start > position)
    if words == word_ends.size or written + space + stop - start > marked.size:
        return position, words
    if space:
        marked[written] = _SPACE
    word_ends[words] = copy_bytes(text, start, stop, marked, written + space)
    return stop, words + 1


@part
def end_of_bert_word(text, position, end, classes):
    """End of the word at `position`: `it's` gives 2, `'s` 1, `世界` 3."""
    found, length = read_class(text, position, end, classes)
    if found & BERT_ALONE:
        return position + length
    return end_of_run(text, position, end, classes, BERT_ALONE | WHITESPACE, False)


@part
def end_of_punctuated_word(text, position, end, classes):
    """End of the match of `\\w+|[^\\w\\s]+` at `position`: `it's` gives 2, `?!a` 2."""
    stop = end_of_run(text, position, end, classes, UNICODE_WORD, True)
    return stop if stop > position else end_of_run(text, position, end, classes, UNICODE_WORD | WHITESPACE, False)


@inline_part
def mark_white(text, position, valid):
    """The ASCII whitespace of a block."""
    return (mark_bytes_between(text, position, 0x20, 0x20) | mark_bytes_between(text, position, 0x09, 0x0D)) & valid


@inline_part
def mark_bert_starts(text, position, end, classes, group):
    """Certain word starts by the rule of `end_of_bert_word`: `it's a` and the end gives 0b101100, dropped 0b010000, 0, True."""
    stop = WHITESPACE | DECIMAL if group else WHITESPACE
    alone, _, inner, known = classify_characters(text, position, end, classes, BERT_ALONE, NO_CLASS, stop)
    at_end, valid = known == end - position, mark_first(known)
    digits = mark_digits(text, position, known, group)
    alone |= mark_bytes_between(text, position, 0x21, 0x2F) | mark_bytes_between(text, position, 0x3A, 0x40)
    alone |= mark_bytes_between(text, position, 0x5B, 0x60) | mark_bytes_between(text, position, 0x7B, 0x7E)
    white = mark_white(text, position, valid)
    starts = valid & ~(white | digits | inner) & (alone | ((alone | white | digits) << _ONE))
    starts |= mark_digit_groups(digits, group)
    return keep_certain(starts, keep_whole_runs(digits, known, at_end, group), at_end), white, _NO_BITS, at_end


@inline_part
def mark_punctuated_starts(text, position, end, classes, group):
    """Certain word starts by the rule of `end_of_punctuated_word`: `a?! b` and the end gives 0b10010, 0b01000, 0, True."""
    stop = WHITESPACE | DECIMAL if group else WHITESPACE
    word, _, inner, known = classify_characters(text, position, end, classes, UNICODE_WORD, NO_CLASS, stop)
    at_end, valid = known == end - position, mark_first(known)
    digits = mark_digits(text, position, known, group)
    word |= mark_letters(text, position) | mark_bytes_between(text, position, 0x30, 0x39)
    word = (word | mark_bytes_between(text, position, 0x5F, 0x5F)) & ~digits
    white = mark_white(text, position, valid)
    starts = valid & ~(white | digits | inner) & ((word ^ (word << _ONE)) | ((white | digits) << _ONE))
    starts |= mark_digit_groups(digits, group)
    return keep_certain(starts, keep_whole_runs(digits, known, at_end, group), at_end), white, _NO_BITS, at_end


scan_bert = make_dropping_scanners(mark_bert_starts, end_of_bert_word, WHITESPACE, False)
scan_whitespace_punct = make_dropping_scanners(mark_punctuated_starts, end_of_punctuated_word, WHITESPACE, False)
