"""The arrays of the merge loop.

Words lie end to end in cells, a barrier before, between and behind them. A symbol made of `k` base symbols owns `k` cells: its id
stands in the first, and SPAN is `k` in the first and the last of them, so that the neighbours on both sides are one look-up away.
PAIR says which pair the symbol of a cell makes with the next one.

    SYMBOL  BARRIER  l  o  w  BARRIER     merge (l, o):    SYMBOL  BARRIER lo  .  w  BARRIER
    SPAN          1  1  1  1  1                            SPAN          1  2  2  1  1
    PAIR       NONE  0  1 NONE NONE                        PAIR       NONE  2 NONE NONE NONE

A pair is a row of `pairs`: its key, its exact count, and a slice of `positions`: the cells, in order, where it came up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BARRIER, NONE = -1, -1
# Columns of `cells`.
SYMBOL, SPAN, PAIR, WORD = 0, 1, 2, 3
# Columns of `pairs`.
KEY, COUNT, START, LENGTH = 0, 1, 2, 3
# Columns of `heap`.
HEAP_COUNT, HEAP_TIE, HEAP_PAIR = 0, 1, 2
# Columns of `mates`.
BEFORE, AFTER = 0, 1
# Columns of `events`.
EVENT_CELL, EVENT_PAIR = 0, 1
# Cells of `counters`.
TOKENS, PAIRS_USED, POSITIONS_USED, HEAP_SIZE, THRESHOLD, MIN_COUNT, FIRST_SEEN, MOST_LENGTH = range(8)
COUNTERS = 8

#: So many positions ahead, the memory of a cell is asked for.
AHEAD = 8
LOW_32 = np.int64(0xFFFFFFFF)


class MergeState(NamedTuple):
    """All arrays of the merge loop: `n` cells, `w` words, `v` tokens at most, `m` merges a call.

    `pairs` and `heap` grow together. There are never more positions than three a cell: wherever a pair is merged, at most two
    pairs come up, and a symbol goes.
    """

    cells: np.ndarray  # int32[n, 4]: SYMBOL, SPAN, PAIR, WORD
    weights: np.ndarray  # int64[w]: count of each word
    pairs: np.ndarray  # int64[capacity, 4]: KEY (left << 32 | right), COUNT, START, LENGTH
    heap: np.ndarray  # int64[capacity, 3]: count and tie that a pair had when it was put there, and the pair
    positions: np.ndarray  # int32[3 * n]
    mates: np.ndarray  # int32[v, 2]: scratch of one merge; by symbol, its new pairs BEFORE and AFTER the product, or NONE
    events: np.ndarray  # int32[e, 2]: scratch of one merge, the cells where new pairs stand; two for each place of a pair at most
    lengths: np.ndarray  # int32[v]: length of each token; none of more than MOST_LENGTH is made, unless that is 0
    forbidden: np.ndarray  # int64[f]: first cells of words whose product as a whole no rule may make
    merges: np.ndarray  # int64[m, 3]: left, right, count; the rules of one call of `merge_pairs`
    counters: np.ndarray  # int64[COUNTERS]
