"""Training WordPiece from word counts: by hand, against the reference and Hugging Face, options, files, cases that break."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import counted_words, nasty_texts
from tests.training import WRITE_GOLDEN, CountedWords, count_texts, counts_table, few_cases, train
from tests.wordpieces import BERT_SPECIALS, NEWEST, split_words
from tokenmill.errors import NothingToTrainOnError, TokenizerFileError, TokenmillError, UnknownCharacterError, UsageError
from tokenmill.errors import VocabularySizeError as TooSmall
from tokenmill.formats import native
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.names import TIES
from tokenmill.reference import bpe as reference
from tokenmill.reference import wordpiece as plain
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer

GOLDEN = Path(__file__).parent / "golden" / "tokenizers"
THAI = "\u0e01\u0e33"


def train_words(words: CountedWords, **options: Any) -> Tokenizer:
    table = counts_table([(word.encode(), count) for word, count in words])
    return train(table, **{"model": "wordpiece", "pretokenizer": "bert", **options})


def message_of(call: Callable[[], object], kind: type[TokenmillError]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


# --- by hand ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
def test_low_lower_newest_widest(ties: str) -> None:
    tokenizer = train_words(NEWEST, vocab_size=15, ties=ties)
    assert tokenizer.merge_rules == [("w", "##i"), ("wi", "##d"), ("l", "##o"), ("##s", "##t")]
    alphabet = ["l", "n", "w", "##d", "##e", "##i", "##o", "##r", "##s", "##t", "##w"]
    assert list(tokenizer.vocab) == [*alphabet, "wi", "wid", "lo", "##st"]


def test_by_frequency() -> None:
    tokenizer = train_words(NEWEST, merges=3, score="frequency", ties="first-seen")
    assert tokenizer.merge_rules == [("##e", "##s"), ("##es", "##t"), ("l", "##o")]
    assert tokenizer.training["score"] == "frequency"


def test_counts_and_their_expanded_text_give_one_model() -> None:
    expanded = [" ".join(word for word, count in NEWEST for _ in range(count))]
    made = train(expanded, model="wordpiece", pretokenizer="bert", vocab_size=15, ties="first-seen")
    assert made.to_bytes() == train_words(NEWEST, vocab_size=15, ties="first-seen").to_bytes()


def test_the_trained_model_encodes() -> None:
    tokenizer = train_words(NEWEST, vocab_size=16, unk_token="[UNK]")
    assert tokenizer.tokenize("lows widest est") == ["lo", "##w", "##s", "wid", "##e", "##st", "[UNK]"]
    assert tokenizer.decode(tokenizer.encode("widest low")) == "widest low"
    assert (len(tokenizer), tokenizer.vocab["[UNK]"]) == (16, 0)


# --- the reference ----------------------------------------------------------------------------------------------------------


@few_cases(60, 6)
@given(counted_words(letters="abc"), st.sampled_from(TIES), st.sampled_from(["likelihood", "frequency"]))
def test_rules_are_those_of_the_reference(words: CountedWords, ties: str, score: str) -> None:
    made = train_words(words, merges=12, ties=ties, score=score).merge_rules
    split = split_words(words)
    symbols = plain.sort_alphabet({symbol for word, _ in split for symbol in word})
    if score == "likelihood":
        assert made == [pair for pair, _ in plain.train_wordpiece(split, 12, ties=ties)]
        return
    # Any symbols are symbols to BPE: give each a character of its own, in the order of its number.
    letter = {symbol: chr(0x4E00 + number) for number, symbol in enumerate(symbols)}
    recoded = [("".join(letter[symbol] for symbol in word), count) for word, count in split]
    name = {sign: symbol for symbol, sign in letter.items()}
    expected = [pair for pair, _ in reference.train_bpe(recoded, 12, ties=ties, alphabet=letter.values())]
    assert made == [tuple(join_all(name[sign] for sign in side) for side in pair) for pair in expected]


def join_all(symbols: Any) -> str:
    first, *others = symbols
    for symbol in others:
        first = plain.join_pair((first, symbol))
    return str(first)


@few_cases(60, 5)
@given(st.lists(nasty_texts(max_fragments=8), min_size=1, max_size=6), st.sampled_from(["wordpiece", "byte-wordpiece"]))
def test_what_was_trained_on_is_encoded_without_loss(texts: list[str], model: str) -> None:
    if not any(PreTokenizer("gpt2").pretokenize(text) for text in texts):
        return
    tokenizer = train(texts, model=model, pretokenizer="gpt2", merges=30, max_word_characters=0)
    expected = [text if model == "byte-wordpiece" else text.replace("Ġ", " ") for text in texts]
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts).to_pylist()] == expected
    assert native.loads(tokenizer.to_bytes()).encode_batch(texts) == tokenizer.encode_batch(texts)


@pytest.mark.jit
def test_by_frequency_is_what_hugging_face_calls_wordpiece(real_texts: list[str]) -> None:
    """As far as ties do not matter: there they go by an order that changes from run to run."""
    counts = count_texts(real_texts, "bert")
    words = [(word.decode(), n) for word, n in zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True)]
    _, rules = train_tokenizer(counts, TrainingOptions("wordpiece", "bert", merges=400, score="frequency"))
    merges = count_certain_merges(rules.pairs.tolist(), rules.counts.tolist())
    assert merges > 10
    made = train_words(words, merges=merges, score="frequency")
    peer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    peer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    peer.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    alphabet = {symbol for word, _ in split_words(words) for symbol in word} | {letter for word, _ in words for letter in word}
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=len(alphabet) + 5 + merges, special_tokens=list(BERT_SPECIALS), limit_alphabet=10_000, show_progress=False
    )
    peer.train_from_iterator(real_texts, trainer)
    expected = set(peer.get_vocab()) - set(BERT_SPECIALS)
    assert expected - set(made.vocab) <= {letter for word, _ in words for letter in word}  # there, letters need not begin a word
    assert set(made.vocab) <= expected


def count_certain_merges(pairs: list[list[int]], counts: list[int]) -> int:
    """How many merges come before the first tie of pairs that share a symbol: others may go in any order."""
    certain = 0
    for _, group in itertools.groupby(range(len(counts)), key=counts.__getitem__):
        places = list(group)
        symbols = [symbol for place in places for symbol in set(pairs[place])]
        if len(set(symbols)) < len(symbols) or places[-1] + 1 == len(counts):
            break
        certain = places[-1] + 1
    return certain


# --- cases that break -------------------------------------------------------------------------------------------------------


def test_the_same_bytes_whatever_the_order_of_lines() -> None:
    lines = ["re", "do", "ma", "king", "re", "making", "do", "ers", "mak", "ers"]
    options: dict[str, Any] = {"model": "wordpiece", "pretokenizer": "bert", "vocab_size": 22}
    made = {train(random.Random(seed).sample(lines, len(lines)), **options).to_bytes() for seed in range(10)}
    assert len(made) == 1


def test_a_rare_pair_of_rare_symbols_goes_first() -> None:
    assert train_words([("ab", 10), ("a", 90), ("qz", 5)], merges=1).merge_rules == [("q", "##z")]


@pytest.mark.jit
@pytest.mark.parametrize("score", ["likelihood", "frequency"])
def test_one_word_of_many_letters(score: str) -> None:
    word = "".join(random.Random(3).choices("ACGT", k=80_000))
    tokenizer = train([word], model="wordpiece", pretokenizer="none", merges=500, score=score, max_word_characters=0)
    assert tokenizer.decode(tokenizer.encode(word)) == word
    assert len(tokenizer.merge_rules) == 500


def test_too_small_a_vocabulary_says_how_large_it_must_be() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    options: dict[str, Any] = {"model": "wordpiece", "pretokenizer": "bert", "vocab_size": 10, "unk_token": "[UNK]"}
    expected = (
        "vocabulary size 10 is too small: 26 symbols of the alphabet and 1 special tokens need at least 27; give more than that, "
        "or --limit-alphabet N"
    )
    assert message_of(lambda: train([" ".join(letters)], **options), TooSmall) == expected
    assert "512 symbols of the alphabet" in message_of(
        lambda: TrainingOptions("byte-wordpiece", "bert", vocab_size=511), TooSmall
    )


def test_training_stops_when_no_pair_is_left() -> None:
    table = count_texts(["the cat sat"] * 10, "bert")
    tokenizer, rules = train_tokenizer(table, TrainingOptions("wordpiece", "bert", vocab_size=100))
    assert (rules.exhausted, len(tokenizer)) == (True, 13)
    assert "got 13: after 6 merges no pair of symbols is left" in message_of(
        lambda: train_tokenizer(table, TrainingOptions("wordpiece", "bert", vocab_size=100, strict=True)), TooSmall
    )
    assert train(["ab"], model="wordpiece", pretokenizer="bert", vocab_size=300).merge_rules == [("a", "##b")]
    for corpus in ([], ["", ""]):
        message_of(lambda corpus=corpus: train(corpus, model="wordpiece", pretokenizer="bert", merges=1), NothingToTrainOnError)


def test_a_character_that_was_not_seen() -> None:
    options: dict[str, Any] = {"model": "wordpiece", "pretokenizer": "bert", "merges": 3}
    assert train(["hug pug"], **options, unk_token="[UNK]").tokenize("mug pug")[0] == "[UNK]"
    said = message_of(lambda: train(["hug pug"], **options).encode("mug"), UnknownCharacterError)
    assert said.startswith("text 0, character 0: 'm' (U+006D) in the word 'mug' begins no token that fits")


def test_bytes_leave_nothing_unknown() -> None:
    tokenizer = train(["hello world"], model="byte-wordpiece", pretokenizer="bert", vocab_size=520, score="frequency")
    shown = reference.visible_bytes()
    assert sum(token in tokenizer.vocab for token in shown) == sum("##" + token in tokenizer.vocab for token in shown) == 256
    ids = tokenizer.encode(THAI)
    assert (len(ids), tokenizer.decode(ids), tokenizer.model.unk_token) == (6, THAI, None)


def test_special_tokens_that_text_could_spell_are_not_made() -> None:
    tokenizer = train(
        ["~ing ~ing swing"] * 3, model="wordpiece", pretokenizer="whitespace", merges=40, special_tokens=("~ing", "##ng")
    )
    assert len(set(tokenizer.vocab.values())) == len(tokenizer.vocab)
    assert not {plain.join_pair(rule) for rule in tokenizer.merge_rules} & {"~ing", "##ng"}
    assert not {"~ing", "##ng"} & set(tokenizer.tokenize("~ing swing"))
    Tokenizer.__reduce__(tokenizer)[0](*Tokenizer.__reduce__(tokenizer)[1])


def test_words_that_begin_with_the_prefix_make_no_token_twice() -> None:
    texts = ["##ab ##ab ab cab #ab ####"] * 3
    for score in ("likelihood", "frequency"):
        tokenizer = train(texts, model="wordpiece", pretokenizer="whitespace", merges=60, score=score)
        assert Counter(tokenizer.vocab.values()).most_common(1)[0][1] == 1
        assert native.loads(tokenizer.to_bytes()).vocab == tokenizer.vocab
        products = [plain.join_pair(rule) for rule in tokenizer.merge_rules]
        assert len(products) == len(set(products))


# --- options and the file ---------------------------------------------------------------------------------------------------


def test_options_that_are_wrong() -> None:
    def said(**options: Any) -> str:
        return message_of(
            lambda: TrainingOptions(**{"model": "wordpiece", "pretokenizer": "bert", "merges": 1, **options}), UsageError
        )

    assert said(score="pmi") == "score 'pmi' is not known; choose one of likelihood, frequency"
    assert (
        said(model="byte-bpe", score="frequency")
        == "score 'frequency' is for wordpiece, byte-wordpiece, not for byte-bpe; leave it out"
    )
    assert said(max_word_characters=-1) == "max word characters -1 is not from 0 (no limit) to 2147483647"
    assert "byte-wordpiece takes words of any length" in said(model="byte-wordpiece", max_word_characters=5)
    assert said(continuation_prefix="") == "the continuation prefix is empty; leave it out, or give one such as '</w>' or '##'"
    assert said(byte_fallback=True) == "byte fallback is for char-bpe, char, not for wordpiece; leave it out"
    suffix = "end of word suffix '</w>' is for byte-bpe, char-bpe, char, not for wordpiece; leave it out"
    assert said(end_of_word_suffix="</w>") == suffix


def test_prefix_and_limit_are_the_models() -> None:
    tokenizer = train_words(NEWEST, merges=4, continuation_prefix="@@", max_word_characters=5, unk_token="[UNK]")
    assert tokenizer.merge_rules == [("w", "@@i"), ("wi", "@@d"), ("l", "@@o"), ("@@s", "@@t")]
    assert tokenizer.tokenize("lower lowerw") == ["lo", "@@w", "@@e", "@@r", "[UNK]"]
    loaded = native.loads(tokenizer.to_bytes())
    assert loaded.tokenize("lower lowerw") == ["lo", "@@w", "@@e", "@@r", "[UNK]"]
    assert isinstance(loaded.model, WordPieceModel)
    assert (loaded.model.continuation_prefix, loaded.model.max_word_characters) == ("@@", 5)


@pytest.mark.parametrize("score", ["likelihood", "frequency"])
def test_limits_of_tokens_and_of_the_alphabet(score: str) -> None:
    short = train_words(NEWEST, merges=50, score=score, max_token_length=2)
    assert {len(token.removeprefix("##")) for token in short.vocab} == {1, 2}
    assert any(len(token.removeprefix("##")) == 3 for token in train_words(NEWEST, merges=50, score=score).vocab)
    # e is the most frequent character, then w: all others are barriers.
    few = train_words(NEWEST, merges=50, score=score, limit_alphabet=2, unk_token="[UNK]")
    tokens = [token.removeprefix("##") for token in few.vocab if token != "[UNK]"]
    assert set("".join(tokens)) == {"e", "w"} and "##ew" not in few.vocab and "##we" in few.vocab


@pytest.mark.parametrize("model", ["wordpiece", "byte-wordpiece"])
def test_golden_tokenizer(model: str) -> None:
    options: dict[str, Any] = {"unk_token": "[UNK]", "special_tokens": BERT_SPECIALS} if model == "wordpiece" else {}
    made = train(
        ["low low lower lowest", "你好 你好 😀, don't", "Größe: 12"], model=model, pretokenizer="bert", merges=12, **options
    )
    path = GOLDEN / f"{model}-bert.json"
    if WRITE_GOLDEN:
        path.write_bytes(made.to_bytes())
    assert made.to_bytes() == path.read_bytes() == native.loads(path.read_bytes()).to_bytes()
    content = json.loads(path.read_bytes())
    assert (content["model"], content["continuation_prefix"]) == (model, "##")
    assert content["max_word_characters"] == (100 if model == "wordpiece" else None)
    assert [tuple(rule) for rule in content["merge_rules"]] == made.merge_rules


def test_what_a_file_may_not_say() -> None:
    good = {"model": "wordpiece", "merge_rules": [["a", "##b"]], "vocab": {"a": 0, "##b": 1, "ab": 2}}
    assert native.loads(json.dumps(good).encode()).tokenize("abb") == ["ab", "##b"]
    assert native.loads(json.dumps({**good, "merge_rules": []}).encode()).tokenize("abb") == ["ab", "##b"]
    for changes, said in [
        ({"merge_rules": [["a", "b"]]}, "merge_rules[0]: ('a', 'b') needs the token 'b', which vocab lacks"),
        ({"merge_rules": [["##b", "##b"]]}, "merge_rules[0]: ('##b', '##b') needs the token '##bb', which vocab lacks"),
        ({"continuation_prefix": ""}, "continuation_prefix: continuation prefix '' must be Unicode text"),
        ({"continuation_prefix": 7}, "continuation_prefix: int found where str belongs"),
        ({"max_word_characters": 0}, "max_word_characters: 0 is no whole number from 1 to 2147483647"),
        ({"max_word_characters": "9"}, "max_word_characters: str found where int or NoneType belongs"),
        ({"ignore_merges": True}, "ignore_merges: a wordpiece model has none; leave it out"),
        ({"model": "char-bpe", "merge_rules": [], "max_word_characters": 5}, "max_word_characters: a char-bpe model has none"),
        ({"model": "byte-wordpiece"}, "vocab: a byte model needs all 256 initial bytes; 255 are missing"),
        ({"unk": "[UNK]"}, "unk: '[UNK]' is not among special_tokens; add it there"),
    ]:
        with pytest.raises(TokenizerFileError, match=re.escape(said)):
            native.loads(json.dumps({**good, **changes}).encode())
