"""Word starts of 64 bytes at a time, as the bits of one 64-bit number: the fast path of the scanners.

Bit i of a mask speaks of the byte at `position + i`. Where words begin follows from the classes of a byte and its neighbours, so
a few shifts find all word starts of a block without a branch. One character at a time costs two or three mispredicted branches a
word (measured on English: 20 ns a word that way, 3 to 5 ns this way). A block always begins at a word start, so nothing is
carried from block to block.

Each `mark_*_starts` returns the starts behind bit 0 that are certain. A start needs its next byte to be known, so the last bytes
of a block are left to the next one, unless the document ends there. When none is certain the caller takes one word by the
character-at-a-time rule and goes on behind it.

What runs once a block is inlined by force: left to LLVM it is a call that returns its tuple through memory, at half the speed.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import copy_64_bytes, count_leading_zeros, count_ones, count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_bytes import read_class

#: Bytes of a block; a caller makes sure that so many lie behind its position in the text, and that so many words have room.
BLOCK_BYTES = 64

_NO_BITS = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@inline_part
def mark_first(count):
    """The lowest `count` bits, 0 <= count <= 64: 3 gives 0b111."""
    return _ALL >> np.uint64(64 - count) if count > 0 else _NO_BITS


@inline_part
def mark_last(count):
    """The highest of the lowest `count` bits: 3 gives 0b100."""
    return mark_first(count) & ~(mark_first(count) >> _ONE)


@inline_part
def mark_letters(text, position):
    """The ASCII letters of a block: `a1B...` gives 0b101..."""
    return mark_bytes_between(text, position, 0x41, 0x5A) | mark_bytes_between(text, position, 0x61, 0x7A)


@inline_part
def classify_characters(text, position, end, classes, first, second, space):
    """Of the block's characters beyond ASCII: masks of class `first`, of `second`, of bytes inside a character; the bytes known.

    The block is known up to the document's end, to the first character that it holds only a part of, and to the first one of
    class `space`: whitespace beyond ASCII is rare and left to the character-at-a-time rule. `aé1` with LETTER, NUMBER, WHITESPACE
    gives 0b0110, 0, 0b0100, 4.
    """
    known = min(BLOCK_BYTES, end - position)
    in_first, in_second, inner = _NO_BITS, _NO_BITS, _NO_BITS
    high = mark_bytes_between(text, position, 0x80, 0xFF) & mark_first(known)
    while high:
        offset = count_trailing_zeros(high)
        found, length = read_class(text, position + offset, end, classes)
        if found & space or offset + length > known:
            return in_first, in_second, inner, offset
        character = mark_first(length) << np.uint64(offset)
        in_first |= character if found & first else _NO_BITS
        in_second |= character if found & second else _NO_BITS
        inner |= character & (character << _ONE)
        high &= ~character
    return in_first, in_second, inner, known


@inline_part
def keep_certain(starts, known, at_end):
    """The starts from bit 1 on whose next byte is known; at the document's end all that lie in it."""
    return starts & mark_first(known if at_end else known - 1) & ~_ONE


@inline_part
def write_kept_ends(starts, dropped, position, word_ends, words):
    """`write_word_ends` where dropped bytes do not count; returns the new `words` and the last start's offset in the block.

    0b10100 without 0b01000, at position 100, writes 102, 103, and the offset is 4. Without a start, the offset is 0.
    """
    stop = words + count_ones(starts)
    last = 63 - count_leading_zeros(starts | _ONE)
    while words < stop:
        for place in range(words, words + 8):
            before = (_ONE << np.uint64(count_trailing_zeros(starts) & 63)) - _ONE
            word_ends[place] = position + count_ones(before & ~dropped)
            starts &= starts - _ONE
        words += 8
    return stop, last


@part
def write_spaces(places, dropped, target, at):
    """Put a space at the bytes in `places`, dropped bytes not counted: 0b10000 without 0b01000, at 100, writes target[103]."""
    while places:
        before = (_ONE << np.uint64(count_trailing_zeros(places))) - _ONE
        target[at + count_ones(before & ~dropped)] = 0x20
        places &= places - _ONE


@inline_part
def copy_kept(text, position, dropped, length, target, at):
    """Copy the first `length` bytes of a block without the dropped ones to target[at:]; returns where the copy ends.

    Every run of kept bytes as whole 64 bytes, the surplus overwritten by the next one, so that no copy waits for another: both
    arrays must have two blocks of room. `Hi,  I`, 0b01000, 6 copies `Hi, I`.
    """
    kept = ~dropped & mark_first(length)
    runs = kept & ~(kept << _ONE)
    while runs:
        offset = count_trailing_zeros(runs)
        before = kept & ((_ONE << np.uint64(offset)) - _ONE)
        copy_64_bytes(text, position + offset, target, at + count_ones(before))
        runs &= runs - _ONE
    return at + count_ones(kept)


@inline_part
def write_word_ends(starts, position, word_ends, words):
    """Write the positions of the set bits, which end the words before them, from word_ends[words] on; returns the new `words`.

    0b0101100 at position 100 writes 102, 103, 105. Always eight at once, the surplus to be overwritten: how many there are cannot
    be predicted, how many times eight nearly can. `word_ends` must have room for 64 more.
    """
    stop = words + count_ones(starts)
    while words < stop:
        for place in range(words, words + 8):
            word_ends[place] = position + count_trailing_zeros(starts)
            starts &= starts - _ONE
        words += 8
    return stop
