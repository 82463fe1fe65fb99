"""Scanners that drop all whitespace: BERT's, and that of Hugging Face's `Whitespace`. Words are written to `marked`, end to end.

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
)
from tokenmill.kernels.scan_bytes import copy_bytes, end_of_run, read_class
from tokenmill.kernels.scan_classes import BERT_ALONE, NO_CLASS, UNICODE_WORD, WHITESPACE

_ONE = np.uint64(1)
_ZERO = np.int64(0)


def make_dropping_scanner(mark_starts, end_of_word):
    """A scanner (signature in `scan.py`) whose words are what whitespace leaves.

    `mark_starts(text, position, end, classes)` gives the certain word starts behind bit 0 of the block at `position`, the
    whitespace in the block, and whether the document ends in it; where bit 0 is no whitespace, it is a word start.
    `end_of_word`, of the same arguments, gives the end of the word at `position`, where no whitespace stands.
    """

    @kernel
    def scan(text, doc_ends, classes, cursor, word_ends, doc_words, marked):
        text, classes, word_ends, marked = borrow((text, classes, word_ends, marked))
        document, position, words, documents = cursor[0], cursor[1], _ZERO, _ZERO
        last_block = text.size - 2 * BLOCK_BYTES
        while document < doc_ends.size and documents < doc_words.size:
            end = doc_ends[document]
            while position < end:
                before, written = position, word_ends[words - 1] if words else _ZERO
                if position <= last_block and words + BLOCK_BYTES < word_ends.size and written + 2 * BLOCK_BYTES <= marked.size:
                    starts, white, at_end = mark_starts(text, position, end, classes)
                    if white & _ONE:
                        position += min(count_trailing_zeros(~white), end - position)
                        continue
                    words, length = write_kept_ends(starts, white, written, word_ends, words)
                    length = end - position if at_end else length
                    stop = copy_kept(text, position, white, length, marked, written)
                    if at_end:
                        word_ends[words] = stop
                        words += 1
                    position += length
                if position == before:
                    start = end_of_run(text, position, end, classes, WHITESPACE, True)
                    stop = end_of_word(text, start, end, classes) if start < end else end
                    position, words = write_word(text, start, stop, position, word_ends, words, marked)
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
def write_word(text, start, stop, position, word_ends, words, marked):
    """Write text[start:stop], if not empty, as a word to `marked`; returns (stop, words), or (position, words) without room."""
    if start == stop:
        return stop, words
    written = word_ends[words - 1] if words else _ZERO
    if words == word_ends.size or written + stop - start > marked.size:
        return position, words
    word_ends[words] = copy_bytes(text, start, stop, marked, written)
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
def mark_bert_starts(text, position, end, classes):
    """Certain word starts by the rule of `end_of_bert_word`: `it's a` and the end gives 0b101100, whitespace 0b010000, True."""
    alone, _, inner, known = classify_characters(text, position, end, classes, BERT_ALONE, NO_CLASS, WHITESPACE)
    at_end, valid = known == end - position, mark_first(known)
    alone |= mark_bytes_between(text, position, 0x21, 0x2F) | mark_bytes_between(text, position, 0x3A, 0x40)
    alone |= mark_bytes_between(text, position, 0x5B, 0x60) | mark_bytes_between(text, position, 0x7B, 0x7E)
    white = mark_white(text, position, valid)
    starts = valid & ~(white | inner) & (alone | ((alone | white) << _ONE))
    return keep_certain(starts, known, at_end), white, at_end


@inline_part
def mark_punctuated_starts(text, position, end, classes):
    """Certain word starts by the rule of `end_of_punctuated_word`: `a?! b` and the end gives 0b10010, 0b01000, True."""
    word, _, inner, known = classify_characters(text, position, end, classes, UNICODE_WORD, NO_CLASS, WHITESPACE)
    at_end, valid = known == end - position, mark_first(known)
    word |= mark_letters(text, position) | mark_bytes_between(text, position, 0x30, 0x39)
    word |= mark_bytes_between(text, position, 0x5F, 0x5F)
    white = mark_white(text, position, valid)
    starts = valid & ~(white | inner) & ((word ^ (word << _ONE)) | (white << _ONE))
    return keep_certain(starts, known, at_end), white, at_end


scan_bert = make_dropping_scanner(mark_bert_starts, end_of_bert_word)
scan_whitespace_punct = make_dropping_scanner(mark_punctuated_starts, end_of_punctuated_word)
