"""Encoding with BPE: words to token ids through a cache of words, and merging for the words the cache does not hold.

Merging takes the lowest rank first, the leftmost among equals. Short words are merged in place in two small arrays; long ones
with a heap over the same spans that training uses, in n log n time and linear memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tokenmill.kernels.hashing import mix
from tokenmill.kernels.tables import PAYLOAD_SHIFT, TAG, VALUE, WordTable, add_word, find_word, has_room, key_of_word

UNKNOWN = -1
EMPTY, INSIDE = -1, -2
NO_RULE = np.int64(0x7FFFFFFFFFFFFFFF)
LOW_32 = np.int64(0xFFFFFFFF)
IDS_USED = 0
#: Words of up to this many symbols are merged in place: below it, a linear search for the best pair beats a heap.
SHORT_SYMBOLS = 48
#: Longer words are merged afresh each time: they are rare, and would push others out of the cache.
CACHED_BYTES = 256


class BpeTables(NamedTuple):
    """A BPE model as arrays.

    `byte_ids`: int32[256], the id of each byte (a byte model), or empty; `character_ids`: int32[0x110000], the id of each code
    point or UNKNOWN (a character model), or empty. `rules`: int64[power of two, 2], open addressing: key (left id << 32 | right
    id), and rank << 32 | product id. `unknown`: the id of the unk token, or UNKNOWN.
    """

    byte_ids: np.ndarray
    character_ids: np.ndarray
    rules: np.ndarray
    unknown: np.int64


class EncodeCache(NamedTuple):
    """Words that were encoded before. VALUE of an entry holds the ids themselves, low and high half, when they are one
    or two, else their place in `ids`. TAG's payload says how many they are."""

    table: WordTable
    ids: np.ndarray  # int32[m]
    ids_used: np.ndarray  # int64[1]


@njit(cache=True, nogil=True)
def add_rules(rules, lefts, rights, products):
    """Fill an empty rule table; the rank of a rule is its row. A pair that stands twice keeps its last rank."""
    for rank in range(lefts.size):
        key = np.int64(lefts[rank]) << 32 | np.int64(rights[rank])
        slot = find_rule(rules, key)
        rules[slot, 0], rules[slot, 1] = key, np.int64(rank) << 32 | np.int64(products[rank])


@njit(cache=True, nogil=True)
def find_rule(rules, key):
    """The entry of a pair, or the free entry where it belongs."""
    mask = np.uint64(rules.shape[0] - 1)
    slot = mix(key) & mask
    while rules[slot, 0] != key and rules[slot, 0] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def rule_of(rules, left, right):
    """rank << 32 | product of a pair, NO_RULE where there is none: the smaller of two is the one to apply first."""
    if left < 0 or right < 0:
        return NO_RULE
    key = np.int64(left) << 32 | np.int64(right)
    slot = find_rule(rules, key)
    return rules[slot, 1] if rules[slot, 0] == key else NO_RULE


# --- words to base symbols ------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def sequence_length(lead):
    """Bytes of the UTF-8 sequence that a lead byte announces: 0xE4 gives 3."""
    if lead < 0xC0:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4


@njit(cache=True, nogil=True)
def code_point_at(text, position, length):
    """Decode one UTF-8 sequence of valid text."""
    if length == 1:
        return np.int64(text[position])
    value = np.int64(text[position]) & (0x7F >> length)
    for follower in range(1, length):
        value = value << 6 | (np.int64(text[position + follower]) & 0x3F)
    return value


@njit(cache=True, nogil=True)
def look_up_symbols(tables, text, start, end, symbols):
    """Write the base symbols of a word into `symbols` (one an unknown character); returns how many."""
    if tables.byte_ids.size:
        for position in range(start, end):
            symbols[position - start] = tables.byte_ids[text[position]]
        return end - start
    size, position = 0, start
    while position < end:
        length = min(sequence_length(text[position]), end - position)
        code_point = code_point_at(text, position, length)
        symbol = tables.character_ids[code_point] if code_point < tables.character_ids.size else np.int32(UNKNOWN)
        symbols[size] = tables.unknown if symbol == UNKNOWN else symbol
        size += 1
        position += length
    return size


# --- merging ----------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def merge_short(rules, symbols, size, found):
    """Merge `symbols[:size]` in place; returns the new size. `found` is room for one rule a symbol."""
    for position in range(size - 1):
        found[position] = rule_of(rules, symbols[position], symbols[position + 1])
    while size > 1:
        best = 0
        for position in range(1, size - 1):
            if found[position] < found[best]:
                best = position
        if found[best] == NO_RULE:
            break
        symbols[best] = found[best] & LOW_32
        size -= 1
        for position in range(best + 1, size):
            symbols[position] = symbols[position + 1]
        for position in range(best + 1, size - 1):
            found[position] = found[position + 1]
        if best + 1 < size:
            found[best] = rule_of(rules, symbols[best], symbols[best + 1])
        if best > 0:
            found[best - 1] = rule_of(rules, symbols[best - 1], symbols[best])
    return size


@njit(cache=True, nogil=True)
def merge_long(rules, symbols, size):
    """As `merge_short`, for words of any length: a heap of (rule, place) over symbols that know their spans."""
    spans = np.ones(size, np.int32)
    heap = np.empty((2 * size, 2), np.int64)
    waiting = 0
    for place in range(size - 1):
        waiting = offer_pair(rules, symbols, place, place + 1, heap, waiting)
    while waiting > 0:
        rule, place = heap[0, 0], heap[0, 1]
        waiting = drop_first(heap, waiting)
        follower = place + spans[place]
        if symbols[place] < 0 or follower >= size or rule_of(rules, symbols[place], symbols[follower]) != rule:
            continue
        after = follower + spans[follower]
        symbols[place], symbols[follower] = rule & LOW_32, INSIDE
        spans[place] = after - place
        spans[after - 1] = after - place
        if after < size:
            waiting = offer_pair(rules, symbols, place, after, heap, waiting)
        if place > 0:
            waiting = offer_pair(rules, symbols, place - spans[place - 1], place, heap, waiting)
    return close_gaps(symbols, spans, size)


@njit(cache=True, nogil=True)
def close_gaps(symbols, spans, size):
    """Move the symbols that are left to the front; returns how many there are."""
    kept, place = 0, 0
    while place < size:
        symbols[kept] = symbols[place]
        place += spans[place]
        kept += 1
    return kept


@njit(cache=True, nogil=True)
def offer_pair(rules, symbols, place, follower, heap, waiting):
    """Put the pair at two places into the heap if it has a rule; returns the heap's size."""
    rule = rule_of(rules, symbols[place], symbols[follower])
    if rule == NO_RULE:
        return waiting
    entry = waiting
    while entry > 0:
        parent = (entry - 1) >> 1
        if heap[parent, 0] < rule or (heap[parent, 0] == rule and heap[parent, 1] <= place):
            break
        heap[entry, 0], heap[entry, 1] = heap[parent, 0], heap[parent, 1]
        entry = parent
    heap[entry, 0], heap[entry, 1] = rule, place
    return waiting + 1


@njit(cache=True, nogil=True)
def drop_first(heap, waiting):
    """Remove the first entry of the heap; returns its size."""
    waiting -= 1
    rule, place = heap[waiting, 0], heap[waiting, 1]
    entry = 0
    while True:
        child = 2 * entry + 1
        if child >= waiting:
            break
        if child + 1 < waiting and entry_before(heap, child + 1, heap[child, 0], heap[child, 1]):
            child += 1
        if not entry_before(heap, child, rule, place):
            break
        heap[entry, 0], heap[entry, 1] = heap[child, 0], heap[child, 1]
        entry = child
    heap[entry, 0], heap[entry, 1] = rule, place
    return waiting


@njit(cache=True, nogil=True)
def entry_before(heap, entry, rule, place):
    """Does a heap entry come before (rule, place)?"""
    return heap[entry, 0] < rule or (heap[entry, 0] == rule and heap[entry, 1] < place)


# --- blocks of words ------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def encode_word(tables, text, start, end, ids, used):
    """Encode one word without the cache into `ids[used:]` (room for one id a byte); returns the new `used`."""
    symbols = ids[used:]
    size = look_up_symbols(tables, text, start, end, symbols)
    if size <= SHORT_SYMBOLS:
        return used + merge_short(tables.rules, symbols, size, np.empty(SHORT_SYMBOLS, np.int64))
    return used + merge_long(tables.rules, symbols, size)


@njit(cache=True, nogil=True)
def remember_word(cache, slot, key, text, start, end, ids):
    """Add a word and its `ids` to the cache if there is room."""
    table = cache.table
    place = cache.ids_used[IDS_USED]
    if not has_room(table, end - start) or place + ids.size > cache.ids.size:
        return
    add_word(table, slot, key, text, start, end)
    table.entries[slot, TAG] |= np.uint64(ids.size) << PAYLOAD_SHIFT
    if ids.size <= 2:
        table.entries[slot, VALUE] = np.uint64((np.int64(ids[-1]) & LOW_32) << 32 | (np.int64(ids[0]) & LOW_32))
        return
    table.entries[slot, VALUE] = np.uint64(place)
    for position in range(ids.size):
        cache.ids[place + position] = ids[position]
    cache.ids_used[IDS_USED] = place + ids.size


@njit(cache=True, nogil=True)
def find_unmerged(tables, text, ends, token_ids, unmerged):
    """`unmerged[t]` (bool) becomes whether merging the bytes of token t gives anything else than its id.

    Tokens lie end to end in `text` (uint8[n]); `ends`: int64[t]; `token_ids`: int32[t].
    """
    ids, start = np.empty(text.size + 1, np.int32), np.int64(0)
    for token in range(ends.size):
        used = encode_word(tables, text, start, ends[token], ids, np.int64(0))
        unmerged[token] = used != 1 or ids[0] != token_ids[token]
        start = ends[token]


@njit(cache=True, nogil=True)
def remember_words(cache, text, ends, token_ids):
    """Let the cache, which must have room, have words of one token each; arrays as in `find_unmerged`."""
    start = np.int64(0)
    for word in range(ends.size):
        key = key_of_word(text, start, ends[word])
        slot = find_word(cache.table.entries, cache.table.arena, key, text, start, ends[word])
        remember_word(cache, slot, key, text, start, ends[word], token_ids[word : word + 1])
        start = ends[word]


@njit(cache=True, nogil=True)
def encode_words(tables, cache, text, starts_at, word_ends, ids, used):
    """Encode words that lie end to end in `text` from `starts_at` on; returns how many `ids` stand then.

    `text`: uint8[n]; `word_ends`: int64[w]; `ids`: int32[at least used + bytes of the words + 1].
    """
    entries, arena, kept, start = cache.table.entries, cache.table.arena, cache.ids, starts_at
    for word in range(word_ends.size):
        end = word_ends[word]
        key = key_of_word(text, start, end)
        slot = find_word(entries, arena, key, text, start, end)
        size, value = np.int64(entries[slot, TAG] >> PAYLOAD_SHIFT), np.int64(entries[slot, VALUE])
        if size > 2:
            for position in range(size):
                ids[used + position] = kept[value + position]
            used += size
        elif size > 0:  # both are written, one of them may not count: no branch on what cannot be predicted
            ids[used], ids[used + 1] = np.int32(value & LOW_32), np.int32(value >> 32)
            used += size
        else:
            used = encode_new_word(tables, cache, slot, key, text, start, end, ids, used)
        start = end
    return used


@njit(cache=True, nogil=True)
def encode_new_word(tables, cache, slot, key, text, start, end, ids, used):
    """Encode a word that the cache does not hold, and let the cache have it; returns the new `used`."""
    before = used
    used = encode_word(tables, text, start, end, ids, used)
    if end - start <= CACHED_BYTES:
        remember_word(cache, slot, key, text, start, end, ids[before:used])
    return used


@njit(cache=True, nogil=True)
def encode_block(tables, cache, text, starts_at, word_ends, doc_words, ids, used, doc_ids):
    """Encode a block of words; `doc_ids[k]` becomes the number of ids at which the k-th document that ends in the block ends.

    `doc_words`: int64[k], at which word of the block each of them ends. Returns how many `ids` stand then.
    """
    word = 0
    for document in range(doc_words.size):
        stop = doc_words[document]
        start = starts_at if word == 0 else word_ends[word - 1]
        used = encode_words(tables, cache, text, start, word_ends[word:stop], ids, used)
        doc_ids[document] = used
        word = stop
    start = starts_at if word == 0 else word_ends[word - 1]
    return encode_words(tables, cache, text, start, word_ends[word:], ids, used)
