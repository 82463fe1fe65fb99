"""The table of words and the hashes: what goes in comes out, whatever its length; hashes equal those of plain arithmetic."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training import compiled, few_cases
from tokenmill.kernels import count, fingerprint, rules, tables
from tokenmill.kernels.hashing import draw_secret
from tokenmill.kernels.tables import ENTRIES_USED, FREE, HIGH, PAYLOAD, VALUE, WordTable
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.word_counts import count_corpus

MODULO = 1 << 64


def text_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def find(table: WordTable, word: bytes) -> tuple[np.uint64, bool]:
    """The entry of a word, and whether it holds the word. Called from here, kernels give int and take np.uint64."""
    slot = np.uint64(compiled(tables.search_word)(table.entries, table.arena, table.secret, text_of(word), 0, len(word)))
    return slot, bool(table.entries[slot, HIGH] != FREE)


def insert(table: WordTable, word: bytes) -> np.uint64:
    slot, known = find(table, word)
    if not known:
        assert compiled(tables.has_room)(table, len(word))
        compiled(tables.add_word)(table, slot, text_of(word), 0, len(word))
    return slot


def read_back(table: WordTable, slot: np.uint64) -> bytes:
    target = np.zeros(int(compiled(tables.length_of_entry)(table, slot)) + 2, np.uint8)
    compiled(tables.copy_word)(table, slot, target, 1)
    assert target[0] == target[-1] == 0
    return target[1:-1].tobytes()


# --- keys -------------------------------------------------------------------------------------------------------------------


SECRET = (np.uint64(0x0123456789ABCDEF), np.uint64(0xFEDCBA9876543211))


def key_of(text: np.ndarray, start: int, end: int) -> list[int]:
    return [int(part) for part in compiled(tables.key_of_any_word)(text, start, end, SECRET)]


def test_keys_by_hand() -> None:
    text = text_of(b"ab" + b"0123456789abcdef" + b"x")
    assert key_of(text, 0, 2) == [0x6261, 2 << 56]
    assert key_of(text, 2, 10) == [0x3736353433323130, 8 << 56]
    assert key_of(text, 2, 11) == [0x3736353433323130, 9 << 56 | 0x38]
    assert key_of(text, 2, 17) == [0x3736353433323130, 15 << 56 | 0x65646362613938]
    assert key_of(text, 2, 18) == [hash_long_word(b"0123456789abcdef", SECRET), 0xFF << 56]
    assert [int(part) for part in compiled(tables.key_of_word)(text, 0, 2)] == key_of(text, 0, 2)


def test_keys_are_staged_with_their_homes() -> None:
    text = text_of(b"ab" + b"0123456789abcdef" + b"xyz" + b"-" * 15)
    keys = np.zeros(tables.STAGED * tables.ENTRY, np.uint64)
    numbers = np.zeros(64, np.uint64)

    def stage(ends: list[int]) -> list[list[int]]:
        compiled(tables.stage_keys)(numbers, SECRET, text, 0, np.array(ends), 0, len(ends), keys)
        return keys.reshape(-1, tables.ENTRY)[: len(ends), :3].astype(object).tolist()

    staged = stage([2, 18, 21])
    assert [key[:2] for key in staged] == [key_of(text, 0, 2), key_of(text, 2, 18), key_of(text, 18, 21)]
    assert all(home == home_of(low, high) & 0b111000 for low, high, home in staged)
    # Sixteen bytes are read from the start of a word, but not behind the end of the text.
    assert [key[:2] for key in stage([2, 18, 20])] == [key_of(text, 0, 2), key_of(text, 2, 18), key_of(text, 18, 20)]


def home_of(low: int, high: int) -> int:
    return fold(low ^ int(SECRET[0]), high ^ int(SECRET[1]))


@few_cases(100, 30)
@given(st.binary(min_size=1, max_size=40), st.binary(max_size=12), st.binary(max_size=12))
def test_a_key_does_not_depend_on_the_place(word: bytes, before: bytes, behind: bytes) -> None:
    amid = key_of(text_of(before + word + behind), len(before), len(before) + len(word))
    assert key_of(text_of(word), 0, len(word)) == amid


# --- the table --------------------------------------------------------------------------------------------------------------


def similar_words() -> st.SearchStrategy[bytes]:
    """Words that differ in length, in their last byte, or in NULs at the end."""
    lengths, ends = (1, 7, 8, 9, 15, 16, 17, 18, 24, 25, 300), (b"", b"\0", b"\0\0", b"b")
    return st.sampled_from([(b"a" * length + end)[-length:] for length in lengths for end in ends])


@few_cases(100, 20)
@given(st.lists(st.one_of(similar_words(), st.binary(min_size=1, max_size=20)), max_size=30))
def test_words_are_found_again_and_read_back(words: list[bytes]) -> None:
    table = tables.allocate_table(32, 1 << 14)
    slots = {word: insert(table, word) for word in words}
    assert int(table.fill[ENTRIES_USED]) == len(slots) == len(set(slots.values()))
    for word, slot in slots.items():
        assert (insert(table, word), read_back(table, slot)) == (slot, word)
    tables.empty_table(table)
    assert table.fill.tolist() == [0, 0]
    assert not any(find(table, word)[1] for word in words)


@pytest.mark.jit
def test_long_words_of_one_hash_are_told_apart() -> None:
    # The entry of a forged word has the hash of another one: only the bytes in the arena tell them apart.
    table = tables.allocate_table(8, 1 << 10)
    first, second = b"x" * 21, b"y" * 21
    slot = insert(table, first)
    compiled(tables.keep_word)(table.arena, 0, text_of(second), 0, len(second))
    found, known = find(table, first)
    assert (known, found != slot) == (False, True)
    assert read_back(table, slot) == second


@pytest.mark.jit
def test_long_words_that_were_forged_have_one_partition_and_two_hashes() -> None:
    # Both have the same hash where there is no secret.
    first, second = b"dwtgmlqucavltalsabcdefgh", b"jwvcpjdyRdj4o5cDabcdefgh"
    assert hash_word(first) == hash_word(second) == int(tables.hash_word(text_of(second), 0, len(second)))
    for secret in [SECRET, *(draw_secret() for _ in range(50))]:
        assert hash_long_word(first, secret) != hash_long_word(second, secret)
    texts = pa.array([first.decode(), second.decode(), first.decode()])
    counts = count_corpus([texts], PreTokenizer("none")).to_pylist()
    assert {row["word"]: row["count"] for row in counts} == {first: 2, second: 1}


@few_cases(60, 10)
@given(st.sets(st.one_of(similar_words(), st.binary(min_size=1, max_size=20)), min_size=20, max_size=90))
def test_a_table_grows_in_place_and_keeps_its_words(words: set[bytes]) -> None:
    table = tables.allocate_table(96, 1 << 15, first_words=12)
    slots = {}
    for number, word in enumerate(sorted(words)):
        if number == tables.most_words(table):
            table = tables.grow_table(table, number + 1)
        slots[word] = insert(table, word)
        table.entries[slots[word], [PAYLOAD, VALUE]] = number, number + 1
    assert table.entries.shape[0] == tables.entries_for(len(words))
    for number, word in enumerate(sorted(words)):
        slot, known = find(table, word)
        assert (known, read_back(table, slot)) == (True, word)
        assert table.entries[slot, [PAYLOAD, VALUE]].tolist() == [number, number + 1]
    assert int((table.entries[:, HIGH] != FREE).sum()) == len(words)


def test_a_table_grows_no_further_than_was_reserved() -> None:
    table = tables.allocate_table(20, 64, first_words=5)
    assert [tables.most_words(table), tables.most_words(tables.grow_table(table, 13))] == [12, 24]
    assert tables.most_words(tables.grow_table(table, 1000)) == 24


def test_room_is_three_quarters_of_the_entries_and_all_of_the_arena() -> None:
    table = tables.allocate_table(8, 8 + 17)
    assert table.entries.shape == (16, 4)
    assert table.entries.ctypes.data % 64 == 0
    assert (compiled(tables.has_room)(table, 15), compiled(tables.has_room)(table, 17), compiled(tables.has_room)(table, 18)) == (
        True,
        True,
        False,
    )
    insert(table, b"l" * 17)
    assert [compiled(tables.has_room)(table, length) for length in (15, 16)] == [True, False]
    for letter in b"abcdefghijk":
        assert compiled(tables.has_room)(table, 1)
        insert(table, bytes([letter]))
    assert not compiled(tables.has_room)(table, 1)


def test_a_new_word_has_no_payload_and_no_value() -> None:
    table = tables.allocate_table(2, 16)
    table.entries[:, [PAYLOAD, VALUE]] = 9
    slot = insert(table, b"word")
    assert [int(cell) for cell in table.entries[slot]] == [0x64726F77, 4 << 56, 0, 0]


def test_partitions_of_a_table_are_measured() -> None:
    table = tables.allocate_table(64, 1 << 12)
    words = [b"a", b"bc", b"d" * 17, b"e" * 40, b"\0", b"\0\0"]
    for word in words:
        insert(table, word)
    slots, seen = np.empty(6, np.int64), np.empty(6, np.int64)
    sizes = count.measure_partitions(table, 3, slots, seen)
    assert sizes.sum(axis=0).tolist() == [6, sum(map(len, words))]
    assert count.measure_partitions(table, 1, slots, seen).tolist() == [[6, sum(map(len, words))]]
    assert sorted(read_back(table, np.uint64(slot)) for slot in slots) == sorted(words)


# --- hashes -----------------------------------------------------------------------------------------------------------------


def mix(key: int) -> int:
    key = key * 0x9E3779B97F4A7C15 % MODULO
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93 % MODULO
    return key ^ key >> 32


def combine(first: int, second: int) -> int:
    return mix((mix(first) + second) % MODULO)


def hash_bytes(data: bytes) -> int:
    value = mix(len(data) + 1)
    for start in range(0, len(data), 8):
        value = combine(value, int.from_bytes(data[start : start + 8], "little"))
    return value


def hash_word(word: bytes) -> int:
    """The hash of long words that is the same everywhere."""
    low_factor, high_factor = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
    value = len(word) * low_factor % MODULO
    for place in range(0, len(word) - 7, 8):
        value = (value ^ int.from_bytes(word[place : place + 8], "little")) * high_factor % MODULO
        value ^= value >> 32
    value = (value ^ int.from_bytes(word[-8:], "little")) * high_factor % MODULO
    value = (value ^ (value >> 32)) * low_factor % MODULO
    return value ^ (value >> 32)


def fold(first: int, second: int) -> int:
    return first * second >> 64 ^ first * second % MODULO


def hash_long_word(word: bytes, secret: tuple[np.uint64, np.uint64]) -> int:
    """The hash that long words are looked up by."""
    start, factor = map(int, secret)
    value = fold(len(word) ^ start, factor)
    for place in [*range(0, len(word) - 7, 8), len(word) - 8]:
        value = fold(value ^ int.from_bytes(word[place : place + 8], "little"), factor)
    return value


def hash_text(text: bytes, seed: int) -> tuple[int, int]:
    """The definition of a document's fingerprint in whole numbers."""
    prime_1, prime_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
    lanes = [(seed + prime_1) % MODULO, (seed + prime_2) % MODULO, seed, (seed - prime_1) % MODULO]
    striped = len(text) // 32 * 32
    for start in range(0, striped, 8):
        lane = (lanes[start // 8 % 4] + int.from_bytes(text[start : start + 8], "little") * prime_2) % MODULO
        lanes[start // 8 % 4] = (lane << 31 | lane >> 33) * prime_1 % MODULO
    first, second, third, fourth = lanes
    rest = hash_bytes(text[striped:])
    low = combine((combine(first, second) + rest) % MODULO, third ^ fourth)
    return low, combine(combine(third, fourth) ^ rest, (first + second) % MODULO)


def fingerprint_of(documents: list[tuple[bytes, bytes]], *, skip: int = 0) -> list[int]:
    total = np.zeros(2, np.uint64)
    ids, texts = ([document[part] for document in documents] for part in (0, 1))
    ends = [np.cumsum([len(item) for item in items], dtype=np.int64) for items in (ids, texts)]
    fingerprint.add_documents(total, text_of(b"".join(ids)), ends[0], skip, text_of(b"".join(texts)), ends[1])
    return [int(half) for half in total]


def add_up(fingerprints: list[list[int]]) -> list[int]:
    return [sum(halves) % MODULO for halves in zip([0, 0], *fingerprints, strict=True)] if fingerprints else [0, 0]


@few_cases(100, 20)
@given(st.binary(max_size=100))
def test_hash_bytes_is_its_definition(data: bytes) -> None:
    assert int(compiled(tables.hash_bytes)(text_of(data), 0, len(data))) == hash_bytes(data)


@few_cases(100, 20)
@given(st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=80)), max_size=5), st.integers(0, 9))
def test_a_fingerprint_is_the_sum_of_its_documents(documents: list[tuple[bytes, bytes]], skip: int) -> None:
    expected = []
    for document_id, text in documents:
        low, high = hash_text(text, hash_bytes(document_id[skip:]))
        expected.append([mix(low), mix(high)])
    assert fingerprint_of(documents, skip=skip) == add_up(expected)
    assert fingerprint_of(documents[::-1], skip=skip) == add_up(expected)
    assert add_up([fingerprint_of([document], skip=skip) for document in documents]) == add_up(expected)


@pytest.mark.parametrize("length", [1, 8, 31, 32, 33, 64, 100])
def test_one_changed_byte_changes_both_halves(length: int) -> None:
    text = random.Random(length).randbytes(length)
    whole = fingerprint_of([(b"id", text)])
    for place in {0, length // 2, length - 1}:
        changed = bytearray(text)
        changed[place] ^= 1
        low, high = fingerprint_of([(b"id", bytes(changed))])
        assert low != whole[0] and high != whole[1]


def test_fingerprints_tell_borders_and_ids_apart() -> None:
    different = [
        [(b"", b"ab"), (b"", b"c")],
        [(b"", b"a"), (b"", b"bc")],
        [(b"", b"abc")],
        [(b"", b"abc"), (b"", b"")],
        [(b"x", b"abc")],
        [(b"", b"abc\0")],
        [],
    ]
    assert len({tuple(fingerprint_of(documents)) for documents in different}) == len(different)


# --- the table of rules -----------------------------------------------------------------------------------------------------


@few_cases(60, 15)
@given(
    st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.integers(0, 2**31 - 2), max_size=30),
    st.sampled_from([0, 2**31 - 8]),
)
def test_rules_are_found_with_their_rank_and_product(given_rules: dict[tuple[int, int], int], first: int) -> None:
    columns = np.array([[left + first, right + first, product] for (left, right), product in given_rules.items()], np.int32)
    table = rules.build_table(*(np.ascontiguousarray(column) for column in columns.reshape(-1, 3).T))
    ranks = {pair: rank for rank, pair in enumerate(given_rules)}
    for left in range(-1, 6):
        for right in range(-1, 6):
            key = np.uint64(compiled(rules.key_of_pair)(*(np.int32(-1 if one < 0 else one + first) for one in (left, right))))
            rank = ranks.get((left, right), int(rules.NO_RULE))
            assert int(compiled(rules.rank_of)(table, key)) == rank
            assert int(compiled(rules.least_rank)(table, key)) <= rank
            if (left, right) in ranks:
                assert int(compiled(rules.product_of)(table, rank)) == given_rules[left, right]


def test_rules_overflow_into_the_next_bucket_and_around_the_end() -> None:
    # 500 rules in 27 buckets of which the first is left out: whatever begins in a full one is found behind it.
    pairs = np.arange(500, dtype=np.int32)
    table = rules.build_table(pairs, pairs[::-1].copy(), pairs * 3)
    crowded = table._replace(buckets=np.full(rules.BUCKET * 32, rules.FREE_ENTRY))
    rules.add_rules(crowded)
    full = (crowded.buckets.reshape(-1, rules.BUCKET) != rules.FREE_ENTRY).all(axis=1)
    assert full.any()
    for rank in range(500):
        key = crowded.pairs[rank]
        assert int(compiled(rules.rank_of)(crowded, key)) == int(compiled(rules.least_rank)(crowded, key)) == rank


@pytest.mark.parametrize("seed", [1269, 2103, 2256, 2442])
def test_a_rank_is_never_found_too_high_where_pairs_stand_twice(seed: int) -> None:
    # One of two buckets is full, and of those with one fingerprint in it the later rule of a pair is all there is.
    chance = random.Random(seed)
    pairs = [(chance.randrange(300), chance.randrange(300)) for _ in range(24)]
    pairs += chance.sample(pairs, 6)
    chance.shuffle(pairs)
    lefts, rights = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    table = rules.build_table(lefts, rights, np.arange(30, dtype=np.int32))
    key_of = {pair: table.pairs[rank] for rank, pair in enumerate(pairs)}
    crowded = table._replace(rank_bits=np.uint32(27), buckets=np.full(2 * rules.BUCKET, rules.FREE_ENTRY))
    rules.add_rules(crowded)
    for pair, rank in {pair: rank for rank, pair in enumerate(pairs)}.items():
        assert int(compiled(rules.rank_of)(crowded, key_of[pair])) == rank
        assert int(compiled(rules.least_rank)(crowded, key_of[pair])) <= rank


def test_products_in_order_are_not_kept() -> None:
    lefts = np.arange(3, dtype=np.int32)
    assert rules.build_table(lefts, lefts, lefts + 7).products.size == 0
    assert rules.build_table(lefts, lefts, lefts[::-1].copy()).products.tolist() == [2, 1, 0]
