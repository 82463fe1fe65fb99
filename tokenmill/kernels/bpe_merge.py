"""Merge rules as a table, and merging the symbols of a word by them: the lowest rank first, the leftmost among equals.

Short words are merged in place in two small arrays; long ones with a heap, in n log n time and linear memory.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.hashing import GOLDEN, HALF
from tokenmill.kernels.intrinsics import count_leading_zeros, count_trailing_zeros

EMPTY, INSIDE = -1, -2
NO_RULE = np.int64(0x7FFFFFFFFFFFFFFF)
LOW_32 = np.int64(0xFFFFFFFF)
ALL, ONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(1)
#: Words of up to this many symbols are merged in place: below it, a search through all pairs beats a heap.
SHORT_SYMBOLS = 64

# --- rules ------------------------------------------------------------------------------------------------------------------


@kernel
def add_rules(rules, lefts, rights, products):
    """Fill an empty rule table; the rank of a rule is its row. A pair that stands twice keeps its last rank."""
    for rank in range(lefts.size):
        key = np.int64(lefts[rank]) << 32 | np.int64(rights[rank])
        slot = find_rule(rules, key)
        rules[slot, 0], rules[slot, 1] = key, np.int64(rank) << 32 | np.int64(products[rank])


@part
def find_rule(rules, key):
    """The entry of a pair, or the free entry where it belongs."""
    mask = np.uint64(rules.shape[0] - 1)
    slot = (np.uint64(key) * GOLDEN >> HALF) & mask
    while rules[slot, 0] != key and rules[slot, 0] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    return slot


@part
def rule_of(rules, left, right):
    """rank << 32 | product of a pair, NO_RULE where there is none: the smaller of two is the one to apply first."""
    if left < 0 or right < 0:
        return NO_RULE
    key = np.int64(left) << 32 | np.int64(right)
    slot = find_rule(rules, key)
    return rules[slot, 1] if rules[slot, 0] == key else NO_RULE


@kernel
def list_byte_rules(rules, byte_ids):
    """`byte_rules` of `BpeTables`: the first pairs of a word are read from it, without a search (9 of 20 look-ups of a word)."""
    count = byte_ids.size
    byte_rules = np.empty(count * count, np.int64)
    for left in range(count):
        for right in range(count):
            byte_rules[left * count + right] = rule_of(rules, byte_ids[left], byte_ids[right])
    return byte_rules


# --- merging ----------------------------------------------------------------------------------------------------------------


@part
def merge_short(rules, symbols, first, size, found):
    """Merge `symbols[first : first + size]` (at most 64) in place; returns the new size.

    `found[i]` is the rule of symbols i and i + 1, NO_RULE for the last. A symbol that became a part of the one before it is no
    longer
    `alive`: nothing is moved before the end.
    """
    alive = ALL >> np.uint64(64 - size)
    while True:
        best, rule = np.int64(0), found[0]
        for place in range(1, size):
            if found[place] < rule:
                best, rule = place, found[place]
        if rule == NO_RULE:
            break
        symbol = np.int32(rule & LOW_32)
        symbols[first + best] = symbol
        place = best + 1 + count_trailing_zeros(alive >> np.uint64(best) >> ONE)
        alive &= ~(ONE << np.uint64(place))
        found[place] = found[best] = NO_RULE
        behind, before = alive >> np.uint64(place), alive & ((ONE << np.uint64(best)) - ONE)
        if behind:
            found[best] = rule_of(rules, symbol, symbols[first + place + count_trailing_zeros(behind)])
        if before:
            place = 63 - count_leading_zeros(before)
            found[place] = rule_of(rules, symbols[first + place], symbol)
    return keep_alive(symbols, first, alive)


@part
def keep_alive(symbols, first, alive):
    """Move the symbols that are left to the front; returns how many there are."""
    size = np.int64(0)
    while alive:
        symbols[first + size] = symbols[first + count_trailing_zeros(alive)]
        alive &= alive - ONE
        size += 1
    return size


@part
def merge_long(rules, symbols, size):
    """As `merge_short`, for words of any length: a heap of (rule, place) over symbols that know their spans."""
    spans = np.ones(size, np.int32)
    heap = np.empty((2 * size, 2), np.int64)
    waiting = 0
    for place in range(size - 1):
        waiting = offer_pair(rules, symbols, place, place + 1, heap, waiting)
    while waiting > 0:
        rule, place = heap[0, 0], heap[0, 1]
        waiting = drop_first(heap, waiting)
        follower = place + spans[place]
        if symbols[place] < 0 or follower >= size or rule_of(rules, symbols[place], symbols[follower]) != rule:
            continue
        after = follower + spans[follower]
        symbols[place], symbols[follower] = rule & LOW_32, INSIDE
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
    """Put the pair at two places into the heap if it has a rule; returns the heap's size."""
    rule = rule_of(rules, symbols[place], symbols[follower])
    if rule == NO_RULE:
        return waiting
    entry = waiting
    while entry > 0:
        parent = (entry - 1) >> 1
        if heap[parent, 0] < rule or (heap[parent, 0] == rule and heap[parent, 1] <= place):
            break
        heap[entry, 0], heap[entry, 1] = heap[parent, 0], heap[parent, 1]
        entry = parent
    heap[entry, 0], heap[entry, 1] = rule, place
    return waiting + 1


@part
def drop_first(heap, waiting):
    """Remove the first entry of the heap; returns its size."""
    waiting -= 1
    rule, place = heap[waiting, 0], heap[waiting, 1]
    entry = 0
    while True:
        child = 2 * entry + 1
        if child >= waiting:
            break
        if child + 1 < waiting and entry_before(heap, child + 1, heap[child, 0], heap[child, 1]):
            child += 1
        if not entry_before(heap, child, rule, place):
            break
        heap[entry, 0], heap[entry, 1] = heap[child, 0], heap[child, 1]
        entry = child
    heap[entry, 0], heap[entry, 1] = rule, place
    return waiting


@part
def entry_before(heap, entry, rule, place):
    """Does a heap entry come before (rule, place)?"""
    return heap[entry, 0] < rule or (heap[entry, 0] == rule and heap[entry, 1] < place)
