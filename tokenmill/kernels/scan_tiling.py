"""The loop of a lossless scanner, put around the two rules that make a pre-tokenizer: one for 64 bytes, one for a word.

The rules are parts (`compiling.py`), not kernels: plain functions that numba finds by name, so that a scanner made here is cached
on disk. (A compiled function held by a closure is another one in every process, and defeats the cache.)
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel
from tokenmill.kernels.intrinsics import borrow, count_leading_zeros
from tokenmill.kernels.scan_blocks import BLOCK_BYTES, write_word_ends
from tokenmill.kernels.scan_digits import end_of_group, end_of_segment

_ZERO = np.int64(0)
_NO_BITS = np.uint64(0)


def make_tiling_scanners(mark_starts, end_of_word, options):
    """Scanners (signature in `scan.py`) whose words tile the text, by how they cut digits out: not (0), singly (1), by three (3).

    `mark_starts(text, position, end, classes, options, group)` gives the certain word starts behind bit 0 of the block at
    `position`, a word start itself, and whether the document ends in the block; digits are cut out there. `end_of_word`, of the
    same arguments but for `group`, gives the end of the word at `position`, where no digit to be cut out stands, in a document
    that ends at `end`; it is asked where a block is of no use. `options` is a tuple of numbers, constant in the compiled code.
    """
    return {group: make_tiling_scanner(mark_starts, end_of_word, options, group) for group in (0, 1, 3)}


def make_tiling_scanner(mark_starts, end_of_word, options, group):
    """One of `make_tiling_scanners`."""

    @kernel
    def scan(text, doc_ends, classes, cursor, word_ends, doc_words, marked):
        text, classes, word_ends, marked = borrow((text, classes, word_ends, marked))
        document, position, words, documents = cursor[0], cursor[1], _ZERO, _ZERO
        while document < doc_ends.size and documents < doc_words.size:
            begin, end = doc_ends[document - 1] if document else _ZERO, doc_ends[document]
            while position < end and words < word_ends.size:
                starts, at_end = _NO_BITS, False
                if position + BLOCK_BYTES <= text.size and words + BLOCK_BYTES < word_ends.size:
                    starts, at_end = mark_starts(text, position, end, classes, options, group)
                    words = write_word_ends(starts, position, word_ends, words)
                if starts and not at_end:
                    position += 63 - count_leading_zeros(starts)
                    continue
                stop = end if at_end else position
                if group and stop == position:
                    stop = end_of_group(text, position, (begin, end), classes, group)
                if stop == position:
                    limit = end_of_segment(text, position, end, classes, cursor) if group else end
                    stop = end_of_word(text, position, limit, classes, options)
                position = word_ends[words] = stop
                words += 1
            if position < end:
                break
            doc_words[documents] = words
            document, documents = document + 1, documents + 1
        cursor[0], cursor[1] = document, position
        return words, documents

    return scan
