"""Word counts: those of a plain Counter, however small the table and however the corpus was split."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NAMED_PRETOKENIZERS, nasty_texts
from tests.training import JIT, count_parts, count_texts, counts_table, few_cases
from tokenmill.arrow import large_strings
from tokenmill.errors import DataError, UsageError
from tokenmill.reference import words as reference_words
from tokenmill.schemas import COUNT_PARTITIONS, WORD_COUNTS
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.word_counts import (
    SPLIT_SHIFT,
    WordCounter,
    check_counts,
    combine_counts,
    count_corpus,
    fingerprint_counts,
    in_corpus_order,
    sort_counts,
)

#: Letters and spaces of one to three bytes: words of all kinds of keys, few enough that they repeat.
WORDY = st.text("aé好 ", max_size=60)


def rows_of(table: pa.Table) -> list[tuple[bytes, int, int]]:
    return list(zip(*(table[name].to_pylist() for name in WORD_COUNTS.names), strict=True))


def words_of(texts: list[str], pretokenizer: str) -> list[bytes]:
    """All words in corpus order, by the plain reference."""
    return [word.encode() for text in texts for word in reference_words.cut_words(pretokenizer, text, marker=" ")]


def plain_rows(words: list[bytes]) -> list[tuple[bytes, int, int]]:
    """Word counts as they stand on disk, from a Counter, which keeps the order of first occurrence."""
    counts = Counter(words)
    rows = [(word, count, place) for place, (word, count) in enumerate(counts.items())]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def combined(parts: list[tuple[int, pa.Table]]) -> pa.Table:
    return sort_counts(combine_counts(table for _, table in parts))


# --- counting ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pretokenizer", NAMED_PRETOKENIZERS)
def test_counts_are_those_of_a_counter(pretokenizer: str) -> None:
    @few_cases(60, 6)
    @given(st.lists(st.one_of(WORDY, nasty_texts(max_fragments=12)).filter(lambda text: "Ġ" not in text), max_size=6))
    def check(texts: list[str]) -> None:
        assert rows_of(count_texts(texts, pretokenizer)) == plain_rows(words_of(texts, pretokenizer))

    check()


@few_cases(80, 8)
@given(st.lists(WORDY, max_size=6), st.sampled_from([1, 2, 4]), st.sampled_from([0, 30, 200]))
def test_a_full_table_is_given_out_and_nothing_is_lost(texts: list[str], table_words: int, arena_bytes: int) -> None:
    parts = count_parts(texts, "gpt2", table_words=table_words, arena_bytes=arena_bytes)
    words = words_of(texts, "gpt2")
    assert rows_of(combined(parts)) == plain_rows(words)
    assert sum(sum(table["count"].to_pylist()) for _, table in parts) == len(words)
    assert all(table.schema.equals(WORD_COUNTS) for _, table in parts)


def test_a_table_that_overflows_comes_out_in_parts() -> None:
    words = [f"w{number}" for number in range(20)] * 2
    parts = count_parts(words, "none", table_words=8)
    assert sum(table.num_rows for _, table in parts) == 40
    assert rows_of(combined(parts)) == plain_rows([word.encode() for word in words])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_oversized_word_is_a_table_of_its_own(place: int) -> None:
    texts = ["a", "b"]
    texts.insert(place, "x" * 200)
    texts += ["x" * 200, "a"]
    parts = count_parts(texts, "none", table_words=4, arena_bytes=64)
    assert rows_of(combined(parts)) == plain_rows([text.encode() for text in texts])
    small = dict((word, part) for part, table in count_parts(texts, "none") for word in table["word"].to_pylist())
    assert all(small[word] == part for part, table in parts for word in table["word"].to_pylist())


@few_cases(60, 6)
@given(st.lists(st.lists(WORDY, max_size=4), max_size=3), st.sampled_from([2, 64]))
def test_a_corpus_is_counted_in_one_process(batches: list[list[str]], table_words: int) -> None:
    counts = count_corpus(map(large_strings, batches), PreTokenizer("gpt2"), table_words=table_words, arena_bytes=1 << 16)
    assert rows_of(counts) == plain_rows(words_of([text for texts in batches for text in texts], "gpt2"))


@few_cases(60, 6)
@given(st.lists(WORDY, max_size=8), st.integers(0, 8), st.sampled_from([2, 64]))
def test_parts_of_splits_make_the_whole(texts: list[str], cut: int, table_words: int) -> None:
    parts = count_parts(texts[:cut], "wordpunct", split=0, table_words=table_words)
    parts += count_parts(texts[cut:], "wordpunct", split=1, table_words=table_words)
    assert rows_of(combined(parts[::-1])) == plain_rows(words_of(texts, "wordpunct"))


def test_first_seen_holds_the_split_and_the_word() -> None:
    counter = WordCounter(PreTokenizer("whitespace"), table_words=16, arena_bytes=64)
    parts: list[pa.Table] = []
    for split in (70_003, 5):
        counter.begin_split(split)
        assert list(counter.count(pa.array(["a b", "", None, " b c"]))) == []
        assert counter.words == 4
        parts += [table for _, table in counter.drain()]
    assert min(row[2] for row in rows_of(parts[0])) >= 70_003 << SPLIT_SHIFT
    rows = sorted(rows_of(combine_counts(parts)))
    assert rows == [(b" b", 4, (5 << SPLIT_SHIFT) + 1), (b" c", 2, (5 << SPLIT_SHIFT) + 3), (b"a", 2, 5 << SPLIT_SHIFT)]
    assert list(counter.drain()) == []


def test_a_split_given_up_in_the_middle_leaves_nothing() -> None:
    counter = WordCounter(PreTokenizer("whitespace"), table_words=16, arena_bytes=64)
    counter.begin_split(0)
    assert list(counter.count(pa.array(["lost"]))) == []
    counter.begin_split(1)
    assert list(counter.drain()) == []


def test_too_many_splits_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 8,388,608 splits"):
        WordCounter(PreTokenizer("none"), table_words=16, arena_bytes=64).begin_split(1 << 23)


def test_counts_that_would_overflow_are_refused() -> None:
    with pytest.raises(DataError, match="too large to add up"):
        check_counts(raw_counts([b"aaaa"], [1 << 62], [0]), "f.parquet")


@few_cases(60, 8)
@given(st.lists(st.text("abcdefgh", min_size=1, max_size=24), min_size=1, max_size=20, unique=True), st.integers(0, 20))
def test_a_partition_depends_on_the_word_alone(words: list[str], cut: int) -> None:
    def partitions(texts: list[str], split: int) -> dict[bytes, int]:
        return {word: part for part, table in count_parts(texts, "none", split=split) for word in table["word"].to_pylist()}

    whole = partitions(words, 0)
    assert {**partitions(words[cut:], 7), **partitions(words[:cut][::-1], 2)} == whole
    assert set(whole.values()) <= set(range(COUNT_PARTITIONS))


@pytest.mark.parametrize("length", [3, 12, 30])
def test_words_spread_over_all_partitions(length: int) -> None:
    words = [f"{number:0{length}d}" for number in range(1000 if JIT else 200)]
    sizes = Counter({part: table.num_rows for part, table in count_parts(words, "none", arena_bytes=1 << 17)})
    assert len(sizes) == COUNT_PARTITIONS
    assert max(sizes.values()) < 3 * len(words) / COUNT_PARTITIONS


# --- tables of counts -------------------------------------------------------------------------------------------------------


def test_combining_adds_counts_and_keeps_the_first_place() -> None:
    one, two = ([[b"a", b"b"], [1, 2], [40, 50]], [[b"b", b"c"], [1 << 40, 1], [7, 60]])
    parts = [pa.table([pa.array(column) for column in part], names=WORD_COUNTS.names).cast(WORD_COUNTS) for part in (one, two)]
    assert sorted(rows_of(combine_counts(parts))) == [(b"a", 1, 40), (b"b", (1 << 40) + 2, 7), (b"c", 1, 60)]
    assert combine_counts(parts).schema.equals(WORD_COUNTS)
    assert rows_of(combine_counts([])) == []


def test_sorted_by_count_then_bytes_with_dense_first_seen() -> None:
    rows = [[b"b", b"\xc3\xa9", b"a", b"B", b"aa"], [1, 1, 1, 9, 1], [70, 3, 50, 900, 4]]
    table = pa.table([pa.array(column) for column in rows], names=WORD_COUNTS.names).cast(WORD_COUNTS)
    expected = [(b"B", 9, 4), (b"a", 1, 2), (b"aa", 1, 1), (b"b", 1, 3), (b"\xc3\xa9", 1, 0)]
    assert rows_of(sort_counts(table)) == expected
    assert sort_counts(table).schema.equals(WORD_COUNTS)
    assert [word for word, _, _ in rows_of(in_corpus_order(sort_counts(table)))] == [b"\xc3\xa9", b"aa", b"a", b"b", b"B"]


@few_cases(80, 40)
@given(st.lists(st.tuples(st.binary(max_size=2), st.sampled_from([b"", b"\0" * 6, b"longpref"]), st.binary(max_size=3))))
def test_words_that_begin_alike_are_sorted_by_all_their_bytes(parts: list[tuple[bytes, bytes, bytes]]) -> None:
    words = sorted({b"".join(parts) for parts in parts} - {b""}, key=lambda word: word[::-1])
    rows = [words, [1 + len(word) % 2 for word in words], list(range(len(words)))]
    table = pa.table([pa.array(column) for column in rows], names=WORD_COUNTS.names).cast(WORD_COUNTS)
    assert rows_of(sort_counts(table)) == sorted(rows_of(table), key=lambda row: (-row[1], row[0]))


def test_a_fingerprint_is_of_words_and_counts_and_of_order_where_asked() -> None:
    table, other_order = counts_table([(b"ab", 2), (b"c", 1)]), counts_table([(b"c", 1), (b"ab", 2)])
    content = b"abc" + b"".join(number.to_bytes(8, "little") for number in (2, 3, 2, 1))
    order = b"".join(number.to_bytes(8, "little") for number in (0, 1))
    assert fingerprint_counts(table, with_order=False) == hashlib.sha256(content).hexdigest()
    assert fingerprint_counts(table, with_order=True) == hashlib.sha256(content + order).hexdigest()
    assert fingerprint_counts(other_order, with_order=False) == fingerprint_counts(table, with_order=False)
    assert fingerprint_counts(other_order, with_order=True) != fingerprint_counts(table, with_order=True)
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert fingerprint_counts(chunked, with_order=True) == fingerprint_counts(table, with_order=True)


def raw_counts(words: list[object], counts: list[object], first_seen: list[object], kind: Any = None) -> pa.Table:
    return pa.table({"word": pa.array(words), "count": pa.array(counts, kind), "first_seen": pa.array(first_seen)})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (raw_counts([b"a", b"b"], [1, 0], [0, 1]), "f.parquet, row 1: the count is below 1; leave the row out"),
        (raw_counts([b"a", b"b"], [1, -4], [0, 1]), "f.parquet, row 1: the count is below 1; leave the row out"),
        (raw_counts([b"a", b""], [1, 1], [0, 1]), "f.parquet, row 1: the word is empty; leave the row out"),
        (raw_counts([b"a", b"a"], [1, 1], [0, 1]), "f.parquet, row 1: the word stands in row 0 too; add both counts up"),
        (raw_counts([b"a", b"b"], [1, None], [0, 1]), "f.parquet, row 1: count is null; leave the row out"),
        (raw_counts([b"a", None], [1, 1], [0, 1]), "f.parquet, row 1: word is null; leave the row out"),
        (
            raw_counts([b"a", b"b"], [1.0, math.nan], [0, 1]),
            "f.parquet, row 1: count is no whole number below 2^63; correct it (nan)",
        ),
        (raw_counts([b"a", b"b"], [1.0, 2.5], [0, 1]), "f.parquet, row 1: count is no whole number below 2^63; correct it (2.5)"),
        (
            raw_counts([b"a", b"b"], [1.0, math.inf], [0, 1]),
            "f.parquet, row 1: count is no whole number below 2^63; correct it (inf)",
        ),
        (
            raw_counts([b"a", b"b"], [1, 1 << 63], [0, 1], pa.uint64()),
            f"f.parquet, row 1: count is not below 2^63; correct it ({1 << 63})",
        ),
        (
            raw_counts([b"a"], ["five"], [0]),
            "f.parquet: not word counts, the column count is of type string; it must hold whole numbers",
        ),
        (raw_counts([1], [1], [0]), "f.parquet: not word counts, the column word is of type int64; it must hold text or bytes"),
        (
            pa.table({"word": [b"a"]}),
            "f.parquet: not word counts, there is no column count; columns must be word, count, first_seen",
        ),
    ],
)
def test_malformed_counts_are_refused(table: pa.Table, message: str) -> None:
    with pytest.raises(DataError) as caught:
        check_counts(table, "f.parquet")
    assert str(caught.value) == message


@few_cases(60, 10)
@given(st.dictionaries(st.binary(min_size=1, max_size=3), st.integers(1, 4), max_size=8), st.randoms(use_true_random=False))
def test_rows_in_any_order_give_the_same_counts(counts: dict[bytes, int], source: Any) -> None:
    rows = [(word, number, seen) for seen, (word, number) in enumerate(counts.items())]
    ordered = sorted(rows, key=lambda row: (-row[1], row[0]))
    source.shuffle(rows)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    table = pa.table(dict(zip(WORD_COUNTS.names, columns, strict=True)), schema=WORD_COUNTS)
    assert rows_of(check_counts(table, "f.parquet")) == ordered


def test_good_counts_pass_and_take_the_schema() -> None:
    table = pa.table({"first_seen": [1, 0], "extra": [0, 0], "word": ["é", "a"], "count": pa.array([2, 1], pa.int32())})
    assert rows_of(check_counts(table, "f.parquet")) == [("é".encode(), 2, 1), (b"a", 1, 0)]
    assert check_counts(table, "f.parquet").schema.equals(WORD_COUNTS)
    assert check_counts(table.slice(0, 0), "f.parquet").num_rows == 0


def test_one_first_seen_for_two_words_is_refused() -> None:
    with pytest.raises(DataError, match="first_seen"):
        check_counts(raw_counts([b"a", b"b"], [1, 1], [0, 0]), "f.parquet")
