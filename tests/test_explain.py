"""Explaining: by hand, and held to the plain training and to the tokenizer itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.by_hand import estimate, make_tokenizer
from tests.explaining import check_explained
from tests.strategies import counted_words, nasty_texts, rule_sets
from tests.training import counts_table, few_cases, train
from tokenmill.errors import InvalidTextError, NothingToTrainOnError, TokenmillError, UsageError, VocabularySizeError
from tokenmill.explain import training
from tokenmill.explain.encoding import explain_text, place_words
from tokenmill.explain.symbols import MOST_CHARACTERS
from tokenmill.explain.training import explain_training
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet, visible_bytes
from tokenmill.models.bpe import BpeModel
from tokenmill.names import TIES
from tokenmill.pipeline.explain_command import describe_training
from tokenmill.reference import bpe as reference
from tokenmill.reference import words as reference_words
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

NEWEST = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
PLAIN_PRETOKENIZERS = ("none", "wordpunct", *reference_words.PATTERNS, *reference_words.DROPPING_PATTERNS)


def message_of(call: Callable[[], object], kind: type[TokenmillError]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


# --- training ---------------------------------------------------------------------------------------------------------------


def test_newest_and_widest_by_hand() -> None:
    explained = explain_training(NEWEST, vocab_size=13, ties="first-seen")
    first, second, third = explained.merges
    assert explained.alphabet == tuple("deilnorstw")
    assert explained.vocabulary == (*"deilnorstw", "es", "est", "lo")
    assert [(merge.left, merge.right, merge.product, merge.score) for merge in explained.merges] == [
        *(("e", "s", "es", 9), ("es", "t", "est", 9), ("l", "o", "lo", 7))
    ]
    assert [(one.left + one.right, one.score, one.tied, one.chosen) for one in first.candidates] == [
        *(
            ("es", 9, True, True),
            ("st", 9, True, False),
            ("we", 8, False, False),
            ("lo", 7, False, False),
            ("ow", 7, False, False),
        )
    ]
    assert first.candidates[0].working == "newest 6 + widest 3" and first.candidates[2].working == "lower 2 + newest 6"
    # l-o, o-w, w-e, e-r, n-e, e-w, e-s, s-t, w-i, i-d, d-e
    assert first.pairs == 11
    assert first.reason == "2 pairs share the highest; this one is seen first, in newest"
    assert second.reason == "the highest"
    assert third.reason == "2 pairs share the highest; this one is seen first, in low"
    assert first.words == (("l", "o", "w"), ("l", "o", "w", "e", "r"), ("n", "e", "w", "es", "t"), ("w", "i", "d", "es", "t"))
    assert third.words == (("lo", "w"), ("lo", "w", "e", "r"), ("n", "e", "w", "est"), ("w", "i", "d", "est"))
    assert explained.stop == "vocabulary size 13 reached"


def test_lower_lowest_newest_by_hand() -> None:
    merges = explain_training({"lower": 5, "lowest": 2, "newest": 6}, merges=3, ties="first-seen").merges
    assert [(merge.left, merge.right, merge.score) for merge in merges] == [("w", "e", 13), ("we", "s", 8), ("wes", "t", 8)]
    assert [(one.left, one.right) for one in merges[1].candidates if one.tied] == [("we", "s"), ("s", "t")]


def test_smallest_ids_break_ties_by_hand() -> None:
    # (b, c) stands first in the corpus, (a, b) has the smaller ids.
    explained = explain_training({"bc": 1, "ab": 1}, merges=5)
    assert [merge.product for merge in explained.merges] == ["ab", "bc"]
    assert explained.merges[0].reason == "2 pairs share the highest; this one has the smallest ids, (0, 1)"
    assert explained.stop == "no pair is left after 2 merges: every word is one symbol"


def test_workings_add_up_occurrences() -> None:
    repeated = explain_training({"banana": 1000}, merges=1).merges[0].candidates
    assert [(one.left + one.right, one.score, one.working) for one in repeated] == [
        *(("an", 2000, "2 × banana 1,000"), ("na", 2000, "2 × banana 1,000"), ("ba", 1000, "banana 1,000"))
    ]
    many = explain_training({f"xy{letter}": 1 for letter in "abcdefg"}, merges=1).merges[0].candidates[0]
    assert many.working == "xya 1 + xyb 1 + xyc 1 + xyd 1 + 3 more words"


def test_a_model_may_bring_scores_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # ab:10 a:90 qz:5: (a, b) is 10 of 100 a's and 10 b's, (q, z) all of 5 q's and 5 z's.
    def score_pairs(words: Sequence[training.CountedWord]) -> dict[reference.Pair, training.Score]:
        symbols = Counter({symbol: 0 for word in words for symbol in word.symbols})
        for word in words:
            symbols.update({symbol: word.count for symbol in word.symbols})
        pairs = reference.count_pairs([word.symbols for word in words], [word.count for word in words])
        return {pair: Fraction(count, symbols[pair[0]] * symbols[pair[1]]) for pair, count in pairs.items()}

    scoring = training.Scoring("score", score_pairs, lambda pair, words: "count / (count × count)")
    monkeypatch.setitem(training.SCORINGS, "frequency", scoring)
    explained = explain_training({"ab": 10, "a": 90, "qz": 5}, merges=1)
    assert [(one.left, one.right, one.score) for one in explained.merges[0].candidates] == [
        *(("q", "z", Fraction(1, 5)), ("a", "b", Fraction(1, 100)))
    ]
    shown = describe_training(explained)
    assert "why         score 0.2000: the highest" in shown and "a b  0.0100          = count / (count × count)" in shown


def test_a_byte_model_has_all_bytes() -> None:
    explained = explain_training({" é": 2}, model="byte-bpe", vocab_size=257)
    assert explained.words[0].symbols == ("Ġ", "Ã", "©")
    assert explained.alphabet == tuple(sorted(reference.visible_bytes()))
    assert explained.vocabulary[256:] == ("Ã©",)


@pytest.mark.parametrize("ties", TIES)
@few_cases(60, 20)
@given(words=counted_words(letters="ab ", max_length=8), merges=st.integers(0, 12))
def test_rules_are_those_of_the_plain_training(ties: str, words: list[tuple[str, int]], merges: int) -> None:
    explained = explain_training(dict(words), merges=merges, ties=ties)
    symbols = [(reference.split_into_characters(word), count) for word, count in words]
    assert [((one.left, one.right), one.score) for one in explained.merges] == reference.train_bpe(symbols, merges, ties=ties)


@few_cases(30, 6)
@given(words=counted_words(letters="aé ", max_words=5, max_length=6), ties=st.sampled_from(TIES))
def test_vocabulary_is_that_of_the_trainer(words: list[tuple[str, int]], ties: str) -> None:
    table = counts_table([(word.encode(), count) for word, count in words])
    for model in ("char-bpe", "byte-bpe"):
        trained = train(table, model=model, pretokenizer="gpt2", merges=6, ties=ties)
        explained = explain_training(dict(words), model=model, merges=6, ties=ties)
        assert list(explained.vocabulary) == list(trained.vocab)
        assert list(trained.vocab.values()) == list(range(len(trained)))


def test_limits_of_training() -> None:
    assert message_of(lambda: explain_training({"abc": 1}, vocab_size=2), VocabularySizeError) == (
        "vocabulary size 2 is too small: the alphabet has 3 symbols; give at least 3"
    )
    assert message_of(lambda: explain_training({}, merges=1), NothingToTrainOnError) == (
        "nothing to train on: no word is given, and the text holds none; give words such as low:5"
    )
    assert message_of(lambda: explain_training({"a" * 1500: 1, "b" * 501: 1}, merges=1), UsageError) == (
        "the words have 2,001 characters; explain takes at most 2,000: train on fewer of them"
    )
    assert (
        message_of(lambda: explain_training(NEWEST), UsageError) == "give one of --vocab-size and --merges (vocab_size, merges)"
    )
    assert message_of(lambda: explain_training(NEWEST, merges=-1), UsageError) == "merges -1 is below 0; give 0 or more"
    assert "ties 'first' is not known; choose" in message_of(lambda: explain_training(NEWEST, merges=1, ties="first"), UsageError)


# --- encoding ---------------------------------------------------------------------------------------------------------------


def test_estimate_local_by_hand() -> None:
    explained = explain_text(estimate(), "estimate, local")
    assert explained.tokens == ("est", "i", "m", "a", "t", "e", ",", "Ġ", "lo", "c", "a", "l")
    first, second, third = explained.words
    assert [(merge.rank, merge.left, merge.right, merge.symbols) for merge in first.merges] == [
        (0, "e", "s", ("es", "t", "i", "m", "a", "t", "e")),
        (1, "es", "t", ("est", "i", "m", "a", "t", "e")),
    ]
    assert (second.merges, [merge.rank for merge in third.merges]) == ((), [2])
    # , a c e i l m o s t Ġ es est lo are 0 to 13.
    assert explained.ids == (12, 4, 6, 1, 9, 3, 0, 10, 13, 2, 1, 5)
    assert (third.word, third.characters, third.spells) == ("Ġlocal", (9, 15), (" ", "lo", "c", "a", "l"))
    assert (explained.decoded, explained.same, explained.unknown) == ("estimate, local", True, ())


def test_places_in_characters_and_bytes() -> None:
    words = explain_text(make_tokenizer("", [], model="byte-bpe"), "né 好!").words
    assert [(word.word, word.characters, word.bytes) for word in words] == [
        ("nÃ©", (0, 2), (0, 3)),
        ("Ġå¥½", (2, 4), (3, 7)),
        ("!", (4, 5), (7, 8)),
    ]
    assert words[0].spells == ("n", "\\xc3", "\\xa9")


def test_marked_and_dropped_whitespace_have_places() -> None:
    text = "Ġa  \nb, Ġ\t"
    assert list(place_words(PreTokenizer("wordpunct"), text)) == [("Ġa", 0), (" b", 4), (",", 6), (" Ġ", 7)]
    assert list(place_words(PreTokenizer("bert"), text)) == [("Ġa", 0), ("b", 5), (",", 6), ("Ġ", 8)]
    explained = explain_text(make_tokenizer("Ġab,", [], pretokenizer="wordpunct"), text)
    assert (explained.decoded, explained.same, explained.lossless) == (" a b,  ", False, False)


def test_unknown_characters_are_named() -> None:
    refused = explain_text(make_tokenizer("ab", [("a", "b")]), "abé\x07 ab")
    assert refused.tokens == ("ab", "é", "\x07", "Ġ", "ab") and refused.ids == (2, None, None, None, 2)
    assert [(one.code_point, one.name, one.at, one.becomes) for one in refused.unknown] == [
        ("U+00E9", "LATIN SMALL LETTER E WITH ACUTE", 2, None),
        ("U+0007", "without a name", 3, None),
        ("U+0020", "SPACE", 4, None),
    ]
    assert (refused.decoded, refused.same) == (None, False)
    replaced = explain_text(make_tokenizer("ab", [("a", "b")], unk="<unk>"), "abé")
    assert (replaced.tokens, replaced.ids, replaced.decoded) == (("ab", "<unk>"), (3, 0), "ab<unk>")
    assert [one.becomes for one in replaced.unknown] == ["<unk>"]


def test_a_word_that_is_a_token_is_taken_whole_where_merges_are_ignored() -> None:
    vocab = {token: place for place, token in enumerate([*sorted(visible_bytes()), "bc", "abc"])}
    model = BpeModel("byte-bpe", ByteAlphabet(), vocab, (("b", "c"),), ignore_merges=True)
    tokenizer = Tokenizer(model, pretokenizer=PreTokenizer("gpt2"))
    explained = explain_text(tokenizer, "abc,bc")
    assert [(word.tokens, len(word.merges)) for word in explained.words] == [(("abc",), 0), ((",",), 0), (("bc",), 1)]
    assert list(explained.ids) == tokenizer.encode("abc,bc")


def test_text_never_makes_a_special_token() -> None:
    vocab = {"a": 0, "b": 1, "ab": 2, "x": 3}
    spelled = BpeModel("char-bpe", CharacterAlphabet(marks_spaces=False), vocab, (), ("ab", "x"), None)
    explained = explain_text(Tokenizer(spelled, pretokenizer=PreTokenizer("none")), "abx")
    assert (explained.tokens, explained.ids) == (("a", "b", "x"), (0, 1, None))


def test_characters_of_another_unicode_are_told() -> None:
    # TODHRI LETTER A came with Unicode 16; `re` of Python 3.11 has Unicode 14.
    doubtful = explain_text(make_tokenizer("", [], model="byte-bpe"), "aé \U000105c0!").doubtful
    assert doubtful == (() if re.match(r"\w", "\U000105c0") else ("\U000105c0",))
    by_pattern = Tokenizer(make_tokenizer("", [], model="byte-bpe").model, pretokenizer=PreTokenizer("regex", pattern=r"\w+"))
    assert explain_text(by_pattern, "aé \U000105c0!").doubtful == ()


def test_limits_of_texts() -> None:
    assert explain_text(estimate(), "a" * MOST_CHARACTERS).same
    assert message_of(lambda: explain_text(estimate(), "a" * (MOST_CHARACTERS + 1)), UsageError) == (
        "the text has 2,001 characters; explain takes at most 2,000: give a part of it"
    )
    assert message_of(lambda: explain_text(estimate(), "a\udc80"), InvalidTextError) == (
        "the text holds the lone surrogate U+DC80 at character 1, which UTF-8 cannot hold; replace it with U+FFFD"
    )


@pytest.mark.parametrize("pretokenizer", PLAIN_PRETOKENIZERS)
@few_cases(25, 3)
@given(corpus=st.lists(nasty_texts(max_fragments=12), max_size=3), text=nasty_texts(max_fragments=20), merges=st.integers(0, 12))
def test_explained_ids_are_those_of_trained_tokenizers(pretokenizer: str, corpus: list[str], text: str, merges: int) -> None:
    for model, unk in (("byte-bpe", None), ("char-bpe", "<unk>")):
        tokenizer = train([*corpus, "a"], model=model, pretokenizer=pretokenizer, merges=merges, unk_token=unk)
        for one in [*corpus, text]:
            check_explained(tokenizer, one)


@pytest.mark.parametrize(
    "pretokenizer",
    [
        *(PreTokenizer("gpt2", split_digits=3), PreTokenizer("wordpunct", split_digits=1), PreTokenizer("bert", split_digits=3)),
        *(PreTokenizer("regex", pattern=r"(\w)\1|(?i)[a-f]+"), PreTokenizer("regex", split_digits=3, pattern=r"\w+\s?")),
    ],
    ids=str,
)
@few_cases(25, 3)
@given(text=nasty_texts(max_fragments=20), merges=st.integers(0, 12))
def test_explained_ids_under_options_of_pretokenizers(pretokenizer: PreTokenizer, text: str, merges: int) -> None:
    for model, unk in (("byte-bpe", None), ("char-bpe", "<unk>")):
        tokenizer = train(["a 12345 b1234", text], model=model, pretokenizer=pretokenizer, merges=merges, unk_token=unk)
        check_explained(tokenizer, "12 34567\n890 a1")
        check_explained(tokenizer, text)


@few_cases(80, 10)
@given(rules=rule_sets(), text=st.text("ab ", max_size=30))
def test_explained_ids_under_rules_that_no_training_made(rules: list[tuple[str, str]], text: str) -> None:
    check_explained(make_tokenizer("abĠ", rules), text)
    check_explained(make_tokenizer("ab ", rules, pretokenizer="none"), text)
    check_explained(make_tokenizer("ab", rules, unk="<unk>"), text)
