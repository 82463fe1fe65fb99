"""Merging by score: allocates the memory of the score kernel and counts the symbols, as `merge_loop.py` does for pair counts."""

from __future__ import annotations

import numpy as np

from tokenmill.kernels import merge_state as layout
from tokenmill.kernels import score_merge as kernel
from tokenmill.kernels.merge_state import MergeState
from tokenmill.kernels.score_merge import ScoreState


def count_symbols(symbols: np.ndarray, starts: np.ndarray, counts: np.ndarray, tokens: int) -> np.ndarray:
    """int64[tokens]: how often each symbol occurs in the words, weighted by `counts`; arrays as in `merge_loop.WordSymbols`."""
    found = np.zeros(tokens, np.int64)
    np.add.at(found, symbols, np.repeat(counts, np.diff(starts)))
    return found


class ScoredMerging:
    """Merges pairs by score. `state` is the state of the merge loop, whose arrays may grow between two calls."""

    def __init__(self, state: MergeState, symbol_counts: np.ndarray) -> None:
        heads = np.full((symbol_counts.size, 2), layout.NONE, np.int32)
        self._scoring = _allocate(len(state.pairs), symbol_counts, np.full((len(state.pairs), 2), layout.NONE, np.int32), heads)
        kernel.score_first_pairs(state, self._scoring)

    def merge_pairs(self, state: MergeState, limit: int) -> tuple[int, int]:
        """As `kernels.merge.merge_pairs`, but by score."""
        if len(state.pairs) > len(self._scoring.links):
            self._grow(state)
        status, made = kernel.merge_scored_pairs(state, self._scoring, limit)
        return status, made

    def _grow(self, state: MergeState) -> None:
        old = self._scoring
        links = np.full((len(state.pairs), 2), layout.NONE, np.int32)
        links[: len(old.links)] = old.links
        self._scoring = _allocate(len(state.pairs), old.symbol_counts, links, old.heads)
        kernel.find_winners(state, self._scoring)


def _allocate(pairs: int, symbol_counts: np.ndarray, links: np.ndarray, heads: np.ndarray) -> ScoreState:
    return ScoreState(symbol_counts, np.zeros(pairs), np.full(2 * pairs, layout.NONE, np.int32), links, heads)
