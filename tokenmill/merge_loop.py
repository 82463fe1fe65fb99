"""The driver's side of the merge loop: symbols in, merge rules out; the kernel merges, this file gives it room.

Words become flat symbols in corpus order, the kernel merges pairs, and the rules come back as arrays. What symbols are is the
model's matter (`tokenmill.models`); here they are numbers from 0, sorted by the visible form of what they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill.kernels import merge as kernel
from tokenmill.kernels import merge_state as layout
from tokenmill.kernels import merge_tokens
from tokenmill.kernels.merge_state import MergeState
from tokenmill.kernels.tables import power_of_two

RULES_PER_CALL = 256

#: Called now and then with the rules made so far: how many, and the latest of them as rows (left, right, count).
OnMerges = Callable[[int, np.ndarray], None]


@dataclass(frozen=True)
class MergeRules:
    """What the merge loop learned, in order of rank.

    `pairs`: int32[m, 2], the ids of left and right; `counts`: int64[m], the pair's count when it was chosen. Ids below `alphabet`
    are base symbols; the product of rule k has the id `alphabet` + k. `exhausted`: no pair was left before the limit was reached.
    """

    pairs: np.ndarray
    counts: np.ndarray
    alphabet: int
    exhausted: bool

    @property
    def tokens(self) -> int:
        """Alphabet and products together."""
        return self.alphabet + len(self.pairs)


@dataclass(frozen=True)
class WordSymbols:
    """Distinct words as symbols: word `w` is `symbols[starts[w]:starts[w + 1]]` and occurs `counts[w]` times.

    `symbols`: int32[n], `starts`: int64[w + 1], `counts`: int64[w], all positive. With first-seen ties the words stand in corpus
    order.
    """

    symbols: np.ndarray
    starts: np.ndarray
    counts: np.ndarray


def learn_merges(
    words: WordSymbols,
    *,
    alphabet: int,
    merges: int,
    ties: str = "smallest",
    min_count: int = 1,
    forbidden: Sequence[Sequence[int]] = (),
    on_merges: OnMerges | None = None,
) -> MergeRules:
    """Learn BPE merge rules (Sennrich, Haddow and Birch, 2016), equal to `reference.train_bpe`.

    Stops at `merges` rules, or when no pair of at least `min_count` is left. `forbidden` are symbol sequences (special tokens,
    two symbols or more) that no rule may make.
    """
    possible = min(merges, int(words.symbols.size))
    state = _prepare_state(words, alphabet, possible, forbidden)
    state.counters[layout.MIN_COUNT] = max(1, min_count)
    state.counters[layout.FIRST_SEEN] = ties == "first-seen"
    rules = _run_loop(_count_pairs(state), possible, on_merges)
    return MergeRules(rules[:, :2].astype(np.int32), rules[:, 2].copy(), alphabet, exhausted=len(rules) < merges)


def _prepare_state(words: WordSymbols, alphabet: int, merges: int, forbidden: Sequence[Sequence[int]]) -> MergeState:
    cells = words.symbols.size + words.starts.size
    state = MergeState(
        symbols=np.empty(cells, np.int32),
        spans=np.empty(cells, np.int32),
        weights=np.empty(cells, np.int64),
        pairs=_empty_pairs(1 << 12),
        positions=np.empty(2 * cells, np.int64),
        heap=np.empty((1 << 12, 3), np.int64),
        tokens=np.empty((alphabet + merges, merge_tokens.TOKEN_COLUMNS), np.int64),
        forbidden=np.array([symbol for symbols in forbidden for symbol in symbols], np.int32),
        forbidden_starts=np.cumsum([0, *map(len, forbidden)], dtype=np.int64),
        merges=np.empty((RULES_PER_CALL, 3), np.int64),
        counters=np.zeros(layout.COUNTERS, np.int64),
    )
    kernel.lay_out_words(words.symbols, words.starts, words.counts, state)
    merge_tokens.add_base_tokens(state, alphabet)
    return state


def _count_pairs(state: MergeState) -> MergeState:
    while not kernel.count_first_pairs(state):
        state.counters[layout.PAIRS_USED] = 0
        state = state._replace(pairs=_empty_pairs(2 * state.pairs.shape[0]))
    pairs = int(state.counters[layout.PAIRS_USED])
    state = state._replace(heap=np.empty((max(4 * pairs, 1 << 12), 3), np.int64))
    kernel.place_first_pairs(state)
    return state


def _run_loop(state: MergeState, merges: int, on_merges: OnMerges | None) -> np.ndarray:
    """All rules as int64[m, 3]: left, right, count."""
    batches = [np.empty((0, 3), np.int64)]
    made, status = 0, kernel.PAUSED
    while made < merges and status != kernel.EXHAUSTED:
        status, done = kernel.merge_pairs(state, min(RULES_PER_CALL, merges - made))
        made += done
        if done:
            batches.append(state.merges[:done].copy())
            if on_merges is not None:
                on_merges(made, batches[-1])
        if status not in (kernel.PAUSED, kernel.EXHAUSTED):
            state = _grow(state, status)
    return np.concatenate(batches)


def _grow(state: MergeState, status: int) -> MergeState:
    """The state with room for one more merge in the array that was full."""
    room = int(state.counters[layout.ROOM])
    if status == kernel.NEEDS_HEAP:
        heap = np.empty((2 * (state.heap.shape[0] + room), 3), np.int64)
        heap[: state.heap.shape[0]] = state.heap
        return state._replace(heap=heap)
    if status == kernel.NEEDS_POSITIONS:
        positions = np.empty(2 * state.symbols.size + room, np.int64)
        state.counters[layout.POSITIONS_USED] = kernel.move_positions(state, positions)
        return state._replace(positions=positions)
    pairs = _empty_pairs(power_of_two(4 * (int(state.counters[layout.PAIRS_USED]) + room)))
    state.counters[layout.PAIRS_USED] = kernel.move_pairs(state, pairs)
    return state._replace(pairs=pairs)


def _empty_pairs(capacity: int) -> np.ndarray:
    pairs = np.empty((capacity, 4), np.int64)
    pairs[:, layout.KEY] = layout.EMPTY
    return pairs
