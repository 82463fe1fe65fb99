"""The state of the merge loop: its arrays, the table of pairs, and the heap that gives the best of them.

The layout is explained in `tokenmill.kernels.merge`, which runs the loop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tokenmill.kernels.hashing import mix

BARRIER, INSIDE = -1, -2
# Columns of `pairs`; EMPTY is the key of a free entry, UNPLACED the start of a slice that is still being counted.
KEY, COUNT, START, LENGTH = 0, 1, 2, 3
EMPTY, UNPLACED = -1, -1
# Cells of `counters`.
HEAP_SIZE, POSITIONS_USED, PAIRS_USED, TOKENS_USED, MIN_COUNT, FIRST_SEEN, ROOM = range(7)
COUNTERS = 7

LOW_32 = np.int64(0xFFFFFFFF)


class MergeState(NamedTuple):
    """All arrays of the merge loop; `n` cells, `v` tokens at most, `m` merges a call.

    The capacities of the others are powers of two or grow.
    """

    symbols: np.ndarray  # int32[n]
    spans: np.ndarray  # int32[n]
    weights: np.ndarray  # int64[n]: count of the word that a cell belongs to
    pairs: np.ndarray  # int64[power of two, 4]: open addressing
    positions: np.ndarray  # int64[>= live cells]
    heap: np.ndarray  # int64[capacity, 3]: count, tie, key
    tokens: np.ndarray  # int64[v, 3]: size, left, right
    forbidden: np.ndarray  # int32[s]: strings that no rule may make, as base symbols, end to end
    forbidden_starts: np.ndarray  # int64[f + 1]
    merges: np.ndarray  # int64[m, 3]: left, right, count; the rules of one call of `merge_pairs`
    counters: np.ndarray  # int64[COUNTERS]


@njit(cache=True, nogil=True)
def pair_key(left, right):
    """`pair_key(1, 2)` is `1 << 32 | 2`: keys compare as (left, right)."""
    return np.int64(left) << 32 | np.int64(right)


@njit(cache=True, nogil=True)
def find_pair(pairs, key):
    """The entry of a key, or the free entry where it belongs."""
    mask = np.uint64(pairs.shape[0] - 1)
    slot = mix(key) & mask
    while pairs[slot, KEY] != key and pairs[slot, KEY] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit(cache=True, nogil=True)
def claim_pair(state, key):
    """The entry of a key, taken into use with count 0 where it is new."""
    pairs = state.pairs
    slot = find_pair(pairs, key)
    if pairs[slot, KEY] == EMPTY:
        pairs[slot, KEY] = key
        pairs[slot, COUNT] = 0
        pairs[slot, START] = UNPLACED
        pairs[slot, LENGTH] = 0
        state.counters[PAIRS_USED] += 1
    return slot


@njit(cache=True, nogil=True)
def open_slice(state, slot):
    """Reserve LENGTH positions for a pair; LENGTH then counts those that are filled."""
    state.pairs[slot, START] = state.counters[POSITIONS_USED]
    state.counters[POSITIONS_USED] += state.pairs[slot, LENGTH]
    state.pairs[slot, LENGTH] = 0


@njit(cache=True, nogil=True)
def append_position(state, slot, cell):
    """Add a cell to a pair's open slice."""
    pairs = state.pairs
    state.positions[pairs[slot, START] + pairs[slot, LENGTH]] = cell
    pairs[slot, LENGTH] += 1


@njit(cache=True, nogil=True)
def holds_pair(state, cell, left, right):
    """Does the pair stand at this cell now?"""
    return state.symbols[cell] == left and state.symbols[cell + state.spans[cell]] == right


@njit(cache=True, nogil=True)
def comes_before(heap, first, second):
    """Heap order: the higher count, then the smaller tie."""
    if heap[first, 0] != heap[second, 0]:
        return heap[first, 0] > heap[second, 0]
    return heap[first, 1] < heap[second, 1]


@njit(cache=True, nogil=True)
def swap_entries(heap, first, second):
    """Exchange two heap entries."""
    for column in range(3):
        heap[first, column], heap[second, column] = heap[second, column], heap[first, column]


@njit(cache=True, nogil=True)
def sift_up(heap, entry):
    """Restore the heap above an entry that was added."""
    while entry > 0:
        parent = (entry - 1) >> 1
        if not comes_before(heap, entry, parent):
            return
        swap_entries(heap, entry, parent)
        entry = parent


@njit(cache=True, nogil=True)
def sift_down(heap, size):
    """Restore the heap below its top."""
    entry = 0
    while True:
        child = 2 * entry + 1
        if child >= size:
            return
        if child + 1 < size and comes_before(heap, child + 1, child):
            child += 1
        if not comes_before(heap, child, entry):
            return
        swap_entries(heap, entry, child)
        entry = child


@njit(cache=True, nogil=True)
def push_pair(state, slot):
    """Offer a pair for merging."""
    heap, counters = state.heap, state.counters
    if state.pairs[slot, COUNT] < counters[MIN_COUNT]:
        return
    size = counters[HEAP_SIZE]
    heap[size, 0], heap[size, 1], heap[size, 2] = state.pairs[slot, COUNT], tie_of(state, slot), state.pairs[slot, KEY]
    counters[HEAP_SIZE] = size + 1
    sift_up(heap, size)


@njit(cache=True, nogil=True)
def drop_top(state):
    """Remove the top of the heap."""
    heap, size = state.heap, state.counters[HEAP_SIZE] - 1
    state.counters[HEAP_SIZE] = size
    swap_entries(heap, 0, size)
    sift_down(heap, size)


@njit(cache=True, nogil=True)
def tie_of(state, slot):
    """What decides between equal counts: the pair's first cell (after dropping cells that no longer hold it), or its key."""
    key = state.pairs[slot, KEY]
    if state.counters[FIRST_SEEN] == 0:
        return key
    left, right = key >> 32, key & LOW_32
    while not holds_pair(state, state.positions[state.pairs[slot, START]], left, right):
        state.pairs[slot, START] += 1
        state.pairs[slot, LENGTH] -= 1
    return state.positions[state.pairs[slot, START]]


@njit(cache=True, nogil=True)
def find_best_pair(state):
    """Entry of the best pair, left at the top of the heap with its true count and tie; -1 when no pair is left."""
    heap = state.heap
    while state.counters[HEAP_SIZE] > 0:
        slot = find_pair(state.pairs, heap[0, 2])
        count = state.pairs[slot, COUNT] if state.pairs[slot, KEY] != EMPTY else 0
        if count < state.counters[MIN_COUNT]:
            drop_top(state)
            continue
        tie = tie_of(state, slot)
        if heap[0, 0] == count and heap[0, 1] == tie:
            return slot
        heap[0, 0], heap[0, 1] = count, tie
        sift_down(heap, state.counters[HEAP_SIZE])
    return -1
