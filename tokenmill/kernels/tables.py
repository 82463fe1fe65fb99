"""A hash table of words: the heart of counting and of the encoder's cache.

Open addressing; an entry is 32 bytes, half a cache line, key and value together:

    LOW, HIGH   a word of up to 16 bytes is its own key, little-endian, zero-padded;
                of a longer one: its hash, and the place in `arena` where its length (8 bytes) and bytes stand
    TAG         the kind in the low byte (0 free, 1 to 16 the word's length, LONG for more), 56 bits for the user above it
    VALUE       64 bits for the user

The table never grows: when it is full its user empties it (counting) or stops adding (the cache).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tokenmill.kernels.hashing import combine, mix
from tokenmill.kernels.intrinsics import load_u64

LOW, HIGH, TAG, VALUE = 0, 1, 2, 3
SHORT_BYTES = 16
LONG = np.uint64(SHORT_BYTES + 1)
KIND_MASK = np.uint64(0xFF)
PAYLOAD_SHIFT = np.uint64(8)
LENGTH_BYTES = 8
# By the length of a short word: which bytes of the first and of the second eight belong to it.
LOW_MASKS = np.array([(1 << 8 * min(length, 8)) - 1 for length in range(SHORT_BYTES + 1)], np.uint64)
HIGH_MASKS = np.array([(1 << 8 * max(length - 8, 0)) - 1 for length in range(SHORT_BYTES + 1)], np.uint64)
LOW_FACTOR, HIGH_FACTOR, HALF = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(32)
ENTRIES_USED, ARENA_USED = 0, 1
CACHE_LINE_BYTES = 64


class WordTable(NamedTuple):
    """`entries`: uint64[power of two, 4]; `arena`: uint8[m], the bytes of long words; `fill`: int64[2], what is used of both."""

    entries: np.ndarray
    arena: np.ndarray
    fill: np.ndarray


class WordKey(NamedTuple):
    """What a word looks like in an entry: `low`, `high` and `kind` (of a long word, `high` is not known before it is found)."""

    low: np.uint64
    high: np.uint64
    kind: np.uint64


def allocate_table(words: int, arena_bytes: int) -> WordTable:
    """A table for up to `words` words (it is kept half empty), aligned to cache lines."""
    capacity = power_of_two(2 * words)
    room = np.zeros(capacity * 4 + CACHE_LINE_BYTES // 8, np.uint64)
    skip = (-room.ctypes.data % CACHE_LINE_BYTES) // 8
    entries = room[skip : skip + capacity * 4].reshape(capacity, 4)
    return WordTable(entries=entries, arena=np.empty(arena_bytes, np.uint8), fill=np.zeros(2, np.int64))


def power_of_two(least: int) -> int:
    """The capacity of an open-addressing table for at least so many entries: `power_of_two(500)` is 512, the smallest 16."""
    return 1 << max(4, (least - 1).bit_length())


def arena_bytes_of(ends: np.ndarray) -> int:
    """Room in the arena for words that end at `ends` (int64[w]) in a text: `arena_bytes_of([3, 20])` is 25, one is long."""
    lengths = np.diff(ends, prepend=0)
    return int((lengths[lengths > SHORT_BYTES] + LENGTH_BYTES).sum())


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, inline="always")
def key_of_word(text, start, end):
    """The key of a word of at least one byte: `ab` gives (0x6261, 0, 2).

    Masks instead of branches on the length: 1.4 ns a word against 17 ns, since lengths cannot be predicted.
    """
    length = end - start
    if length <= SHORT_BYTES and start + SHORT_BYTES <= text.size:
        low, high = load_u64(text, start) & LOW_MASKS[length], load_u64(text, start + 8) & HIGH_MASKS[length]
        return WordKey(low, high, np.uint64(length))
    return key_of_rare_word(text, start, end)


@njit(cache=True, nogil=True)
def key_of_rare_word(text, start, end):
    """The key of a word that is long, or ends near the end of the text."""
    length = end - start
    if length <= 8:
        return WordKey(load_up_to_8(text, start, length), np.uint64(0), np.uint64(length))
    if length <= SHORT_BYTES:
        return WordKey(load_u64(text, start), load_up_to_8(text, start + 8, length - 8), np.uint64(length))
    return WordKey(hash_bytes(text, start, end), np.uint64(0), LONG)


@njit(cache=True, nogil=True, inline="always")
def find_word(entries, arena, key, text, start, end):
    """The entry that holds a word, or the free entry where it belongs.

    Takes the table's arrays, which the caller's loop has taken out of the tuple once: taking them out here counts references up
    and down for each word, 32 ns a word instead of 11.
    """
    mask = np.uint64(entries.shape[0] - 1)
    slot = (key.low * LOW_FACTOR) ^ (key.high * HIGH_FACTOR)
    slot = ((slot ^ (slot >> HALF)) * LOW_FACTOR >> HALF) & mask
    while True:
        kind = entries[slot, TAG] & KIND_MASK
        if kind == key.kind and entries[slot, LOW] == key.low:
            if entries[slot, HIGH] == key.high and kind != LONG:
                return slot
            if kind == LONG and same_bytes(arena, np.int64(entries[slot, HIGH]), text, start, end):
                return slot
        if kind == 0:
            return slot
        slot = (slot + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def same_bytes(arena, place, text, start, end):
    """Is the long word kept at `place` of the arena the word `text[start:end]`?"""
    length = end - start
    if np.int64(load_u64(arena, place)) != length:
        return False
    place += LENGTH_BYTES
    for position in range(length):
        if arena[place + position] != text[start + position]:
            return False
    return True


@njit(cache=True, nogil=True)
def has_room(table, length):
    """Can a new word of this many bytes be added?"""
    if 2 * (table.fill[ENTRIES_USED] + 1) > table.entries.shape[0]:
        return False
    return length <= SHORT_BYTES or table.fill[ARENA_USED] + LENGTH_BYTES + length <= table.arena.size


@njit(cache=True, nogil=True)
def add_word(table, slot, key, text, start, end):
    """Write a new word's key into a free entry; its user payload and value are 0. The caller has asked `has_room`."""
    entry = table.entries[slot]
    entry[LOW], entry[HIGH], entry[TAG], entry[VALUE] = key.low, key.high, key.kind, np.uint64(0)
    table.fill[ENTRIES_USED] += 1
    if key.kind != LONG:
        return
    place, length = table.fill[ARENA_USED], end - start
    entry[HIGH] = np.uint64(place)
    for byte in range(LENGTH_BYTES):
        table.arena[place + byte] = np.uint8((length >> (8 * byte)) & 0xFF)
    copy_bytes(text, start, end, table.arena, place + LENGTH_BYTES)
    table.fill[ARENA_USED] = place + LENGTH_BYTES + length


@njit(cache=True, nogil=True)
def copy_bytes(source, start, end, target, position):
    """Write `source[start:end]` to `target[position:]`. (To assign slices takes four seconds longer to compile.)"""
    for offset in range(end - start):
        target[position + offset] = source[start + offset]


@njit(cache=True, nogil=True)
def length_of_entry(table, slot):
    """Length in bytes of the word in a used entry."""
    kind = table.entries[slot, TAG] & KIND_MASK
    if kind == LONG:
        return np.int64(load_u64(table.arena, np.int64(table.entries[slot, HIGH])))
    return np.int64(kind)


@njit(cache=True, nogil=True)
def copy_word(table, slot, target, position):
    """Write the word in a used entry to `target[position:]`."""
    length = length_of_entry(table, slot)
    if length > SHORT_BYTES:
        place = np.int64(table.entries[slot, HIGH]) + LENGTH_BYTES
        copy_bytes(table.arena, place, place + length, target, position)
        return
    for byte in range(length):
        word = table.entries[slot, LOW] if byte < 8 else table.entries[slot, HIGH]
        target[position + byte] = np.uint8((word >> np.uint64(8 * (byte & 7))) & KIND_MASK)


@njit(cache=True, nogil=True)
def empty_table(table):
    """Forget every word."""
    table.entries[:, TAG] = 0
    table.fill[:] = 0
