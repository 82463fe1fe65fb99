"""Counting words in a `WordTable`: PAYLOAD is when a word was first seen, VALUE is its count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.hashing import combine
from tokenmill.kernels.intrinsics import borrow, flatten, load_item, store_item
from tokenmill.kernels.tables import (
    ENTRY,
    FREE,
    HIGH,
    LENGTH_BYTES,
    LONG,
    LOW,
    PAYLOAD,
    PLACE_MASK,
    SHORT_BYTES,
    STAGED,
    VALUE,
    add_word,
    copy_bytes,
    copy_word,
    has_room,
    hash_word,
    length_of_entry,
    probe_home,
    search_key,
    stage_keys,
    staged_key,
)


class WordSums(NamedTuple):
    """Room for distinct words and their sums: `data` uint8[n], `offsets` int64[w + 1], `counts`, `first_seen` int64[w]."""

    data: np.ndarray
    offsets: np.ndarray
    counts: np.ndarray
    first_seen: np.ndarray


@kernel
def count_words(table, keys, text, starts_at, word_ends, first_word, ordinal):
    """Count the words `first_word`, `first_word + 1`, ... of a block until the table is full.

    `keys`: uint64[STAGED * 4], scratch. Words lie end to end in `text` (uint8[n]) from `starts_at` on; `word_ends`: int64[w].
    `ordinal` numbers word 0 of the block within the split. Returns the first word that was not counted (w when all were).
    """
    table, keys, text, word_ends = borrow(table), borrow(keys), borrow(text), borrow(word_ends)
    start = starts_at if first_word == 0 else word_ends[first_word - 1]
    entries, numbers = table.entries, flatten(table.entries)
    for first in range(first_word, word_ends.size, STAGED):
        last = min(first + STAGED, word_ends.size)
        stage_keys(numbers, table.secret, text, start, word_ends, first, last, keys)
        for word in range(first, last):
            end = load_item(word_ends, word)
            staged = ENTRY * (word - first)
            place, known = probe_home(numbers, keys, staged)
            if not known:
                slot = search_key(entries, table.arena, text, start, end, staged_key(keys, staged))
                if entries[slot, HIGH] == FREE and not add_new_word(table, slot, text, start, end, ordinal + word):
                    return word
                place = ENTRY * np.int64(slot)
            store_item(numbers, place + VALUE, load_item(numbers, place + VALUE) + np.uint64(1))
            start = end
    return word_ends.size


@part
def add_new_word(table, slot, text, start, end, ordinal):
    """Take a word into the table with count 0; False when there is no room."""
    if not has_room(table, end - start):
        return False
    add_word(table, slot, text, start, end)
    table.entries[slot, PAYLOAD] = np.uint64(ordinal)
    return True


@part
def partition_of(table, slot, partitions):
    """The hash partition of the word in an entry; depends on the word alone."""
    entries = table.entries
    if entries[slot, HIGH] >= LONG:
        place = np.int64(entries[slot, HIGH] & PLACE_MASK)
        hashed = hash_word(table.arena, place, place + length_of_entry(table, slot))
        return np.int64((hashed >> np.uint64(40)) % np.uint64(partitions))
    spread = combine(entries[slot, LOW], entries[slot, HIGH])
    return np.int64((spread >> np.uint64(40)) % np.uint64(partitions))


@kernel
def measure_partitions(table, partitions, slots, first_seen):
    """int64[partitions, 2]: how many words each partition of the table holds, and how many bytes they have.

    `slots` and `first_seen` (int64[w]) get the entries of the words, in the order of the table, which means nothing to anybody,
    and when each was first seen.
    """
    table, sizes, used = borrow(table), np.zeros((partitions, 2), np.int64), np.int64(0)
    entries = table.entries
    for slot in range(entries.shape[0]):
        if entries[slot, HIGH] != FREE and used < min(slots.size, first_seen.size):
            partition = partition_of(table, slot, partitions)
            sizes[partition, 0] += 1
            sizes[partition, 1] += length_of_entry(table, slot)
            slots[used], first_seen[used] = slot, np.int64(entries[slot, PAYLOAD])
            used += 1
    return sizes


@kernel
def extract_words(table, slots, sizes, word_ends, word_bytes, counts, first_seen):
    """Write the words of entries (int64[w]) out, partition after partition, in each in the order of `slots`: end positions and
    bytes, counts, and when they were first seen.
    """
    table, word_bytes, partitions = borrow(table), borrow(word_bytes), sizes.shape[0]
    entries = table.entries
    rows, places = np.zeros(partitions, np.int64), np.zeros(partitions, np.int64)
    for partition in range(1, partitions):
        rows[partition] = rows[partition - 1] + sizes[partition - 1, 0]
        places[partition] = places[partition - 1] + sizes[partition - 1, 1]
    for slot in slots:
        partition = partition_of(table, slot, partitions)
        row = rows[partition]
        copy_word(table, slot, word_bytes, places[partition])
        places[partition] += length_of_entry(table, slot)
        word_ends[row] = places[partition]
        counts[row] = np.int64(entries[slot, VALUE])
        first_seen[row] = np.int64(entries[slot, PAYLOAD])
        rows[partition] = row + 1


@kernel
def measure_long_words(word_ends):
    """Bytes of arena that the words longer than an entry need, if all of them differ."""
    needed, start = 0, 0
    for word in range(word_ends.size):
        length = word_ends[word] - start
        if length > SHORT_BYTES:
            needed += LENGTH_BYTES + length
        start = word_ends[word]
    return needed


@kernel
def add_up_words(table, keys, text, word_ends, counts, first_seen, sums):
    """Add up rows of words that may repeat: the distinct words go to `sums`, in order of their first row; returns how many there
    are.

    The words of the rows lie end to end in `text` (uint8[n], int64[w] ends); `counts` and `first_seen` are int64[w]. The table,
    empty and with room for all of them, holds the number of the sum in VALUE; `keys` as in `count_words`.
    """
    table, keys, text, word_ends, sums = borrow(table), borrow(keys), borrow(text), borrow(word_ends), borrow(sums)
    entries, arena, distinct, start = table.entries, table.arena, np.int64(0), np.int64(0)
    numbers = flatten(entries)
    for first in range(0, word_ends.size, STAGED):
        last = min(first + STAGED, word_ends.size)
        stage_keys(numbers, table.secret, text, start, word_ends, first, last, keys)
        for word in range(first, last):
            end = word_ends[word]
            staged = ENTRY * (word - first)
            found, known = probe_home(numbers, keys, staged)
            if not known:
                slot = search_key(entries, arena, text, start, end, staged_key(keys, staged))
                found = ENTRY * np.int64(slot)
                if entries[slot, HIGH] == FREE:
                    add_word(table, slot, text, start, end)
                    entries[slot, VALUE] = np.uint64(distinct)
                    begin_sum(sums, distinct, text, start, end)
                    sums.first_seen[distinct] = first_seen[word]
                    distinct += 1
            place = np.int64(load_item(numbers, found + VALUE))
            sums.counts[place] += counts[word]
            if first_seen[word] < sums.first_seen[place]:
                sums.first_seen[place] = first_seen[word]
            start = end
    return distinct


@part
def begin_sum(sums, place, text, start, end):
    """Write a new word behind the others, with count 0."""
    written = sums.offsets[place]
    copy_bytes(text, start, end, sums.data, written)
    sums.offsets[place + 1] = written + end - start
    sums.counts[place] = 0
