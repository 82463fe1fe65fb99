"""Finds added tokens, and special tokens if allowed, inside texts before anything else: from left to right, longest match first.

The texts between them are encoded separately, so no word extends across a token. tiktoken and Hugging Face do the same.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tokenmill.arrow import read_only, text_buffers, wrap_binary, wrap_lists
from tokenmill.data import load_class_table
from tokenmill.errors import UsageError
from tokenmill.kernels import token_search as kernel
from tokenmill.kernels.scan_classes import UNICODE_WORD, WHITESPACE
from tokenmill.models.token_trees import TokenTree

#: `True` for all special tokens, or a collection of the allowed ones.
Allowed = bool | Collection[str]
#: The number of hits that one call of the kernel has room for.
_HITS = 1 << 12
#: Where a token begins and ends in a text, in bytes, and its id.
Hit = tuple[int, int, int]


class SplitTexts(NamedTuple):
    """A batch cut at the tokens that were found in it.

    `parts`: large_binary[p], the texts before, between and after the tokens; `starts`: int64[p], where each part begins in the
    batch; `part_ends`: int64[d], the end of each text's parts; `hits`: int64[h, 2], the part before each token, and its id.
    """

    parts: pa.LargeBinaryArray
    starts: np.ndarray
    part_ends: np.ndarray
    hits: np.ndarray


class SpecialFinder:
    """Finds tokens in batches, in time linear in the length of the text for any number of tokens."""

    def __init__(self, ids: Mapping[str, int], flags: Mapping[str, Collection[str]] | None = None) -> None:
        """`ids` are the tokens to find with their ids; `flags` are their `TOKEN_FLAGS`."""
        self._tables, self._ids = _build_tables(tuple((token.encode(), token_id) for token, token_id in ids.items()))
        self._flags = {token.encode(): frozenset(found) for token, found in (flags or {}).items() if token in ids}

    @classmethod
    def of(
        cls,
        allowed: Allowed,
        special_tokens: Collection[str],
        added_tokens: Collection[str],
        vocab: Mapping[str, int],
        flags: Mapping[str, Collection[str]] | None = None,
    ) -> SpecialFinder | None:
        """Make a finder for the added tokens and the special tokens of `allow_special`, None if there are no tokens to find.

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
        return cls({token: vocab[token] for token in wanted}, flags) if wanted else None

    def split(self, texts: pa.Array) -> SplitTexts | None:
        """Cut a batch at the tokens in it; None if it contains none."""
        text, ends = text_buffers(texts)
        hits = self._find(text, read_only(np.ascontiguousarray(ends, np.int64)))
        found = self._place(hits)
        if self._flags and len(found):
            found = self._apply_flags(text, ends, found)
        return self._cut(text, ends, found) if len(found) else None

    def _find(self, text: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """int64[h, 2]: the place of each token found, and its length << 32 | number."""
        state, found = np.array([ends.size, text.size, kernel.ROOT], np.int64), [np.empty((0, 2), np.int64)]
        hits = np.empty((_HITS, 2), np.int64)
        while state[kernel.DOCUMENT] > 0:
            count = kernel.find_tokens(self._tables, text, ends, state, hits)
            found.append(hits[:count].copy())
        ordered = np.ascontiguousarray(np.concatenate(found)[::-1])
        return ordered[: kernel.keep_apart(ordered)]

    def _apply_flags(self, text: np.ndarray, ends: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Apply the flags of the tokens to the hits of `_place`."""
        documents, kept = np.searchsorted(ends, found[:, 0], side="right"), []
        for document in np.unique(documents).tolist():
            start = int(ends[document - 1]) if document else 0
            content = text[start : int(ends[document])].tobytes()
            hits = (found[documents == document] - np.array([start, start, 0])).tolist()
            kept += [(start + first, start + last, one) for first, last, one in apply_flags(content, hits, self._flags)]
        return np.array(kept, np.int64).reshape(-1, 3)

    def _place(self, hits: np.ndarray) -> np.ndarray:
        """int64[h, 3]: where each token begins and ends in the batch, and its id."""
        firsts, tokens = hits[:, kernel.PLACE], hits[:, kernel.TOKEN]
        lasts = firsts + (tokens >> kernel.LENGTH_SHIFT)
        return np.stack([firsts, lasts, self._ids[tokens & kernel.LOW_32]], axis=1)

    def _cut(self, text: np.ndarray, ends: np.ndarray, found: np.ndarray) -> SplitTexts:
        firsts, lasts, ids = found.T
        documents = np.searchsorted(ends, firsts, side="right")
        before = np.arange(len(found)) + documents  # The part that ends at each hit.
        part_ends = np.arange(1, ends.size + 1) + np.searchsorted(firsts, ends, side="left")
        starts, stops = np.zeros(len(found) + ends.size, np.int64), np.empty(len(found) + ends.size, np.int64)
        starts[part_ends[:-1]], starts[before + 1] = ends[:-1], lasts
        stops[part_ends - 1], stops[before] = ends, firsts
        edges = np.stack([starts, stops], axis=1).reshape(-1)
        inside = np.repeat(np.arange(edges.size + 1) % 2 == 1, np.diff(edges, prepend=0, append=text.size))
        parts = wrap_binary(text[inside], np.concatenate([np.zeros(1, np.int64), np.cumsum(stops - starts)]))
        return SplitTexts(parts, starts, part_ends, np.stack([before, ids], axis=1))


@functools.lru_cache(maxsize=8)
def _build_tables(tokens: tuple[tuple[bytes, int], ...]) -> tuple[kernel.TokenTables, np.ndarray]:
    """Build the search tables of tokens, and the array of ids by token number."""
    spellings, ids = [token for token, _ in tokens], np.array([token_id for _, token_id in tokens], np.int64)
    ends = np.cumsum([len(token) for token in spellings], dtype=np.int64)
    tree = TokenTree.of(np.frombuffer(b"".join(spellings), np.uint8), ends, np.arange(ends.size), backwards=True)
    endings, lasts = np.zeros((256, 256), np.bool_), np.unique([token[-1] for token in spellings]).astype(np.int64)
    for token in spellings:
        endings[token[-2] if len(token) > 1 else slice(None), token[-1]] = True
    few = lasts[: lasts.size if lasts.size <= kernel.FEW_BYTES else 0]
    return kernel.TokenTables(tree.edges, *tree.link(), few, endings.reshape(-1)), ids


def apply_flags(text: bytes, found: Sequence[Hit], flags: Mapping[bytes, Collection[str]]) -> list[Hit]:
    """Apply flags to the tokens found in a text, as Hugging Face does.

    A `single_word` token next to a word character is not a match; `lstrip` and `rstrip` extend a token over whitespace.
    `apply_flags(b"a  <m>", [(3, 6, 9)], {b"<m>": {"lstrip"}})` is `[(1, 6, 9)]`.
    """
    kept: list[Hit] = []
    done = 0
    for first, last, token_id in found:
        own = flags.get(text[first:last], ())
        if "single_word" in own and (
            _has_class(_before(text, first), UNICODE_WORD) or _has_class(_after(text, last), UNICODE_WORD)
        ):
            continue
        while "lstrip" in own and first > done and _has_class(character := _before(text, first), WHITESPACE):
            first -= len(character)
        while "rstrip" in own and _has_class(character := _after(text, last), WHITESPACE):
            last += len(character)
        kept.append((first, last, token_id))
        done = last
    return kept


def _before(text: bytes, place: int) -> bytes:
    """The character that ends at a place; empty at the beginning."""
    start = max(place - 1, 0)
    while start > max(place - 4, 0) and text[start] & 0xC0 == 0x80:
        start -= 1
    return text[start:place]


def _after(text: bytes, place: int) -> bytes:
    """The character that begins at a place; empty at the end."""
    end = place + 1
    while end < min(len(text), place + 4) and text[end] & 0xC0 == 0x80:
        end += 1
    return text[place:end]


def _has_class(character: bytes, kind: np.int64) -> bool:
    """Whether a character has a class. Invalid UTF-8 and the empty string have none."""
    shown = character.decode("utf-8", "ignore")
    return len(shown) == 1 and bool(int(load_class_table()[ord(shown)]) & int(kind))


def join_parts(encoded: pa.LargeListArray, unknown: np.ndarray, split: SplitTexts) -> tuple[pa.LargeListArray, np.ndarray]:
    """Join the ids of the parts to those of the texts; also returns which texts contain something without an id."""
    ids, offsets = encoded.values.to_numpy(), encoded.offsets.to_numpy()
    behind = offsets[split.hits[:, 0] + 1]
    joined = np.insert(ids, behind, split.hits[:, 1].astype(np.int32))
    hits_before = np.searchsorted(split.hits[:, 0], split.part_ends, side="left")
    text_offsets = np.concatenate([np.zeros(1, np.int64), offsets[split.part_ends] + hits_before])
    lost = np.concatenate([np.zeros(1, np.int64), np.cumsum(unknown)])
    edges = np.concatenate([np.zeros(1, np.int64), split.part_ends])
    return wrap_lists(joined, text_offsets), lost[edges[1:]] > lost[edges[:-1]]
