"""The WordPiece merge loop: of all pairs the one with the highest count(xy) / (count(x) * count(y)) is merged.

Cells, pairs and their places are those of the BPE loop (merge.py). What differs: when x and y are merged their own counts fall,
and the score of every pair that holds one of them rises, so that a heap of old scores would not do. Pairs stand as the leaves of
a tree instead, in which each node knows the better of the two below it (a winner tree, as for merging files). A pair whose score
changes walks up from its leaf until a node stays as it was, soon, since most pairs lose at once. The pairs to walk
are those of x, of y and of the product, which lists of pairs by symbol hold. Symbols of high scores are rare ones, and their
lists are short: on 300,000 words, 30,000 merges score 180 pairs each, at three nodes a pair.

Scores are compared exactly. They are kept as doubles, each off by less than three units of 2^-53; where two are closer than
`NEAR`, products of the counts, which are whole numbers, decide. Equal scores are common: a word that occurs once scores 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow
from tokenmill.kernels.merge import (
    EXHAUSTED,
    NEEDS_ROOM,
    PAUSED,
    clear_mates,
    has_room,
    is_forbidden,
    is_too_long,
    open_slices,
    place_new_pairs,
    replace_pair,
    tie_of,
)
from tokenmill.kernels.merge_state import COUNT, KEY, LENGTH, LOW_32, MIN_COUNT, NONE, PAIR, PAIRS_USED, SPAN, START, TOKENS, WORD

# Columns of `links` and `heads`: pairs in which a symbol is the left one, and the right one.
LEFT, RIGHT = 0, 1
ROOT = 1
NEAR = 4e-15
#: Products of whole numbers below this fit into 64 bits.
MOST_PRODUCT = 4e18
HALF, LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)


class ScoreState(NamedTuple):
    """What scoring adds to `MergeState`; `scores`, `winners` and `links` grow with its `pairs`."""

    symbol_counts: np.ndarray  # int64[v]: how often each symbol stands in the words, weighted
    scores: np.ndarray  # float64[capacity]: of each pair, 0 for one that is not to be merged
    winners: np.ndarray  # int32[2 * capacity]: the best pair below each node; pair p is the leaf capacity + p
    links: np.ndarray  # int32[capacity, 2]: the next pair with the same symbol LEFT or RIGHT
    heads: np.ndarray  # int32[v, 2]: the first pair with a symbol LEFT or RIGHT


@kernel
def merge_scored_pairs(state, scoring, limit):
    """As `merge.merge_pairs`, by score."""
    return merge_best_scored(borrow(state), borrow(scoring), limit)


@part
def merge_best_scored(state, scoring, limit):
    """`merge_scored_pairs` with borrowed arrays."""
    cells, weights, pairs, positions, counters = state.cells, state.weights, state.pairs, state.positions, state.counters
    made = np.int64(0)
    while made < limit:
        pair = np.int64(scoring.winners[ROOT])
        if pair == NONE or scoring.scores[pair] <= 0:
            return EXHAUSTED, made
        if not has_room(pairs, counters, pair):
            return NEEDS_ROOM, made
        left, right, count = pairs[pair, KEY] >> 32, pairs[pair, KEY] & LOW_32, pairs[pair, COUNT]
        if is_forbidden(cells, state.forbidden, pair) or is_too_long(pairs, state.lengths, counters, pair):
            pairs[pair, COUNT] = 0  # it is never offered again
            score_pair(state, scoring, pair)
            continue
        merged = count if left != right else weigh_merged(cells, weights, pairs, positions, pair)
        scoring.symbol_counts[left] -= merged
        scoring.symbol_counts[right] -= merged
        scoring.symbol_counts[counters[TOKENS]] = merged
        state.merges[made, 0], state.merges[made, 1], state.merges[made, 2] = left, right, count
        made += 1
        first_new = counters[PAIRS_USED]
        pairs[pair, COUNT] = 0
        events_used = replace_pair(cells, weights, pairs, positions, state.mates, state.events, counters, pair)
        open_slices(pairs, counters, first_new)
        place_new_pairs(pairs, positions, state.events, events_used)
        link_pairs(pairs, scoring, first_new, counters[PAIRS_USED])
        for symbol in (left, right, counters[TOKENS]):
            score_pairs_of(state, scoring, symbol)
        clear_mates(pairs, state.mates, counters, first_new)
        state.lengths[counters[TOKENS]] = state.lengths[left] + state.lengths[right]
        counters[TOKENS] += 1
    return PAUSED, made


@part
def weigh_merged(cells, weights, pairs, positions, pair):
    """How often a pair of a symbol with itself will be merged: in `aaa` once, though it stands there twice."""
    total, taken = np.int64(0), np.int64(-1)
    for entry in range(pairs[pair, START], pairs[pair, START] + pairs[pair, LENGTH]):
        cell = np.int64(positions[entry])
        if cells[cell, PAIR] == pair and cell != taken:
            total += weights[cells[cell, WORD]]
            taken = cell + cells[cell, SPAN]
    return total


@part
def link_pairs(pairs, scoring, first, end):
    """Put the pairs from `first` to `end` into the lists of their symbols."""
    for pair in range(first, end):
        left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & LOW_32
        scoring.links[pair, LEFT], scoring.heads[left, LEFT] = scoring.heads[left, LEFT], pair
        scoring.links[pair, RIGHT], scoring.heads[right, RIGHT] = scoring.heads[right, RIGHT], pair


@part
def score_pairs_of(state, scoring, symbol):
    """Score the pairs of a symbol anew, and take those that stand nowhere any more out of its lists."""
    for side in (LEFT, RIGHT):
        before, pair = np.int64(NONE), np.int64(scoring.heads[symbol, side])
        while pair != NONE:
            follower = np.int64(scoring.links[pair, side])
            score_pair(state, scoring, pair)
            if state.pairs[pair, COUNT] > 0:
                before = pair
            elif before == NONE:
                scoring.heads[symbol, side] = follower
            else:
                scoring.links[before, side] = follower
            pair = follower


@part
def score_pair(state, scoring, pair):
    """Score a pair by the counts as they are now, and have the nodes above it know."""
    winners, scores = scoring.winners, scoring.scores
    scores[pair] = score_of(state, scoring, pair)
    leaves = winners.size >> 1
    winners[leaves + pair] = pair
    node = (leaves + pair) >> 1
    while node >= ROOT:
        best = better_pair(state, scoring, np.int64(winners[2 * node]), np.int64(winners[2 * node + 1]))
        if best == winners[node] and best != pair:
            break
        winners[node] = best
        node >>= 1


@part
def score_of(state, scoring, pair):
    """count(xy) / (count(x) * count(y)) as a double; 0 for a pair that occurs too rarely."""
    key, count = state.pairs[pair, KEY], state.pairs[pair, COUNT]
    if count < state.counters[MIN_COUNT]:
        return 0.0
    return np.float64(count) / (np.float64(scoring.symbol_counts[key >> 32]) * np.float64(scoring.symbol_counts[key & LOW_32]))


@part
def better_pair(state, scoring, first, second):
    """The one of two pairs that is to be merged before the other; either may be NONE."""
    if first == NONE or second == NONE:
        return second if first == NONE else first
    difference = scoring.scores[first] - scoring.scores[second]
    if abs(difference) > NEAR * scoring.scores[first]:
        return first if difference > 0 else second
    return better_of_near(state, scoring, first, second)


@part
def better_of_near(state, scoring, first, second):
    """As `better_pair`, of two pairs whose scores are equal or nearly so."""
    pairs, counts = state.pairs, scoring.symbol_counts
    if pairs[first, COUNT] < state.counters[MIN_COUNT] or pairs[second, COUNT] < state.counters[MIN_COUNT]:
        return second if pairs[second, COUNT] >= state.counters[MIN_COUNT] else first
    one, other = pairs[first, KEY], pairs[second, KEY]
    order = compare_products(
        (pairs[first, COUNT], counts[other >> 32], counts[other & LOW_32]),
        (pairs[second, COUNT], counts[one >> 32], counts[one & LOW_32]),
    )
    if order != 0:
        return first if order > 0 else second
    tie = tie_of(state.cells, pairs, state.positions, state.counters, first)
    return first if tie <= tie_of(state.cells, pairs, state.positions, state.counters, second) else second


# --- whole numbers of up to 192 bits --------------------------------------------------------------------------------------------


@part
def compare_products(one, other):
    """-1, 0 or 1, as the product of three numbers (positive, 63 bits) is below, equal to or above that of three others."""
    if estimate_product(one) < MOST_PRODUCT and estimate_product(other) < MOST_PRODUCT:
        small, large = one[0] * one[1] * one[2], other[0] * other[1] * other[2]
        return np.int64(small > large) - np.int64(small < large)
    first, second = multiply_three(one), multiply_three(other)
    for place in range(3):
        if first[place] != second[place]:
            return np.int64(1) if first[place] > second[place] else np.int64(-1)
    return np.int64(0)


@part
def estimate_product(numbers):
    """The product of three numbers, rounded."""
    return np.float64(numbers[0]) * np.float64(numbers[1]) * np.float64(numbers[2])


@part
def multiply_three(numbers):
    """The product of three numbers as three times 64 bits, the highest first."""
    factor = np.uint64(numbers[2])
    high, low = multiply_two(np.uint64(numbers[0]), np.uint64(numbers[1]))
    middle, lowest = multiply_two(low, factor)
    highest, added = multiply_two(high, factor)
    middle += added
    return highest + np.uint64(middle < added), middle, lowest


@part
def multiply_two(one, other):
    """The product of two 64-bit numbers, its higher and its lower 64 bits."""
    low = (one & LOW_HALF) * (other & LOW_HALF)
    first, second = (one >> HALF) * (other & LOW_HALF), (one & LOW_HALF) * (other >> HALF)
    carried = (low >> HALF) + (first & LOW_HALF) + (second & LOW_HALF)
    high = (one >> HALF) * (other >> HALF) + (first >> HALF) + (second >> HALF) + (carried >> HALF)
    return high, carried << HALF | low & LOW_HALF


# --- the first scores -----------------------------------------------------------------------------------------------------------


@kernel
def score_first_pairs(state, scoring):
    """Link and score the pairs of base symbols; `heads` and `winners` are NONE before."""
    state, scoring = borrow(state), borrow(scoring)
    link_pairs(state.pairs, scoring, np.int64(0), state.counters[PAIRS_USED])
    fill_winners(state, scoring)


@kernel
def find_winners(state, scoring):
    """Score all pairs afresh, after the arrays have grown: `winners` is NONE before."""
    fill_winners(borrow(state), borrow(scoring))


@part
def fill_winners(state, scoring):
    """Score every pair and have every node know the best below it."""
    winners = scoring.winners
    leaves = winners.size >> 1
    for pair in range(state.counters[PAIRS_USED]):
        scoring.scores[pair] = score_of(state, scoring, pair)
        winners[leaves + pair] = pair
    for node in range(leaves - 1, ROOT - 1, -1):
        winners[node] = better_pair(state, scoring, np.int64(winners[2 * node]), np.int64(winners[2 * node + 1]))
