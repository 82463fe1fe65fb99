"""Which strings exist as tokens during training: two rules may make the same token, and none may make a special token.

A token is a tree of merges over base symbols. Its rolling hash does not depend on the tree, so equal strings meet in one table
entry.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tokenmill.kernels.hashing import mix
from tokenmill.kernels.merge_state import KEY, LOW_32, TOKENS_USED

# Columns of `tokens`; a base symbol has LEFT = -1 and its id in RIGHT.
HASH, POWER, SIZE, LEFT, RIGHT = 0, 1, 2, 3, 4
TOKEN_COLUMNS = 5
ROLLING_BASE = np.int64(0x42B2AE3D27D4EB4F)


@njit(cache=True, nogil=True)
def add_token(state, left, right):
    """A new token behind the others: a base symbol (`left` -1, `right` its id), or the product of two tokens."""
    tokens, token = state.tokens, state.counters[TOKENS_USED]
    if left < 0:
        tokens[token, HASH] = np.int64(mix(np.uint64(right) + np.uint64(1)))
        tokens[token, POWER], tokens[token, SIZE] = ROLLING_BASE, 1
    else:
        tokens[token, HASH] = product_hash(tokens, left, right)
        tokens[token, POWER] = tokens[left, POWER] * tokens[right, POWER]
        tokens[token, SIZE] = tokens[left, SIZE] + tokens[right, SIZE]
    tokens[token, LEFT], tokens[token, RIGHT] = left, right
    state.counters[TOKENS_USED] = token + 1
    return token


@njit(cache=True, nogil=True)
def product_hash(tokens, left, right):
    """Rolling hash of two tokens' strings end to end: equal strings have equal hashes however they were merged."""
    return tokens[left, HASH] * tokens[right, POWER] + tokens[right, HASH]


@njit(cache=True, nogil=True)
def find_product(state, left, right):
    """Where the product of two tokens stands in `token_table`: its entry, or the free entry where it belongs."""
    tokens, table = state.tokens, state.token_table
    wanted, size = product_hash(tokens, left, right), tokens[left, SIZE] + tokens[right, SIZE]
    mask = np.uint64(table.size - 1)
    slot = mix(np.uint64(wanted)) & mask
    while table[slot] >= 0:
        token = table[slot]
        if tokens[token, HASH] == wanted and tokens[token, SIZE] == size and is_product(tokens, token, left, right):
            break
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit(cache=True, nogil=True)
def is_product(tokens, token, left, right):
    """Compare strings, base symbol by base symbol: is `token` what `left` and `right` make together?"""
    size = tokens[token, SIZE]
    spelled, expected = np.empty(size, np.int64), np.empty(size, np.int64)
    spell_token(tokens, token, spelled)
    spell_token(tokens, left, expected)
    spell_token(tokens, right, expected[tokens[left, SIZE] :])
    for position in range(size):
        if spelled[position] != expected[position]:
            return False
    return True


@njit(cache=True, nogil=True)
def spell_token(tokens, token, spelled):
    """Write the base symbols of a token, left to right, into `spelled`."""
    pending = np.empty(tokens[token, SIZE] + 1, np.int64)
    pending[0], depth, written = token, 1, 0
    while depth > 0:
        depth -= 1
        current = pending[depth]
        if tokens[current, LEFT] < 0:
            spelled[written] = tokens[current, RIGHT]
            written += 1
        else:
            pending[depth], pending[depth + 1] = tokens[current, RIGHT], tokens[current, LEFT]
            depth += 2


@njit(cache=True, nogil=True)
def add_base_tokens(state, alphabet):
    """Tokens 0 .. alphabet - 1: the base symbols. They need no place in the table: a product is never that short."""
    for symbol in range(alphabet):
        add_token(state, -1, symbol)


@njit(cache=True, nogil=True)
def add_forbidden_token(state, symbols):
    """Reserve the string of a special token (two or more base symbols); returns the token that stands for it here."""
    token = np.int64(symbols[0])
    for position in range(1, symbols.size):
        slot = find_product(state, token, symbols[position])
        token = add_token(state, token, np.int64(symbols[position]))
    if state.token_table[slot] < 0:
        state.token_table[slot] = token
    return state.token_table[slot]


@njit(cache=True, nogil=True)
def product_of(state, slot):
    """The token that a pair's merge makes: a new one, one that another merge made before, or -1 where it is forbidden."""
    left, right = state.pairs[slot, KEY] >> 32, state.pairs[slot, KEY] & LOW_32
    place = find_product(state, left, right)
    token = state.token_table[place]
    if token < 0:
        token = add_token(state, left, right)
        state.token_table[place] = token
        return token
    for forbidden in state.forbidden:
        if token == forbidden:
            return -1
    return token
