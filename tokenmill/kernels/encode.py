"""Encoding: words to token ids through a cache of words, and where the cache does not hold one, by merging (bpe_merge.py) or by
the longest match (wordpiece.py), as the tables say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.base_symbols import UNKNOWN, WordForms, look_up_symbols
from tokenmill.kernels.bpe_merge import LANES, NO_PAIR, SHORT_SYMBOLS, MergeScratch, merge_long, merge_short, rank_at
from tokenmill.kernels.compiling import inline_part, kernel, part, part_of_tables
from tokenmill.kernels.intrinsics import borrow, copy_64_bytes, flatten, load_item, store_item
from tokenmill.kernels.rules import ONE, RuleTable, key_of_pair, rank_of
from tokenmill.kernels.tables import (
    ENTRY,
    FREE,
    HIGH,
    PAYLOAD,
    STAGED,
    VALUE,
    WordTable,
    add_word,
    has_room,
    probe_home,
    search_key,
    search_word,
    stage_keys,
    staged_key,
)
from tokenmill.kernels.vectors import unpack_six
from tokenmill.kernels.wordpiece import WordPieceTables, match_word

IDS_USED = 0
#: Longer words are merged afresh each time: they are rare, and would push others out of the cache.
CACHED_BYTES = 256
#: Ids that an entry of the cache holds itself, of how many bits, and how far behind the last id the kernels may read and write in
#: vain.
INLINE_IDS, INLINE_BITS, IDS_IN_VAIN = 6, 20, 16
INLINE_LIMIT = 1 << INLINE_BITS
INLINE_MASK = np.uint64(INLINE_LIMIT - 1)
#: Where VALUE says how many ids an entry holds.
SIZE_SHIFT = np.uint64(60)


class BpeTables(NamedTuple):
    """A BPE model as arrays.

    `byte_ids`: int32[256], the id of each byte (a byte model), or empty; `character_ids`: int32[0x110000], the id of each code
    point or UNKNOWN (a character model), or empty; both twice as long where symbols have a second form. `unknown`: the id of the
    unk token, or UNKNOWN.
    """

    byte_ids: np.ndarray
    character_ids: np.ndarray
    rules: RuleTable
    unknown: np.int64
    forms: WordForms


class EncodeCache(NamedTuple):
    """Words that were encoded before.

    An entry holds up to six ids below 2^20 itself: PAYLOAD and VALUE are 128 bits, the lowest first, of which they take 20 each,
    and the highest four are how many they are. Of other words those four bits are 0, PAYLOAD is the number of ids, and VALUE
    their place in `ids`.
    """

    table: WordTable
    ids: np.ndarray  # int32[m]
    ids_used: np.ndarray  # int64[1]
    keys: np.ndarray  # uint64[STAGED * 4], scratch for looking up
    scratch: MergeScratch | np.ndarray  # for encoding a word: of a WordPiece model int64[SHORT_SYMBOLS]


# --- blocks of words ------------------------------------------------------------------------------------------------------------


@inline_part
def merge_word(tables, text, start, end, ids, used, scratch):
    """Encode one word by merging into `ids[used:]` (room for one id a byte, and one more with an ending).

    Returns how many ids it has.
    """
    tables, text, ids, scratch = borrow(tables), borrow(text), borrow(ids), borrow(scratch)
    size = end - start
    if tables.rules.byte_ranks.size and size <= SHORT_SYMBOLS:
        stage_bytes(tables, text, start, size, scratch)
    else:
        size = look_up_symbols(tables, text, start, end, ids, used)
        if size > SHORT_SYMBOLS:
            return merge_long(tables.rules, ids[used : used + size], size)
        stage_symbols(tables.rules, ids, used, size, scratch)
    return write_alive(scratch.symbols, merge_short(tables.rules, scratch, size), size, ids, used)


@inline_part
def stage_bytes(tables, text, start, size, scratch):
    """Prepare the bytes of a word for `merge_short`."""
    byte_ids, byte_ranks, symbols, ranks = tables.byte_ids, tables.rules.byte_ranks, scratch.symbols, scratch.ranks
    clear_ranks(ranks, size)
    byte = np.int64(load_item(text, start))
    store_item(symbols, 0, load_item(byte_ids, byte))
    for place in range(1, size):
        before, byte = byte, np.int64(load_item(text, start + place))
        store_item(symbols, place, load_item(byte_ids, byte))
        store_item(ranks, place - 1, rank_at(np.int64(load_item(byte_ranks, before << 8 | byte)), place - 1))


@part
def stage_symbols(rules, source, first, size, scratch):
    """Prepare the symbols `source[first : first + size]` for `merge_short`."""
    symbols, ranks = scratch.symbols, scratch.ranks
    clear_ranks(ranks, size)
    for place in range(size):
        symbols[place] = source[first + place]
    for place in range(size - 1):
        ranks[place] = rank_at(rank_of(rules, key_of_pair(symbols[place], symbols[place + 1])), place)


@part
def clear_ranks(ranks, size):
    """No ranks yet, in as many lanes as a word of `size` symbols takes."""
    for place in range(LANES):
        store_item(ranks, place, NO_PAIR)
    if size > LANES:
        for place in range(LANES, SHORT_SYMBOLS):
            store_item(ranks, place, NO_PAIR)


@inline_part
def write_alive(symbols, alive, size, ids, used):
    """Write the symbols whose bits are set in `alive` to `ids[used:]`, which has room for `size`; returns how many."""
    written = np.int64(0)
    for place in range(size):
        store_item(ids, used + written, load_item(symbols, place))
        written += np.int64(alive >> np.uint64(place) & ONE)
    return written


#: Encode one word without the cache, as the model does.
encode_word = part_of_tables({BpeTables: merge_word, WordPieceTables: match_word})


@inline_part
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


@inline_part
def fit_inline(ids, used, size):
    """Do the ids of a word fit into its entry?"""
    bits = np.int32(0)
    for place in range(INLINE_IDS):
        bits |= load_item(ids, used + place) if place < size else np.int32(0)
    return size <= INLINE_IDS and 0 <= bits < INLINE_LIMIT


@inline_part
def write_inline_ids(entries, slot, ids, used, size):
    """Put up to six ids into an entry; those behind are read and put in too, in vain."""
    first, second, third = inline_id(ids, used), inline_id(ids, used + 1), inline_id(ids, used + 2)
    fourth, fifth, sixth = inline_id(ids, used + 3), inline_id(ids, used + 4), inline_id(ids, used + 5)
    entries[slot, PAYLOAD] = first | second << np.uint64(20) | third << np.uint64(40) | fourth << np.uint64(60)
    last = fourth >> np.uint64(4) | fifth << np.uint64(16) | sixth << np.uint64(36)
    entries[slot, VALUE] = last | np.uint64(size) << SIZE_SHIFT


@inline_part
def inline_id(ids, place):
    """The low 20 bits of an id."""
    return np.uint64(np.int64(load_item(ids, place))) & INLINE_MASK


@part
def encode_rare_word(tables, cache, key, text, start, end, ids, used):
    """Encode a word that does not stand in its home with its ids, or not at all; returns the new `used`."""
    tables, cache, text, ids = borrow(tables), borrow(cache), borrow(text), borrow(ids)
    entries = cache.table.entries
    slot = search_key(entries, cache.table.arena, text, start, end, key)
    if entries[slot, HIGH] == FREE:
        return encode_new_word(tables, cache, slot, text, start, end, ids, used)
    value, size = entries[slot, VALUE], np.int64(entries[slot, VALUE] >> SIZE_SHIFT)
    if size:
        unpack_six(flatten(entries), ENTRY * np.int64(slot) + PAYLOAD, ids, used)
        return used + size
    size = np.int64(entries[slot, PAYLOAD])
    write_kept(cache.ids, np.int64(value), ids, used, size)
    return used + size


@inline_part
def encode_new_word(tables, cache, slot, text, start, end, ids, used):
    """Encode a word that the cache does not hold, and let the cache have it; returns the new `used`."""
    size = encode_word(tables, text, start, end, ids, used, cache.scratch)
    if end - start <= CACHED_BYTES:
        remember_word(cache, slot, text, start, end, ids, used, size)
    return used + size


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
    numbers, keys, kept, secret = flatten(cache.table.entries), cache.keys, cache.ids, cache.table.secret
    for first in range(words[0], words[1], STAGED):
        last = min(first + STAGED, words[1])
        stage_keys(numbers, secret, text, start, word_ends, first, last, keys)
        for word in range(first, last):
            place, known = probe_home(numbers, keys, ENTRY * (word - first))
            size = np.int64(load_item(numbers, place + VALUE) >> SIZE_SHIFT)
            if known & (size > 0):
                unpack_six(numbers, place + PAYLOAD, ids, used)  # all six, whether they count or not: a branch would be guessed
                used += size
            elif known:
                size = np.int64(load_item(numbers, place + PAYLOAD))
                write_kept(kept, np.int64(load_item(numbers, place + VALUE)), ids, used, size)
                used += size
            else:
                begin = start if word == first else load_item(word_ends, word - 1)
                key = staged_key(keys, ENTRY * (word - first))
                used = encode_rare_word(tables, cache, key, text, begin, load_item(word_ends, word), ids, used)
        start = load_item(word_ends, last - 1)
    return used


@part
def count_most_symbols(tables, size, words):
    """How many ids so many words of `size` bytes together can have: one a byte, and one more a word that has an ending."""
    return size + (words if tables.forms.ending != UNKNOWN else np.int64(0))


@part
def count_most_pieces(tables, size, words):
    """As `count_most_symbols`, of a WordPiece model."""
    return size


count_most_ids = part_of_tables({BpeTables: count_most_symbols, WordPieceTables: count_most_pieces})


@kernel
def encode_block(tables, cache, text, starts_at, word_ends, doc_words, ids, used, doc_ids):
    """Encode a block of words; `doc_ids[k]` becomes the number of ids at which the k-th document that ends in the block ends.

    `doc_words`: int64[k], at which word of the block each of them ends. Returns how many `ids` stand then; without room for all
    that the words may become, and IDS_IN_VAIN, nothing is encoded, and it is minus the size that `ids` must have.
    """
    size = word_ends[word_ends.size - 1] - starts_at if word_ends.size else np.int64(0)
    needed = used + count_most_ids(tables, size, np.int64(word_ends.size)) + IDS_IN_VAIN
    if needed > ids.size or doc_words.size > doc_ids.size:
        return -needed
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
def find_unmerged(tables, scratch, text, ends, token_ids, unmerged):
    """`unmerged[t]` (bool) becomes whether merging the bytes of token t gives anything else than its id.

    Tokens lie end to end in `text` (uint8[n]); `ends`: int64[t]; `token_ids`: int32[t].
    """
    ids = np.empty(text.size + 1, np.int32)
    start = np.int64(0)
    for token in range(min(ends.size, unmerged.size)):
        size = encode_word(tables, text, start, ends[token], ids, np.int64(0), scratch)
        unmerged[token] = size != 1 or ids[0] != token_ids[token]
        start = ends[token]


@kernel
def encode_each(tables, scratch, text, ends, ids, id_ends):
    """Encode words that lie end to end in `text`, without a cache: `id_ends[w]` (int64) is where the ids of word w end.

    `ids`: int32[bytes of the text, and one more a word with an ending].
    """
    used, start = np.int64(0), np.int64(0)
    for word in range(min(ends.size, id_ends.size)):
        used += encode_word(tables, text, start, ends[word], ids, used, scratch)
        id_ends[word] = used
        start = ends[word]


@kernel
def remember_words(cache, text, ends, token_ids):
    """Let the cache, which must have room, have words of one token each, of any length; arrays as in `find_unmerged`, but
    `token_ids` with IDS_IN_VAIN more."""
    start = np.int64(0)
    for word in range(ends.size):
        slot = search_word(cache.table.entries, cache.table.arena, cache.table.secret, text, start, ends[word])
        remember_word(cache, slot, text, start, ends[word], token_ids, np.int64(word), np.int64(1))
        start = ends[word]
