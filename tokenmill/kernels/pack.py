"""Packing: which block takes which part of a document, and the copying.

`place_best_fit` keeps blocks by the room they have left, in stacks, and a bit for every stack that is not empty: the least room
that is enough is found by looking through block / 64 words at most.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import count_trailing_zeros

NONE = -1
_WORD_BITS = 64


@part
def find_room(bits, size):
    """The smallest number from `size` on whose bit is set, -1 where there is none. (0b10100, 3) gives 4."""
    word = size // _WORD_BITS
    rest = bits[word] >> np.uint64(size % _WORD_BITS) << np.uint64(size % _WORD_BITS)
    while rest == np.uint64(0):
        word += 1
        if word == bits.size:
            return NONE
        rest = bits[word]
    return word * _WORD_BITS + np.int64(count_trailing_zeros(rest))


@kernel
def place_best_fit(sizes, block, places):
    """Give each of `sizes` (int64[n], 0..block, largest first) its block in `places` (int64[n]); returns how many blocks.

    A size goes into the block with the least room that takes it, of several into that which came to this room last.
    """
    tops = np.full(block + 1, NONE, np.int64)
    below = np.empty(sizes.size, np.int64)
    bits = np.zeros(block // _WORD_BITS + 1, np.uint64)
    blocks = 0
    for item in range(min(sizes.size, places.size)):
        room = find_room(bits, sizes[item])
        if room == NONE:
            chosen, room = blocks, block
            blocks += 1
        else:
            chosen = tops[room]
            tops[room] = below[chosen]
            if tops[room] == NONE:
                bits[room // _WORD_BITS] ^= np.uint64(1) << np.uint64(room % _WORD_BITS)
        places[item] = chosen
        room -= sizes[item]
        if tops[room] == NONE:
            bits[room // _WORD_BITS] |= np.uint64(1) << np.uint64(room % _WORD_BITS)
        below[chosen] = tops[room]
        tops[room] = chosen
    return blocks


@kernel
def fill_blocks(blocks, values, froms, places, offsets, lengths):
    """Copy `lengths[i]` of `values`, beginning at `froms[i]`, to `offsets[i]` of block `places[i]` (int32[blocks, block])."""
    for item in range(froms.size):
        row, source, target = places[item], froms[item], offsets[item]
        for step in range(lengths[item]):
            blocks[row, target + step] = values[source + step]


@kernel
def number_parts(segments, positions, places, offsets, sizes):
    """Number the parts of each block from 1 on, and the positions inside each part from 0; parts in the order of blocks.

    `segments` and `positions` are int32[blocks, block], zero: what no part takes stays so.
    """
    number, last = 0, NONE
    for item in range(places.size):
        number = 1 if places[item] != last else number + 1
        last = places[item]
        for step in range(sizes[item]):
            segments[last, offsets[item] + step] = number
            positions[last, offsets[item] + step] = step
