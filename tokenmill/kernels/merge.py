"""The BPE merge loop: incremental, exact, near n log n also for one word of a million letters.

A merge walks the cells of one pair, left to right, and makes a new symbol of each two. No pair holds that symbol yet, so all
pairs that come up are new, and each is found by the other symbol alone: no hash table. The pairs that give way are known by their
cells. Counts stay what recounting would give, overlaps included. What is lazy: a slice may hold cells where its pair no longer
stands (the cell tells); a heap entry may promise a higher count or an earlier place than its pair still has, and is corrected
when it comes to the top. A pair's count only falls after it has come up, so nothing ever has to move up in the heap. The heap
holds the pairs that reach a threshold, and few pairs ever do; when it is empty, the threshold falls to half the highest count.

The arrays are explained in `tokenmill.kernels.merge_state`.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow, flatten, prefetch_item
from tokenmill.kernels.merge_heap import push_entry, replace_top
from tokenmill.kernels.merge_state import (
    AFTER,
    AHEAD,
    BARRIER,
    BEFORE,
    COUNT,
    EVENT_CELL,
    EVENT_PAIR,
    FIRST_SEEN,
    HEAP_COUNT,
    HEAP_PAIR,
    HEAP_SIZE,
    HEAP_TIE,
    KEY,
    LENGTH,
    LOW_32,
    MIN_COUNT,
    MOST_LENGTH,
    NONE,
    PAIR,
    PAIRS_USED,
    POSITIONS_USED,
    SPAN,
    START,
    SYMBOL,
    THRESHOLD,
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
    return merge_best_pairs(borrow(state), limit)


@part
def merge_best_pairs(state, limit):
    """`merge_pairs` with borrowed arrays. (Apart from it: Numba compiles a part twice that both a kernel and a part call.)"""
    cells, weights, pairs, heap, positions, mates, events, lengths, forbidden, merges, counters = state
    made = np.int64(0)
    while made < limit:
        pair = find_best_pair(cells, pairs, heap, positions, counters)
        if pair < 0:
            return EXHAUSTED, made
        if not has_room(pairs, counters, pair):
            return NEEDS_ROOM, made
        drop_top(heap, counters)
        count = pairs[pair, COUNT]
        pairs[pair, COUNT] = 0  # it is never offered again
        if is_forbidden(cells, forbidden, pair) or is_too_long(pairs, lengths, counters, pair):
            continue
        merges[made, 0], merges[made, 1], merges[made, 2] = pairs[pair, KEY] >> 32, pairs[pair, KEY] & LOW_32, count
        made += 1
        first_new = counters[PAIRS_USED]
        events_used = replace_pair(cells, weights, pairs, positions, mates, events, counters, pair)
        open_slices(pairs, counters, first_new)
        place_new_pairs(pairs, positions, events, events_used)
        offer_pairs(cells, pairs, heap, positions, counters, first_new)
        clear_mates(pairs, mates, counters, first_new)
        lengths[counters[TOKENS]] = lengths[pairs[pair, KEY] >> 32] + lengths[pairs[pair, KEY] & LOW_32]
        counters[TOKENS] += 1
    return PAUSED, made


@part
def find_best_pair(cells, pairs, heap, positions, counters):
    """The best pair, left at the top of the heap with its true count and tie; -1 when no pair is left."""
    while counters[HEAP_SIZE] > 0 or refill_heap(cells, pairs, heap, positions, counters):
        pair = heap[0, HEAP_PAIR]
        count = pairs[pair, COUNT]
        if count < counters[THRESHOLD]:
            drop_top(heap, counters)
            continue
        tie = tie_of(cells, pairs, positions, counters, pair)
        if heap[0, HEAP_COUNT] == count and heap[0, HEAP_TIE] == tie:
            return pair
        replace_top(heap, counters[HEAP_SIZE], count, tie, pair)
    return np.int64(-1)


@part
def refill_heap(cells, pairs, heap, positions, counters):
    """Lower the threshold to half the highest count there is, and offer all pairs to the empty heap. False when none is left."""
    highest = np.int64(0)
    for pair in range(counters[PAIRS_USED]):
        if pairs[pair, COUNT] > highest:
            highest = pairs[pair, COUNT]
    if highest < counters[MIN_COUNT]:
        return False
    half = (highest + 1) // 2
    counters[THRESHOLD] = half if half > counters[MIN_COUNT] else counters[MIN_COUNT]
    offer_pairs(cells, pairs, heap, positions, counters, np.int64(0))
    return True


@part
def offer_pairs(cells, pairs, heap, positions, counters, first):
    """Put the pairs from `first` on into the heap, if they reach the threshold."""
    for pair in range(first, counters[PAIRS_USED]):
        if pairs[pair, COUNT] >= counters[THRESHOLD]:
            tie = tie_of(cells, pairs, positions, counters, pair)
            push_entry(heap, counters[HEAP_SIZE], pairs[pair, COUNT], tie, pair)
            counters[HEAP_SIZE] += 1


@part
def tie_of(cells, pairs, positions, counters, pair):
    """What decides between equal counts: the pair's key, or the first cell where it stands now; its slice then begins there."""
    if not counters[FIRST_SEEN]:
        return pairs[pair, KEY]
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
def is_too_long(pairs, lengths, counters, pair):
    """Would the product be longer than tokens may get?"""
    most = counters[MOST_LENGTH]
    return most > 0 and np.int64(lengths[pairs[pair, KEY] >> 32]) + lengths[pairs[pair, KEY] & LOW_32] > most


@part
def replace_pair(cells, weights, pairs, positions, mates, events, counters, merged):
    """Replace a pair by its product wherever it stands, left to right; the pairs that come up are counted, not yet placed.

    Where they stand goes to `events`; returns how many those are.
    """
    product, used, numbers = counters[TOKENS], np.int64(0), flatten(cells)
    for entry in range(pairs[merged, START], pairs[merged, START] + pairs[merged, LENGTH]):
        prefetch_item(numbers, np.int64(positions[entry + AHEAD]) * cells.shape[1])
        cell = np.int64(positions[entry])
        if cells[cell, PAIR] != merged:
            continue
        weight, follower = weights[cells[cell, WORD]], cell + cells[cell, SPAN]
        before, after = cell - cells[cell - 1, SPAN], follower + cells[follower, SPAN]
        left, right = np.int64(cells[before, SYMBOL]), np.int64(cells[after, SYMBOL])
        if left != BARRIER:
            pairs[cells[before, PAIR], COUNT] -= weight
            used -= left == product  # what came up at the last place has gone again
            pair = count_new_pair(pairs, counters, mates, left, BEFORE, left << 32 | product, weight)
            cells[before, PAIR] = events[used, EVENT_PAIR] = pair
            events[used, EVENT_CELL] = before
            used += 1
        cells[cell, PAIR] = NONE
        if right != BARRIER:
            pairs[cells[follower, PAIR], COUNT] -= weight
            pair = count_new_pair(pairs, counters, mates, right, AFTER, product << 32 | right, weight)
            cells[cell, PAIR] = events[used, EVENT_PAIR] = pair
            events[used, EVENT_CELL] = cell
            used += 1
        cells[follower, PAIR] = NONE
        cells[cell, SYMBOL] = product
        cells[cell, SPAN] = cells[after - 1, SPAN] = after - cell
    return used


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
def open_slices(pairs, counters, first):
    """Reserve LENGTH positions for each pair from `first` on; LENGTH then counts those that are filled."""
    for pair in range(first, counters[PAIRS_USED]):
        pairs[pair, START] = counters[POSITIONS_USED]
        counters[POSITIONS_USED] += pairs[pair, LENGTH]
        pairs[pair, LENGTH] = 0


@part
def place_new_pairs(pairs, positions, events, used):
    """Write the slices of the pairs that came up."""
    for event in range(used):
        pair = np.int64(events[event, EVENT_PAIR])
        positions[pairs[pair, START] + pairs[pair, LENGTH]] = events[event, EVENT_CELL]
        pairs[pair, LENGTH] += 1


@part
def clear_mates(pairs, mates, counters, first_new):
    """Forget the new pairs: the next merge has others."""
    for pair in range(first_new, counters[PAIRS_USED]):
        mates[pairs[pair, KEY] >> 32, BEFORE] = NONE
        mates[pairs[pair, KEY] & LOW_32, AFTER] = NONE
