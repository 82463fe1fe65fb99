"""The heap of the merge loop: the highest count at the top, among equals the smallest tie. Sizes are kept by the caller."""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import part
from tokenmill.kernels.merge_state import HEAP_COUNT, HEAP_PAIR, HEAP_TIE


@part
def comes_before(heap, entry, count, tie):
    """Does an entry come before (count, tie)?"""
    if heap[entry, HEAP_COUNT] != count:
        return heap[entry, HEAP_COUNT] > count
    return heap[entry, HEAP_TIE] < tie


@part
def push_entry(heap, size, count, tie, pair):
    """Add an entry behind `size` others: they move down until there is a place for it."""
    entry = size
    while entry > 0:
        parent = (entry - 1) >> 1
        if comes_before(heap, parent, count, tie):
            break
        for column in range(3):
            heap[entry, column] = heap[parent, column]
        entry = parent
    heap[entry, HEAP_COUNT], heap[entry, HEAP_TIE], heap[entry, HEAP_PAIR] = count, tie, pair


@part
def replace_top(heap, size, count, tie, pair):
    """Put an entry in the place of the top of `size` entries: the others move up until there is a place for it."""
    entry, child = np.int64(0), np.int64(1)
    while child < size:
        if child + 1 < size and comes_before(heap, child + 1, heap[child, HEAP_COUNT], heap[child, HEAP_TIE]):
            child += 1
        if not comes_before(heap, child, count, tie):
            break
        for column in range(3):
            heap[entry, column] = heap[child, column]
        entry, child = child, 2 * child + 1
    heap[entry, HEAP_COUNT], heap[entry, HEAP_TIE], heap[entry, HEAP_PAIR] = count, tie, pair
