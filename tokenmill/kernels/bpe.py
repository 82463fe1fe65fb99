"""Encoding: words to token ids through a cache of words, and where the cache does not hold one, by merging (bpe_merge.py) or by
the longest match (wordpiece.py), as the tables say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.base_symbols import WordForms, look_up_symbols
from tokenmill.kernels.bpe_merge import NO_RULE, SHORT_SYMBOLS, merge_long, merge_short, rule_of
from tokenmill.kernels.compiling import inline_part, kernel, part, part_of_tables
from tokenmill.kernels.hashing import HALF
from tokenmill.kernels.intrinsics import borrow, copy_64_bytes
from tokenmill.kernels.tables import (
    FREE,
    HIGH,
    PAYLOAD,
    STAGED,
    VALUE,
    WordTable,
    add_word,
    has_room,
    probe_home,
    search_word,
    stage_keys,
)
from tokenmill.kernels.wordpiece import WordPieceTables, match_word

LOW_HALF = np.uint64(0xFFFFFFFF)
IDS_USED = 0
#: Longer words are merged afresh each time: they are rare, and would push others out of the cache.
CACHED_BYTES = 256
#: Ids that an entry of the cache holds itself, and how far behind the last id the kernels may write in vain.
INLINE_IDS, IDS_IN_VAIN = 4, 16
INLINE_LIMIT = 1 << 28
SIZE_SHIFT, FOURTH_MASK = np.uint64(60), np.uint64(INLINE_LIMIT - 1)


class BpeTables(NamedTuple):
    """A BPE model as arrays.

    `byte_ids`: int32[256], the id of each byte (a byte model), or empty; `character_ids`: int32[0x110000], the id of each code
    point or UNKNOWN (a character model), or empty; both twice as long where symbols have a second form. `rules`: int64[power of
    two, 2], open addressing: key (left id << 32 | right id), and rank << 32 | product id. `byte_rules`: int64[65536], the rule of
    two bytes, the first one in the higher half, or NO_RULE (a byte model without forms), or empty. `unknown`: the id of the unk
    token, or UNKNOWN.
    """

    byte_ids: np.ndarray
    character_ids: np.ndarray
    rules: np.ndarray
    byte_rules: np.ndarray
    unknown: np.int64
    forms: WordForms


class EncodeCache(NamedTuple):
    """Words that were encoded before.

    An entry holds up to four ids below 2^28 itself: VALUE the first two, 32 bits each, PAYLOAD the third, the fourth in 28 bits,
    and how many they are in the highest four bits. Of other words, those four bits are 0, PAYLOAD is the number of ids, and VALUE
    their place in `ids`.
    """

    table: WordTable
    ids: np.ndarray  # int32[m]
    ids_used: np.ndarray  # int64[1]
    keys: np.ndarray  # uint64[STAGED, 4], scratch for looking up
    found: np.ndarray  # int64[SHORT_SYMBOLS], scratch for merging


# --- blocks of words ------------------------------------------------------------------------------------------------------------


@part
def merge_word(tables, text, start, end, ids, used, found):
    """Encode one word by merging into `ids[used:]` (room for one id a byte, and one more with an ending).

    Returns how many ids it has.
    """
    tables, text, ids, found = borrow(tables), borrow(text), borrow(ids), borrow(found)
    rules, byte_rules, size = tables.rules, tables.byte_rules, end - start
    if byte_rules.size and size <= SHORT_SYMBOLS:
        byte_ids = tables.byte_ids
        for place in range(size - 1):
            ids[used + place] = byte_ids[text[start + place]]
            found[place] = byte_rules[np.int64(text[start + place]) << 8 | np.int64(text[start + place + 1])]
        ids[used + size - 1] = byte_ids[text[end - 1]]
    else:
        size = look_up_symbols(tables, text, start, end, ids, used)
        if size > SHORT_SYMBOLS:
            return merge_long(rules, ids[used : used + size], size)
        for place in range(size - 1):
            found[place] = rule_of(rules, ids[used + place], ids[used + place + 1])
    found[size - 1] = NO_RULE
    return merge_short(rules, ids, used, size, found)


#: Encode one word without the cache, as the model does.
encode_word = part_of_tables({BpeTables: merge_word, WordPieceTables: match_word})


@part
def remember_word(cache, slot, text, start, end, ids, used, size):
    """Add a word and its ids, which are `ids[used : used + size]`, to the cache if there is room."""
    cache, text, ids = borrow(cache), borrow(text), borrow(ids)
    table, kept = cache.table, cache.ids
    place, inline = cache.ids_used[IDS_USED], fit_inline(ids, used, size)
    if not has_room(table, end - start) or not (inline or place + size + IDS_IN_VAIN <= kept.size):
        return
    add_word(table, slot, text, start, end)
    if inline:
        write_inline_ids(table.entries, slot, ids, used, size)
        return
    table.entries[slot, VALUE], table.entries[slot, PAYLOAD] = np.uint64(place), np.uint64(size)
    for offset in range(size):
        kept[place + offset] = ids[used + offset]
    cache.ids_used[IDS_USED] = place + size


@part
def fit_inline(ids, used, size):
    """Do the ids of a word fit into its entry?"""
    if size > INLINE_IDS:
        return False
    for place in range(used, used + size):
        if not 0 <= ids[place] < INLINE_LIMIT:
            return False
    return True


@part
def write_inline_ids(entries, slot, ids, used, size):
    """Put up to four ids into an entry."""
    value, payload = np.uint64(ids[used]), np.uint64(size) << SIZE_SHIFT
    if size > 1:
        value |= np.uint64(ids[used + 1]) << HALF
    if size > 2:
        payload |= np.uint64(ids[used + 2])
    if size > 3:
        payload |= np.uint64(ids[used + 3]) << HALF
    entries[slot, VALUE], entries[slot, PAYLOAD] = value, payload


@part
def encode_new_word(tables, cache, slot, text, start, end, ids, used):
    """Encode a word that the cache does not hold, and let the cache have it; returns the new `used`."""
    tables, cache, text, ids = borrow(tables), borrow(cache), borrow(text), borrow(ids)
    size = encode_word(tables, text, start, end, ids, used, cache.found)
    if end - start <= CACHED_BYTES:
        remember_word(cache, slot, text, start, end, ids, used, size)
    return used + size


@inline_part
def write_four(ids, used, value, payload):
    """Write the four ids of an entry, whether they count or not: no branch on what cannot be predicted."""
    ids[used], ids[used + 1] = np.int32(value & LOW_HALF), np.int32(value >> HALF)
    ids[used + 2], ids[used + 3] = np.int32(payload & LOW_HALF), np.int32(payload >> HALF & FOURTH_MASK)


@inline_part
def write_kept(kept, place, ids, used, size):
    """Copy the many ids of a word from where they are kept, 16 at once."""
    for offset in range(0, size, IDS_IN_VAIN):
        copy_64_bytes(kept, place + offset, ids, used + offset)


@part
def encode_words(tables, cache, text, start, word_ends, words, ids, used):
    """Encode words that lie end to end in `text` from `start` on; returns how many `ids` stand then.

    `text`: uint8[n]; `word_ends`: int64[w]; `words`: the first of them, and the one to stop before; `ids`: int32[at least used +
    bytes of the words + IDS_IN_VAIN].
    """
    tables, cache, text, word_ends, ids = borrow(tables), borrow(cache), borrow(text), borrow(word_ends), borrow(ids)
    entries, arena, kept, keys = cache.table.entries, cache.table.arena, cache.ids, cache.keys
    for first in range(words[0], words[1], STAGED):
        last = min(first + STAGED, words[1])
        stage_keys(entries, text, start, word_ends, first, last, keys)
        for word in range(first, last):
            end = word_ends[word]
            slot, known = probe_home(entries, keys, word - first)
            if not known:
                slot = search_word(entries, arena, text, start, end)
                known = entries[slot, HIGH] != FREE
            value, payload = entries[slot, VALUE], entries[slot, PAYLOAD]
            size = np.int64(payload >> SIZE_SHIFT)
            if known & (size > 0):
                write_four(ids, used, value, payload)
                used += size
            elif known:
                write_kept(kept, np.int64(value), ids, used, np.int64(payload))
                used += np.int64(payload)
            else:
                used = encode_new_word(tables, cache, slot, text, start, end, ids, used)
            start = end
    return used


@kernel
def encode_block(tables, cache, text, starts_at, word_ends, doc_words, ids, used, doc_ids):
    """Encode a block of words; `doc_ids[k]` becomes the number of ids at which the k-th document that ends in the block ends.

    `doc_words`: int64[k], at which word of the block each of them ends. Returns how many `ids` stand then.
    """
    word, start = np.int64(0), np.int64(starts_at)
    for document in range(doc_words.size):
        stop = doc_words[document]
        used = encode_words(tables, cache, text, start, word_ends, (word, stop), ids, used)
        doc_ids[document] = used
        start = word_ends[stop - 1] if stop > 0 else start
        word = stop
    return encode_words(tables, cache, text, start, word_ends, (word, np.int64(word_ends.size)), ids, used)


# --- words that are tokens, whatever the rules make of them ---------------------------------------------------------------------


@kernel
def find_unmerged(tables, text, ends, token_ids, unmerged):
    """`unmerged[t]` (bool) becomes whether merging the bytes of token t gives anything else than its id.

    Tokens lie end to end in `text` (uint8[n]); `ends`: int64[t]; `token_ids`: int32[t].
    """
    ids, found = np.empty(text.size + 1, np.int32), np.empty(SHORT_SYMBOLS, np.int64)
    start = np.int64(0)
    for token in range(ends.size):
        size = encode_word(tables, text, start, ends[token], ids, np.int64(0), found)
        unmerged[token] = size != 1 or ids[0] != token_ids[token]
        start = ends[token]


@kernel
def encode_each(tables, text, ends, ids, id_ends):
    """Encode words that lie end to end in `text`, without a cache: `id_ends[w]` (int64) is where the ids of word w end.

    `ids`: int32[bytes of the text, and one more a word with an ending].
    """
    found, used, start = np.empty(SHORT_SYMBOLS, np.int64), np.int64(0), np.int64(0)
    for word in range(ends.size):
        used += encode_word(tables, text, start, ends[word], ids, used, found)
        id_ends[word] = used
        start = ends[word]


@kernel
def remember_words(cache, text, ends, token_ids):
    """Let the cache, which must have room, have words of one token each, of any length; arrays as in `find_unmerged`."""
    start = np.int64(0)
    for word in range(ends.size):
        slot = search_word(cache.table.entries, cache.table.arena, text, start, ends[word])
        remember_word(cache, slot, text, start, ends[word], token_ids, np.int64(word), np.int64(1))
        start = ends[word]
