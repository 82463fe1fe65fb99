"""Options of BPE training: length limits, small alphabets, marks on words, byte fallback; the plain reference, and by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.by_hand import estimate, make_tokenizer
from tests.strategies import counted_words, nasty_texts
from tests.training import CountedWords, counts_table, few_cases, train
from tokenmill.errors import TokenizerFileError, UnknownCharacterError, UsageError, VocabularySizeError
from tokenmill.formats import native
from tokenmill.names import TIES
from tokenmill.pipeline.build import make_training
from tokenmill.pipeline.cli import main as cli
from tokenmill.pipeline.config import BuildConfig
from tokenmill.reference import bpe as reference
from tokenmill.reference import marks as reference_marks
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions

LOW = [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)]
#: Marks that the words of a few letters often look like, and one that they never do.
MARKS = ("</w>", "ab", "aab", "aa", "bab")


def train_words(words: CountedWords, **options: Any) -> Tokenizer:
    """Train on counted words; behind no pre-tokenizer unless one is given."""
    chosen = {"pretokenizer": "none", "merges": 1 << 20, **options}
    if "vocab_size" in options:
        del chosen["merges"]
    return train(counts_table([(word.encode(), count) for word, count in words]), **chosen)


def train_plainly(
    words: CountedWords,
    *,
    ties: str,
    limit: int | None = None,
    forbidden: frozenset[str] = frozenset(),
    may_make: Callable[[str], bool] = lambda token: True,
    **marks: Any,
) -> list[reference.Pair]:
    """The rules by the plain algorithms."""
    known = reference_marks.most_frequent(words, 1 << 20 if limit is None else limit)
    parts = [(part, count) for word, count in words for part in reference_marks.cut_word(word, known=known, **marks)]
    rules = reference.train_bpe(parts, 1 << 20, ties=ties, prefix=marks.get("prefix", ""), forbidden=forbidden, may_make=may_make)
    return [pair for pair, _ in rules]


def message_of(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


def options(**changes: Any) -> TrainingOptions:
    return TrainingOptions(**{"model": "char-bpe", "pretokenizer": "none", "merges": 3, **changes})


def come_back(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer after a round trip through its file."""
    content = tokenizer.to_bytes()
    loaded = native.loads(content)
    assert loaded.to_bytes() == content
    return loaded


# --- figures by hand --------------------------------------------------------------------------------------------------------


def test_low_lower_newest_widest_to_a_vocabulary_of_13() -> None:
    tokenizer = train_words(LOW, vocab_size=13, ties="first-seen")
    assert tokenizer.merge_rules == [("e", "s"), ("es", "t"), ("l", "o")]
    assert len(tokenizer) == 13


def test_lower_lowest_newest_by_hand() -> None:
    tokenizer = train_words([("lower", 5), ("lowest", 2), ("newest", 6)], merges=3, ties="first-seen")
    assert tokenizer.merge_rules == [("w", "e"), ("we", "s"), ("wes", "t")]


def test_estimate_local_under_gpt2() -> None:
    assert estimate().tokenize("estimate, local") == ["est", "i", "m", "a", "t", "e", ",", "Ġ", "lo", "c", "a", "l"]


def test_estimate_local_with_characters_missing() -> None:
    rules = [("e", "s"), ("es", "t"), ("l", "o")]
    tokenizer = make_tokenizer("estil" + "o", rules, unk="<unk>")
    unk = "<unk>"
    assert tokenizer.tokenize("estimate, local") == ["est", "i", unk, unk, "t", "e", unk, unk, "lo", unk, unk, "l"]
    assert tokenizer.encode("estimate, local").count(tokenizer.vocab[unk]) == 6


def test_hug_pug_mug() -> None:
    words = [("hug", 1), ("pug", 1)]
    assert train_words(words, unk_token="<unk>").tokenize("mug") == ["<unk>", "ug"]
    told = message_of(lambda: train_words(words).encode("mug"), UnknownCharacterError)
    assert told.startswith("text 0, character 0: 'm' (U+006D) is not in the alphabet")


# --- max token length -------------------------------------------------------------------------------------------------------


def test_a_pair_that_would_be_too_long_is_passed_over() -> None:
    tokenizer = train_words(LOW, max_token_length=2, ties="first-seen")
    assert tokenizer.merge_rules[:3] == [("e", "s"), ("l", "o"), ("n", "e")]
    assert max(map(len, tokenizer.vocab)) == 2
    assert train_words(LOW, max_token_length=1).merge_rules == []
    assert tokenizer.training["max_token_length"] == 2


def test_bytes_are_counted_in_a_byte_model() -> None:
    tokenizer = train_words([("ééé", 3)], model="byte-bpe", max_token_length=2)
    assert [left + right for left, right in tokenizer.merge_rules] == ["Ã©"]
    assert train_words([("ééé", 3)], max_token_length=2).merge_rules == [("é", "é")]


@few_cases(120, 10)
@given(counted_words(letters="abc"), st.sampled_from(TIES), st.integers(1, 6))
def test_limited_lengths_are_those_of_the_reference(words: CountedWords, ties: str, most: int) -> None:
    expected = train_plainly(words, ties=ties, may_make=lambda token: len(token) <= most)
    assert train_words(words, ties=ties, max_token_length=most).merge_rules == expected


def test_special_tokens_and_a_limit_together() -> None:
    rules = train_words(LOW, max_token_length=2, special_tokens=("es", "lo"), ties="first-seen").merge_rules
    assert rules[:2] == [("s", "t"), ("w", "e")] and ("l", "o") not in rules


# --- a limited alphabet -----------------------------------------------------------------------------------------------------


def test_the_most_frequent_characters_are_the_alphabet() -> None:
    # e 17, w 16, s 9, t 9, l 7, o 7: the smaller of l and o stays.
    tokenizer = train_words(LOW, limit_alphabet=5, merges=0, unk_token="<unk>")
    assert tokenizer.vocab == {token: place for place, token in enumerate(["<unk>", *"elstw"])}
    assert tokenizer.tokenize("lower") == ["l", "<unk>", "w", "e", "<unk>"]


def test_a_dropped_character_is_a_barrier() -> None:
    tokenizer = train_words([("aXa", 9), ("aa", 1), ("bb", 2), ("b", 30)], limit_alphabet=2)
    assert tokenizer.merge_rules == [("b", "b"), ("a", "a")]


@few_cases(120, 10)
@given(counted_words(letters="abcd"), st.sampled_from(TIES), st.integers(1, 5))
def test_limited_alphabets_are_those_of_the_reference(words: CountedWords, ties: str, limit: int) -> None:
    tokenizer = train_words(words, ties=ties, limit_alphabet=limit)
    assert tokenizer.merge_rules == train_plainly(words, ties=ties, limit=limit)
    assert {token for token in tokenizer.vocab if len(token) == 1} == reference_marks.most_frequent(words, limit)


# --- marks on words ---------------------------------------------------------------------------------------------------------


def test_the_suffix_is_a_symbol_of_its_own() -> None:
    tokenizer = train_words(LOW, end_of_word_suffix="</w>", vocab_size=14, ties="first-seen")
    assert tokenizer.merge_rules == [("e", "s"), ("es", "t"), ("est", "</w>")]
    assert list(tokenizer.vocab)[:11] == sorted([*"deilnorstw", "</w>"])
    assert tokenizer.tokenize("lowest") == ["l", "o", "w", "est</w>"]
    assert come_back(tokenizer).tokenize("low") == ["l", "o", "w", "</w>"]


def test_the_suffix_becomes_a_word_break() -> None:
    tokenizer = train(["low lower, newest"] * 3, pretokenizer="whitespace-punct", merges=30, end_of_word_suffix="</w>")
    ids = tokenizer.encode("  lower low,newest ")
    assert tokenizer.tokenize("low") == ["low</w>"]
    assert tokenizer.decode(ids) == "lower low , newest"
    kept = train(["low lower, newest"] * 3, pretokenizer="gpt2", merges=30, end_of_word_suffix="</w>")
    assert kept.decode(kept.encode("  lower low,newest ")) == "  lower low,newest "


def test_symbols_inside_a_word_have_the_prefix() -> None:
    tokenizer = train_words(LOW, continuation_prefix="##", merges=3, ties="first-seen")
    assert tokenizer.merge_rules == [("##e", "##s"), ("##es", "##t"), ("l", "##o")]
    assert {"##est", "lo", "##w", "n"} < set(tokenizer.vocab) and "##n" not in tokenizer.vocab
    assert come_back(tokenizer).tokenize("lowest") == ["lo", "##w", "##est"]


def test_the_prefix_tells_where_words_begin() -> None:
    tokenizer = train(["low lower, newest"] * 3, pretokenizer="whitespace-punct", merges=9, continuation_prefix="##")
    assert tokenizer.decode(tokenizer.encode("lower low,newest ")) == "lower low , newest"


def test_a_character_without_the_form_it_needs_is_unknown() -> None:
    tokenizer = train_words([("ab", 1)], continuation_prefix="##", unk_token="?")
    assert tokenizer.tokenize("ba") == ["?", "?"]
    told = message_of(lambda: train_words([("ab", 1), ("aa", 1)], continuation_prefix="##").encode("bz"), UnknownCharacterError)
    assert told.startswith("text 0, character 1: 'z' (U+007A) is not in the alphabet")


def test_bytes_with_a_suffix() -> None:
    tokenizer = train(["low é low"] * 3, model="byte-bpe", pretokenizer="gpt2", merges=12, end_of_word_suffix="</w>")
    assert len(tokenizer) == 256 + 1 + 12 - (12 - len(tokenizer.merge_rules))
    assert tokenizer.tokenize("low") == ["low</w>"]
    data = bytes(range(256)) + b"low low</w>low \xff"
    assert come_back(tokenizer).decode_bytes(tokenizer.encode(data)) == data


MARKED = st.sampled_from([*({"suffix": mark} for mark in MARKS), *({"prefix": mark} for mark in (*MARKS, "a", "#"))])
NAMES = {"suffix": "end_of_word_suffix", "prefix": "continuation_prefix"}


@few_cases(250, 20)
@given(
    counted_words(letters="abc"),
    st.sampled_from(TIES),
    MARKED,
    st.none() | st.integers(1, 4),
    st.lists(st.text("abc#", max_size=9)),
)
def test_marked_training_and_encoding_are_the_reference(
    words: CountedWords, ties: str, marks: dict[str, str], limit: int | None, texts: list[str]
) -> None:
    tokenizer = train_words(
        words, ties=ties, limit_alphabet=limit, unk_token="<unk>", **{NAMES[key]: mark for key, mark in marks.items()}
    )
    rules = train_plainly(words, ties=ties, limit=limit, **marks)
    assert tokenizer.merge_rules == rules
    assert len(set(tokenizer.vocab)) == len(tokenizer)
    known, prefix = set(tokenizer.vocab), marks.get("prefix", "")
    for text in filter(None, [*texts, *(word for word, _ in words)]):
        symbols = reference_marks.mark_word(text, **marks)
        found = reference_marks.look_up_symbols(symbols, known & set(base_symbols(tokenizer)), unk="<unk>")
        assert come_back(tokenizer).tokenize(text) == reference.encode_word(found, rules, prefix)
        if "<unk>" not in found:
            assert tokenizer.decode(tokenizer.encode(text)) == text


def base_symbols(tokenizer: Tokenizer) -> set[str]:
    """The tokens that no rule makes."""
    made = {reference.join_pair(rule, tokenizer.model.marks.prefix) for rule in tokenizer.merge_rules}
    return set(tokenizer.vocab) - made - {"<unk>"}


def test_long_words_with_marks() -> None:
    word = "ab" * 90
    for marks in ({"suffix": "</w>"}, {"prefix": "##"}):
        tokenizer = train_words([(word, 1)], merges=4, **{NAMES[key]: mark for key, mark in marks.items()})
        expected = reference.encode_word(reference_marks.mark_word(word, **marks), tokenizer.merge_rules, marks.get("prefix", ""))
        assert tokenizer.tokenize(word) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end_of_word_suffix": "", }, "the end-of-word suffix is empty; leave it out, or give one such as '</w>' or '##'"),
        ({"end_of_word_suffix": "x", "continuation_prefix": "y"},
         "an end-of-word suffix and a continuation prefix do not go together; give one of them"),
        ({"end_of_word_suffix": "\ud800"}, "end-of-word suffix '\\ud800' is not Unicode text; leave its surrogates out"),
        ({"model": "byte-bpe", "continuation_prefix": "##"},
         "continuation prefix '##' is for char-bpe, char, wordpiece, byte-wordpiece, not for byte-bpe; leave it out"),
        ({"model": "byte-bpe", "limit_alphabet": 5},
         "limit alphabet 5 is for char-bpe, char, wordpiece, not for byte-bpe; leave it out"),
        ({"model": "byte-bpe", "byte_fallback": True},
         "byte fallback is for char-bpe, char, not for byte-bpe; leave it out"),
        ({"byte_fallback": True, "continuation_prefix": "##"},
         "byte fallback does not go together with marks on symbols; leave one of both out"),
        ({"max_token_length": 0}, "max token length 0 is below 1; give 1 or more"),
        ({"limit_alphabet": 0}, "limit of the alphabet 0 is below 1; give 1 or more"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    assert message_of(lambda: options(**changes), UsageError) == message


def test_a_suffix_that_is_a_character_of_the_corpus_is_refused() -> None:
    told = message_of(lambda: train_words(LOW, end_of_word_suffix="w"), UsageError)
    assert told == "end-of-word suffix 'w' is a character of the corpus; choose another, such as '</w>'"
    tokenizer = train_words(LOW, end_of_word_suffix="_", unk_token="<unk>")
    assert tokenizer.tokenize("low_") == ["low", "<unk>", "_"]
    assert message_of(lambda: train_words(LOW, special_tokens=("</w>",), end_of_word_suffix="</w>"), UsageError).startswith(
        "special token '</w>' is a symbol of the alphabet"
    )


# --- byte fallback ----------------------------------------------------------------------------------------------------------


def test_unknown_characters_are_spelt_by_bytes() -> None:
    tokenizer = train_words(LOW, byte_fallback=True, special_tokens=("<s>",), merges=3)
    assert [tokenizer.id_to_token(place) for place in (0, 1, 256, 257)] == ["<s>", "<0x00>", "<0xFF>", "d"]
    assert tokenizer.tokenize("lowé\n") == ["lo", "w", "<0xC3>", "<0xA9>", "<0x0A>"]
    assert come_back(tokenizer).decode(tokenizer.encode("lowé\n😀")) == "lowé\n😀"
    assert tokenizer.decode(tokenizer.encode("é")[:1]) == "\ufffd"


@few_cases(80, 8)
@given(nasty_texts(max_fragments=12))
def test_byte_fallback_loses_nothing(text: str) -> None:
    for tokenizer in FALLBACKS:
        assert tokenizer.decode(tokenizer.encode(text + "Ġ x")) == text + "Ġ x"


FALLBACKS = [
    train(["low lower Ġnewest don't <0x41> <0x41>"] * 3, pretokenizer=name, merges=40, byte_fallback=True)
    for name in ("gpt2", "none")
]


def test_no_rule_makes_a_byte_token() -> None:
    for tokenizer in FALLBACKS:
        assert "<0x41>" not in {left + right for left, right in tokenizer.merge_rules}
        assert tokenizer.vocab["<0x41>"] not in tokenizer.encode(" <0x41>")


@few_cases(80, 8)
@given(counted_words(letters="abcé"), st.integers(1, 3), st.lists(st.text("abcé好", max_size=9)), st.booleans())
def test_byte_fallback_is_the_reference(words: CountedWords, limit: int, texts: list[str], ending: bool) -> None:
    suffix = "</w>" if ending else ""
    tokenizer = train_words(words, limit_alphabet=limit, byte_fallback=True, end_of_word_suffix=suffix or None)
    known = {*reference_marks.most_frequent(words, limit), *([suffix] if suffix else [])}
    for text in filter(None, texts):
        symbols = reference_marks.mark_word(text, suffix=suffix)
        found = reference_marks.look_up_symbols(symbols, known, unk="", byte_fallback=True)
        assert tokenizer.tokenize(text) == reference.encode_word(found, tokenizer.merge_rules)


def test_sizes_count_byte_tokens() -> None:
    told = message_of(lambda: options(merges=None, vocab_size=200, byte_fallback=True), VocabularySizeError)
    assert told == (
        "vocabulary size 200 is too small: 256 symbols of the alphabet and 0 special tokens "
        "need at least 256; give more than that"
    )
    told = message_of(lambda: train_words(LOW, vocab_size=260, byte_fallback=True), VocabularySizeError)
    assert "266 symbols of the alphabet" in told
    assert len(train_words(LOW, vocab_size=270, byte_fallback=True).merge_rules) == 4


# --- the command line, and other formats ------------------------------------------------------------------------------------


def test_every_option_reaches_the_file(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("low low lower newest widest\n" * 3)
    words = ["train", str(tmp_path / "corpus.txt"), "--model", "char-bpe", "--merges", "3", "--quiet"]
    given = {
        "--max-token-length": 5,
        "--limit-alphabet": 8,
        "--end-of-word-suffix": "</w>",
    }
    pairs = [str(word) for pair in given.items() for word in pair]
    output = str(tmp_path / "tokenizer.json")
    result = CliRunner().invoke(cli.main, [*words, *pairs, "--byte-fallback", "--output", output])
    assert result.exit_code == 0, result.output
    chosen = {name.removeprefix("--").replace("-", "_"): value for name, value in given.items()}
    training = Tokenizer.from_file(output).training
    assert {name: training[name] for name in (*chosen, "byte_fallback")} == {**chosen, "byte_fallback": True}
    expected = train(["low low lower newest widest"] * 3, pretokenizer="gpt2", merges=3, byte_fallback=True, **chosen)
    assert expected.to_bytes() == Path(output).read_bytes()
    config = {"model": "char-bpe", "pretokenizer": "gpt2", "merges": 3, "byte_fallback": True, **chosen}
    built = BuildConfig.model_validate({"input": {"inputs": ["x"]}, "train": config, "output": {"folder": "out"}})
    assert make_training(built) == TrainingOptions("char-bpe", PreTokenizer("gpt2"), merges=3, byte_fallback=True, **chosen)


@pytest.mark.parametrize("target", ["tiktoken", "gpt2"])
def test_formats_of_bytes_know_no_marks(target: str) -> None:
    tokenizer = train(["low lower"], model="byte-bpe", pretokenizer="gpt2", merges=3, end_of_word_suffix="</w>")
    assert "cannot say that '</w>' marks words; use --to native" in message_of(lambda: tokenizer.to_format(target), UsageError)


def test_two_keys_know_no_options() -> None:
    told = message_of(lambda: train(["low"], merges=1, end_of_word_suffix="</w>").to_format("two-key"), UsageError)
    assert told == "a file of two keys cannot say end_of_word_suffix; use --to native"


# --- files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end_of_word_suffix": "b"}, "vocab: the end-of-word suffix 'b' has no id; add it"),
        ({"end_of_word_suffix": "xy"}, "vocab: the end-of-word suffix 'xy' has no id; add it"),
        ({"end_of_word_suffix": "a"}, "merge_rules[0]: ('a', 'b') does not fit the mark 'a'"),
        ({"end_of_word_suffix": "b", "suffix_attached": True}, "merge_rules[0]: ('a', 'b') does not fit the mark 'b'"),
        ({"continuation_prefix": "#"}, "merge_rules[0]: ('a', 'b') does not fit the mark '#'"),
        ({"suffix_attached": True}, "suffix_attached: there is no end_of_word_suffix that could be; add one, or leave it out"),
        ({"byte_fallback": True}, "vocab: byte_fallback needs all 256 byte tokens; 256 are missing, first '<0x00>'"),
        ({"byte_fallback": 1}, "byte_fallback: int found where bool belongs"),
        ({"ignore_merges": True}, "ignore_merges: a char-bpe model cannot do that, only byte-bpe without marks; leave it out"),
    ],
)
def test_files_that_contradict_themselves(changes: dict[str, Any], message: str) -> None:
    made = {"merge_rules": [["a", "b"]], "vocab": {"a": 0, "b": 1, "ab": 2}, "pretokenizer": "none", **changes}
    if changes.get("end_of_word_suffix") == "b" and "suffix_attached" not in changes:
        made["vocab"] = {"a": 0, "ab": 2}
        made["merge_rules"] = []
    assert message_of(lambda: native.loads(json.dumps(made).encode()), TokenizerFileError) == message
