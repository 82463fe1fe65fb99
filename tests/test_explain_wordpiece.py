"""Explaining WordPiece: by hand, and held to the plain training and to the tokenizer itself."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import counted_words, nasty_texts, wordpiece_tokens
from tests.training import CountedWords, few_cases, train
from tests.wordpieces import NEWEST, split_words, tokenizer_of
from tokenmill.errors import UnknownCharacterError, UsageError
from tokenmill.explain.encoding import explain_text
from tokenmill.explain.training import explain_training
from tokenmill.names import TIES
from tokenmill.pipeline.explain_command import describe_text, describe_training
from tokenmill.reference import wordpiece as plain

TRAINED = ["##st", "n", "##i", "##s", "wid", "##d", "wi", "##r", "##o", "lo", "w", "##e", "##w", "##t", "l"]


def test_newest_and_widest_by_hand() -> None:
    explained = explain_training(dict(NEWEST), model="wordpiece", vocab_size=15)
    assert [(merge.left, merge.right, merge.product, merge.score) for merge in explained.merges] == [
        ("w", "##i", "wi", Fraction(1, 3)),
        ("wi", "##d", "wid", Fraction(1, 3)),
        ("l", "##o", "lo", Fraction(1, 7)),
        ("##s", "##t", "##st", Fraction(1, 9)),
    ]
    assert explained.alphabet == ("l", "n", "w", "##d", "##e", "##i", "##o", "##r", "##s", "##t", "##w")
    assert explained.vocabulary[11:] == ("wi", "wid", "lo", "##st")
    assert explained.merges[3].words == (
        *(("lo", "##w"), ("lo", "##w", "##e", "##r"), ("n", "##e", "##w", "##e", "##st"), ("wid", "##e", "##st")),
    )
    shown = describe_training(explained)
    assert "merged      is the pair with the highest score" in shown
    assert "rank 2      l + ##o -> lo" in shown
    assert "why         score 0.1429: the highest" in shown
    assert "l ##o    0.1429  merged  = 7 / (7 × 7)" in shown


def test_first_scores_by_hand() -> None:
    first = explain_training(dict(NEWEST), model="wordpiece", merges=1).merges[0]
    scores = {(one.left, one.right): f"{float(one.score):.4f}" for one in first.candidates}
    assert scores["w", "##i"] == scores["##i", "##d"] == "0.3333" and scores["l", "##o"] == "0.1429"
    assert [one.working for one in first.candidates][:2] == ["3 / (3 × 3)", "3 / (3 × 3)"]


def test_by_frequency() -> None:
    explained = explain_training(dict(NEWEST), model="wordpiece", score="frequency", merges=2, ties="first-seen")
    assert [(merge.product, merge.score) for merge in explained.merges] == [("##es", 9), ("##est", 9)]
    with pytest.raises(UsageError, match="score 'frequency' is for wordpiece, byte-wordpiece, not for char-bpe; leave it out"):
        explain_training({"a": 1}, score="frequency", merges=1)


@few_cases(60, 15)
@given(counted_words(letters="abc", max_length=8), st.integers(0, 10), st.sampled_from(TIES))
def test_rules_are_those_of_the_plain_training(words: CountedWords, merges: int, ties: str) -> None:
    explained = explain_training(dict(words), model="wordpiece", merges=merges, ties=ties)
    expected = plain.train_wordpiece(split_words(words), merges, ties=ties)
    assert [(merge.left, merge.right) for merge in explained.merges] == [pair for pair, _ in expected]


def test_the_longest_match_by_hand() -> None:
    tokenizer = tokenizer_of(TRAINED, pretokenizer="bert")
    explained = explain_text(tokenizer, "lows, low")
    word, comma, _ = explained.words
    assert [(match.at, match.tried, match.token) for match in word.matches] == [
        *((0, ("lows", "low"), "lo"), (2, ("##ws",), "##w"), (3, (), "##s")),
    ]
    assert (word.tokens, comma.tokens) == (("lo", "##w", "##s"), ("[UNK]",))
    assert [(one.character, one.at, one.becomes) for one in explained.unknown] == [(",", 4, "[UNK]")]
    shown = describe_text(explained, tokenizer.model)
    assert "  from 0    lo   no lows, low" in shown and "  from 2    ##w   no ##ws" in shown and "  from 3    ##s" in shown
    assert "  from 0    none fits   no ,\n" in shown
    assert "unknown     ',' U+002C COMMA, character 4: becomes [UNK]" in shown
    assert explained.decoded == "lows [UNK] low"


def test_a_word_that_is_too_long() -> None:
    tokenizer = tokenizer_of(["a", "##a"], most_characters=3)
    explained = explain_text(tokenizer, "aaaa")
    assert (explained.tokens, explained.words[0].matches) == (("[UNK]",), ())
    assert "too many characters" in describe_text(explained, tokenizer.model)


@few_cases(60, 10)
@given(wordpiece_tokens(), st.text("abc ", max_size=40))
def test_tokens_are_those_of_the_tokenizer(tokens: list[str], text: str) -> None:
    for unk in ("[UNK]", None):
        tokenizer = tokenizer_of(tokens, pretokenizer="whitespace-punct", unk=unk)
        explained = explain_text(tokenizer, text)
        if unk is None and None in explained.ids:
            with pytest.raises(UnknownCharacterError):
                tokenizer.encode(text)
            continue
        assert list(explained.ids) == tokenizer.encode(text)
        assert explained.decoded == tokenizer.decode(tokenizer.encode(text))


@few_cases(30, 5)
@given(nasty_texts(max_fragments=12))
def test_bytes_are_those_of_the_tokenizer(text: str) -> None:
    tokenizer = train(["héllo wörld"], model="byte-wordpiece", pretokenizer="gpt2", merges=5)
    explained = explain_text(tokenizer, text)
    assert list(explained.ids) == tokenizer.encode(text)
    assert explained.same
