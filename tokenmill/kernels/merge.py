"""The BPE merge loop: incremental, exact, near n log n also for one word of a million letters.

A merge walks the cells of one pair, left to right, and makes a new symbol of each two. No pair holds that symbol yet, so all
pairs that come up are new, and each is found by the other symbol alone: no hash table. The pairs that give way are known by their
cells. Counts stay what recounting would give, overlaps included. What is lazy: a slice may hold cells where its pair no longer
stands (the cell tells); a heap entry may promise a higher count or an earlier place than its pair still has, and is corrected
when it comes to the top. A pair's count only falls after it has come up, so nothing ever has to move up in the heap.

The arrays are explained in `tokenmill.kernels.merge_state`.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.merge_heap import replace_top
from tokenmill.kernels.merge_index import append_cell, offer_pairs, open_slices
from tokenmill.kernels.merge_state import (
    AFTER,
    BARRIER,
    BEFORE,
    COUNT,
    FIRST_SEEN,
    HEAP_COUNT,
    HEAP_PAIR,
    HEAP_SIZE,
    HEAP_TIE,
    KEY,
    LENGTH,
    LOW_32,
    MIN_COUNT,
    NONE,
    PAIR,
    PAIRS_USED,
    SPAN,
    START,
    SYMBOL,
    TOKENS,
    WORD,
)

# What `merge_pairs` returns.
PAUSED, EXHAUSTED, NEEDS_ROOM = range(3)


@kernel
def merge_pairs(state, limit):
    """Merge until `limit` rules are made, no pair is left, or `pairs` and `heap` have to grow.

    Returns (status, rules made by this call); PAUSED says that all of them are made.
    """
    cells, weights, pairs, heap, positions, mates, forbidden, merges, counters = state
    made = np.int64(0)
    while made < limit:
        pair = find_best_pair(cells, pairs, heap, positions, counters)
        if pair < 0:
            return EXHAUSTED, made
        if not has_room(pairs, counters, pair):
            return NEEDS_ROOM, made
        drop_top(heap, counters)
        if is_forbidden(cells, forbidden, pair):
            continue
        key = pairs[pair, KEY]
        merges[made, 0], merges[made, 1], merges[made, 2] = key >> 32, key & LOW_32, pairs[pair, COUNT]
        made += 1
        first_new = counters[PAIRS_USED]
        replace_pair(cells, weights, pairs, positions, mates, counters, pair)
        open_slices(pairs, counters, first_new)
        place_new_pairs(cells, pairs, positions, counters[TOKENS], pair)
        offer_pairs(pairs, positions, heap, counters, first_new)
        clear_mates(pairs, mates, counters, first_new)
        counters[TOKENS] += 1
    return PAUSED, made


@part
def find_best_pair(cells, pairs, heap, positions, counters):
    """The best pair, left at the top of the heap with its true count and tie; -1 when no pair is left."""
    while counters[HEAP_SIZE] > 0:
        pair = heap[0, HEAP_PAIR]
        count, tie = pairs[pair, COUNT], pairs[pair, KEY]
        if count < counters[MIN_COUNT]:
            drop_top(heap, counters)
            continue
        if counters[FIRST_SEEN]:
            tie = find_first_cell(cells, pairs, positions, pair)
        if heap[0, HEAP_COUNT] == count and heap[0, HEAP_TIE] == tie:
            return pair
        replace_top(heap, counters[HEAP_SIZE], count, tie, pair)
    return np.int64(-1)


@part
def find_first_cell(cells, pairs, positions, pair):
    """The first cell where a pair that stands somewhere does so now; its slice then begins there."""
    start = pairs[pair, START]
    while cells[positions[start], PAIR] != pair:
        start += 1
    pairs[pair, LENGTH] -= start - pairs[pair, START]
    pairs[pair, START] = start
    return np.int64(positions[start])


@part
def has_room(pairs, counters, pair):
    """Is there room for the pairs that may come up: two for each place, two for each symbol?"""
    room = pairs.shape[0] - counters[PAIRS_USED]
    return 2 * pairs[pair, LENGTH] <= room or 2 * counters[TOKENS] + 2 <= room


@part
def drop_top(heap, counters):
    """Remove the top of the heap."""
    last = counters[HEAP_SIZE] - 1
    counters[HEAP_SIZE] = last
    replace_top(heap, last, heap[last, HEAP_COUNT], heap[last, HEAP_TIE], heap[last, HEAP_PAIR])


@part
def is_forbidden(cells, forbidden, pair):
    """Would the product be one of the forbidden words as a whole?"""
    for cell in forbidden:
        if cells[cell, PAIR] == pair:
            follower = cell + cells[cell, SPAN]
            if cells[follower + cells[follower, SPAN], SYMBOL] == BARRIER:
                return True
    return False


@part
def replace_pair(cells, weights, pairs, positions, mates, counters, merged):
    """Replace a pair by its product wherever it stands, left to right; the pairs that come up are counted, not yet placed."""
    product = counters[TOKENS]
    for entry in range(pairs[merged, START], pairs[merged, START] + pairs[merged, LENGTH]):
        cell = np.int64(positions[entry])
        if cells[cell, PAIR] != merged:
            continue
        weight, follower = weights[cells[cell, WORD]], cell + cells[cell, SPAN]
        before, after = cell - cells[cell - 1, SPAN], follower + cells[follower, SPAN]
        left, right = np.int64(cells[before, SYMBOL]), np.int64(cells[after, SYMBOL])
        if left != BARRIER:
            pairs[cells[before, PAIR], COUNT] -= weight
            cells[before, PAIR] = count_new_pair(pairs, counters, mates, left, BEFORE, left << 32 | product, weight)
        cells[cell, PAIR] = NONE
        if right != BARRIER:
            pairs[cells[follower, PAIR], COUNT] -= weight
            cells[cell, PAIR] = count_new_pair(pairs, counters, mates, right, AFTER, product << 32 | right, weight)
        cells[follower, PAIR] = NONE
        cells[cell, SYMBOL] = product
        cells[cell, SPAN] = cells[after - 1, SPAN] = after - cell


@part
def count_new_pair(pairs, counters, mates, symbol, side, key, weight):
    """Count one place of the pair that the product makes with a symbol at one side; returns the pair."""
    pair = np.int64(mates[symbol, side])
    if pair == NONE:
        pair = counters[PAIRS_USED]
        counters[PAIRS_USED] += 1
        mates[symbol, side] = pair
        pairs[pair, KEY], pairs[pair, COUNT], pairs[pair, LENGTH] = key, 0, 0
    pairs[pair, COUNT] += weight
    pairs[pair, LENGTH] += 1
    return pair


@part
def place_new_pairs(cells, pairs, positions, product, merged):
    """Write the slices of the pairs that came up when a pair was merged; between two products stands one pair, not two."""
    for entry in range(pairs[merged, START], pairs[merged, START] + pairs[merged, LENGTH]):
        cell = np.int64(positions[entry])
        if cells[cell, SYMBOL] != product:
            continue
        before = cell - cells[cell - 1, SPAN]
        if cells[before, SYMBOL] != BARRIER and cells[before, SYMBOL] != product:
            append_cell(pairs, positions, np.int64(cells[before, PAIR]), before)
        if cells[cell, PAIR] != NONE:
            append_cell(pairs, positions, np.int64(cells[cell, PAIR]), cell)


@part
def clear_mates(pairs, mates, counters, first_new):
    """Forget the new pairs: the next merge has others."""
    for pair in range(first_new, counters[PAIRS_USED]):
        mates[pairs[pair, KEY] >> 32, BEFORE] = NONE
        mates[pairs[pair, KEY] & LOW_32, AFTER] = NONE
