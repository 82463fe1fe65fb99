"""Special tokens inside texts, for those who ask for them: found before anything else, the longest first, from left to right.

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
from tokenmill.tracing import Trace

#: `True` for all special tokens, or those that are meant.
Allowed = bool | Collection[str]


class SplitTexts(NamedTuple):
    """A batch without the special tokens in it.

    `parts`: large_binary[p], what lies before, between and behind them; `part_ends`: int64[d], the parts of each text; `hits`:
    int64[h, 2], behind which part a special token stands, and its id; `tokens`: what it is in the text.
    """

    parts: pa.LargeBinaryArray
    part_ends: np.ndarray
    hits: np.ndarray
    tokens: list[bytes]


class SpecialFinder:
    """Finds some special tokens in batches. Where there is none, a search for how they begin is all that it costs."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = {token.encode(): token_id for token, token_id in ids.items()}
        longest_first = sorted(self._ids, key=lambda token: (-len(token), token))
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
        self._beginnings = sorted({token[:2] for token in self._ids})

    @classmethod
    def of(cls, allowed: Allowed, special_tokens: Collection[str], vocab: Mapping[str, int]) -> SpecialFinder | None:
        """For what `allow_special` says, None where nothing is to be found. `UsageError` for a token that is not special."""
        chosen = special_tokens if allowed is True else (allowed or ())
        if isinstance(chosen, str):
            raise UsageError(f"allow_special: give True or several tokens, such as {{{chosen!r}}}, not one text")
        for token in chosen:
            if token not in special_tokens:
                there = ", ".join(special_tokens) or "none"
                raise UsageError(f"allow_special: {token!r} is no special token; there are: {there}")
        return cls({token: vocab[token] for token in chosen}) if chosen else None

    def split(self, texts: pa.Array) -> SplitTexts | None:
        """The batch cut at the special tokens in it, None where there is none."""
        text, ends = text_buffers(texts)
        data = text.tobytes()
        places = [place for beginning in self._beginnings for place in _find_all(data, beginning)]
        candidates = np.unique(np.searchsorted(ends, np.array(places, np.int64), side="right"))
        found = {int(document): self._find(data, ends, int(document)) for document in candidates}
        if not any(found.values()):
            return None
        return self._cut(data, ends, {document: spans for document, spans in found.items() if spans})

    def _find(self, data: bytes, ends: np.ndarray, document: int) -> list[tuple[int, int]]:
        """Where special tokens begin and end in a document, as positions in the batch."""
        start = int(ends[document - 1]) if document else 0
        found = self._pattern.finditer(data[start : int(ends[document])])
        return [(start + match.start(), start + match.end()) for match in found]

    def _cut(self, data: bytes, ends: np.ndarray, found: dict[int, list[tuple[int, int]]]) -> SplitTexts:
        part_ends: list[int] = []
        sizes: list[int] = []
        pieces: list[bytes] = []
        hits: list[tuple[int, int]] = []
        tokens: list[bytes] = []
        start = 0
        for document, end in enumerate(ends.tolist()):
            for first, last in found.get(document, ()):
                tokens.append(data[first:last])
                hits.append((len(sizes), self._ids[tokens[-1]]))
                pieces.append(data[start:first])
                sizes.append(first - start)
                start = last
            pieces.append(data[start:end])
            sizes.append(end - start)
            part_ends.append(len(sizes))
            start = end
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        parts = wrap_binary(np.frombuffer(b"".join(pieces), np.uint8), offsets)
        return SplitTexts(parts, np.array(part_ends, np.int64), np.array(hits, np.int64).reshape(-1, 2), tokens)


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


def join_traces(trace: Trace, encoded: pa.LargeListArray, split: SplitTexts, unit: str) -> Trace:
    """Places of the tokens of the texts out of those of their parts; `encoded` are the ids of the parts.

    A special token is a word of its own. `a<|end|>b` in characters: `[0, 1)`, `[1, 8)`, `[8, 9)`, and words 0, 1, 2.
    """
    offsets, behind = encoded.offsets.to_numpy(), split.hits[:, 0]
    sizes = np.array([measure(part, unit) for part in split.parts.to_pylist()], np.int64)
    widths = np.array([measure(token, unit) for token in split.tokens], np.int64)
    words = np.zeros(sizes.size, np.int64)
    has_tokens = offsets[1:] > offsets[:-1]
    words[has_tokens] = trace.words[offsets[1:][has_tokens] - 1] + 1
    part_starts, first_words = (
        _begin_parts(lengths, more, split) for lengths, more in ((sizes, widths), (words, np.ones_like(widths)))
    )
    counts, places = np.diff(offsets), offsets[behind + 1]
    begins = (part_starts + sizes)[behind]
    spans = trace.spans + np.repeat(part_starts, counts)[:, None]
    numbers = trace.words + np.repeat(first_words, counts)
    return Trace(
        np.insert(spans, places, np.stack([begins, begins + widths], axis=1), axis=0),
        np.insert(numbers, places, (first_words + words)[behind]),
    )


def measure(text: bytes, unit: str) -> int:
    """Bytes of a text, or characters."""
    return len(text) if unit == "bytes" else len(text.decode("utf-8", "replace"))


def _begin_parts(sizes: np.ndarray, widths: np.ndarray, split: SplitTexts) -> np.ndarray:
    """int64[p]: where each part begins in its text, when parts and the special tokens behind them are so long."""
    steps = sizes.copy()
    steps[split.hits[:, 0]] += widths
    starts = np.cumsum(steps) - steps
    firsts = np.concatenate([np.zeros(1, np.int64), split.part_ends[:-1]])
    return starts - np.repeat(starts[firsts], np.diff(split.part_ends, prepend=0))


def _find_all(data: bytes, beginning: bytes) -> Iterator[int]:
    place = data.find(beginning)
    while place >= 0:
        yield place
        place = data.find(beginning, place + 1)
