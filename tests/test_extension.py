"""Training on from a vocabulary: nothing old changes, and the rules are those of one training where the corpus is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.by_hand import make_tokenizer
from tests.corpora import make_texts
from tests.strategies import counted_words, nasty_texts, rule_sets
from tests.training import CountedWords, count_texts, counts_table, few_cases, train
from tokenmill.errors import NothingToTrainOnError, UsageError, VocabularySizeError
from tokenmill.formats import native, recognition
from tokenmill.formats.building import build_tokenizer
from tokenmill.models.alphabets import visible_bytes
from tokenmill.names import TIES
from tokenmill.pipeline.build import make_training
from tokenmill.pipeline.cli import main as cli
from tokenmill.pipeline.config import BuildConfig
from tokenmill.pipeline.summary import describe_learning
from tokenmill.reference import bpe as reference
from tokenmill.reference.bpe import Pair
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer

LOW = [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)]


def table_of(words: CountedWords) -> Any:
    return counts_table([(word.encode(), count) for word, count in words])


def extend(tokenizer: Tokenizer, corpus: Any, **options: Any) -> Tokenizer:
    """Train on; the pre-tokenizer and the model are those of the tokenizer."""
    corpus = corpus if not isinstance(corpus, Sequence) else table_of(corpus)
    chosen = {"model": tokenizer.model.name, "pretokenizer": tokenizer.pretokenizer, **options}
    return train_tokenizer(corpus, TrainingOptions(extend=tokenizer, **chosen))[0]


def message_of(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


# --- by hand ----------------------------------------------------------------------------------------------------------------


def test_new_tokens_stand_behind_the_old_ones() -> None:
    old = train(table_of(LOW), pretokenizer="none", merges=2, ties="first-seen", special_tokens=("<s>",))
    new = extend(old, [("lowé", 3), ("west", 2)], merges=2, ties="first-seen", special_tokens=("<s>", "<pad>"))
    assert new.vocab == {**old.vocab, "<pad>": 13, "é": 14, "lo": 15, "low": 16}
    assert new.merge_rules == [("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w")]
    assert new.special_tokens == ("<s>", "<pad>")
    assert new.tokenize("westlow") == ["w", "est", "low"]
    assert (new.training["extends"], new.training["old_merges"], new.training["merges"]) == (old.sha256, 2, 2)
    assert native.loads(new.to_bytes()).to_bytes() == new.to_bytes()


def test_the_size_is_that_of_all_tokens() -> None:
    old = train(table_of(LOW), pretokenizer="none", merges=3)
    assert len(extend(old, LOW, vocab_size=15)) == 15
    assert len(extend(old, [("ab", 1)], vocab_size=16)) == 16
    told = message_of(lambda: extend(old, [("ab", 1)], vocab_size=14, unk_token="<unk>"), VocabularySizeError)
    assert told == (
        "vocabulary size 14 is too small: 13 tokens that are there, 1 special tokens and 2 characters that are new "
        "need at least 16; give more than that"
    )
    told = message_of(lambda: extend(old, [("lo", 1)], merges=9, strict=True), VocabularySizeError)
    assert told == (
        "asked for 9 merges and got 0 (a vocabulary of 13): after 0 merges no pair of symbols is left; ask for 0, or add text"
    )
    assert message_of(lambda: extend(old, [], merges=9), NothingToTrainOnError).startswith("nothing to train on")


def test_300_old_merges_and_a_new_corpus() -> None:
    old = train(make_texts(200), model="byte-bpe", pretokenizer="gpt2", merges=300, special_tokens=("<|end|>",))
    new = extend(old, count_texts(["Gänse und Füchse, Füchse und Gänse"] * 4, "gpt2"), merges=40)
    assert new.merge_rules[: len(old.merge_rules)] == old.merge_rules
    assert list(new.vocab.items())[: len(old)] == list(old.vocab.items())
    assert sorted(new.vocab.values()) == list(range(len(new))) and len(new) == len(old) + len(new.merge_rules) - 300
    assert len(new.encode("Gänse und Füchse")) < len(old.encode("Gänse und Füchse"))
    assert new.decode(new.encode("Gänse 🙂")) == "Gänse 🙂"


# --- the reference ----------------------------------------------------------------------------------------------------------


@few_cases(120, 10)
@given(counted_words(letters="abc"), st.sampled_from(TIES), st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_two_trainings_on_one_corpus_are_one(words: CountedWords, ties: str, first: int, more: int, specials: bool) -> None:
    chosen: dict[str, Any] = {"ties": ties, "special_tokens": ("ab", "bca") if specials else ()}
    table = table_of(words)
    once = train(table, pretokenizer="none", merges=first + more, **chosen)
    twice = extend(train(table, pretokenizer="none", merges=first, **chosen), table, merges=more, ties=ties)
    assert twice.merge_rules == once.merge_rules
    assert twice.vocab == once.vocab


@few_cases(150, 12)
@given(rule_sets(letters="ab"), counted_words(letters="abc"), st.sampled_from(TIES), st.integers(0, 8))
def test_extending_any_rules_is_the_reference(rules: list[Pair], words: CountedWords, ties: str, more: int) -> None:
    old = make_tokenizer("ab", rules, pretokenizer="none", unk="<unk>")
    new = extend(old, words, merges=more, ties=ties)
    start = [reference.encode_word(word, rules) for word, _ in words]
    characters = sorted({character for word, _ in words for character in word} - {"a", "b"})
    tokens = [token for token in old.vocab if token != "<unk>"] + characters
    counted = list(zip(start, (count for _, count in words), strict=True))
    expected = reference.train_bpe(counted, more, ties=ties, tokens=tokens, forbidden=frozenset(tokens))
    assert new.merge_rules == [*rules, *(pair for pair, _ in expected)]
    assert len(set(new.vocab.values())) == len(new.vocab)
    for word, _ in words:
        assert new.tokenize(word) == reference.encode_word(word, new.merge_rules)


@few_cases(60, 6)
@given(st.lists(nasty_texts(max_fragments=8), min_size=1, max_size=4), nasty_texts(max_fragments=10))
def test_byte_fallback_stays_lossless(texts: list[str], text: str) -> None:
    counts = count_texts(["x", *texts], "gpt2")
    new = extend(FALLBACK, counts, merges=8)
    assert new.decode(new.encode(text + "Ġ")) == text + "Ġ"
    assert new.vocab.items() >= FALLBACK.vocab.items()
    assert not {left + right for left, right in new.merge_rules} & {"<0x41>"}


FALLBACK = train(["low <0x41> <0x41> lower"] * 2, pretokenizer="gpt2", merges=6, byte_fallback=True)


def test_whole_words_stay_whole() -> None:
    vocab = {**{token: place for place, token in enumerate(visible_bytes())}, "abc": 256, "bc": 257}
    old = build_tokenizer(vocab, [("b", "c")], pretokenizer="none", special_tokens=[], ignore_merges=True, rule_place=str)
    assert (old.tokenize("abc"), old.tokenize("abcd")) == (["abc"], ["a", "bc", "d"])
    new = extend(old, [("abc", 9), ("abcd", 2)], merges=3)
    # (a, bc) would make a token that is there already.
    assert new.merge_rules == [("b", "c"), ("bc", "d"), ("a", "bcd")]
    assert (new.tokenize("abc"), new.tokenize("abcd")) == (["abc"], ["abcd"])


@pytest.mark.parametrize("target", ["huggingface", "tiktoken", "gpt2"])
def test_imported_tokenizers_can_be_extended(target: str) -> None:
    old = train(make_texts(60), model="byte-bpe", pretokenizer="gpt2", merges=80)
    files = old.to_format(target)
    loaded = (
        recognition.loads_folder(files)
        if target == "gpt2"
        else recognition.loads(next(iter(files.values())), **({"pretokenizer": "gpt2"} if target == "tiktoken" else {}))
    )
    counts = count_texts(["Gänse und Füchse"] * 3, "gpt2")
    assert extend(loaded, counts, merges=9).vocab == extend(old, counts, merges=9).vocab


# --- refusals, and the command ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "byte-bpe"}, "the tokenizer to extend has the model char-bpe, not byte-bpe; it belongs to the tokenizer"),
        ({"pretokenizer": "gpt2"}, "the tokenizer to extend has the pre-tokenizer none, not gpt2; it belongs to the tokenizer"),
        ({"ids": "sorted"}, "ids sorted would change those of the tokenizer that is extended; leave it out"),
        ({"limit_alphabet": 3}, "limit alphabet belongs to the tokenizer that is extended; leave it out"),
        ({"byte_fallback": True}, "byte fallback belongs to the tokenizer that is extended; leave it out"),
        ({"unk_token": "<u>"}, "the unk token is '<unk>' and stays it; leave --unk '<u>' out"),
        ({"special_tokens": ("lo",)}, "special token 'lo' is an ordinary token of the vocabulary, of id 13; choose another"),
        ({"special_tokens": ("é",)}, "special token 'é' is a character of the corpus; choose a longer one"),
    ],
)  # fmt: skip
def test_what_belongs_to_the_tokenizer_stays(changes: dict[str, Any], message: str) -> None:
    old = train(table_of(LOW), pretokenizer="none", merges=3, unk_token="<unk>", ties="first-seen")
    assert message_of(lambda: extend(old, [*LOW, ("é", 1)], merges=2, **changes), UsageError) == message


def test_models_that_cannot_be_extended() -> None:
    characters = train(["ab"], model="char", pretokenizer="none")
    told = message_of(lambda: extend(characters, LOW), UsageError)
    assert told == "a char model cannot be extended; byte-bpe and char-bpe can"
    marked = train(["ab"], pretokenizer="none", merges=1, end_of_word_suffix="</w>")
    told = message_of(lambda: extend(marked, LOW, merges=1), UsageError)
    assert told == "a model that marks words with '</w>' cannot be extended; train it anew"


def test_the_summary_tells_new_rules_from_old_ones() -> None:
    old = train(table_of(LOW), pretokenizer="none", merges=3)
    options = TrainingOptions(model="char-bpe", pretokenizer="none", merges=2, extend=old)
    told = describe_learning(*train_tokenizer(table_of(LOW), options))
    assert told.startswith("learned  2 merge rules on top of 3 of the tokenizer that is extended: vocabulary 15\n")
    new = extend(old, LOW, merges=2).model.merge_rules[3:]
    assert told.splitlines()[1] == "         first rules: " + ",  ".join(f"{left} + {right}" for left, right in new)


def test_extend_by_command(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest\n" * 3)
    (tmp_path / "b.txt").write_text("newest widest\n" * 3)

    def run(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli.main, ["train", *words, "--quiet"])
        assert result.exit_code == code, result.output
        return result.stderr

    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    run(str(tmp_path / "a.txt"), "--pretokenizer", "whitespace", "--merges", "4", "--output", old)
    run(str(tmp_path / "b.txt"), "--extend", old, "--vocab-size", "265", "--output", new)
    first, second = Tokenizer.from_file(old), Tokenizer.from_file(new)
    assert (len(first), len(second), second.pretokenizer) == (260, 265, first.pretokenizer)
    assert second.merge_rules[:4] == first.merge_rules
    told = run(str(tmp_path / "b.txt"), "--extend", old, "--model", "char-bpe", "--merges", "1", "--output", new, code=2)
    assert "the tokenizer to extend has the model byte-bpe, not char-bpe" in told
    told = run(str(tmp_path / "b.txt"), "--extend", str(tmp_path / "no.json"), "--merges", "1", "--output", new, code=3)
    assert "no.json: No such file or directory" in told
    section = {"model": "byte-bpe", "pretokenizer": "whitespace", "merges": 1, "extend": old}
    config = BuildConfig.model_validate({"input": {"inputs": ["x"]}, "train": section, "output": {"folder": "out"}})
    extended = make_training(config).extend
    assert extended is not None and extended.sha256 == first.sha256
