"""The merge loop: learns merge rules from words as symbols. The kernel merges; this module allocates its memory.

Words are flat arrays of symbols in corpus order, and the learned rules are returned as arrays. The model defines what a symbol is
(`tokenmill.models.bpe`); here symbols are numbers from 0, sorted by their visible form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill.errors import DataError
from tokenmill.kernels import merge as kernel
from tokenmill.kernels import merge_index as index
from tokenmill.kernels import merge_state as layout
from tokenmill.kernels.hashing import draw_secret
from tokenmill.kernels.merge_state import MergeState
from tokenmill.training.score_loop import ScoredMerging, count_symbols

RULES_PER_CALL = 256
#: At first there is room for `2 * FIRST_PAIRS` pairs, or one pair per `CELLS_PER_PAIR` cells if that is more. Memory that is
#: never touched costs nothing.
FIRST_PAIRS = 1 << 14
CELLS_PER_PAIR = 8
#: Positions and pairs have 32-bit numbers, and there are up to three for each cell.
MOST_CELLS = (1 << 31) // 3

#: Called during merging with the number of rules so far and the latest of them as rows (left, right, count).
OnMerges = Callable[[int, np.ndarray], None]


@dataclass(frozen=True)
class MergeRules:
    """The learned merge rules, in order of rank.

    `pairs`: int32[m, 2], the ids of left and right; `counts`: int64[m], the pair's count when it was chosen. Ids below `alphabet`
    are base symbols; the product of rule k has the id `alphabet` + k. `exhausted`: whether the pairs ran out before the limit.
    """

    pairs: np.ndarray
    counts: np.ndarray
    alphabet: int
    exhausted: bool

    @property
    def tokens(self) -> int:
        """The number of base symbols and products together."""
        return self.alphabet + len(self.pairs)


@dataclass(frozen=True)
class WordSymbols:
    """Distinct words as symbols: word `w` is `symbols[starts[w]:starts[w + 1]]` and occurs `counts[w]` times.

    `symbols`: int32[n], `starts`: int64[w + 1], `counts`: int64[w], all positive. For first-seen ties the words are in corpus
    order.
    """

    symbols: np.ndarray
    starts: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class MergeOptions:
    """Which pair is merged next, and when merging ends: at `merges` rules, or when no pair of at least `min_count` is left.

    `score` selects the pair with the highest count (`frequency`, which is BPE) or `likelihood` (WordPiece). Among equal pairs,
    `ties` selects the one with the `smallest` ids or the `first-seen` one. No rule makes a token longer than `most_length`; the
    next best pair is merged instead.
    """

    merges: int
    ties: str = "smallest"
    min_count: int = 1
    most_length: int | None = None
    score: str = "frequency"


def learn_merges(
    words: WordSymbols,
    options: MergeOptions,
    *,
    alphabet: int,
    forbidden: Sequence[Sequence[int]] = (),
    lengths: np.ndarray | None = None,
    on_merges: OnMerges | None = None,
) -> MergeRules:
    """Learn BPE merge rules (Sennrich, Haddow and Birch, 2016), equal to those of `reference.bpe.train_bpe`.

    With the score `likelihood`, learn those of WordPiece (Schuster and Nakajima, 2012), equal to
    `reference.wordpiece.train_wordpiece`.

    `forbidden` are symbol sequences of two or more symbols, such as special tokens, that no rule may produce. `lengths`:
    int32[alphabet], the length of each base symbol, 1 by default. Raises `DataError` for more than 2^31 / 3 symbols and words.
    """
    if words.symbols.size + words.starts.size > MOST_CELLS:
        raise DataError(
            f"{words.symbols.size:,} symbols in {words.counts.size:,} distinct words are too many to merge "
            f"(together {MOST_CELLS - 1:,} can be); train on a part of the corpus"
        )
    possible = min(options.merges, int(words.symbols.size))
    state = _index_pairs(_append_words(words, forbidden), len(forbidden), alphabet + possible)
    state.counters[layout.TOKENS] = alphabet
    state.lengths[:alphabet] = 1 if lengths is None else lengths
    state.counters[layout.MOST_LENGTH] = options.most_length or 0
    state.counters[layout.MIN_COUNT] = max(1, options.min_count)
    state.counters[layout.FIRST_SEEN] = options.ties == "first-seen"
    scoring = None
    if options.score == "likelihood":
        scoring = ScoredMerging(state, count_symbols(words.symbols, words.starts, words.counts, alphabet + possible))
    rules = _run_loop(state, possible, on_merges, scoring)
    return MergeRules(rules[:, :2].astype(np.int32), rules[:, 2].copy(), alphabet, exhausted=len(rules) < options.merges)


def _append_words(words: WordSymbols, others: Sequence[Sequence[int]]) -> WordSymbols:
    """Append words with a count of zero. They are merged like the others, so they reveal when a forbidden token would appear."""
    if not others:
        return words
    symbols = np.array([symbol for word in others for symbol in word], np.int32)
    ends = words.starts[-1] + np.cumsum([len(word) for word in others], dtype=np.int64)
    return WordSymbols(
        np.concatenate([words.symbols, symbols]),
        np.concatenate([words.starts, ends]),
        np.concatenate([words.counts, np.zeros(len(others), np.int64)]),
    )


def _lay_out(words: WordSymbols) -> np.ndarray:
    """Lay out the words as cells for the kernel."""
    cells = np.empty((words.symbols.size + words.starts.size, 4), np.int32)
    index.lay_out_words(words.symbols, words.starts, cells)
    return cells


def _index_pairs(words: WordSymbols, forbidden: int, tokens: int) -> MergeState:
    """The state before the first merge, with all pairs counted and placed. The last `forbidden` words may not become tokens."""
    cells, first_forbidden = _lay_out(words), words.counts.size - forbidden
    room, used = FIRST_PAIRS, -1
    while used < 0:
        room *= 2
        pairs = np.empty((max(room, len(cells) // CELLS_PER_PAIR), 4), np.int64)
        used = index.count_first_pairs(cells, words.counts, pairs, np.full(2 * room, layout.NONE, np.int32), draw_secret())
    state = MergeState(
        cells=cells,
        weights=words.counts,
        pairs=pairs,
        heap=np.empty((len(pairs), 3), np.int64),
        positions=np.empty(3 * len(cells) + layout.AHEAD, np.int32),
        mates=np.full((tokens, 2), layout.NONE, np.int32),
        events=np.empty((2 * int(pairs[:used, layout.LENGTH].max(initial=0)), 2), np.int32),
        lengths=np.empty(tokens, np.int32),
        forbidden=words.starts[first_forbidden:-1] + np.arange(first_forbidden, words.counts.size) + 1,
        merges=np.empty((RULES_PER_CALL, 3), np.int64),
        counters=np.zeros(layout.COUNTERS, np.int64),
    )
    lengths = pairs[:used, layout.LENGTH].copy()
    pairs[:used, layout.START], pairs[:used, layout.LENGTH] = np.cumsum(lengths) - lengths, 0
    state.counters[layout.PAIRS_USED], state.counters[layout.POSITIONS_USED] = used, lengths.sum()
    index.place_first_pairs(cells, pairs, state.positions)
    return state


def _run_loop(state: MergeState, merges: int, on_merges: OnMerges | None, scoring: ScoredMerging | None) -> np.ndarray:
    """Learn all rules: int64[m, 3] with left, right, count."""
    batches = [np.empty((0, 3), np.int64)]
    made, status = 0, kernel.PAUSED
    while made < merges and status != kernel.EXHAUSTED:
        merge_pairs = kernel.merge_pairs if scoring is None else scoring.merge_pairs
        status, done = merge_pairs(state, min(RULES_PER_CALL, merges - made))
        made += done
        if done:
            batches.append(state.merges[:done].copy())
            if on_merges is not None:
                on_merges(made, batches[-1])
        if status == kernel.NEEDS_ROOM:
            state = _grow(state)
    return np.concatenate(batches)


def _grow(state: MergeState) -> MergeState:
    """Copy the state to arrays with twice the room for pairs."""
    used, waiting = int(state.counters[layout.PAIRS_USED]), int(state.counters[layout.HEAP_SIZE])
    pairs, heap = (np.empty((2 * len(array), array.shape[1]), np.int64) for array in (state.pairs, state.heap))
    pairs[:used], heap[:waiting] = state.pairs[:used], state.heap[:waiting]
    return state._replace(pairs=pairs, heap=heap)
