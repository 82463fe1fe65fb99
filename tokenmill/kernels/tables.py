"""A hash table of words: the heart of counting and of the encoder's cache.

Open addressing; an entry is 32 bytes, half a cache line, key and value together:

    LOW, HIGH   a word of up to 15 bytes is its own key: its bytes, little-endian, zero-padded, and its length in the
                highest byte; of a longer one: its hash, and the place in `arena` where its bytes stand, marked LONG;
                its length, eight bytes, is in front of them
    PAYLOAD     64 bits for the user
    VALUE       64 bits for the user

An entry is free while HIGH is 0. No place is 0: LONG alone, as it stands in the key of a word that is looked up, is in no entry,
so a long word is never found without its bytes having been compared. The search for a word begins with the two entries of one
cache line. When the table is full its user empties it (counting), or lets it grow (the cache).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel, part
from tokenmill.kernels.hashing import Secret, combine, draw_secret, hash_secretly, mix
from tokenmill.kernels.intrinsics import borrow, fold_product, load_item, load_u64, prefetch_item, store_item

LOW, HIGH, PAYLOAD, VALUE = 0, 1, 2, 3
FREE = np.uint64(0)
SHORT_BYTES = 15
#: Bytes that are loaded for a short word, whatever its length.
KEY_BYTES = 16
LENGTH_SHIFT = np.uint64(56)
LONG = np.uint64(0xFF) << LENGTH_SHIFT
PLACE_MASK = ~LONG
LENGTH_BYTES = 8
# By the length of a short word: which bytes of the first and of the second eight belong to it.
LOW_MASKS = np.array([(1 << 8 * min(length, 8)) - 1 for length in range(KEY_BYTES)], np.uint64)
HIGH_MASKS = np.array([(1 << 8 * max(length - 8, 0)) - 1 for length in range(KEY_BYTES)], np.uint64)
LOW_FACTOR, HIGH_FACTOR, HALF = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(32)
#: Numbers of an entry.
ENTRY = 4
ENTRY_SHIFT = np.uint64(2)
ENTRIES_USED, ARENA_USED = 0, 1
#: Columns of the keys of words that are looked up together, and how many those are.
KEY_LOW, KEY_HIGH, KEY_HOME = 0, 1, 2
STAGED = 64
CACHE_LINE_BYTES = 64


class WordTable(NamedTuple):
    """`entries`: uint64[power of two, 4]; `arena`: uint8[m], the bytes of long words; `fill`: int64[2], what is used of both.

    `reserved`: uint64[power of two, 4], of which `entries` is the beginning: as far as it may grow. `secret`: what keys are
    hashed with, another in each table.
    """

    entries: np.ndarray
    arena: np.ndarray
    fill: np.ndarray
    reserved: np.ndarray
    secret: Secret


def allocate_table(words: int, arena_bytes: int, *, first_words: int | None = None) -> WordTable:
    """A table for at least `words` words (a quarter of it stays empty), aligned to cache lines.

    With `first_words` it is small at first and can be doubled by `grow_table`; what it has not grown into costs address space
    alone.
    """
    reserved = aligned_zeros(entries_for(words) * ENTRY, np.uint64).reshape(-1, ENTRY)
    entries = reserved[: entries_for(words if first_words is None else min(first_words, words))]
    return WordTable(entries, np.empty(arena_bytes, np.uint8), np.zeros(2, np.int64), reserved, draw_secret())


def aligned_zeros(count: int, dtype: type[np.generic]) -> np.ndarray:
    """An array of zeros that begins with a cache line. As many bytes as fit lie in front of it, so that no more lie behind."""
    room = np.zeros(count * np.dtype(dtype).itemsize + CACHE_LINE_BYTES, np.uint8)
    skip = CACHE_LINE_BYTES - room.ctypes.data % CACHE_LINE_BYTES
    return room[skip : room.size - CACHE_LINE_BYTES + skip].view(dtype)


def entries_for(words: int) -> int:
    """Entries of a table for so many words: `entries_for(12)` is 16."""
    return power_of_two((4 * words + 2) // 3)


def most_words(table: WordTable) -> int:
    """How many words a table takes: a quarter of its entries stays empty."""
    return 3 * table.entries.shape[0] // 4


def grow_table(table: WordTable, words: int) -> WordTable:
    """The same table with room for at least `words` words, or for as many as were reserved."""
    while most_words(table) < words and table.entries.shape[0] < table.reserved.shape[0]:
        old_count = table.entries.shape[0]
        table = table._replace(entries=table.reserved[: 2 * old_count])
        spread_entries(table.entries, old_count, table.secret)
    return table


def power_of_two(least: int) -> int:
    """The capacity of an open-addressing table for at least so many entries: `power_of_two(500)` is 512, the smallest 16."""
    return 1 << max(4, (least - 1).bit_length())


def arena_bytes_of(ends: np.ndarray) -> int:
    """Room in the arena for words that end at `ends` (int64[w]) in a text: `arena_bytes_of([3, 20])` is 25, one is long."""
    lengths = np.diff(ends, prepend=0)
    return int((lengths[lengths > SHORT_BYTES] + LENGTH_BYTES).sum())


@part
def load_up_to_8(text, start, length):
    """The `length` bytes (1 to 8) from `start` on as a zero-padded little-endian number: `ab` gives 0x6261."""
    if start + 8 <= text.size:
        value = load_u64(text, start)
        if length < 8:
            value &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        return value
    value = np.uint64(0)
    for position in range(length):
        value |= np.uint64(text[start + position]) << np.uint64(8 * position)
    return value


@part
def hash_bytes(text, start, end):
    """64-bit hash of a byte string, eight bytes at a time; the length is part of it."""
    value = mix(np.uint64(end - start) + np.uint64(1))
    position = start
    while position + 8 <= end:
        value = combine(value, load_u64(text, position))
        position += 8
    if position < end:
        value = combine(value, load_up_to_8(text, position, end - position))
    return value


@part
def key_of_word(text, start, end):
    """LOW and HIGH of a short word with KEY_BYTES bytes of text from its start on: `ab` gives 0x6261 and 2 << 56.

    Masks by length instead of branches on it, which cannot be predicted: 1.4 ns a word instead of 17.
    """
    length = end - start
    high = load_u64(text, start + 8) & load_item(HIGH_MASKS, length) | np.uint64(length) << LENGTH_SHIFT
    return load_u64(text, start) & load_item(LOW_MASKS, length), high


@part
def home_of_key(low, high, homes, secret):
    """Where the search for a key begins, as the place of a number: that of an even entry, the first of a cache line."""
    return fold_product(low ^ secret[0], high ^ secret[1]) & homes


@part
def homes_of(numbers):
    """Which bits of a hash tell a home in a table of so many numbers: `homes_of(64)` is 0b111000."""
    return np.uint64(numbers - 2 * ENTRY)


@inline_part
def stage_keys(numbers, secret, text, start, word_ends, first, last, keys):
    """Write LOW, HIGH and the home of the keys of some words to `keys` (uint64[STAGED * 4]), and ask for their cache lines.

    What is found is then there when it is compared: a wrong guess of the processor costs 8 ns instead of a memory access (1.5 to
    2 ns a word less, on average).
    """
    homes, place = homes_of(numbers.size), 0
    longest = SHORT_BYTES if load_item(word_ends, last - 1) + KEY_BYTES <= text.size else -1
    for word in range(first, last):
        end = load_item(word_ends, word)
        low, high = key_of_word(text, start, end) if end - start <= longest else key_of_any_word(text, start, end, secret)
        home = home_of_key(low, high, homes, secret)
        prefetch_item(numbers, home)
        store_item(keys, place + KEY_LOW, low)
        store_item(keys, place + KEY_HIGH, high)
        store_item(keys, place + KEY_HOME, home)
        start, place = end, place + ENTRY


@inline_part
def probe_home(numbers, keys, place):
    """Where the entry stands that holds the key staged at `place`, if one of the two in its home does, and whether one does; both
    are compared, without a branch.
    """
    low, high, first = staged_key(keys, place)
    second = np.int64(first) + ENTRY
    in_first = (load_item(numbers, np.int64(first)) == low) & (load_item(numbers, np.int64(first) + HIGH) == high)
    in_second = (load_item(numbers, second) == low) & (load_item(numbers, second + HIGH) == high)
    return np.int64(first) + ENTRY * np.int64(in_second), in_first | in_second


@part
def search_word(entries, arena, secret, text, start, end):
    """The entry that holds a word of at least one byte, or the free entry where it belongs."""
    low, high = key_of_any_word(text, start, end, secret)
    return search_key(entries, arena, text, start, end, (low, high, home_of_key(low, high, homes_of(entries.size), secret)))


@part
def search_key(entries, arena, text, start, end, key):
    """As `search_word`, with the key of the word as `stage_keys` writes it: LOW, HIGH and the home."""
    entries, arena, text = borrow(entries), borrow(arena), borrow(text)
    low, high, home = key
    slot = home >> ENTRY_SHIFT
    while entries[slot, HIGH] != FREE:
        kept = entries[slot, HIGH]
        if entries[slot, LOW] == low:
            if kept == high and high != LONG:
                break
            if kept >= LONG and high == LONG and same_bytes(arena, np.int64(kept & PLACE_MASK), text, start, end):
                break
        slot = (slot + np.uint64(1)) & np.uint64(entries.shape[0] - 1)
    return slot


@part
def staged_key(keys, place):
    """LOW, HIGH and the home of the key staged at `place`."""
    return load_item(keys, place + KEY_LOW), load_item(keys, place + KEY_HIGH), load_item(keys, place + KEY_HOME)


@kernel
def spread_entries(entries, old_count, secret):
    """Double a table in place: the first `old_count` entries are the old table, the others are free.

    Entry after entry is taken out and put in again, from a free one on: it lands at its old place, at a free one before it, or in
    the new half. Those before the free one may have come around the end of the old table: they wait until all others are done. No
    second table: new memory costs as much as the words that fill it.
    """
    first = np.int64(0)
    while entries[first, HIGH] != FREE:
        first += 1
    waiting = np.empty((first, 4), np.uint64)
    for place in range(first):
        take_entry(entries, place, waiting, place)
    moving = np.empty((1, 4), np.uint64)
    for place in range(first + 1, old_count):
        if entries[place, HIGH] != FREE:
            take_entry(entries, place, moving, 0)
            put_entry(entries, moving, 0, secret)
    for place in range(first):
        put_entry(entries, waiting, place, secret)


@part
def take_entry(entries, slot, target, place):
    """Move an entry out of the table, to a row of `target`."""
    for column in range(4):
        target[place, column] = entries[slot, column]
    entries[slot, HIGH] = FREE


@part
def put_entry(entries, source, place, secret):
    """Put a row of `source` into the table."""
    home = home_of_key(source[place, LOW], min(source[place, HIGH], LONG), homes_of(entries.size), secret)
    slot = home >> ENTRY_SHIFT
    while entries[slot, HIGH] != FREE:
        slot = (slot + np.uint64(1)) & np.uint64(entries.shape[0] - 1)
    for column in range(4):
        entries[slot, column] = source[place, column]


@part
def key_of_any_word(text, start, end, secret):
    """LOW and HIGH of any word; of a long one its hash, and LONG without its place."""
    length = end - start
    if length > SHORT_BYTES:
        return hash_long_word(text, start, end, secret), LONG
    if start + KEY_BYTES <= text.size:
        return key_of_word(text, start, end)
    high = np.uint64(length) << LENGTH_SHIFT
    if length > 8:
        high |= load_up_to_8(text, start + 8, length - 8)
    return load_up_to_8(text, start, min(length, 8)), high


@part
def hash_long_word(text, start, end, secret):
    """64-bit hash of a word of at least eight bytes, by which long words are looked up: a multiplication for eight bytes."""
    value = hash_secretly(end - start, secret)
    for position in range(start, end - 7, 8):
        value = fold_product(value ^ load_u64(text, position), secret[1])
    return fold_product(value ^ load_u64(text, end - 8), secret[1])


@kernel
def hash_word(text, start, end):
    """64-bit hash of a word of at least eight bytes, the same in every process: it tells the partition of a long word."""
    value = np.uint64(end - start) * LOW_FACTOR
    for position in range(start, end - 7, 8):
        value = (value ^ load_u64(text, position)) * HIGH_FACTOR
        value ^= value >> HALF
    value = (value ^ load_u64(text, end - 8)) * HIGH_FACTOR
    value = (value ^ (value >> HALF)) * LOW_FACTOR
    return value ^ (value >> HALF)


@part
def same_bytes(arena, place, text, start, end):
    """Is the long word whose bytes stand at `place` of the arena the word `text[start:end]`?"""
    length = end - start
    if np.int64(load_u64(arena, place - LENGTH_BYTES)) != length:
        return False
    for offset in range(0, length - 7, 8):
        if load_u64(arena, place + offset) != load_u64(text, start + offset):
            return False
    return load_u64(arena, place + length - 8) == load_u64(text, end - 8)


@part
def has_room(table, length):
    """Can a new word of this many bytes be added?"""
    if 4 * (table.fill[ENTRIES_USED] + 1) > 3 * table.entries.shape[0]:
        return False
    return length <= SHORT_BYTES or table.fill[ARENA_USED] + LENGTH_BYTES + length <= table.arena.size


@part
def add_word(table, slot, text, start, end):
    """Write a new word's key into a free entry; its payload and value are 0. The caller has asked `has_room`."""
    table, text = borrow(table), borrow(text)
    entries = table.entries
    low, high = key_of_any_word(text, start, end, table.secret)
    table.fill[ENTRIES_USED] += 1
    if high == LONG:
        place = table.fill[ARENA_USED]
        high |= np.uint64(place + LENGTH_BYTES)
        table.fill[ARENA_USED] = keep_word(table.arena, place, text, start, end)
    entries[slot, LOW], entries[slot, HIGH], entries[slot, PAYLOAD], entries[slot, VALUE] = low, high, np.uint64(0), np.uint64(0)


@part
def keep_word(arena, place, text, start, end):
    """Write a word's length and bytes to the arena; returns the place behind them."""
    length = end - start
    for byte in range(LENGTH_BYTES):
        arena[place + byte] = np.uint8((length >> (8 * byte)) & 0xFF)
    copy_bytes(text, start, end, arena, place + LENGTH_BYTES)
    return place + LENGTH_BYTES + length


@part
def copy_bytes(source, start, end, target, position):
    """Write `source[start:end]` to `target[position:]`. (To assign slices takes four seconds longer to compile.)"""
    for offset in range(end - start):
        target[position + offset] = source[start + offset]


@part
def length_of_entry(table, slot):
    """Length in bytes of the word in a used entry."""
    high = table.entries[slot, HIGH]
    if high >= LONG:
        return np.int64(load_u64(table.arena, np.int64(high & PLACE_MASK) - LENGTH_BYTES))
    return np.int64(high >> LENGTH_SHIFT)


@part
def copy_word(table, slot, target, position):
    """Write the word in a used entry to `target[position:]`."""
    length = length_of_entry(table, slot)
    if length > SHORT_BYTES:
        place = np.int64(table.entries[slot, HIGH] & PLACE_MASK)
        copy_bytes(table.arena, place, place + length, target, position)
        return
    for byte in range(length):
        word = table.entries[slot, LOW] if byte < 8 else table.entries[slot, HIGH]
        target[position + byte] = np.uint8((word >> np.uint64(8 * (byte & 7))) & np.uint64(0xFF))


@kernel
def empty_table(table):
    """Forget every word."""
    table.entries[:, HIGH] = FREE
    table.fill[:] = 0
