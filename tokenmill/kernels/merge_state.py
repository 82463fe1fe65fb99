"""The arrays of the merge loop, and the heap that gives the best pair.

Words lie end to end in cells, a barrier before, between and behind them. A symbol made of `k` base symbols owns `k` cells: its id
stands in the first, and `spans` holds `k` at the first and the last of them, so that the neighbours on both sides are one look-up
away. `pair_at` says which pair the symbol of a cell makes with the next one.

    symbols  BARRIER  l  o  w  BARRIER     merge (l, o):    symbols  BARRIER lo  .  w  BARRIER
    spans          1  1  1  1  1                            spans          1  2  2  1  1
    pair_at     NONE  0  1 NONE NONE                        pair_at     NONE  2 NONE NONE NONE

A pair is a row of `pairs`: its key, its exact count, and a slice of `positions`: the cells, in order, where it came up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

BARRIER, NONE = -1, -1
# Columns of `pairs`.
KEY, COUNT, START, LENGTH = 0, 1, 2, 3
# Columns of `heap`.
HEAP_COUNT, HEAP_TIE, HEAP_PAIR = 0, 1, 2
# Cells of `counters`.
TOKENS, PAIRS_USED, POSITIONS_USED, HEAP_SIZE, MIN_COUNT, FIRST_SEEN = range(6)
COUNTERS = 6

LOW_32 = np.int64(0xFFFFFFFF)


class Cells(NamedTuple):
    """The words, `n` cells."""

    symbols: np.ndarray  # int32[n]
    spans: np.ndarray  # int32[n]
    pair_at: np.ndarray  # int32[n]
    weights: np.ndarray  # int64[n]: count of the word that a cell belongs to


class MergeState(NamedTuple):
    """All arrays of the merge loop; `v` tokens at most, `m` merges a call; `pairs` and `heap` grow together."""

    cells: Cells
    pairs: np.ndarray  # int64[capacity, 4]
    heap: np.ndarray  # int64[capacity, 3]: count and tie that a pair had when it was put there, and the pair
    positions: np.ndarray  # int32[3 * n]: as many as there can be, since a merge of two symbols makes two pairs at most
    events: np.ndarray  # int32[2 * n]: scratch of one merge, the cells where pairs came up
    befores: np.ndarray  # int32[v]: scratch of one merge, the new pair (symbol, product) by symbol, else NONE
    afters: np.ndarray  # int32[v]: the same for (product, symbol)
    forbidden: np.ndarray  # int32[s]: strings that no rule may make, as base symbols, end to end
    forbidden_starts: np.ndarray  # int64[f + 1]
    base_symbols: np.ndarray  # int32[n], `symbols` before the first merge; empty without forbidden strings
    merges: np.ndarray  # int64[m, 3]: left, right, count; the rules of one call of `merge_pairs`
    counters: np.ndarray  # int64[COUNTERS]


@njit(cache=True, nogil=True)
def comes_before(heap, entry, count, tie):
    """Heap order: does an entry come before (count, tie)? The higher count, then the smaller tie."""
    if heap[entry, HEAP_COUNT] != count:
        return heap[entry, HEAP_COUNT] > count
    return heap[entry, HEAP_TIE] < tie


@njit(cache=True, nogil=True)
def write_entry(heap, entry, count, tie, pair):
    """Fill a heap entry."""
    heap[entry, HEAP_COUNT], heap[entry, HEAP_TIE], heap[entry, HEAP_PAIR] = count, tie, pair


@njit(cache=True, nogil=True)
def push_entry(heap, size, count, tie, pair):
    """Add an entry to a heap of `size` entries: others move down until there is a place for it."""
    entry = size
    while entry > 0:
        parent = (entry - 1) >> 1
        if not comes_before(heap, parent, count, tie):
            write_entry(heap, entry, heap[parent, HEAP_COUNT], heap[parent, HEAP_TIE], heap[parent, HEAP_PAIR])
            entry = parent
        else:
            break
    write_entry(heap, entry, count, tie, pair)


@njit(cache=True, nogil=True)
def replace_top(heap, size, count, tie, pair):
    """Put an entry in the place of the top of a heap of `size` entries: others move up until there is a place for it."""
    entry = np.int64(0)
    while True:
        child = 2 * entry + 1
        if child >= size:
            break
        if child + 1 < size and comes_before(heap, child + 1, heap[child, HEAP_COUNT], heap[child, HEAP_TIE]):
            child += 1
        if not comes_before(heap, child, count, tie):
            break
        write_entry(heap, entry, heap[child, HEAP_COUNT], heap[child, HEAP_TIE], heap[child, HEAP_PAIR])
        entry = child
    write_entry(heap, entry, count, tie, pair)
