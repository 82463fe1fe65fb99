"""The BPE merge loop: incremental, exact, near n log n also for one word of a million letters.

A merge walks the cells of one pair, left to right, and makes a new symbol of each two. No pair holds that symbol yet, so all
pairs that come up are new, and each is found by the other symbol alone: no hash table. The pairs that give way are known by their
cells (`pair_at`). Counts stay what recounting would give, overlaps included. What is lazy: a slice may hold cells where its pair
no longer stands (`pair_at` tells); a heap entry may promise a higher count or an earlier place than its pair still has, and is
corrected when it comes to the top. Counts only fall after a pair has come up, so nothing ever has to move up in the heap.

The arrays are explained in `tokenmill.kernels.merge_state`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tokenmill.kernels.merge_state import (
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
    PAIRS_USED,
    POSITIONS_USED,
    START,
    TOKENS,
    push_entry,
    replace_top,
)

# What `merge_pairs` returns.
PAUSED, EXHAUSTED, NEEDS_ROOM = range(3)


@njit(cache=True, nogil=True)
def merge_pairs(state, merges):
    """Merge until `merges` rules are made, no pair is left, or `pairs` and `heap` have to grow.

    Returns (status, rules made by this call); PAUSED says that all of them are made.
    """
    pairs, counters, made = state.pairs, state.counters, np.int64(0)
    while made < merges:
        pair = find_best_pair(state.cells.pair_at, pairs, state.positions, state.heap, counters)
        if pair < 0:
            return EXHAUSTED, made
        if counters[PAIRS_USED] + 2 * min(pairs[pair, LENGTH], counters[TOKENS] + 1) > pairs.shape[0]:
            return NEEDS_ROOM, made
        drop_top(state.heap, counters)
        if is_forbidden(state, pair):
            continue
        key = pairs[pair, KEY]
        state.merges[made, 0], state.merges[made, 1], state.merges[made, 2] = key >> 32, key & LOW_32, pairs[pair, COUNT]
        first_new = counters[PAIRS_USED]
        events = replace_pair(state, pair)
        place_pairs(state, first_new, events)
        counters[TOKENS] += 1
        made += 1
    return PAUSED, made


@njit(cache=True, nogil=True)
def find_best_pair(pair_at, pairs, positions, heap, counters):
    """The best pair, left at the top of the heap with its true count and tie; -1 when no pair is left."""
    while counters[HEAP_SIZE] > 0:
        pair = heap[0, HEAP_PAIR]
        count = pairs[pair, COUNT]
        if count < counters[MIN_COUNT]:
            drop_top(heap, counters)
            continue
        tie = pairs[pair, KEY]
        if counters[FIRST_SEEN]:
            skip_stale_cells(pair_at, pairs, positions, pair)
            tie = np.int64(positions[pairs[pair, START]])
        if heap[0, HEAP_COUNT] == count and heap[0, HEAP_TIE] == tie:
            return pair
        replace_top(heap, counters[HEAP_SIZE], count, tie, pair)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def drop_top(heap, counters):
    """Remove the top of the heap."""
    last = counters[HEAP_SIZE] - 1
    counters[HEAP_SIZE] = last
    replace_top(heap, last, heap[last, HEAP_COUNT], heap[last, HEAP_TIE], heap[last, HEAP_PAIR])


@njit(cache=True, nogil=True)
def skip_stale_cells(pair_at, pairs, positions, pair):
    """Let the slice of a pair that stands somewhere begin with the first cell where it does."""
    while pair_at[positions[pairs[pair, START]]] != pair:
        pairs[pair, START] += 1
        pairs[pair, LENGTH] -= 1


@njit(cache=True, nogil=True)
def is_forbidden(state, pair):
    """Would the product spell one of the forbidden strings? It spells what stood in its cells at first, in any place."""
    starts, base_symbols, spans = state.forbidden_starts, state.base_symbols, state.cells.spans
    if starts.size == 1:
        return False
    skip_stale_cells(state.cells.pair_at, state.pairs, state.positions, pair)
    cell = np.int64(state.positions[state.pairs[pair, START]])
    size = spans[cell] + spans[cell + spans[cell]]
    for string in range(starts.size - 1):
        position = starts[string]
        if starts[string + 1] - position == size:
            while position < starts[string + 1] and state.forbidden[position] == base_symbols[cell + position - starts[string]]:
                position += 1
            if position == starts[string + 1]:
                return True
    return False


@njit(cache=True, nogil=True)
def replace_pair(state, merged):
    """Replace a pair by its product wherever it stands, left to right; the pairs that come up are counted, not yet placed.

    Writes the cells of those into `events` and returns how many there are.
    """
    symbols, spans, pair_at, weights = state.cells
    pairs, positions, counters, events = state.pairs, state.positions, state.counters, state.events
    befores, afters = state.befores, state.afters
    product, used = counters[TOKENS], np.int64(0)
    for entry in range(pairs[merged, START], pairs[merged, START] + pairs[merged, LENGTH]):
        cell = np.int64(positions[entry])
        if pair_at[cell] != merged:
            continue
        weight, follower = weights[cell], cell + spans[cell]
        before, after = cell - spans[cell - 1], follower + spans[follower]
        symbols[cell] = product
        spans[cell] = spans[after - 1] = after - cell
        symbol = symbols[before]
        if symbol >= 0:
            pairs[pair_at[before], COUNT] -= weight
            if symbol == product:  # the pair that came up at the last place of this merge has gone already
                pairs[pair_at[before], LENGTH] -= 1
                used -= 1
            pair_at[before] = count_new_pair(pairs, counters, befores, symbol, np.int64(symbol) << 32 | product, weight)
            events[used] = before
            used += 1
        symbol = symbols[after]
        pair_at[cell] = NONE
        if symbol >= 0:
            pairs[pair_at[follower], COUNT] -= weight
            pair_at[cell] = count_new_pair(pairs, counters, afters, symbol, product << 32 | np.int64(symbol), weight)
            events[used] = cell
            used += 1
        pair_at[follower] = NONE
    return used


@njit(cache=True, nogil=True)
def count_new_pair(pairs, counters, mates, symbol, key, weight):
    """Count one place of the new pair that the product makes with a symbol; returns the pair."""
    pair = mates[symbol]
    if pair == NONE:
        pair = mates[symbol] = counters[PAIRS_USED]
        counters[PAIRS_USED] += 1
        pairs[pair, KEY], pairs[pair, COUNT], pairs[pair, LENGTH] = key, 0, 0
    pairs[pair, COUNT] += weight
    pairs[pair, LENGTH] += 1
    return pair


@njit(cache=True, nogil=True)
def place_pairs(state, first_new, events_used):
    """Write the slices of the pairs that one merge made, from `first_new` on, and put them into the heap."""
    pair_at, pairs, positions, counters = state.cells.pair_at, state.pairs, state.positions, state.counters
    used, min_count = counters[POSITIONS_USED], counters[MIN_COUNT]
    for pair in range(first_new, counters[PAIRS_USED]):
        state.befores[pairs[pair, KEY] >> 32] = state.afters[pairs[pair, KEY] & LOW_32] = NONE
        pairs[pair, START] = used
        used += pairs[pair, LENGTH]
        pairs[pair, LENGTH] = 0
    counters[POSITIONS_USED] = used
    for event in range(events_used):
        cell = state.events[event]
        pair = pair_at[cell]
        positions[pairs[pair, START] + pairs[pair, LENGTH]] = cell
        pairs[pair, LENGTH] += 1
    for pair in range(first_new, counters[PAIRS_USED]):
        if pairs[pair, COUNT] >= min_count:
            tie = np.int64(positions[pairs[pair, START]]) if counters[FIRST_SEEN] else pairs[pair, KEY]
            push_entry(state.heap, counters[HEAP_SIZE], pairs[pair, COUNT], tie, pair)
            counters[HEAP_SIZE] += 1
