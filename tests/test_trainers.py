"""Training a tokenizer from word counts: options, errors, numbering, and the real corpus against hand-checked figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from tests.strategies import counted_words
from tests.training import CountedWords, count_texts, counts_table, train
from tokenmill.errors import NothingToTrainOnError, TokenmillError, UsageError, VocabularySizeError
from tokenmill.names import PRETOKENIZERS
from tokenmill.reference import bpe as reference
from tokenmill.reference import words as reference_words
from tokenmill.schemas import WORD_COUNTS
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer

LOW = ["low low lower lowest"]


def options(**changes: Any) -> TrainingOptions:
    return TrainingOptions(**{"model": "char-bpe", "pretokenizer": "wordpunct", "merges": 3, **changes})


def message_of(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


# --- by hand ----------------------------------------------------------------------------------------------------------------


def test_low_lower_lowest_by_hand() -> None:
    tokenizer = train(LOW, merges=2, ties="first-seen")
    assert tokenizer.merge_rules == [("l", "o"), ("lo", "w")]
    assert tokenizer.vocab == {token: place for place, token in enumerate([*"elorstw", "Ġ", "lo", "low"])}
    assert tokenizer.tokenize("slow lowest") == ["s", "low", "Ġ", "low", "e", "s", "t"]


def test_counts_by_hand_and_their_expanded_text_give_one_model() -> None:
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    table = counts_table([(word.encode(), count) for word, count in words.items()])
    expanded = [word for word, count in words.items() for _ in range(count)]
    chosen: dict[str, Any] = {"pretokenizer": "none", "merges": 3, "ties": "first-seen"}
    assert train(table, **chosen).merge_rules == [("e", "s"), ("es", "t"), ("l", "o")]
    assert train(table, **chosen).to_bytes() == train(expanded, **chosen).to_bytes()


def test_ids_by_rank_and_sorted() -> None:
    chosen: dict[str, Any] = {"pretokenizer": "none", "merges": 2, "special_tokens": ("<s>", "~"), "unk_token": "<unk>"}
    by_rank = ["<s>", "~", "<unk>", "a", "b", "é", "ab", "aba"]
    assert list(train(["abaéaba"], **chosen).vocab) == by_rank
    ordered = train(["abaéaba"], ids="sorted", **chosen).vocab
    assert ordered == {token: place for place, token in enumerate(sorted(by_rank))}
    assert list(ordered) == ["<s>", "<unk>", "a", "ab", "aba", "b", "~", "é"]


def test_intermediate_tokens_stay() -> None:
    tokenizer = train(["the the the"], pretokenizer="none", merges=2)
    assert {"t", "h", "e", " "} < set(tokenizer.vocab)
    assert all(left + right in tokenizer.vocab for left, right in tokenizer.merge_rules)


def test_a_byte_model_has_all_bytes_in_visible_order() -> None:
    tokenizer = train(["ab ab"], model="byte-bpe", pretokenizer="gpt2", merges=1)
    assert list(tokenizer.vocab)[:256] == sorted(reference.visible_bytes())
    assert (list(tokenizer.vocab)[256:], len(tokenizer), tokenizer.embedding_rows) == (["ab"], 257, 257)


def test_the_unk_token_may_be_among_the_specials() -> None:
    assert options(special_tokens=("<pad>", "<unk>"), unk_token="<unk>").specials == ("<pad>", "<unk>")
    assert options(special_tokens=("<pad>",), unk_token="<unk>").specials == ("<pad>", "<unk>")


def test_the_file_says_what_was_asked() -> None:
    training = train(LOW, vocab_size=10, ties="first-seen", ids="sorted", min_count=2).training
    assert len(str(training.pop("word_counts_sha256"))) == 64
    expected = {"distinct_words": 4, "merges": None, "vocab_size": 10, "ties": "first-seen", "ids": "sorted", "min_count": 2}
    assert training == expected


def test_the_listener_hears_the_rules_by_name() -> None:
    heard: list[tuple[int, list[tuple[str, str, int]]]] = []
    train_tokenizer(count_texts(LOW, "wordpunct"), options(merges=2), on_merges=lambda made, rules: heard.append((made, rules)))
    assert heard == [(2, [("l", "o", 4), ("lo", "w", 4)])]


# --- limits -----------------------------------------------------------------------------------------------------------------


def test_a_vocabulary_size_counts_specials_alphabet_and_products() -> None:
    tokenizer = train(["the cat sat"] * 10, vocab_size=12, special_tokens=("<pad>", "<eos>"))
    assert list(tokenizer.vocab)[:9] == ["<pad>", "<eos>", *"acehst", "Ġ"]
    assert (len(tokenizer), len(tokenizer.merge_rules)) == (12, 3)


def test_too_few_pairs_stop_cleanly_or_fail_under_strict() -> None:
    counts = count_texts(["the cat sat"] * 10, "wordpunct")
    # Of the, Ġcat, Ġsat come 2 + 3 + 3 rules, of which (a, t) is one for both.
    tokenizer, rules = train_tokenizer(counts, options(merges=None, vocab_size=100))
    assert (len(tokenizer.merge_rules), rules.exhausted, len(tokenizer)) == (7, True, 14)
    told = message_of(lambda: train_tokenizer(counts, options(merges=None, vocab_size=100, strict=True)), VocabularySizeError)
    assert told == (
        "asked for a vocabulary of 100 and got 14: after 7 merges no pair of symbols is left; ask for 14, or add text"
    )
    told = message_of(lambda: train_tokenizer(counts, options(merges=8, strict=True)), VocabularySizeError)
    assert told == (
        "asked for 8 merges and got 7 (a vocabulary of 14): after 7 merges no pair of symbols is left; ask for 7, or add text"
    )
    assert len(train_tokenizer(counts, options(merges=7, strict=True))[0]) == 14


def test_one_word_and_a_large_vocabulary() -> None:
    tokenizer = train(["ab"], vocab_size=300)
    assert (tokenizer.merge_rules, len(tokenizer)) == ([("a", "b")], 3)


@pytest.mark.parametrize("texts", [[], ["", "", ""], [" \t\n"]])
def test_nothing_to_train_on(texts: list[str]) -> None:
    told = message_of(lambda: train(texts, merges=1), NothingToTrainOnError)
    assert told == "nothing to train on: the corpus holds no word; give one with text"
    assert NothingToTrainOnError.exit_code == 3
    assert count_texts(texts, "wordpunct").schema.equals(WORD_COUNTS)


def test_a_vocabulary_below_the_alphabet_is_refused_before_any_work() -> None:
    letters = ["abcdefghijklmnopqrstuvwxyz"]
    told = message_of(lambda: train(letters, vocab_size=10, special_tokens=("<s>",)), VocabularySizeError)
    assert told == (
        "vocabulary size 10 is too small: 26 symbols of the alphabet and 1 special tokens need at least 27; give more than that, "
        "or --limit-alphabet N"
    )
    assert len(train(letters, vocab_size=27, special_tokens=("<s>",))) == 27
    told = message_of(lambda: train(letters, vocab_size=255, model="byte-bpe"), VocabularySizeError)
    assert told == (
        "vocabulary size 255 is too small: 256 symbols of the alphabet and 0 special tokens "
        "need at least 256; give more than that"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"merges": None}, "give one of --vocab-size and --merges (vocab_size, merges)"),
        ({"vocab_size": 9}, "give one of --vocab-size and --merges (vocab_size, merges)"),
        ({"ties": "last"}, "ties 'last' is not known; choose one of smallest, first-seen"),
        ({"ids": "none"}, "ids 'none' is not known; choose one of rank, sorted, codepoint"),
        ({"merges": -1}, "merges -1 is below 0; give 0 or more"),
        ({"merges": None, "vocab_size": 0}, "vocabulary size 0 is below 1; give 1 or more"),
        ({"min_count": 0}, "min count 0 is below 1; give 1 or more"),
        ({"special_tokens": ("<a>", "<a>")}, "special tokens must differ and not be empty: '<a>', '<a>'; give each once"),
        ({"special_tokens": ("",)}, "special tokens must differ and not be empty: ''; give each once"),
        ({"unk_token": ""}, "special tokens must differ and not be empty: ''; give each once"),
    ],
)
def test_options_that_cannot_be(changes: dict[str, object], message: str) -> None:
    assert message_of(lambda: options(**changes), UsageError) == message


def test_names_that_are_not_known() -> None:
    counts = count_texts(LOW, "none")
    told = message_of(lambda: train_tokenizer(counts, options(model="lstm")), UsageError)
    assert told == "model 'lstm' is not known; choose one of byte-bpe, char-bpe, char, wordpiece, byte-wordpiece"
    told = message_of(lambda: train_tokenizer(counts, options(pretokenizer="knife")), UsageError)
    assert told == f"unknown pre-tokenizer 'knife'; known are: {', '.join(PRETOKENIZERS)}"


# --- special tokens ---------------------------------------------------------------------------------------------------------


def test_no_rule_makes_a_special_token() -> None:
    texts = ["going ~ing doing"] * 5
    tokenizer = train(texts, pretokenizer="none", merges=30, special_tokens=("ing", "~ing", "oi"))
    assert not {"ing", "~ing", "oi"} & {left + right for left, right in tokenizer.merge_rules}
    assert sorted(tokenizer.vocab.values()) == list(range(len(tokenizer)))
    assert {"ing", "~ing", "oi"}.isdisjoint(tokenizer.tokenize(texts[0]))
    assert tokenizer.decode(tokenizer.encode(texts[0])) == texts[0]
    expected = reference.train_bpe([(texts[0], 5)], 30, forbidden=frozenset(["ing", "~ing", "oi"]))
    assert tokenizer.merge_rules == [pair for pair, _ in expected]


def test_specials_of_a_byte_model_are_forbidden_in_their_visible_form() -> None:
    tokenizer = train(["<s> <s> <s>"], model="byte-bpe", pretokenizer="none", merges=20, special_tokens=("<s>", "Ġ<", "é好"))
    assert not {"<s>", "Ġ<"} & {left + right for left, right in tokenizer.merge_rules}
    assert len(set(tokenizer.vocab.values())) == len(tokenizer)


def test_a_special_token_that_is_a_symbol_is_refused() -> None:
    told = message_of(lambda: train(LOW, merges=1, special_tokens=("w",)), UsageError)
    assert told == "special token 'w' is a symbol of the alphabet; choose a longer one"


# --- the alphabet -----------------------------------------------------------------------------------------------------------


def test_a_space_is_the_marker_unless_the_document_is_one_word() -> None:
    assert train(["a b"], merges=0).vocab == {"a": 0, "b": 1, "Ġ": 2}
    assert train(["a b"], pretokenizer="none", merges=0).vocab == {" ": 0, "a": 1, "b": 2}


def test_words_that_are_no_utf_8_are_refused_by_a_character_model() -> None:
    table = counts_table([(b"ok", 1), (b"\xff", 1)])
    assert len(train(table, model="byte-bpe", pretokenizer="none", merges=1)) == 257
    with pytest.raises(TokenmillError):
        train(table, pretokenizer="none", merges=1)


# --- the real corpus --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_counts(real_texts: list[str]) -> dict[str, int]:
    """The words of the first 10,000 sentences as the reference cuts and counts them."""
    return dict(Counter(word for text in real_texts[:10_000] for word in reference_words.cut_wordpunct(text)))


@pytest.fixture(scope="module")
def real_tokenizer(real_texts: list[str]) -> Tokenizer:
    return train(real_texts[:10_000], merges=1000, ties="first-seen", ids="sorted")


@pytest.mark.jit
@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_ewt_figures(real_tokenizer: Tokenizer) -> None:
    assert real_tokenizer.training["distinct_words"] == 19_309
    assert sum(len(token) == 1 for token in real_tokenizer.vocab) == 108
    assert (len(real_tokenizer), len(real_tokenizer.merge_rules)) == (1_108, 1_000)
    assert [real_tokenizer.token_to_id(token) for token in ("a", "the", "Ġthe")] == [115, 530, 1039]
    expected = [("Ġ", "t"), ("Ġ", "a"), ("h", "e"), ("i", "n"), ("Ġt", "he"), ("r", "e")]
    assert real_tokenizer.merge_rules[:6] == expected
    common = {"ing", "ation", "ĠAmerican", "ĠIraq", "ĠUnited", "ĠStates", "Ġpeople", "Ġbecause"}
    assert common <= real_tokenizer.vocab.keys()
    assert real_tokenizer.encode("Hi, I'm here.") == [66, 289, 17, 650, 847, 19]


@pytest.mark.jit
def test_figures_of_real_texts_are_those_of_the_reference(real_counts: dict[str, int], real_tokenizer: Tokenizer) -> None:
    letters = {letter for word in real_counts for letter in word}
    assert real_tokenizer.training["distinct_words"] == len(real_counts)
    tokens = letters | {left + right for left, right in real_tokenizer.merge_rules}
    assert real_tokenizer.vocab == {token: number for number, token in enumerate(sorted(tokens))}
    for word in list(real_counts)[:300]:
        expected = reference.encode_word(reference.split_into_characters(word), real_tokenizer.merge_rules)
        assert real_tokenizer.tokenize(word.replace("Ġ", " ")) == expected


@pytest.mark.jit
@pytest.mark.slow
def test_rules_of_real_texts_are_those_of_the_reference(real_counts: dict[str, int], real_tokenizer: Tokenizer) -> None:
    assert real_tokenizer.merge_rules == train_by_recounting_changes(list(real_counts.items()), 1000)


@given(counted_words(letters="ab"))
def test_recounting_changes_gives_the_rules_of_the_reference(words: list[tuple[str, int]]) -> None:
    expected = [pair for pair, _ in reference.train_bpe(words, 20, ties="first-seen")]
    assert train_by_recounting_changes(words, 20) == expected


def train_by_recounting_changes(words: CountedWords, merges: int) -> list[tuple[str, str]]:
    """`reference.train_bpe` with ties first-seen; a round counts the words anew that hold its pair, not the whole corpus."""
    states, counts = [list(word) for word, _ in words], [count for _, count in words]
    pairs: Counter[tuple[str, str]] = Counter()
    holders: defaultdict[tuple[str, str], set[int]] = defaultdict(set)

    def add_word(place: int, sign: int) -> None:
        for pair in pairwise(states[place]):
            pairs[pair] += sign * counts[place]
            holders[pair].add(place)  # a word that has lost the pair since is looked at in vain

    def first_place(pair: tuple[str, str]) -> tuple[int, int]:
        return next((word, at) for word in sorted(holders[pair]) for at, one in enumerate(pairwise(states[word])) if one == pair)

    for place in range(len(states)):
        add_word(place, 1)
    rules: list[tuple[str, str]] = []
    while len(rules) < merges and (top := max(pairs.values(), default=0)):
        best = min((pair for pair, count in pairs.items() if count == top), key=first_place)
        rules.append(best)
        for place in tuple(holders[best]):
            add_word(place, -1)
            states[place] = reference.replace_pair(states[place], best)
            add_word(place, 1)
    return rules
