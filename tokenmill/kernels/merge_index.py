"""Before the first merge: words become cells, pairs of base symbols are counted and placed."""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel
from tokenmill.kernels.hashing import hash_secretly
from tokenmill.kernels.merge_state import BARRIER, COUNT, KEY, LENGTH, NONE, PAIR, SPAN, START, SYMBOL, WORD


@kernel
def lay_out_words(symbols, starts, cells):
    """Copy words (`symbols[starts[w]:starts[w + 1]]`) into cells, barriers around each."""
    cell = np.int64(0)
    cells[cell, SYMBOL], cells[cell, SPAN], cells[cell, PAIR] = BARRIER, 1, NONE
    for word in range(starts.size - 1):
        for position in range(starts[word], starts[word + 1]):
            cell += 1
            cells[cell, SYMBOL], cells[cell, SPAN], cells[cell, PAIR], cells[cell, WORD] = symbols[position], 1, NONE, word
        cell += 1
        cells[cell, SYMBOL], cells[cell, SPAN], cells[cell, PAIR] = BARRIER, 1, NONE


@kernel
def count_first_pairs(cells, weights, pairs, slots, secret):
    """Number the pairs of base symbols in order of their first cell, and count them. Returns how many there are.

    `slots`: int32[power of two], all NONE: a hash table of pairs by key, with its `secret`. When `slots` is more than half full
    or `pairs` is full, the result is -1: call again with larger ones.
    """
    mask, used = np.uint64(slots.size - 1), np.int64(0)
    for cell in range(cells.shape[0] - 1):
        if cells[cell, SYMBOL] < 0 or cells[cell + 1, SYMBOL] < 0:
            continue
        key = np.int64(cells[cell, SYMBOL]) << 32 | np.int64(cells[cell + 1, SYMBOL])
        slot = hash_secretly(key, secret) & mask
        while slots[slot] != NONE and pairs[slots[slot], KEY] != key:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == NONE:
            if used == pairs.shape[0] or 2 * used >= slots.size:
                return np.int64(-1)
            slots[slot] = used
            pairs[used, KEY], pairs[used, COUNT], pairs[used, LENGTH] = key, 0, 0
            used += 1
        pair = np.int64(slots[slot])
        pairs[pair, COUNT] += weights[cells[cell, WORD]]
        pairs[pair, LENGTH] += 1
        cells[cell, PAIR] = pair
    return used


@kernel
def place_first_pairs(cells, pairs, positions):
    """Write the slices of the pairs that `count_first_pairs` counted: START says where they begin, LENGTH is 0 and grows."""
    for cell in range(cells.shape[0]):
        pair = np.int64(cells[cell, PAIR])
        if pair != NONE:
            positions[pairs[pair, START] + pairs[pair, LENGTH]] = cell
            pairs[pair, LENGTH] += 1
