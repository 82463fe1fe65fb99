"""The encoder: the kernel tables of a tokenizer, its scratch memory, and a cache of words that grows up to a bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tokenmill.arrow import read_only, text_buffers, wrap_lists
from tokenmill.encoding.tracing import TokenLengths, Trace, WordPlacer
from tokenmill.kernels import encode, tables
from tokenmill.kernels.wordpiece import TOO_LONG, UNKNOWN
from tokenmill.models.base import Model
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import Block, PreTokenizer

#: The number of words that the cache has room for at first (2 MiB) and at most (32 MiB). A small table fits into the CPU cache.
FIRST_WORDS, CACHE_WORDS = 1 << 15, 3 << 18
CACHE_ARENA_BYTES = 32 << 20
CACHE_IDS = 1 << 23
#: The largest id buffer that is reused between batches, in ids (64 MiB). Larger batches allocate their own.
_MOST_ROOM = 1 << 24


class Encoded(NamedTuple):
    """A batch as ids, with counts of what could not be encoded.

    `unknown`: bool[d], which texts contain something without an id (-1, or -2 for a word with too many characters).
    `unknown_words` and `long_words`: how many words a WordPiece model replaced with the unk token, because no tokens fit or
    because the word is over the limit. `specials`: how many special tokens were found inside the texts.
    """

    ids: pa.LargeListArray
    unknown: np.ndarray
    unknown_words: int = 0
    long_words: int = 0
    specials: int = 0


class Encoder:
    """Encodes batches of texts with one normalizer, one pre-tokenizer and one model. Not thread-safe."""

    def __init__(self, model: Model, pretokenizer: PreTokenizer, normalizer: Normalizer) -> None:
        self._model, self._pretokenizer, self._tables = model, pretokenizer, model.tables
        self._lengths: TokenLengths | None = None
        self._room = np.empty(0, np.int32)
        self._normalizer = normalizer.runner()
        self._scanner = pretokenizer.scanner()
        self._whole = model.whole_words
        words, arena_bytes = self._whole.ids.size, tables.arena_bytes_of(self._whole.ends)
        self._cache = encode.EncodeCache(
            table=tables.allocate_table(CACHE_WORDS + words, CACHE_ARENA_BYTES + arena_bytes, first_words=FIRST_WORDS + words),
            ids=np.empty(CACHE_IDS + words + encode.IDS_IN_VAIN, np.int32),
            ids_used=np.zeros(1, np.int64),
            keys=np.empty(tables.STAGED * tables.ENTRY, np.uint64),
            scratch=model.allocate_scratch(),
        )
        self._remember_whole_words()
        self._can_fail, self._ids_per_byte = model.can_lack_characters, model.ids_per_byte
        replaces_words = model.loses_words and model.can_lack_characters and model.unk_token is not None
        self._unk_of_words = model.vocab[model.unk_token] if replaces_words and model.unk_token is not None else None

    def encode(self, texts: pa.Array) -> Encoded:
        """Encode a large_string or large_binary array."""
        text, doc_ends = self._normalizer.normalize(*text_buffers(texts))
        self._forget_when_full()
        ids = self._room_for(text)
        offsets = np.zeros(doc_ends.size + 1, np.int64)
        used, document = 0, 1
        for block in self._scanner.blocks(text, doc_ends):
            ended = block.doc_words.size
            ids, used = self._encode_block(block, ids, used, offsets[document : document + ended])
            document += ended
        ids = self._keep(ids[:used])
        settled = self._settle_unknown(ids, offsets)
        return Encoded(wrap_lists(ids, offsets), *settled)

    def _encode_block(self, block: Block, ids: np.ndarray, used: int, doc_ids: np.ndarray) -> tuple[np.ndarray, int]:
        """Encode a block, writing after the first `used` ids. Returns the ids, in a larger array if needed, and their number."""
        self._grow_for(block)
        found = encode.encode_block(self._tables, self._cache, *block, ids, used, doc_ids)
        if found < 0:
            larger = np.empty(max(-found, 2 * ids.size), np.int32)
            larger[:used] = ids[:used]
            return self._encode_block(block, larger, used, doc_ids)
        return ids, found

    def _room_for(self, text: np.ndarray) -> np.ndarray:
        """An array for the ids of a text: `ids_per_byte` for each byte, and scratch space past the last id for the kernel."""
        size = self._ids_per_byte * text.size + encode.IDS_IN_VAIN
        if size > _MOST_ROOM:
            return np.empty(size, np.int32)  # Pages that are never written to cost only address space.
        if size > self._room.size:
            self._room = np.empty(size, np.int32)
        return self._room

    def _keep(self, ids: np.ndarray) -> np.ndarray:
        """Copy the ids out of the reused buffer; ids in other memory are returned as they are."""
        if ids.base is not self._room:
            return ids
        kept = np.frombuffer(pa.allocate_buffer(ids.nbytes), np.int32)
        kept[:] = ids
        return kept

    def trace(self, texts: pa.Array, unit: str) -> tuple[Encoded, Trace]:
        """As `encode`; also returns where each token comes from, in `bytes` or `characters`. Slower: it locates every word."""
        original = text_buffers(texts)
        text, doc_ends, origins = self._normalizer.align(*original)
        self._forget_when_full()
        ids = np.empty(self._ids_per_byte * text.size + encode.IDS_IN_VAIN, np.int32)
        placer = WordPlacer(read_only(text), self._pretokenizer)
        used = 0
        for block in self._scanner.blocks(text, doc_ends):
            every = block._replace(doc_words=read_only(np.arange(1, block.word_ends.size + 1)))
            token_ends = np.empty(block.word_ends.size, np.int64)
            ids, used = self._encode_block(every, ids, used, token_ends)
            placer.add(block, token_ends)
        ids = ids[:used]
        settled = self._settle_unknown(ids, placer.token_offsets)
        self._lengths = self._lengths or TokenLengths(self._model)
        trace = placer.finish(ids, self._lengths, origins, original, unit)
        return Encoded(wrap_lists(ids, placer.token_offsets), *settled), trace

    def _settle_unknown(self, ids: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, int, int]:
        """Replace words without ids with the unk token of a WordPiece model; for other models, find the texts with unknown parts.

        Returns `unknown`, `unknown_words` and `long_words` of `Encoded`.
        """
        found = np.zeros(offsets.size - 1, bool)
        places = np.flatnonzero(ids < 0) if self._can_fail else np.empty(0, np.int64)
        if self._unk_of_words is None:
            found[np.searchsorted(offsets, places, side="right") - 1] = True
            return found, 0, 0
        unknown, long = (int(np.count_nonzero(ids[places] == kind)) for kind in (UNKNOWN, TOO_LONG))
        ids[places] = self._unk_of_words
        return found, unknown, long

    def _grow_for(self, block: Block) -> None:
        """Grow the table so that all words of a block fit even if all are new, up to the bound."""
        table = self._cache.table
        wanted = int(table.fill[tables.ENTRIES_USED]) + block.word_ends.size
        if wanted > tables.most_words(table):
            self._cache = self._cache._replace(table=tables.grow_table(table, wanted))

    def _forget_when_full(self) -> None:
        """Empty the cache when it is nearly full, so that there is room for new words."""
        entries, arena_bytes, ids = self._fill() - self._fill_of_whole
        if entries > 0.9 * CACHE_WORDS or arena_bytes > 0.9 * CACHE_ARENA_BYTES or ids > 0.9 * CACHE_IDS:
            tables.empty_table(self._cache.table)
            self._cache.ids_used[:] = 0
            self._remember_whole_words()

    def _remember_whole_words(self) -> None:
        """Put the words that are always one token into the empty cache. Encoding looks there first, so they are not merged."""
        if self._whole.ids.size:
            ids = np.concatenate([self._whole.ids, np.zeros(encode.IDS_IN_VAIN, np.int32)])
            encode.remember_words(self._cache, self._whole.text, self._whole.ends, read_only(ids))
        self._fill_of_whole = self._fill()

    def _fill(self) -> np.ndarray:
        """int64[3]: how many entries, bytes of the arena and ids of the cache are in use."""
        return np.concatenate([self._cache.table.fill, self._cache.ids_used])
