"""Encoding with BPE rules: the symbols of the plain reference, for short and long words, through a cache of any size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import counted_words, rule_sets
from tests.training import JIT, CountedWords, compiled, few_cases
from tokenmill.encoding import encoder
from tokenmill.kernels import bpe_merge, encode, tables
from tokenmill.kernels.rules import FREE_ENTRY, RuleTable, add_rules
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet
from tokenmill.models.bpe import BpeModel
from tokenmill.names import TIES
from tokenmill.reference import bpe as reference
from tokenmill.reference.bpe import Pair
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

#: Around the lengths where the key of a word changes its kind, where words stop being kept, where merging goes over to a heap.
EDGE_LENGTHS = (1, 7, 8, 9, 15, 16, 17, 47, 48, 49, 255, 256, 257, 400)


def model_of(rules: Sequence[Pair], letters: str, *, first_id: int = 0) -> BpeModel:
    """A character model for rules that were made by hand; ids fall as tokens grow, so that no id equals its rank by chance."""
    tokens = [*letters, *dict.fromkeys(left + right for left, right in rules)]
    vocab = {token: first_id + place for place, token in enumerate(reversed(tokens))}
    return BpeModel("char-bpe", CharacterAlphabet(marks_spaces=False), vocab, tuple(rules))


def tokenizer_of(rules: Sequence[Pair], letters: str) -> Tokenizer:
    return Tokenizer(model_of(rules, letters, first_id=7), pretokenizer=PreTokenizer("none"))


def merge_short(table: RuleTable, symbols: np.ndarray) -> list[int]:
    """`kernels.bpe_merge.merge_short` of a whole word of up to SHORT_SYMBOLS symbols."""
    scratch, ids = bpe_merge.allocate_scratch(), np.zeros(symbols.size + 1, np.int32)
    if symbols.size == 0:
        return []
    compiled(encode.stage_symbols)(table, symbols, 0, symbols.size, scratch)
    alive = np.uint64(compiled(bpe_merge.merge_short)(table, scratch, symbols.size))
    return ids[: compiled(encode.write_alive)(scratch.symbols, alive, symbols.size, ids, 0)].tolist()


def merge_long(table: RuleTable, symbols: np.ndarray) -> list[int]:
    symbols = symbols.copy()
    return symbols[: compiled(bpe_merge.merge_long)(table, symbols, symbols.size)].tolist()


def merge_both_ways(rules: Sequence[Pair], letters: str, word: str, rank_bits: int | None = None) -> tuple[list[str], list[str]]:
    """What merging in place and merging with the heap make of a word; with many `rank_bits`, fingerprints are short."""
    model = model_of(rules, letters)
    table = model.tables.rules
    if rank_bits is not None:
        table = table._replace(rank_bits=np.uint32(rank_bits), buckets=np.full_like(table.buckets, FREE_ENTRY))
        add_rules(table)
    symbols = np.array([model.vocab[letter] for letter in word], np.int32)
    long = merge_long(table, symbols)
    short = merge_short(table, symbols) if symbols.size <= bpe_merge.SHORT_SYMBOLS else long
    return [model.token_of_id[i] for i in short], [model.token_of_id[i] for i in long]


# --- by hand ----------------------------------------------------------------------------------------------------------------


def test_lowest_rank_first_leftmost_first() -> None:
    assert tokenizer_of([("t", "h"), ("th", "e")], "ehrt").tokenize("there") == ["the", "r", "e"]
    assert tokenizer_of([("a", "a")], "a").tokenize("aaa") == ["aa", "a"]
    assert tokenizer_of([("b", "c"), ("a", "b")], "abc").tokenize("abc") == ["a", "bc"]


def test_a_rule_that_stands_twice_has_its_last_rank() -> None:
    rules = [("a", "b"), ("b", "c"), ("a", "b")]
    assert tokenizer_of(rules, "abc").tokenize("abc") == ["a", "bc"]


def test_a_late_product_meets_an_early_rule() -> None:
    # (b, c) makes bc after (a, bc) had its turn in a pass over the rules; by rank it is merged all the same.
    rules = [("a", "bc"), ("b", "c")]
    assert tokenizer_of(rules, "abc").tokenize("abc") == ["abc"]
    assert reference.encode_word_by_rules("abc", rules) == ["a", "bc"]


def test_symbols_by_hand() -> None:
    assert reference.split_into_bytes("é ") == ["Ã", "©", "Ġ"]
    assert reference.split_into_characters(" so") == ["Ġ", "s", "o"]


# --- the reference ----------------------------------------------------------------------------------------------------------


@few_cases(150, 15)
@given(rule_sets(letters="ab"), st.lists(st.text("ab", max_size=60), max_size=6))
def test_random_rules_encode_as_the_reference_does(rules: list[Pair], words: list[str]) -> None:
    tokenizer = tokenizer_of(rules, "ab")
    expected = [reference.encode_word(word, rules) for word in words]
    for _ in range(2):  # afresh, and from the cache
        assert [tokenizer.tokenize(word) for word in words] == expected


@few_cases(150, 10)
@given(rule_sets(letters="abc", max_rules=20), st.text("abc", max_size=48))
def test_both_ways_of_merging_are_the_reference(rules: list[Pair], word: str) -> None:
    expected = reference.encode_word(word, rules)
    assert merge_both_ways(rules, "abc", word) == (expected, expected)


@few_cases(60, 3)
@given(rule_sets(letters="ab", max_rules=20, max_length=40), st.text("ab", min_size=49, max_size=400))
def test_long_words_are_the_reference(rules: list[Pair], word: str) -> None:
    expected = reference.encode_word(word, rules)
    assert merge_both_ways(rules, "ab", word) == (expected, expected)
    assert tokenizer_of(rules, "ab").tokenize(word) == expected


@few_cases(150, 10)
@given(rule_sets(letters="abc"), st.text("abc", max_size=90), st.integers(28, 31))
def test_pairs_with_the_same_fingerprint_are_told_apart(rules: list[Pair], word: str, rank_bits: int) -> None:
    # One to four bits of fingerprint: most look-ups find the rule of another pair first.
    expected = reference.encode_word(word, rules)
    assert merge_both_ways(rules, "abc", word, rank_bits) == (expected, expected)


@few_cases(80, 8)
@given(counted_words(letters="abc"), st.sampled_from(TIES), st.text("abc", max_size=70))
def test_trained_rules_can_be_applied_one_after_another(words: CountedWords, ties: str, word: str) -> None:
    rules = [pair for pair, _ in reference.train_bpe(words, 12, ties=ties)]
    expected = reference.encode_word_by_rules(word, rules)
    assert reference.encode_word(word, rules) == expected
    assert tokenizer_of(rules, "abc").tokenize(word) == expected


@few_cases(60, 6)
@given(rule_sets(letters="ab", max_rules=10), st.lists(st.text("ab?", max_size=60), max_size=4), st.booleans())
def test_unknown_characters_stand_alone(rules: list[Pair], words: list[str], with_unk: bool) -> None:
    plain = model_of(rules, "ab")
    unk = len(plain.vocab)
    vocab, unk_token = {**plain.vocab, "<unk>": unk}, "<unk>" if with_unk else None
    model = BpeModel("char-bpe", plain.alphabet, vocab, tuple(rules), ("<unk>",), unk_token)
    encoded, unknown = Tokenizer(model, pretokenizer=PreTokenizer("none")).encode_known(pa.array(words, pa.large_string()))
    shown = {**model.token_of_id, unk: "?", -1: "?"}
    assert [[shown[i] for i in ids] for ids in encoded.to_pylist()] == [reference.encode_word(word, rules) for word in words]
    assert unknown.tolist() == [not with_unk and "?" in word for word in words]


@few_cases(60, 6)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_a_byte_model_sees_bytes(words: list[bytes]) -> None:
    visible = reference.visible_bytes()
    rules = [(visible[0], visible[0]), (visible[0], visible[255]), (visible[0xC3], visible[0xA9]), ("Ġ", "Ġ"), ("ĠĠ", "Ġ")]
    tokens = [*visible, *(left + right for left, right in rules)]
    model = BpeModel("byte-bpe", ByteAlphabet(), {token: place for place, token in enumerate(tokens)}, tuple(rules))
    encoded, _ = Tokenizer(model, pretokenizer=PreTokenizer("none")).encode_known(pa.array(words, pa.large_binary()))
    expected = [reference.encode_word([visible[byte] for byte in word], rules) for word in words]
    assert [[tokens[i] for i in ids] for ids in encoded.to_pylist()] == expected


# --- the cache --------------------------------------------------------------------------------------------------------------

NUL_RULES = [("a", "b"), ("ab", "a"), ("\0", "\0"), ("b", "\0")]


def nasty_words() -> list[str]:
    """Words of the edge lengths, and for each the same with NULs behind it or in it."""
    words = [("abaabbab" * 60)[:length] for length in EDGE_LENGTHS if JIT or length <= 50]
    return [variant for word in words for variant in (word, word + "\0", word + "\0\0", "\0" + word, word[:-1] + "\0")]


def test_words_of_edge_lengths_and_with_nuls() -> None:
    tokenizer, words = tokenizer_of(NUL_RULES, "\0ab"), nasty_words()
    expected = [reference.encode_word(word, NUL_RULES) for word in words]
    for _ in range(2):
        ids = tokenizer.encode_batch(words).to_pylist()
        assert [[tokenizer.id_to_token(i) for i in word] for word in ids] == expected


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How full the cache was each time that it was emptied."""
    fills: list[int] = []
    empty = tables.empty_table

    def spy(table: tables.WordTable) -> None:
        fills.append(int(table.fill[tables.ENTRIES_USED]))
        empty(table)

    monkeypatch.setattr(tables, "empty_table", spy)
    return fills


@pytest.mark.parametrize(
    ("words", "arena_bytes", "ids"),
    [
        *((4, 1 << 12, 1 << 12), (64, 8 + 17, 1 << 12), (64, 1 << 12, 8)),
        *((1 << 10, 1, 1), (1 << 10, 40, 1 << 16), (1 << 10, 1 << 16, 12), (1 << 10, 1 << 16, 1 << 16)),
    ],
)
def test_the_size_of_the_cache_does_not_show(
    words: int, arena_bytes: int, ids: int, monkeypatch: pytest.MonkeyPatch, emptied: list[int]
) -> None:
    for name, size in (("CACHE_WORDS", words), ("CACHE_ARENA_BYTES", arena_bytes), ("CACHE_IDS", ids)):
        monkeypatch.setattr(encoder, name, size)
    tokenizer = tokenizer_of(NUL_RULES, "\0ab")
    for word in nasty_words() * 2:
        assert tokenizer.tokenize(word) == reference.encode_word(word, NUL_RULES)
    assert emptied or words > 64


def test_a_word_that_is_one_token_needs_no_room_for_ids(monkeypatch: pytest.MonkeyPatch, emptied: list[int]) -> None:
    monkeypatch.setattr(encoder, "CACHE_IDS", 4)
    tokenizer = tokenizer_of([("a", "b")], "ab")
    for word in ("a", "b", "ab", "a", "b", "ab"):
        assert tokenizer.tokenize(word) == [word]
    assert emptied == []
