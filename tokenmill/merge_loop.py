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

#: Called now and then with the rules made so far: how many, and the latest of them as rows (left, right, product, count).
OnMerges = Callable[[int, np.ndarray], None]


@dataclass(frozen=True)
class MergeRules:
    """What the merge loop learned, in order of rank.

    `pairs`: int32[m, 2], the ids of left and right; `products`: int32[m], the id of what they make; `counts`: int64[m], the
    pair's count when it was chosen. Ids below `alphabet` are base symbols; products are numbered from there on in order of
    creation (two rules may share a product). `exhausted`: no pair was left before the limit was reached.
    """

    pairs: np.ndarray
    products: np.ndarray
    counts: np.ndarray
    alphabet: int
    exhausted: bool

    @property
    def tokens(self) -> int:
        """Alphabet and distinct products together."""
        return self.alphabet + int(np.unique(self.products).size)


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
    max_merges: int | None = None,
    max_tokens: int | None = None,
    ties: str = "smallest",
    min_count: int = 1,
    forbidden: Sequence[Sequence[int]] = (),
    on_merges: OnMerges | None = None,
) -> MergeRules:
    """Learn BPE merge rules (Sennrich, Haddow and Birch, 2016), equal to `reference.train_bpe`.

    Stops at `max_merges` rules, at `max_tokens` tokens (alphabet included), or when no pair of at least `min_count` is left.
    `forbidden` are symbol sequences (special tokens, two symbols or more) that no rule may make.
    """
    most = int(words.symbols.size)
    max_merges = most if max_merges is None else min(max_merges, most)
    max_tokens = alphabet + most if max_tokens is None else min(max_tokens, alphabet + most)
    state = _prepare_state(words, alphabet, min(max_merges, max_tokens - alphabet), forbidden)
    state.counters[layout.MIN_COUNT] = max(1, min_count)
    state.counters[layout.FIRST_SEEN] = ties == "first-seen"
    reserved = int(state.counters[layout.TOKENS_USED]) - alphabet
    state = _count_pairs(state)
    rules, exhausted = _run_loop(state, max_merges, max_tokens + reserved, on_merges)
    return _number_products(rules, alphabet, exhausted)


def _prepare_state(words: WordSymbols, alphabet: int, products: int, forbidden: Sequence[Sequence[int]]) -> MergeState:
    cells = words.symbols.size + words.starts.size
    tokens = alphabet + max(0, products) + sum(len(symbols) for symbols in forbidden) + 1
    state = MergeState(
        symbols=np.empty(cells, np.int32),
        spans=np.empty(cells, np.int32),
        weights=np.empty(cells, np.int64),
        pairs=_empty_pairs(1 << 12),
        positions=np.empty(2 * cells, np.int64),
        heap=np.empty((1 << 12, 3), np.int64),
        tokens=np.empty((tokens, merge_tokens.TOKEN_COLUMNS), np.int64),
        token_table=np.full(power_of_two(2 * tokens), -1, np.int64),
        forbidden=np.empty(0, np.int64),
        merges=np.empty((RULES_PER_CALL, 4), np.int64),
        counters=np.zeros(layout.COUNTERS, np.int64),
    )
    kernel.lay_out_words(words.symbols, words.starts, words.counts, state)
    merge_tokens.add_base_tokens(state, alphabet)
    reserved = [merge_tokens.add_forbidden_token(state, np.array(symbols, np.int64)) for symbols in forbidden]
    return state._replace(forbidden=np.array(reserved, np.int64))


def _count_pairs(state: MergeState) -> MergeState:
    while not kernel.count_first_pairs(state):
        state.counters[layout.PAIRS_USED] = 0
        state = state._replace(pairs=_empty_pairs(2 * state.pairs.shape[0]))
    pairs = int(state.counters[layout.PAIRS_USED])
    state = state._replace(heap=np.empty((max(4 * pairs, 1 << 12), 3), np.int64))
    kernel.place_first_pairs(state)
    return state


def _run_loop(state: MergeState, max_merges: int, max_tokens: int, on_merges: OnMerges | None) -> tuple[np.ndarray, bool]:
    """All rules as int64[m, 4] (left, right, product, count), and whether the pairs ran out."""
    batches: list[np.ndarray] = []
    made = 0
    while made < max_merges:
        status, done = kernel.merge_pairs(state, min(RULES_PER_CALL, max_merges - made), max_tokens)
        made += done
        if done:
            batches.append(state.merges[:done].copy())
            if on_merges is not None:
                on_merges(made, batches[-1])
        if status == kernel.PAUSED and state.counters[layout.TOKENS_USED] < max_tokens:
            continue
        if status in (kernel.PAUSED, kernel.EXHAUSTED):
            break
        state = _grow(state, status)
    exhausted = made < max_merges and int(state.counters[layout.TOKENS_USED]) < max_tokens
    return np.concatenate(batches) if batches else np.empty((0, 4), np.int64), exhausted


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


def _number_products(rules: np.ndarray, alphabet: int, exhausted: bool) -> MergeRules:
    """Renumber the kernel's tokens (which also hold reserved strings) so that products follow the alphabet without gaps."""
    products = np.unique(rules[:, 2])
    renumber = np.arange(alphabet + 1 if products.size == 0 else max(alphabet, int(products[-1])) + 1, dtype=np.int32)
    renumber[products] = np.arange(alphabet, alphabet + products.size, dtype=np.int32)
    return MergeRules(
        pairs=renumber[rules[:, :2]],
        products=renumber[rules[:, 2]],
        counts=rules[:, 3].copy(),
        alphabet=alphabet,
        exhausted=exhausted,
    )


def _empty_pairs(capacity: int) -> np.ndarray:
    pairs = np.empty((capacity, 4), np.int64)
    pairs[:, layout.KEY] = layout.EMPTY
    return pairs
