"""Before the first merge: words become cells, pairs of base symbols get their counts, positions and places in the heap."""

from __future__ import annotations

import numpy as np
from numba import njit

from tokenmill.kernels.hashing import mix
from tokenmill.kernels.merge_state import (
    BARRIER,
    COUNT,
    FIRST_SEEN,
    HEAP_SIZE,
    KEY,
    LENGTH,
    MIN_COUNT,
    NONE,
    PAIRS_USED,
    POSITIONS_USED,
    START,
    push_entry,
)


@njit(cache=True, nogil=True)
def lay_out_words(symbols, starts, counts, cells):
    """Copy words (`symbols[starts[w]:starts[w + 1]]`, count `counts[w]`) into cells, barriers around each."""
    cell_symbols, spans, weights = cells.symbols, cells.spans, cells.weights
    cell = np.int64(0)
    cell_symbols[cell], spans[cell] = BARRIER, 1
    for word in range(starts.size - 1):
        for position in range(starts[word], starts[word + 1]):
            cell += 1
            cell_symbols[cell], spans[cell], weights[cell] = symbols[position], 1, counts[word]
        cell += 1
        cell_symbols[cell], spans[cell] = BARRIER, 1


@njit(cache=True, nogil=True)
def count_first_pairs(cells, pairs, slots):
    """Number the pairs of base symbols in order of their first cell, and count them. Returns how many there are.

    `slots`: int32[power of two], all NONE: a hash table of pairs by key. When `slots` is more than half full or `pairs` is full,
    the result is -1: call again with larger ones.
    """
    symbols, pair_at, weights = cells.symbols, cells.pair_at, cells.weights
    mask, used = np.uint64(slots.size - 1), np.int64(0)
    pair_at[symbols.size - 1] = NONE
    for cell in range(symbols.size - 1):
        pair_at[cell] = NONE
        if symbols[cell] < 0 or symbols[cell + 1] < 0:
            continue
        key = np.int64(symbols[cell]) << 32 | np.int64(symbols[cell + 1])
        slot = mix(key) & mask
        while slots[slot] != NONE and pairs[slots[slot], KEY] != key:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == NONE:
            if used == pairs.shape[0] or 2 * used >= slots.size:
                return np.int64(-1)
            slots[slot] = used
            pairs[used, KEY], pairs[used, COUNT], pairs[used, LENGTH] = key, 0, 0
            used += 1
        pair = slots[slot]
        pairs[pair, COUNT] += weights[cell]
        pairs[pair, LENGTH] += 1
        pair_at[cell] = pair
    return used


@njit(cache=True, nogil=True)
def place_first_pairs(pair_at, pairs, positions, heap, counters):
    """Write the slices of the pairs that `count_first_pairs` counted (`counters[PAIRS_USED]`), and put them into the heap."""
    used = np.int64(0)
    for pair in range(counters[PAIRS_USED]):
        pairs[pair, START] = used
        used += pairs[pair, LENGTH]
        pairs[pair, LENGTH] = 0
    counters[POSITIONS_USED] = used
    for cell in range(pair_at.size):
        pair = pair_at[cell]
        if pair >= 0:
            positions[pairs[pair, START] + pairs[pair, LENGTH]] = cell
            pairs[pair, LENGTH] += 1
    for pair in range(counters[PAIRS_USED]):
        count = pairs[pair, COUNT]
        if count >= counters[MIN_COUNT]:
            tie = positions[pairs[pair, START]] if counters[FIRST_SEEN] else pairs[pair, KEY]
            push_entry(heap, counters[HEAP_SIZE], count, tie, pair)
            counters[HEAP_SIZE] += 1
