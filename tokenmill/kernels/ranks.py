"""Merge rules out of ranks: which two tokens each token was merged from, found by merging its own bytes.

A file of ranks has no rules: any two neighbours may merge whose bytes together are a token, the lowest rank first, the leftmost
first. Merging goes through one sequence of states for a token, wherever it stands (what is merged across its ends keeps it from
being made there at all), so at most one pair of tokens ever makes it.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.tables import FREE, HIGH, VALUE, add_word, search_word

NO_RANK = np.int64(0x7FFFFFFFFFFFFFFF)
NONE = np.int64(-1)


@kernel
def add_tokens(table, text, ends, ranks):
    """Put tokens that lie end to end in `text` (uint8[n], `ends` int64[t]) into an empty table with room for all.

    Returns the place of the first token that stood before already, NONE when each is new.
    """
    start = np.int64(0)
    for token in range(ends.size):
        end = ends[token]
        slot = search_word(table.entries, table.arena, table.secret, text, start, end)
        if table.entries[slot, HIGH] != FREE:
            return np.int64(token)
        add_word(table, slot, text, start, end)
        table.entries[slot, VALUE] = np.uint64(ranks[token])
        start = end
    return NONE


@kernel
def split_tokens(table, text, ends, longest, splits):
    """`splits[t]` (int64) becomes the position in `text` between the two tokens that make token t, NONE where no two do.

    `longest`: the bytes of the longest token.
    """
    bounds, found = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    start = np.int64(0)
    for token in range(min(ends.size, splits.size)):
        splits[token] = split_token(table, text, start, ends[token], bounds, found)
        start = ends[token]


@part
def split_token(table, text, start, end, bounds, found):
    """Merge the bytes of one token until two parts are left; returns the border between them, or NONE.

    `bounds[p]` is where part p begins, `found[p]` the rank of the parts p and p + 1 together.
    """
    parts = end - start
    if parts < 2:
        return NONE
    for at in range(parts + 1):
        bounds[at] = start + at
    for at in range(parts - 1):
        found[at] = rank_of(table, text, start + at, start + at + 2)
    while parts > 2:
        best = 0
        for at in range(1, parts - 1):
            if found[at] < found[best]:
                best = at
        if found[best] == NO_RANK:
            return NONE
        parts -= 1
        for at in range(best + 1, parts + 1):
            bounds[at] = bounds[at + 1]
        for at in range(best + 1, parts - 1):
            found[at] = found[at + 1]
        if best + 1 < parts:
            found[best] = rank_of(table, text, bounds[best], bounds[best + 2])
        if best > 0:
            found[best - 1] = rank_of(table, text, bounds[best - 1], bounds[best + 1])
    return bounds[1]


@part
def rank_of(table, text, start, end):
    """The rank of a byte string, NO_RANK where it is no token."""
    slot = search_word(table.entries, table.arena, table.secret, text, start, end)
    return np.int64(table.entries[slot, VALUE]) if table.entries[slot, HIGH] != FREE else NO_RANK
