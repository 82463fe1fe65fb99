"""Added tokens inside texts, and special ones for those who ask: found first of all, the longest first, from left to right.

What lies between them is encoded as texts of their own, so that no word reaches across. As tiktoken and Hugging Face do it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tokenmill.arrow import text_buffers, wrap_binary, wrap_lists
from tokenmill.errors import UsageError

#: `True` for all special tokens, or those that are meant.
Allowed = bool | Collection[str]


class SplitTexts(NamedTuple):
    """A batch without the tokens that were found in it.

    `parts`: large_binary[p], what lies before, between and behind them; `starts`: int64[p], where each begins in the batch;
    `part_ends`: int64[d], the parts of each text; `hits`: int64[h, 2], behind which part a token stands, and its id.
    """

    parts: pa.LargeBinaryArray
    starts: np.ndarray
    part_ends: np.ndarray
    hits: np.ndarray


class SpecialFinder:
    """Finds some tokens in batches. Where there is none, one search is all that it costs."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = {token.encode(): token_id for token, token_id in ids.items()}
        longest_first = sorted(self._ids, key=lambda token: (-len(token), token))
        self._tokens = tuple(longest_first)
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
        self._beginnings = sorted({token[:2] for token in self._ids})

    @classmethod
    def of(
        cls, allowed: Allowed, special_tokens: Collection[str], added_tokens: Collection[str], vocab: Mapping[str, int]
    ) -> SpecialFinder | None:
        """For added tokens and what `allow_special` says, None where nothing is to be found.

        Raises `UsageError` for a token that is not special.
        """
        chosen = special_tokens if allowed is True else (allowed or ())
        if isinstance(chosen, str):
            raise UsageError(f"allow_special: give True or several tokens, such as {{{chosen!r}}}, not one text")
        for token in chosen:
            if token not in special_tokens:
                there = ", ".join(special_tokens) or "none"
                raise UsageError(f"allow_special: {token!r} is no special token; there are: {there}")
        wanted = (*chosen, *added_tokens)
        return cls({token: vocab[token] for token in wanted}) if wanted else None

    def split(self, texts: pa.Array) -> SplitTexts | None:
        """The batch cut at the tokens in it, None where there is none."""
        text, ends = text_buffers(texts)
        data = text.tobytes()
        # Most batches hold none, which one search tells, ten times as fast as looking at every beginning.
        if self._pattern.search(data) is None:
            return None
        candidates = (place for beginning in self._beginnings for place in _find_all(data, beginning))
        places = [place for place in candidates if data.startswith(self._tokens, place)]
        documents = np.unique(np.searchsorted(ends, np.array(places, np.int64), side="right"))
        found = {document: self._find(data, ends, document) for document in documents.tolist()}
        if not any(found.values()):
            return None
        return self._cut(data, ends, {document: spans for document, spans in found.items() if spans})

    def _find(self, data: bytes, ends: np.ndarray, document: int) -> list[tuple[int, int]]:
        """Where tokens begin and end in a document, as positions in the batch."""
        start = int(ends[document - 1]) if document else 0
        found = self._pattern.finditer(data[start : int(ends[document])])
        return [(start + match.start(), start + match.end()) for match in found]

    def _cut(self, data: bytes, ends: np.ndarray, found: dict[int, list[tuple[int, int]]]) -> SplitTexts:
        part_ends: list[int] = []
        starts: list[int] = []
        sizes: list[int] = []
        kept: list[bytes] = []
        hits: list[tuple[int, int]] = []
        start = 0
        for document, end in enumerate(ends.tolist()):
            for first, last in found.get(document, ()):
                hits.append((len(sizes), self._ids[data[first:last]]))
                kept.append(data[start:first])
                starts.append(start)
                sizes.append(first - start)
                start = last
            kept.append(data[start:end])
            starts.append(start)
            sizes.append(end - start)
            part_ends.append(len(sizes))
            start = end
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        parts = wrap_binary(np.frombuffer(b"".join(kept), np.uint8), offsets)
        edges = (np.array(starts, np.int64), np.array(part_ends, np.int64))
        return SplitTexts(parts, *edges, np.array(hits, np.int64).reshape(-1, 2))


def join_parts(encoded: pa.LargeListArray, unknown: np.ndarray, split: SplitTexts) -> tuple[pa.LargeListArray, np.ndarray]:
    """Ids of the texts out of those of their parts, and which texts hold what has no id."""
    ids, offsets = encoded.values.to_numpy(), encoded.offsets.to_numpy()
    behind = offsets[split.hits[:, 0] + 1]
    joined = np.insert(ids, behind, split.hits[:, 1].astype(np.int32))
    hits_before = np.searchsorted(split.hits[:, 0], split.part_ends, side="left")
    text_offsets = np.concatenate([np.zeros(1, np.int64), offsets[split.part_ends] + hits_before])
    lost = np.concatenate([np.zeros(1, np.int64), np.cumsum(unknown)])
    edges = np.concatenate([np.zeros(1, np.int64), split.part_ends])
    return wrap_lists(joined, text_offsets), lost[edges[1:]] > lost[edges[:-1]]


def _find_all(data: bytes, beginning: bytes) -> Iterator[int]:
    place = data.find(beginning)
    while place >= 0:
        yield place
        place = data.find(beginning, place + 1)
