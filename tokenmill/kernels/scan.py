"""One scanner per pre-tokenizer: the text of a batch of documents goes in, the ends of its words come out.

All scanners have one signature, `scan(text, doc_ends, classes, cursor, word_ends, doc_words, marked) -> (words, documents)`:

    text       uint8[n], read-only or not: all documents of a batch, end to end
    doc_ends   int64[d]: document i ends at doc_ends[i] and begins where document i - 1 ends, the first one at cursor[1]
    classes    uint16[0x110000]: the class table (bits in scan_classes.py)
    cursor     int64[2], in and out: the current document and the byte position to go on from
    word_ends  int64[w], out: end of each word, in the order of the text; word_ends[:words] is filled
    doc_words  int64[k], out: doc_words[i] is how many words of this call were written when the i-th document completed in this
               call ended; doc_words[:documents] is filled
    marked     uint8[m], out: where scanners that change words (wordpunct) write them; the others leave it alone

A call ends when all documents are done or one of the out arrays is full; the next call goes on at the cursor. No word reaches
beyond its document; an empty document is completed with no word. Words of a lossless scanner tile the text and word_ends are
positions in `text`; those of wordpunct are positions in `marked`, from 0 in each call.

Each rule looks at a character a bounded number of times, so time is linear in the text, whatever it repeats.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel
from tokenmill.kernels.intrinsics import count_trailing_zeros
from tokenmill.kernels.scan_blocks import (
    BLOCK_BYTES,
    copy_kept,
    mark_lossless_starts,
    mark_wordpunct_starts,
    write_kept_ends,
    write_spaces,
)
from tokenmill.kernels.scan_bytes import copy_bytes, end_of_lossless_word, end_of_run, end_of_wordpunct_word
from tokenmill.kernels.scan_classes import LETTER, NO_CLASS, NUMBER, RE_SPACE
from tokenmill.kernels.scan_tiling import make_tiling_scanner

_SPACE = ord(" ")
# int64 from the start: with a literal 0 numba would compile every callee once more.
_ZERO = np.int64(0)


# `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: `Hi, I'm` gives the ends 2, 3, 5, 7.
scan_gpt2 = make_tiling_scanner(mark_lossless_starts, end_of_lossless_word, (LETTER, NUMBER))
# ` ?\S+|\s+(?!\S)|\s+`: `Hi, I'm` gives the ends 3, 7.
scan_whitespace = make_tiling_scanner(mark_lossless_starts, end_of_lossless_word, (NO_CLASS, NO_CLASS))


@kernel
def scan_none(text, doc_ends, classes, cursor, word_ends, doc_words, marked):
    """Each document is one word: `Hi, I'm` gives the end 7."""
    document, position, words, documents = cursor[0], cursor[1], _ZERO, _ZERO
    while document < doc_ends.size and documents < doc_words.size:
        if position < doc_ends[document]:
            if words == word_ends.size:
                break
            position = word_ends[words] = doc_ends[document]
            words += 1
        doc_words[documents] = words
        document, documents = document + 1, documents + 1
    cursor[0], cursor[1] = document, position
    return words, documents


@inline_part
def _mark_block(text, position, end, classes, word_ends, words, marked):
    """Write the certain words of one block to `marked`; returns (position, words) behind them, unchanged if there are none."""
    starts, dropped, replaced, at_end = mark_wordpunct_starts(text, position, end, classes)
    if dropped & np.uint64(1):
        return position + min(count_trailing_zeros(~dropped), end - position), words
    written = word_ends[words - 1] if words else _ZERO
    words, length = write_kept_ends(starts, dropped, written, word_ends, words)
    length = end - position if at_end else length
    stop = copy_kept(text, position, dropped, length, marked, written)
    write_spaces(replaced, dropped, marked, written)
    if at_end:
        word_ends[words] = stop
        words += 1
    return position + length, words


@inline_part
def _mark_word(text, position, end, classes, word_ends, words, marked):
    """Write one word to `marked`; returns (position, words) behind it, unchanged without room, at `end` without a word."""
    start = end_of_run(text, position, end, classes, RE_SPACE, True)
    if start >= end:
        return end, words
    stop = end_of_wordpunct_word(text, start, end, classes)
    written = word_ends[words - 1] if words else _ZERO
    space = np.int64(start > position)
    if words == word_ends.size or written + space + stop - start > marked.size:
        return position, words
    if space:
        marked[written] = _SPACE
    word_ends[words] = copy_bytes(text, start, stop, marked, written + space)
    return stop, words + 1


@inline_part
def _mark_document(text, position, end, classes, word_ends, words, marked):
    """Write the words of a document from `position` on; returns (position, words) behind them, short of `end` if room ends."""
    last_block = text.size - 2 * BLOCK_BYTES
    while position < end:
        before = position
        written = word_ends[words - 1] if words else _ZERO
        if position <= last_block and words + BLOCK_BYTES < word_ends.size and written + 2 * BLOCK_BYTES <= marked.size:
            position, words = _mark_block(text, position, end, classes, word_ends, words, marked)
        if position == before:
            position, words = _mark_word(text, position, end, classes, word_ends, words, marked)
        if position == before:
            break
    return position, words


@kernel
def scan_wordpunct(text, doc_ends, classes, cursor, word_ends, doc_words, marked):
    """Words of `\\w+(?:'\\w+)?|[^\\w\\s]`, written to `marked` with a space before each that follows whitespace.

    The text `Hi,  I'm` gives `marked` `Hi, I'm` and the ends 2, 3, 7. The words of a text are never longer than the text. A call
    that completes nothing and writes no word wants a larger `marked`: the next word does not fit.
    """
    document, position, words, documents = cursor[0], cursor[1], _ZERO, _ZERO
    while document < doc_ends.size and documents < doc_words.size:
        end = doc_ends[document]
        position, words = _mark_document(text, position, end, classes, word_ends, words, marked)
        if position < end:
            break
        doc_words[documents] = words
        document, documents = document + 1, documents + 1
    cursor[0], cursor[1] = document, position
    return words, documents
