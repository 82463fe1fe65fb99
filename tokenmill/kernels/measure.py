"""What a report counts in texts: characters, words between whitespace, and where decoded ids differ from the text.

`text` (uint8[n]) holds documents end to end, `ends` (int64[d]) says where each ends.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel
from tokenmill.kernels.intrinsics import borrow, count_ones, load_u64, mark_bytes_between
from tokenmill.kernels.scan_bytes import read_class
from tokenmill.kernels.scan_classes import WHITESPACE

_BLOCK = 64
_SPACE = 0x20
_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
#: What a token does in decoding: it begins a word, ends one, or is left out as a special token.
BEGINS, ENDS, LEFT_OUT = np.uint8(1), np.uint8(2), np.uint8(4)

#: How many bytes lie behind the last token's in `spelled`: eight are compared at once.
PADDING = 8


@kernel
def measure_documents(text, ends, classes, characters, words):
    """Characters and words of each document, into int64[d] each; a word is a run of characters that are no White_Space.

    `classes` is the class table. A byte that is no UTF-8 is a character by itself. Of `a  bé` and ` `: characters 5, 1; words
    2, 0. 64 ASCII bytes are counted at once, others one by one.
    """
    text, classes = borrow(text), borrow(classes)
    position = np.int64(0)
    for document in range(min(ends.size, characters.size, words.size)):
        end = ends[document]
        found_characters = found_words = np.int64(0)
        was_space = np.uint64(1)
        while position < end:
            size = min(_BLOCK, end - position)
            inside = _ALL >> np.uint64(_BLOCK - size)
            if position + _BLOCK <= text.size and not mark_bytes_between(text, position, 0x80, 0xFF) & inside:
                spaces = mark_bytes_between(text, position, 0x09, 0x0D) | mark_bytes_between(text, position, 0x20, 0x20)
                found_words += count_ones(~spaces & (spaces << _ONE | was_space) & inside)
                was_space = spaces >> np.uint64(size - 1) & _ONE
                found_characters += size
                position += size
                continue
            stop = position + size
            while position < stop:
                found, length = read_class(text, position, end, classes)
                is_space = np.uint64(1 if found & WHITESPACE else 0)
                found_words += np.int64(was_space & ~is_space & _ONE)
                was_space = is_space
                found_characters += 1
                position += length
        characters[document], words[document] = found_characters, found_words


@kernel
def find_differences(ids, offsets, spelled, spelled_ends, roles, spaced, text, ends, differences):
    """Where the bytes of each document's ids, one after another, first differ from its text; -1 where they are the same.

    The ids of document d are ids[offsets[d]:offsets[d + 1]] (int32, int64[d + 1]); id i is spelled
    spelled[spelled_ends[i]:spelled_ends[i + 1]] (uint8 with `PADDING` more, int64[rows + 1]). `differences` (int64[d]) counts
    bytes from the start of the document: `ab` and `abc` differ at 2. `roles` (uint8[rows]) are bits as above; with `spaced` a
    space is decoded between words, not in front of the first token or behind the last.
    """
    ids, spelled, spelled_ends, text = borrow(ids), borrow(spelled), borrow(spelled_ends), borrow(text)
    start = np.int64(0)
    for document in range(min(ends.size, differences.size)):
        end, position, same = ends[document], start, True
        is_first, waits = True, False
        for place in range(offsets[document], offsets[document + 1]):
            role = roles[ids[place]]
            if role & LEFT_OUT:
                continue
            if spaced:
                if waits or (not is_first and role & BEGINS):
                    if position == end or text[position] != _SPACE:
                        same = False
                        break
                    position += 1
                is_first, waits = False, role & ENDS != 0
            first, last = spelled_ends[ids[place]], spelled_ends[ids[place] + 1]
            size = last - first
            if 0 < size <= 8 and position + 8 <= text.size and position + size <= end:
                unlike = load_u64(text, position) ^ load_u64(spelled, first)
                if not unlike << np.uint64(64 - 8 * size):
                    position += size
                    continue
            while first < last and position < end and text[position] == spelled[first]:
                first, position = first + 1, position + 1
            if first < last:
                same = False
                break
        differences[document] = -1 if same and position == end else position - start
        start = end
