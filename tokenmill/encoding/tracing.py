"""Traces tokens to the part of the text (before normalizing) that they come from, in bytes or characters, and to their word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tokenmill.arrow import text_buffers
from tokenmill.kernels import trace as kernel
from tokenmill.kernels.scan_classes import CODE_POINTS
from tokenmill.models.base import Model
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.text.scanners import Block
from tokenmill.text.special_text import SplitTexts
from tokenmill.text.stages import Alignment


class Trace(NamedTuple):
    """Tokens of a batch: `spans` int64[t, 2], where each begins and ends in its text; `words` int64[t], the word of each."""

    spans: np.ndarray
    words: np.ndarray


class TokenLengths:
    """The length in bytes of each id, which characters have an id, and whether adjacent unknown characters share a token."""

    def __init__(self, model: Model) -> None:
        self.lengths = np.full(model.embedding_rows + 2, kernel.UNKNOWN_LENGTH, np.int64)
        for token_id, spelling in model.spellings.items():
            self.lengths[token_id] = len(spelling)
        if model.unk_token is not None:
            self.lengths[model.vocab[model.unk_token]] = kernel.UNKNOWN_LENGTH
        self.fuses = model.fuse_unk
        self.known = np.logical_or.reduce(model.character_forms.reshape(-1, CODE_POINTS) >= 0, axis=0)


class WordPlacer:
    """Collects the words of a batch with their places in the normalized text, then computes the places of the tokens."""

    def __init__(self, text: np.ndarray, pretokenizer: PreTokenizer) -> None:
        self._text, self._pretokenizer = text, pretokenizer
        self._spans: list[np.ndarray] = [np.empty((0, 2), np.int64)]
        self._token_ends: list[np.ndarray] = [np.empty(0, np.int64)]
        self._doc_words: list[np.ndarray] = [np.zeros(1, np.int64)]
        self._words = self._position = 0

    def add(self, block: Block, token_ends: np.ndarray) -> None:
        """Add the words of a block. `token_ends` (int64[w]) is the end of each word's tokens within the batch."""
        if self._pretokenizer.lossless:
            ends = block.word_ends.copy()
            spans = np.stack([np.concatenate([np.array([block.first]), ends[:-1]])[: ends.size], ends], axis=1)
        else:
            spans = np.empty((block.word_ends.size, 2), np.int64)
            marks = not self._pretokenizer.drops_spaces
            self._position = kernel.place_words(self._text, self._position, block.text, block.word_ends, marks, spans)
        self._spans.append(spans)
        self._token_ends.append(token_ends)
        self._doc_words.append(block.doc_words + self._words)
        self._words += block.word_ends.size

    @property
    def token_offsets(self) -> np.ndarray:
        """int64[d + 1]: the offsets of each document's tokens."""
        ends = np.concatenate([np.zeros(1, np.int64), *self._token_ends])
        return ends[np.concatenate(self._doc_words)]

    def finish(
        self,
        ids: np.ndarray,
        lengths: TokenLengths,
        origins: Alignment,
        original: tuple[np.ndarray, np.ndarray],
        unit: str,
    ) -> Trace:
        """The places of all tokens, relative to the start of their texts. `original` is the batch before normalizing."""
        token_ends, word_spans = np.concatenate(self._token_ends), np.concatenate(self._spans)
        spans = np.empty((ids.size, 2), np.int64)
        kernel.place_tokens(
            self._text, word_spans, token_ends, ids, lengths.lengths, lengths.known, np.bool_(lengths.fuses), spans
        )
        spans = to_original(spans, origins)
        text, doc_ends = original
        starts = np.stack([np.concatenate([np.zeros(1, np.int64), doc_ends[:-1]])[: doc_ends.size]] * 2, axis=1)
        if unit == "characters":
            spans, starts = to_characters(spans, text), to_characters(starts, text)
        tokens = np.diff(self.token_offsets)
        doc_words = np.concatenate(self._doc_words)
        words = np.repeat(np.arange(token_ends.size), np.diff(token_ends, prepend=0)) - np.repeat(doc_words[:-1], tokens)
        return Trace(spans - np.repeat(starts, tokens, axis=0), words)


def join_traces(trace: Trace, offsets: np.ndarray, split: SplitTexts, texts: pa.Array, unit: str) -> Trace:
    """Combine the trace of the parts of texts, in bytes, to the trace of the texts, in `unit`. Each found token is its own word.

    `offsets`: int64[p + 1], the offsets of each part's tokens.
    """
    text, (_, part_ends) = text_buffers(texts)[0], text_buffers(split.parts)
    sizes, tokens = np.diff(part_ends, prepend=0), np.diff(offsets)
    before, hits = split.hits[:, 0], offsets[split.hits[:, 0] + 1]
    first_parts = np.concatenate([np.zeros(1, np.int64), split.part_ends])[:-1]
    first_of_part = np.repeat(first_parts, np.diff(split.part_ends, prepend=0))
    # The words of a part are numbered from 0. A found token follows every part but the last one of its text.
    part_words = np.zeros(tokens.size, np.int64)
    part_words[tokens > 0] = trace.words[offsets[1:][tokens > 0] - 1] + 1
    words_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(part_words + 1)])
    base = words_before[:-1] - words_before[first_of_part]
    words = np.insert(trace.words + np.repeat(base, tokens), hits, base[before] + part_words[before])
    found = np.stack([split.starts[before] + sizes[before], split.starts[before + 1]], axis=1)
    spans = np.insert(trace.spans + np.repeat(split.starts, tokens)[:, None], hits, found, axis=0)
    starts = np.insert(np.repeat(split.starts[first_of_part], tokens), hits, split.starts[first_of_part[before]])
    starts = np.stack([starts, starts], axis=1)
    if unit == "characters":
        spans, starts = to_characters(spans, text), to_characters(starts, text)
    return Trace(spans - starts, words)


def to_original(spans: np.ndarray, origins: Alignment) -> np.ndarray:
    """Convert spans of the normalized batch to spans of the original batch."""
    if origins is None or not spans.size:
        return spans
    last = len(origins) - 1
    empty = spans[:, 0] >= spans[:, 1]
    starts = origins[np.minimum(spans[:, 0], last), 0] if last >= 0 else spans[:, 0]
    ends = origins[np.maximum(spans[:, 1] - 1, 0), 1] if last >= 0 else spans[:, 1]
    return np.stack([starts, np.where(empty, starts, ends)], axis=1)


def to_characters(spans: np.ndarray, text: np.ndarray) -> np.ndarray:
    """Convert spans of bytes to spans of characters, from the first to the last character that a span has a byte of."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum((text & 0xC0) != 0x80)])
    # A byte inside a character belongs to the character that began before it.
    inside = np.concatenate([(text & 0xC0) == 0x80, np.zeros(1, np.bool_)])
    starts = before[spans[:, 0]] - inside[spans[:, 0]]
    return np.stack([starts, np.where(spans[:, 1] > spans[:, 0], before[spans[:, 1]], starts)], axis=1)
