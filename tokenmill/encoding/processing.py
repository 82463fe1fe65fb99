"""Prepares texts as model input: encodes them, builds rows with the tokenizer's template, and computes offsets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill.arrow import large_strings, wrap_lists
from tokenmill.encoding.encoder import Encoded
from tokenmill.encoding.postprocessors import Padding, Rows, Tokens, Truncation, build_rows
from tokenmill.encoding.tracing import Trace
from tokenmill.errors import UnknownCharacterError, UsageError
from tokenmill.names import OFFSET_UNITS
from tokenmill.text.special_text import Allowed

if TYPE_CHECKING:
    from tokenmill.tokenizer import Tokenizer


@dataclass(frozen=True)
class Encoding:
    """One row for a model. All lists have the same length.

    `offsets`: where each token begins and ends in its text, (0, 0) for special tokens and padding. `word_ids`: the word of its
    text that each token belongs to, None for special tokens and padding. `overflowing`: the rows cut off by truncation, if kept.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    type_ids: list[int]
    attention_mask: list[int]
    special_tokens_mask: list[int]
    word_ids: list[int | None]
    overflowing: tuple[Encoding, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Processed:
    """A batch of rows. `texts` (int64[r]) is the index of each row's text; a text that overflows has several rows."""

    rows: Rows
    trace: Trace | None

    def __len__(self) -> int:
        return len(self.rows.texts)

    @property
    def texts(self) -> np.ndarray:
        return self.rows.texts

    def columns(self) -> dict[str, pa.Array]:
        """The rows as Arrow lists: input_ids (int32), attention_mask, token_type_ids and special_tokens_mask (int8)."""
        return row_columns(self.rows)

    def offsets(self) -> np.ndarray:
        """int64[n, 2]: where each token of `rows.arrays` begins and ends in its text."""
        return take_sources(self._traced().spans, self.rows.arrays.sources, missing=0)

    def word_ids(self) -> np.ndarray:
        """int64[n]: the word of its text that each token belongs to, -1 for special tokens and padding."""
        return take_sources(self._traced().words, self.rows.arrays.sources, missing=-1)

    def _traced(self) -> Trace:
        if self.trace is None:
            raise UsageError("the rows were made without places in the text; give a unit, characters or bytes")
        return self.trace


def row_columns(rows: Rows) -> dict[str, pa.Array]:
    """The rows as columns of a shard, by name."""
    arrays = rows.arrays
    masks = {"attention_mask": arrays.attention, "token_type_ids": arrays.types, "special_tokens_mask": arrays.special}
    return {
        "input_ids": wrap_lists(arrays.ids, rows.offsets),
        **{name: wrap_lists(values, rows.offsets) for name, values in masks.items()},
    }


def take_sources(values: np.ndarray, sources: np.ndarray, *, missing: int) -> np.ndarray:
    """Take the values of the tokens in rows from those of the tokens in texts; `missing` for a source below 0."""
    taken = np.full((sources.size, *values.shape[1:]), missing, values.dtype)
    inside = sources >= 0
    taken[inside] = values[sources[inside]]
    return taken


def process_texts(
    tokenizer: Tokenizer,
    texts: pa.Array | Sequence[str],
    pairs: pa.Array | Sequence[str] | None = None,
    *,
    add_special_tokens: bool = True,
    truncation: Truncation | None = None,
    overflow: bool = False,
    padding: Padding | None = None,
    unit: str | None = None,
    allow_special: Allowed = False,
) -> Processed:
    """Implements `Tokenizer.process_batch`."""
    arrays = [large_strings(one) for one in (texts, pairs) if one is not None]
    _check_request(tokenizer, arrays, padding, unit)
    encoded, traces = zip(*(_encode_known(tokenizer, array, unit, allow_special) for array in arrays), strict=True)
    tokens = [Tokens(one.ids.values.to_numpy(), one.ids.offsets.to_numpy()) for one in encoded]
    elements = tokenizer.template.elements(pair=pairs is not None, add_special_tokens=add_special_tokens)
    rows = build_rows(
        tokens[0],
        tokens[1] if len(tokens) == 2 else None,
        elements,
        tokenizer.model.vocab,
        truncation=truncation,
        overflow=overflow,
        padding=padding,
    )
    if unit is None:
        return Processed(rows, None)
    spans, words = (np.concatenate(parts) for parts in zip(*traces, strict=True))
    return Processed(rows, Trace(spans, words))


def _check_request(tokenizer: Tokenizer, arrays: Sequence[pa.Array], padding: Padding | None, unit: str | None) -> None:
    if unit is not None and unit not in OFFSET_UNITS:
        raise UsageError(f"offsets are in {' or '.join(OFFSET_UNITS)}, not in {unit!r}")
    if len(arrays) == 2 and len(arrays[0]) != len(arrays[1]):
        raise UsageError(f"{len(arrays[0])} texts and {len(arrays[1])} second texts are no pairs; give as many of both")
    if padding is not None and padding.token not in tokenizer.model.vocab:
        raise UsageError(f"the padding token {padding.token!r} is not in the vocabulary; {name_specials(tokenizer)}")


def process_text(tokenizer: Tokenizer, text: str, pair: str | None = None, **options: Any) -> Encoding:
    """Implements `Tokenizer.process`."""
    options = {"unit": "characters", **options}
    processed = process_texts(tokenizer, [text], None if pair is None else [pair], **options)
    first, *others = list_encodings(tokenizer, processed)
    return Encoding(**{**vars(first), "overflowing": tuple(others)})


def list_encodings(tokenizer: Tokenizer, processed: Processed) -> list[Encoding]:
    """The rows of a batch as a list of `Encoding`."""
    arrays, names = processed.rows.arrays, tokenizer.model.token_of_id
    spans, words = processed.offsets().tolist(), processed.word_ids().tolist()
    columns = [column.tolist() for column in (arrays.ids, arrays.types, arrays.attention, arrays.special)]
    edges = processed.rows.offsets.tolist()
    encodings = []
    for start, end in itertools.pairwise(edges):
        ids, types, attention, special = (column[start:end] for column in columns)
        offsets = [(first, last) for first, last in spans[start:end]]
        word_ids = [None if word < 0 else word for word in words[start:end]]
        encodings.append(Encoding(ids, [names[one] for one in ids], offsets, types, attention, special, word_ids))
    return encodings


def name_specials(tokenizer: Tokenizer) -> str:
    """List the special tokens of a tokenizer for a message."""
    specials = tokenizer.special_tokens
    return f"its special tokens are {', '.join(specials[:5])}" if specials else "it has no special tokens"


def _encode_known(
    tokenizer: Tokenizer, texts: pa.LargeStringArray, unit: str | None, allow_special: Allowed
) -> tuple[Encoded, Trace | None]:
    trace = None
    if unit is None:
        encoded = tokenizer.encode_counted(texts, allow_special=allow_special)
    else:
        encoded, trace = tokenizer.trace_batch(texts, unit, allow_special=allow_special)
    if encoded.unknown.any():
        place = int(np.flatnonzero(encoded.unknown)[0])
        raise UnknownCharacterError(tokenizer.describe_lost(texts.slice(place, 1), f"text {place}", allow_special))
    return encoded, trace
