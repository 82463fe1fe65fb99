"""Merging by score: the rules of the plain WordPiece training, whatever the ties, the overlaps, and the size of the counts."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import counted_words
from tests.training import JIT, CountedWords, compiled, few_cases
from tests.wordpieces import NEWEST, learn_by_score, split_words
from tokenmill.kernels import score_merge
from tokenmill.names import TIES
from tokenmill.reference import wordpiece as reference
from tokenmill.training import merge_loop

NO_LIMIT = 1 << 40


def train(words: CountedWords, **options: object) -> list[tuple[tuple[str, str], int]]:
    return reference.train_wordpiece(split_words(words), NO_LIMIT, **options)  # type: ignore[arg-type]


# --- by hand ----------------------------------------------------------------------------------------------------------------


def test_first_scores_of_low_lower_newest_widest() -> None:
    split = split_words(NEWEST)
    scores = reference.score_pairs([word for word, _ in split], [count for _, count in split])
    shown = {pair: f"{float(score):.4f}" for pair, score in scores.items()}
    assert {pair: shown[pair] for pair in [("l", "##o"), ("##o", "##w"), ("##w", "##e"), ("w", "##i"), ("##i", "##d")]} == {
        ("l", "##o"): "0.1429",
        ("##o", "##w"): "0.0769",
        ("##w", "##e"): "0.0362",
        ("w", "##i"): "0.3333",
        ("##i", "##d"): "0.3333",
    }
    assert shown["##s", "##t"] == "0.1111"


@pytest.mark.parametrize("ties", TIES)
def test_four_rules_of_low_lower_newest_widest(ties: str) -> None:
    expected = [(("w", "##i"), 3), (("wi", "##d"), 3), (("l", "##o"), 7), (("##s", "##t"), 9)]
    assert learn_by_score(NEWEST, merges=4, ties=ties) == expected
    assert train(NEWEST, ties=ties)[:4] == expected


def test_a_rare_pair_of_rare_symbols_goes_before_a_frequent_pair() -> None:
    words = [("ab", 10), ("a", 90), ("qz", 5)]
    assert learn_by_score(words, merges=2) == [(("q", "##z"), 5), (("a", "##b"), 10)]
    scores = reference.score_pairs([word for word, _ in split_words(words)], [10, 90, 5])
    assert scores == {("a", "##b"): Fraction(10, 1000), ("q", "##z"): Fraction(5, 25)}


def test_what_a_run_loses_when_it_is_merged() -> None:
    # ##a ##a stands in aaaa twice, and is merged once: two of the three ##a are gone, not four.
    assert learn_by_score([("aaaa", 1)]) == [(("a", "##a"), 1), (("aa", "##a"), 1), (("aaa", "##a"), 1)]
    words = [("baaaa", 3), ("b", 90)]
    assert learn_by_score(words) == train(words)


# --- the reference ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("letters", ["a", "ab", "abc", "abcd"])
def test_rules_are_those_of_the_reference(ties: str, letters: str) -> None:
    @few_cases(150, 10)
    @given(counted_words(letters=letters))
    def check(words: CountedWords) -> None:
        assert learn_by_score(words, ties=ties) == train(words, ties=ties)

    check()


@few_cases(100, 10)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=6), st.sampled_from([1, 2, 1 << 20, 1 << 40, (1 << 40) + 1]), min_size=1),
    st.sampled_from(TIES),
)
def test_counts_of_any_size_are_compared_exactly(words: dict[str, int], ties: str) -> None:
    counted = list(words.items())
    assert learn_by_score(counted, ties=ties) == train(counted, ties=ties)


def test_scores_that_doubles_cannot_tell_apart() -> None:
    # (a, b): (n - 1) / (n * (n - 1)) = 1 / n. (c, d): m / m^2 = 1 / m with m = n - 1, greater by one part of 10^18.
    n = 1 << 59
    words = [("ab", n - 1), ("a", 1), ("cd", n - 1)]
    assert float(n) == float(n - 1)
    assert learn_by_score(words)[0] == (("c", "##d"), n - 1)
    assert learn_by_score([("ab", n - 1), ("cd", n - 1), ("c", 1)])[0] == (("a", "##b"), n - 1)


@few_cases(100, 10)
@given(counted_words(letters="abc"), st.sampled_from(TIES), st.integers(0, 12), st.integers(1, 6))
def test_limits_and_min_count(words: CountedWords, ties: str, merges: int, min_count: int) -> None:
    expected = train(words, ties=ties, min_count=min_count)
    assert learn_by_score(words, ties=ties, min_count=min_count, merges=merges) == expected[:merges]


@few_cases(100, 10)
@given(
    counted_words(letters="abc"),
    st.sampled_from(TIES),
    st.lists(st.text("abc", min_size=2, max_size=4), max_size=4, unique=True),
)
def test_forbidden_tokens_are_never_made(words: CountedWords, ties: str, forbidden: list[str]) -> None:
    alphabet = [*"abc", "##a", "##b", "##c"]
    # The numbers of symbols that no word holds lie between the others, and leave their order as it is.
    expected = train(words, ties=ties, forbidden=frozenset(forbidden))
    assert learn_by_score(words, ties=ties, forbidden=forbidden, alphabet=alphabet) == expected


@few_cases(30, 3)
@given(st.lists(st.text("ab", min_size=1, max_size=200), min_size=1, max_size=3, unique=True), st.sampled_from(TIES))
def test_arrays_that_grow_do_not_show(words: list[str], ties: str) -> None:
    counted = [(word, 1 + place % 2) for place, word in enumerate(words)]
    first = merge_loop.FIRST_PAIRS, merge_loop.CELLS_PER_PAIR
    try:
        merge_loop.FIRST_PAIRS, merge_loop.CELLS_PER_PAIR = 2, 1 << 20
        assert learn_by_score(counted, ties=ties) == train(counted, ties=ties)
    finally:
        merge_loop.FIRST_PAIRS, merge_loop.CELLS_PER_PAIR = first


@pytest.mark.jit
def test_many_words_are_those_of_the_reference() -> None:
    source = random.Random(5)
    words = {"".join(source.choices("etaoinshr", [9, 8, 7, 6, 5, 4, 3, 2, 1], k=source.randint(1, 9))) for _ in range(600)}
    counted = [(word, int(source.paretovariate(0.7))) for word in sorted(words)]
    expected = reference.train_wordpiece(split_words(counted), 150)
    assert learn_by_score(counted, merges=150) == expected


# --- whole numbers of up to 192 bits ----------------------------------------------------------------------------------------


@few_cases(300, 60)
@given(st.lists(st.integers(1, (1 << 63) - 1) | st.integers(1, 9), min_size=6, max_size=6))
def test_products_of_three_numbers_are_compared_exactly(numbers: list[int]) -> None:
    one, other = tuple(numbers[:3]), tuple(numbers[3:])
    small, large = (numbers[0] * numbers[1] * numbers[2], numbers[3] * numbers[4] * numbers[5])
    compare = compiled(score_merge.compare_products) if JIT else compare_without_jit
    assert compare(one, other) == (small > large) - (small < large)
    assert compare(one, (one[2], one[0], one[1])) == 0


def compare_without_jit(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """The kernel sees NumPy numbers, never those of Python, which do not overflow."""
    import numpy as np

    return int(score_merge.compare_products(tuple(map(np.int64, one)), tuple(map(np.int64, other))))
