"""What a token spells, as far as the merge loop must know it: no rule may make a special token.

A token is a tree of merges over base symbols. Two rules never make the same string: no merge crosses the borders of a string that
ends as one token, so each of its occurrences is merged in the same way, by the same rules.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tokenmill.kernels.merge_state import TOKENS_USED

# Columns of `tokens`: how many base symbols it spells, and its parts; a base symbol has LEFT = -1 and its id in RIGHT.
SIZE, LEFT, RIGHT = 0, 1, 2
TOKEN_COLUMNS = 3


@njit(cache=True, nogil=True)
def add_base_tokens(state, alphabet):
    """Tokens 0 .. alphabet - 1: the base symbols."""
    for symbol in range(alphabet):
        state.tokens[symbol, SIZE], state.tokens[symbol, LEFT], state.tokens[symbol, RIGHT] = 1, -1, symbol
    state.counters[TOKENS_USED] = alphabet


@njit(cache=True, nogil=True)
def add_product(state, left, right):
    """A new token behind the others; returns its id."""
    tokens, token = state.tokens, state.counters[TOKENS_USED]
    tokens[token, SIZE] = tokens[left, SIZE] + tokens[right, SIZE]
    tokens[token, LEFT], tokens[token, RIGHT] = left, right
    state.counters[TOKENS_USED] = token + 1
    return token


@njit(cache=True, nogil=True)
def is_forbidden(state, left, right):
    """Would the product of two tokens spell one of the forbidden strings?"""
    tokens, starts = state.tokens, state.forbidden_starts
    size = tokens[left, SIZE] + tokens[right, SIZE]
    for place in range(starts.size - 1):
        symbols = state.forbidden[starts[place] : starts[place + 1]]
        if symbols.size == size and spells(tokens, left, right, symbols):
            return True
    return False


@njit(cache=True, nogil=True)
def spells(tokens, left, right, symbols):
    """Do two tokens together spell these base symbols?"""
    spelled = np.empty(symbols.size, np.int64)
    spell_token(tokens, left, spelled)
    spell_token(tokens, right, spelled[tokens[left, SIZE] :])
    for position in range(symbols.size):
        if spelled[position] != symbols[position]:
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
