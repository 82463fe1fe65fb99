"""The BPE merge loop: incremental, exact, near n log n also for one word of a million letters.

Words lie end to end in `symbols`, a barrier (-1) before, between and behind them. A symbol made of `k` base symbols owns `k`
cells: the first holds its id, the others -2, and `spans` holds `k` at the first and the last of them, so that the neighbours on
both sides are one look-up away. Every pair has an entry in `pairs`: its exact count, and a slice of `positions` with the cells
where it stands.

    symbols  -1  l  o  w -1        merge (l, o):    symbols  -1 lo -2  w -1
    spans     1  1  1  1  1                         spans     1  2  2  1  1

A merge walks the pair's slice alone. Counts of the neighbouring pairs change at once and stay what recounting would give,
overlaps included; slices are lazy: a cell that no longer starts the pair is passed over. All cells of a new pair arise in the one
merge that makes its younger symbol, left to right, so every slice is sorted and written once. The heap is lazy as well: an entry
may promise a higher count or an earlier place than its pair still has; it is corrected when it comes to the top.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tokenmill.kernels.hashing import mix
from tokenmill.kernels.merge_state import (
    BARRIER,
    COUNT,
    EMPTY,
    HEAP_SIZE,
    INSIDE,
    KEY,
    LENGTH,
    LOW_32,
    PAIRS_USED,
    POSITIONS_USED,
    ROOM,
    START,
    TOKENS_USED,
    UNPLACED,
    append_position,
    claim_pair,
    drop_top,
    find_best_pair,
    find_pair,
    holds_pair,
    open_slice,
    pair_key,
    push_pair,
)
from tokenmill.kernels.merge_tokens import add_product, is_forbidden

# What `merge_pairs` returns.
PAUSED, EXHAUSTED, NEEDS_PAIRS, NEEDS_POSITIONS, NEEDS_HEAP = range(5)


@njit(cache=True, nogil=True)
def lay_out_words(symbols, starts, counts, state):
    """Copy words (`symbols[starts[w]:starts[w + 1]]`, count `counts[w]`) into the state's cells, barriers around each."""
    cell = 0
    state.symbols[cell], state.spans[cell] = BARRIER, 1
    for word in range(starts.size - 1):
        for position in range(starts[word], starts[word + 1]):
            cell += 1
            state.symbols[cell], state.spans[cell], state.weights[cell] = symbols[position], 1, counts[word]
        cell += 1
        state.symbols[cell], state.spans[cell] = BARRIER, 1


@njit(cache=True, nogil=True)
def count_first_pairs(state):
    """Count every adjacent pair of base symbols. False when the table got more than half full: make it larger and call again."""
    symbols, pairs = state.symbols, state.pairs
    for cell in range(symbols.size - 1):
        if symbols[cell] < 0 or symbols[cell + 1] < 0:
            continue
        slot = claim_pair(state, pair_key(symbols[cell], symbols[cell + 1]))
        pairs[slot, COUNT] += state.weights[cell]
        pairs[slot, LENGTH] += 1
        if 2 * state.counters[PAIRS_USED] > pairs.shape[0]:
            return False
    return True


@njit(cache=True, nogil=True)
def place_first_pairs(state):
    """Write the sorted slice of every pair that `count_first_pairs` counted, and put the pairs into the heap."""
    symbols, pairs = state.symbols, state.pairs
    for cell in range(symbols.size - 1):
        if symbols[cell] < 0 or symbols[cell + 1] < 0:
            continue
        slot = find_pair(pairs, pair_key(symbols[cell], symbols[cell + 1]))
        if pairs[slot, START] == UNPLACED:
            open_slice(state, slot)
        append_position(state, slot, cell)
    for slot in range(pairs.shape[0]):
        if pairs[slot, KEY] != EMPTY:
            push_pair(state, slot)


@njit(cache=True, nogil=True)
def missing_room(state, slot):
    """PAUSED when a merge of this pair fits into every array, else which array has to grow first, and ROOM by how much."""
    counters = state.counters
    counters[ROOM] = min(2 * state.pairs[slot, LENGTH], 2 * counters[TOKENS_USED] + 2)
    if 2 * (counters[PAIRS_USED] + counters[ROOM]) > state.pairs.shape[0]:
        return NEEDS_PAIRS
    if counters[HEAP_SIZE] + counters[ROOM] > state.heap.shape[0]:
        return NEEDS_HEAP
    counters[ROOM] = 2 * state.pairs[slot, LENGTH]
    if counters[POSITIONS_USED] + counters[ROOM] > state.positions.size:
        return NEEDS_POSITIONS
    return PAUSED


@njit(cache=True, nogil=True)
def merge_pairs(state, merges):
    """Merge until `merges` rules are made, no pair is left, or an array has to grow.

    Returns (status, rules made by this call); PAUSED says that all of them are made.
    """
    done = 0
    while done < merges:
        slot = find_best_pair(state)
        if slot < 0:
            return EXHAUSTED, done
        status = missing_room(state, slot)
        if status != PAUSED:
            return status, done
        drop_top(state)
        key = state.pairs[slot, KEY]
        left, right = key >> 32, key & LOW_32
        if not is_forbidden(state, left, right):
            state.merges[done, 0], state.merges[done, 1], state.merges[done, 2] = left, right, state.pairs[slot, COUNT]
            apply_merge(state, slot, add_product(state, left, right))
            done += 1
    return PAUSED, done


@njit(cache=True, nogil=True)
def apply_merge(state, slot, product):
    """Replace a pair by its product wherever it stands, left to right.

    New neighbouring pairs get counts, slices, heap entries.
    """
    key, start, length = state.pairs[slot, KEY], state.pairs[slot, START], state.pairs[slot, LENGTH]
    left, right = key >> 32, key & LOW_32
    events = np.empty((2 * length, 2), np.int64)
    used = 0
    for entry in range(start, start + length):
        cell = state.positions[entry]
        if holds_pair(state, cell, left, right):
            used = merge_at(state, cell, product, events, used)
    place_events(state, events[:used])
    state.pairs[slot, LENGTH] = 0


@njit(cache=True, nogil=True)
def merge_at(state, cell, product, events, used):
    """Merge the symbol at a cell with the next one. Returns how many `events` (pair entry, cell) stand now."""
    symbols, spans, weight = state.symbols, state.spans, state.weights[cell]
    follower = cell + spans[cell]
    before, after = cell - spans[cell - 1], follower + spans[follower]
    left, right = symbols[cell], symbols[follower]
    uncount_pair(state, left, right, weight)
    if symbols[before] >= 0:
        uncount_pair(state, symbols[before], left, weight)
    if symbols[after] >= 0:
        uncount_pair(state, right, symbols[after], weight)
    symbols[cell], symbols[follower] = product, INSIDE
    spans[cell] = after - cell
    spans[after - 1] = after - cell
    if symbols[before] >= 0:
        used = note_pair(state, before, weight, events, used)
    if symbols[after] >= 0:
        used = note_pair(state, cell, weight, events, used)
    return used


@njit(cache=True, nogil=True)
def uncount_pair(state, left, right, weight):
    """A pair stands in one place less."""
    state.pairs[find_pair(state.pairs, pair_key(left, right)), COUNT] -= weight


@njit(cache=True, nogil=True)
def note_pair(state, cell, weight, events, used):
    """Count the pair that now stands at a cell, and note the event; returns how many events stand now."""
    slot = claim_pair(state, pair_key(state.symbols[cell], state.symbols[cell + state.spans[cell]]))
    events[used, 0], events[used, 1] = slot, cell
    state.pairs[slot, COUNT] += weight
    state.pairs[slot, LENGTH] += 1
    return used + 1


@njit(cache=True, nogil=True)
def place_events(state, events):
    """Write the slices of the pairs that one merge made, and offer each pair once."""
    pairs, touched = state.pairs, 0
    for event in range(events.shape[0]):
        slot, cell = events[event, 0], events[event, 1]
        if pairs[slot, START] == UNPLACED:
            open_slice(state, slot)
            events[touched, 0] = slot
            touched += 1
        append_position(state, slot, cell)
    for event in range(touched):
        push_pair(state, events[event, 0])


@njit(cache=True, nogil=True)
def move_pairs(state, target):
    """Copy the live pairs into a larger, empty table; returns how many there are."""
    mask, live = np.uint64(target.shape[0] - 1), 0
    for slot in range(state.pairs.shape[0]):
        if state.pairs[slot, KEY] == EMPTY or state.pairs[slot, COUNT] == 0:
            continue
        place = mix(state.pairs[slot, KEY]) & mask
        while target[place, KEY] != EMPTY:
            place = (place + np.uint64(1)) & mask
        target[place] = state.pairs[slot]
        live += 1
    return live


@njit(cache=True, nogil=True)
def move_positions(state, target):
    """Copy the slices into another array, leaving out cells that no longer hold their pair.

    Returns how many positions there are.
    """
    pairs, used = state.pairs, 0
    for slot in range(pairs.shape[0]):
        if pairs[slot, KEY] == EMPTY or pairs[slot, COUNT] == 0:
            continue
        left, right, start = pairs[slot, KEY] >> 32, pairs[slot, KEY] & LOW_32, used
        for entry in range(pairs[slot, START], pairs[slot, START] + pairs[slot, LENGTH]):
            if holds_pair(state, state.positions[entry], left, right):
                target[used] = state.positions[entry]
                used += 1
        pairs[slot, START], pairs[slot, LENGTH] = start, used - start
    return used
