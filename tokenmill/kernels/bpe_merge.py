"""Merging the symbols of a word by rules: the lowest rank first, the leftmost among equals.

Short words are merged in place in two small arrays; long ones with a heap, in n log n time and linear memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import borrow, count_leading_zeros, count_trailing_zeros, load_item, store_item
from tokenmill.kernels.rules import NO_RULE, ONE, key_of_pair, least_rank, product_of, rank_of
from tokenmill.kernels.tables import aligned_zeros
from tokenmill.kernels.vectors import lowest_of_16, lowest_other_of_16

#: No symbol: what stands beyond the ends of a word, and in place of symbols that are part of others in `merge_long`.
OUTSIDE, INSIDE = -1, -2
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Words of up to this many symbols are merged in place: below it, a search through all pairs beats a heap.
SHORT_SYMBOLS = 64
LANES = 16
PLACE_BITS, PLACE_MASK = 6, 63
NO_PAIR = np.uint32(0xFFFFFFFF)
#: From here on a number of `MergeScratch.ranks` has no rule.
NO_RANKS = np.uint32(0xFFFFFFC0)


class MergeScratch(NamedTuple):
    """Working memory of `merge_short`, from `allocate_scratch`.

    `symbols`: int32[2 * SHORT_SYMBOLS], the first half for the symbols of a word, the second always OUTSIDE. `ranks`: uint32[2 *
    SHORT_SYMBOLS], for each symbol the rank of it and the next one << 6 | its place, the second half for those without a symbol.
    """

    symbols: np.ndarray
    ranks: np.ndarray


def allocate_scratch() -> MergeScratch:
    """Working memory for one thread."""
    symbols, ranks = aligned_zeros(2 * SHORT_SYMBOLS, np.int32), aligned_zeros(2 * SHORT_SYMBOLS, np.uint32)
    symbols[:] = OUTSIDE
    return MergeScratch(symbols, ranks)


@part
def rank_at(rank, place):
    """A number of `MergeScratch.ranks`."""
    return np.uint32(np.int64(rank << PLACE_BITS | place))


@inline_part
def merge_short(rules, scratch, size):
    """Merge the first `size` (1 to SHORT_SYMBOLS) of `scratch.symbols`, whose ranks stand in `scratch.ranks`, up to a multiple of
    LANES; returns which of the symbols are left, as the bits of a number.

    Nothing is moved, and nothing branches on where in the word a pair is: beyond its ends there are symbols without rules. Which
    of the other ranks is the lowest is found while the two new ones are looked up.
    """
    rules, scratch = borrow(rules), borrow(scratch)
    symbols, ranks = scratch.symbols, scratch.ranks
    alive, lowest = ALL >> np.uint64(SHORT_SYMBOLS - size), find_lowest(ranks, size)
    while lowest < NO_RANKS:
        place, rank = np.int64(lowest & PLACE_MASK), np.int64(lowest >> PLACE_BITS)
        gone = place + 1 + count_trailing_zeros(alive >> np.uint64(place) >> ONE)
        key = key_of_pair(load_item(symbols, place), load_item(symbols, gone))
        if load_item(rules.pairs, rank) != key:
            store_item(ranks, place, rank_at(rank_of(rules, key), place))
            lowest = find_lowest(ranks, size)
            continue
        symbol = product_of(rules, rank)
        alive &= ~(ONE << np.uint64(gone))
        behind = gone + count_trailing_zeros(alive >> np.uint64(gone))
        before = (63 - count_leading_zeros(alive & ((ONE << np.uint64(place)) - ONE))) & (2 * SHORT_SYMBOLS - 1)
        rank_behind = least_rank(rules, key_of_pair(symbol, load_item(symbols, behind)))
        rank_before = least_rank(rules, key_of_pair(load_item(symbols, before), symbol))
        here = rank_at(rank_behind, place) | ones_if(behind >> PLACE_BITS)
        there = rank_at(rank_before, before) | ones_if(before >> PLACE_BITS)
        lowest = min(find_lowest_other(ranks, size, place, gone, before), min(here, there))
        store_item(symbols, place, np.int32(symbol))
        store_item(ranks, gone, NO_PAIR)
        store_item(ranks, place, here)
        store_item(ranks, before, there)
    return alive


@part
def ones_if(bit):
    """All ones for 1, 0 for 0."""
    return np.uint32(np.int64(-bit))


@part
def find_lowest(ranks, size):
    """The lowest of the ranks of a word."""
    lowest = lowest_of_16(ranks, 0)
    for first in range(LANES, size, LANES):
        lowest = min(lowest, lowest_of_16(ranks, first))
    return lowest


@part
def find_lowest_other(ranks, size, one, two, three):
    """The lowest of the ranks of a word but those at three places."""
    lowest = lowest_other_of_16(ranks, 0, one, two, three)
    for first in range(LANES, size, LANES):
        lowest = min(lowest, lowest_other_of_16(ranks, first, one, two, three))
    return lowest


@part
def merge_long(rules, symbols, size):
    """Merge `symbols[:size]` (int32), for words of any length: a heap of (rank, place) over symbols that know their spans.

    Returns how many symbols are left; they stand at the front.
    """
    rules, symbols = borrow(rules), borrow(symbols)
    spans = np.ones(size, np.int32)
    heap = np.empty((2 * size, 2), np.int64)
    waiting = 0
    for place in range(size - 1):
        waiting = offer_pair(rules, symbols, place, place + 1, heap, waiting)
    while waiting > 0:
        rank, place = heap[0, 0], heap[0, 1]
        waiting = drop_first(heap, waiting)
        follower = place + spans[place]
        if symbols[place] < 0 or follower >= size:
            continue
        key = key_of_pair(symbols[place], symbols[follower])
        if rules.pairs[rank] != key:
            if least_rank(rules, key) == rank:
                waiting = offer_rank(rank_of(rules, key), place, heap, waiting)
            continue
        after = follower + spans[follower]
        symbols[place], symbols[follower] = product_of(rules, rank), INSIDE
        spans[place] = after - place
        spans[after - 1] = after - place
        if after < size:
            waiting = offer_pair(rules, symbols, place, after, heap, waiting)
        if place > 0:
            waiting = offer_pair(rules, symbols, place - spans[place - 1], place, heap, waiting)
    return close_gaps(symbols, spans, size)


@part
def close_gaps(symbols, spans, size):
    """Move the symbols that are left to the front; returns how many there are."""
    kept, place = 0, 0
    while place < size:
        symbols[kept] = symbols[place]
        place += spans[place]
        kept += 1
    return kept


@part
def offer_pair(rules, symbols, place, follower, heap, waiting):
    """Put the pair at two places into the heap if it may have a rule; returns the heap's size."""
    return offer_rank(least_rank(rules, key_of_pair(symbols[place], symbols[follower])), place, heap, waiting)


@part
def offer_rank(rank, place, heap, waiting):
    """Put a rank and where it was found into the heap if there is one; returns the heap's size."""
    if rank == NO_RULE:
        return waiting
    entry = waiting
    while entry > 0:
        parent = (entry - 1) >> 1
        if heap[parent, 0] < rank or (heap[parent, 0] == rank and heap[parent, 1] <= place):
            break
        heap[entry, 0], heap[entry, 1] = heap[parent, 0], heap[parent, 1]
        entry = parent
    heap[entry, 0], heap[entry, 1] = rank, place
    return waiting + 1


@part
def drop_first(heap, waiting):
    """Remove the first entry of the heap; returns its size."""
    waiting -= 1
    rank, place = heap[waiting, 0], heap[waiting, 1]
    entry = 0
    while True:
        child = 2 * entry + 1
        if child >= waiting:
            break
        if child + 1 < waiting and entry_before(heap, child + 1, heap[child, 0], heap[child, 1]):
            child += 1
        if not entry_before(heap, child, rank, place):
            break
        heap[entry, 0], heap[entry, 1] = heap[child, 0], heap[child, 1]
        entry = child
    heap[entry, 0], heap[entry, 1] = rank, place
    return waiting


@part
def entry_before(heap, entry, rank, place):
    """Does a heap entry come before (rank, place)?"""
    return heap[entry, 0] < rank or (heap[entry, 0] == rank and heap[entry, 1] < place)
