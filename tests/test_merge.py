"""The merge loop: the rules and counts of the plain reference, whatever the ties, the overlaps, and the room its arrays have."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import counted_words
from tests.training import JIT, CountedWords, count_texts, few_cases, learn, learn_arrays, train
from tokenmill.errors import DataError
from tokenmill.kernels import merge_state as layout
from tokenmill.kernels.merge_state import MergeState
from tokenmill.names import TIES
from tokenmill.reference import bpe as reference
from tokenmill.training import merge_loop

CountedRule = tuple[reference.Pair, int]
NO_LIMIT = 1 << 40
#: A position that no array has: whoever follows it without JIT raises IndexError.
POISON = (1 << 31) - 1


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs there was room for whenever the loop made more room."""
    sizes: list[int] = []
    grow = merge_loop._grow

    def spy(state: MergeState) -> MergeState:
        sizes.append(len(state.pairs))
        return grow(state)

    monkeypatch.setattr(merge_loop, "_grow", spy)
    return sizes


def random_words(letters: str, length: int, words: int = 1, *, seed: int = 1) -> list[tuple[str, int]]:
    source = random.Random(seed)
    return [("".join(source.choices(letters, k=length)), 1 + word % 3) for word in range(words)]


# --- by hand ----------------------------------------------------------------------------------------------------------------


def test_low_lower_lowest() -> None:
    words = [("low", 2), ("lower", 1), ("lowest", 1)]
    assert learn(words, merges=2, ties="first-seen") == [(("l", "o"), 4), (("lo", "w"), 4)]
    # (e, r), (e, s), (s, t) and (low, e) end as the smallest pairs say: lowe counts 2, then all are tied at 1.
    expected = [(("l", "o"), 4), (("lo", "w"), 4), (("low", "e"), 2), (("lowe", "r"), 1), (("lowe", "s"), 1), (("lowes", "t"), 1)]
    assert learn(words, ties="first-seen") == expected
    assert learn(words, ties="smallest") == [*expected[:3], (("s", "t"), 1), (("lowe", "r"), 1), (("lowe", "st"), 1)]


def test_aaa_counts_two_places_and_merges_one() -> None:
    assert learn([("aaa", 5)]) == [(("a", "a"), 10), (("aa", "a"), 5)]
    assert learn([("aaaa", 1)]) == [(("a", "a"), 3), (("aa", "aa"), 1)]


def test_low_lower_newest_widest_first_seen() -> None:
    words = [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)]
    expected = [(("e", "s"), 9), (("es", "t"), 9), (("l", "o"), 7)]
    assert learn(words, merges=3, ties="first-seen") == expected


def test_lower_lowest_newest() -> None:
    words = [("lower", 5), ("lowest", 2), ("newest", 6)]
    rules = learn(words, merges=4, ties="first-seen")
    assert rules[0] == (("w", "e"), 13)
    assert rules[1:3] == [(("we", "s"), 8), (("wes", "t"), 8)]


@pytest.mark.parametrize("ties", TIES)
def test_a_tie_goes_to_the_first_place_or_to_the_smallest_pair(ties: str) -> None:
    expected = {"first-seen": [(("z", "y"), 1), (("b", "a"), 1)], "smallest": [(("b", "a"), 1), (("z", "y"), 1)]}
    assert learn([("zy", 1), ("ba", 1)], ties=ties) == expected[ties]


def test_first_seen_is_where_the_pair_stands_now() -> None:
    # After (x, y) the first (y, q) is the one of the last word, behind (a, b); before it stood in the first.
    words = [("xyq", 1), ("xy", 4), ("ab", 1), ("yq", 1)]
    assert learn(words, ties="first-seen") == [(("x", "y"), 5), (("xy", "q"), 1), (("a", "b"), 1), (("y", "q"), 1)]


def test_no_two_rules_make_one_token() -> None:
    # No merge crosses the borders of what becomes a token, and runs are cut from their left end: one string, one way to make it.
    words = [("aab", 9), ("abaab", 8), ("aaabaaa", 7), ("baaaaab", 5), ("aaaaaaaaaaa", 3)]
    products = ["".join(pair) for pair, _ in learn(words)]
    assert len(products) == len(set(products)) > 8


def test_a_pair_is_counted_beyond_32_bits() -> None:
    assert learn([("ab", 1 << 40), ("cab", 1 << 40)], merges=1) == [(("a", "b"), 1 << 41)]


# --- the reference ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("letters", ["a", "ab", "abc", "abcd"])
def test_rules_are_those_of_the_reference(ties: str, letters: str) -> None:
    @few_cases(150, 12)
    @given(counted_words(letters=letters))
    def check(words: CountedWords) -> None:
        assert learn(words, ties=ties) == reference.train_bpe(words, NO_LIMIT, ties=ties)

    check()


@few_cases(150, 12)
@given(counted_words(letters="abc"), st.sampled_from(TIES), st.integers(0, 12), st.integers(1, 6))
def test_limits_and_min_count(words: CountedWords, ties: str, merges: int, min_count: int) -> None:
    expected = reference.train_bpe(words, NO_LIMIT, ties=ties, min_count=min_count)
    assert learn(words, ties=ties, min_count=min_count, merges=merges) == expected[:merges]


@few_cases(150, 12)
@given(
    counted_words(letters="abc"),
    st.sampled_from(TIES),
    st.lists(st.text("abc", min_size=2, max_size=4), max_size=4, unique=True),
)
def test_forbidden_tokens_are_never_made(words: CountedWords, ties: str, forbidden: list[str]) -> None:
    expected = reference.train_bpe(words, NO_LIMIT, ties=ties, forbidden=frozenset(forbidden), alphabet="abc")
    assert learn(words, ties=ties, forbidden=forbidden, alphabet="abc") == expected
    assert learn(words, ties=ties, forbidden=forbidden, alphabet="abc", merges=3) == expected[:3]


@few_cases(60, 8)
@given(counted_words(letters="ab"), st.sampled_from(TIES), st.integers(1, 12))
def test_exhausted_says_that_the_limit_was_out_of_reach(words: CountedWords, ties: str, merges: int) -> None:
    possible = len(reference.train_bpe(words, NO_LIMIT, ties=ties))
    rules, _ = learn_arrays(words, ties=ties, merges=merges)
    assert rules.exhausted == (merges > possible)
    assert rules.pairs.shape == (min(merges, possible), 2)
    assert (rules.pairs.dtype, rules.counts.dtype) == (np.int32, np.int64)


@few_cases(60, 8)
@given(counted_words(letters="abc"), st.randoms())
def test_smallest_ties_do_not_depend_on_the_order_of_words(words: CountedWords, source: random.Random) -> None:
    shuffled = list(words)
    source.shuffle(shuffled)
    assert learn(words) == learn(shuffled)


def test_the_rules_reach_the_listener_in_order() -> None:
    heard: list[tuple[int, np.ndarray]] = []
    words = random_words("ab", 12, 30 if JIT else 6)
    rules, _ = learn_arrays(words, on_merges=lambda made, rows: heard.append((made, rows)))
    rows = np.concatenate([rows for _, rows in heard])
    assert [made for made, _ in heard] == np.cumsum([len(rows) for _, rows in heard]).tolist()
    assert rows.tolist() == np.column_stack([rules.pairs, rules.counts]).tolist()


def test_no_words_give_no_rules() -> None:
    rules, _ = learn_arrays([], alphabet="ab")
    assert (rules.pairs.shape, rules.tokens) == ((0, 2), 2)


# --- room -------------------------------------------------------------------------------------------------------------------


@pytest.mark.jit
@pytest.mark.parametrize("ties", TIES)
def test_the_arrays_grow_and_the_rules_stay(ties: str, grown: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_loop, "FIRST_PAIRS", 1 << 8)
    monkeypatch.setattr(merge_loop, "CELLS_PER_PAIR", 1 << 20)
    words = random_words("abcdefghij", 8000)
    rules = learn(words, ties=ties, merges=400)
    assert grown == [1 << 9, 1 << 10, 1 << 11, 1 << 12]
    assert rules == reference.train_bpe(words, 400, ties=ties)


@pytest.mark.jit
@pytest.mark.parametrize("ties", TIES)
def test_more_first_pairs_than_there_is_room_for(ties: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = random_words("".join(chr(0x4E00 + letter) for letter in range(90)), 5000)
    assert len(reference.count_pairs([words[0][0]], [1])) > 1 << 11
    monkeypatch.setattr(merge_loop, "FIRST_PAIRS", 1 << 8)
    monkeypatch.setattr(merge_loop, "CELLS_PER_PAIR", 1 << 20)
    assert learn(words, ties=ties, merges=60) == reference.train_bpe(words, 60, ties=ties)


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch, grown: list[int]) -> list[int]:
    """The loop starts with room for the first pairs alone; without JIT, what is not written yet must not be followed."""
    index, grow = merge_loop._index_pairs, merge_loop._grow

    def poison(state: MergeState) -> MergeState:
        if not JIT:
            state.positions[state.counters[layout.POSITIONS_USED] :] = POISON
        return state

    def tighten(*arguments: Any) -> MergeState:
        state = index(*arguments)
        used = max(1, int(state.counters[layout.PAIRS_USED]))
        return poison(state._replace(pairs=state.pairs[:used].copy(), heap=state.heap[:used].copy()))

    monkeypatch.setattr(merge_loop, "_index_pairs", tighten)
    monkeypatch.setattr(merge_loop, "_grow", lambda state: poison(grow(state)))
    return grown


@pytest.mark.parametrize("ties", TIES)
def test_the_rules_do_not_depend_on_room(ties: str, no_room: list[int]) -> None:
    @few_cases(250, 30)
    @given(counted_words(letters="abc", max_length=24))
    def check(words: CountedWords) -> None:
        assert learn(words, ties=ties) == reference.train_bpe(words, NO_LIMIT, ties=ties)

    check()
    assert len(no_room) > 100 if JIT else len(no_room) > 10


def test_more_symbols_than_cells_can_be_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_loop, "MOST_CELLS", 9)
    assert len(learn([("low", 1), ("new", 2)])) == 4
    with pytest.raises(DataError) as caught:
        learn([("low", 1), ("newe", 2)])
    told = "7 symbols in 2 distinct words are too many to merge (together 8 can be); train on a part of the corpus"
    assert str(caught.value) == told


# --- long words -------------------------------------------------------------------------------------------------------------


@pytest.mark.jit
def test_one_long_word_equals_the_reference() -> None:
    words = random_words("ACGT", 2000)
    assert learn(words, merges=200) == reference.train_bpe(words, 200)


@pytest.mark.jit
@pytest.mark.parametrize("length", [20_000, 80_000])
def test_long_words_end_and_decode(length: int) -> None:
    text = random_words("ACGT", length)[0][0]
    tokenizer = train([text], pretokenizer="none", merges=2000)
    assert len(tokenizer.merge_rules) == 2000
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.jit
def test_one_letter_repeated() -> None:
    words = [("a" * 20_000, 1)]
    assert learn(words, merges=8) == reference.train_bpe(words, 8)


# --- determinism ------------------------------------------------------------------------------------------------------------


def test_shuffled_lines_give_the_same_bytes() -> None:
    lines = ["re", "do", "ma", "king", "re", "making", "do", "ers", "mak", "ers"]
    source, files = random.Random(1), set()
    for _ in range(100 if JIT else 5):
        source.shuffle(lines)
        files.add(train(count_texts(lines, "wordpunct"), vocab_size=30).to_bytes())
    assert len(files) == 1
