"""The rows of a shard of documents: special tokens around them, cut to a length, filled up, with masks beside their ids.

Of rows that are cut or filled up, `kept_tokens` and `kept_bytes` say how much text stands in them. What overlapping rows share
counts once. The bytes of a text that was cut are those of its tokens where the tokenizer gives back every byte; elsewhere they
are in proportion to its tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tokenmill import schemas
from tokenmill.arrow import wrap_lists
from tokenmill.encoding.encoder import Encoded
from tokenmill.encoding.postprocessors import Padding, Rows, Tokens, Truncation, build_rows, find_crowded
from tokenmill.encoding.processing import row_columns, take_sources
from tokenmill.errors import DataError, UsageError
from tokenmill.models.alphabets import ByteAlphabet
from tokenmill.tokenizer import Tokenizer


@dataclass(frozen=True)
class RowShape:
    """What becomes of the token ids of a document on their way into its row.

    `add_special_tokens`: those of the tokenizer's template; `allow_special`: special tokens inside texts are found;
    `truncation`, with `overflow` what is cut off becomes rows of its own; `padding`; `columns`: which of the columns
    attention_mask, token_type_ids and special_tokens_mask stand beside the ids; `offsets`: None, or the unit (bytes, characters)
    of the columns that say which part of its text each token comes from; `pair`: documents are pairs of texts.
    """

    add_special_tokens: bool = True
    allow_special: bool = False
    truncation: Truncation | None = None
    overflow: bool = False
    padding: Padding | None = None
    columns: tuple[str, ...] = ()
    offsets: str | None = None
    pair: bool = False

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> RowShape:
        """From what the manifest says, as `describe` wrote it. Raises UsageError for what it cannot have written."""
        made = dict(described)
        try:
            for name, kind in (("truncation", Truncation), ("padding", Padding)):
                made |= {name: kind(**made[name])} if made.get(name) is not None else {}
            return cls(**{**made, "columns": tuple(made.get("columns", ()))})
        except TypeError as error:
            raise UsageError(f"the manifest's entry rows: {error}; encode the corpus again") from None

    @property
    def schema(self) -> pa.Schema:
        """Of the shards."""
        places = () if self.offsets is None else schemas.TOKEN_OFFSETS
        masks = (pa.field(name, schemas.TOKEN_MASK) for name in self.columns)
        return pa.schema([*schemas.TOKENS, *masks, *(pa.field(name, schemas.TOKEN_PLACE) for name in places)])

    def describe(self) -> dict[str, Any]:
        """What the manifest says of rows: the options that are not as they always are."""
        always = asdict(RowShape())
        return {name: value for name, value in asdict(self).items() if value != always[name]}


class Tokenized(NamedTuple):
    """A batch of texts as ids; `spans` int64[t, 2]: where in its text each token stands, if that is asked for."""

    encoded: Encoded
    spans: np.ndarray | None = None

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.encoded.ids.values.to_numpy(), self.encoded.ids.offsets.to_numpy())

    @property
    def lengths(self) -> np.ndarray:
        """int64[d]: tokens of each text."""
        return np.diff(self.encoded.ids.offsets.to_numpy())

    def filter(self, kept: np.ndarray) -> Tokenized:
        """The texts for which bool[d] is true."""
        encoded = self.encoded._replace(ids=self.encoded.ids.filter(pa.array(kept)))
        return Tokenized(encoded, None if self.spans is None else self.spans[np.repeat(kept, self.lengths)])


class RowShaper:
    """Shapes the documents of one split; `cut_tokens`, `cut_documents` and `special_tokens_found` count what was done to them."""

    def __init__(self, tokenizer: Tokenizer, shape: RowShape) -> None:
        self._elements = tokenizer.template.elements(pair=shape.pair, add_special_tokens=shape.add_special_tokens)
        self._added = len(self._elements) - (2 if shape.pair else 1)
        self._tokenizer, self._vocab, self._shape = tokenizer, tokenizer.model.vocab, shape
        self._changes = bool(len(self._elements) > 1 or shape.truncation or shape.padding or shape.columns or shape.offsets)
        self._counts = dict.fromkeys(schemas.SHAPED, 0)

    @property
    def allow_special(self) -> bool:
        return self._shape.allow_special

    def tokenize(self, texts: pa.LargeStringArray) -> Tokenized:
        """Ids of texts, and their places if the rows have them; special tokens that are found are counted."""
        if self._shape.offsets is None:
            made = Tokenized(self._tokenizer.encode_counted(texts, allow_special=self.allow_special))
        else:
            encoded, trace = self._tokenizer.trace_batch(texts, self._shape.offsets, allow_special=self.allow_special)
            made = Tokenized(encoded, trace.spans)
        self._counts["special_tokens_found"] += made.encoded.specials
        return made

    def find_crowded(self, texts: Sequence[Tokenized]) -> np.ndarray:
        """bool[d]: pairs that cannot become rows of this shape."""
        if len(texts) < 2:
            return np.zeros(len(texts[0].encoded.ids), bool)
        return find_crowded(texts[0].lengths, texts[1].lengths, self._shape.truncation, self._added)

    def describe_crowded(self, lengths: Sequence[int]) -> str:
        """Why a pair of texts with so many tokens cannot become rows of this shape, and what to give instead."""
        cutting = self._shape.truncation or Truncation(0)
        whole = int(cutting.strategy == "only_first")
        room, stride = cutting.max_length - self._added - lengths[whole], cutting.stride
        reason = (
            f"its {('first', 'second')[whole]} text has {lengths[whole]:,} tokens and leaves {max(0, room):,} of "
            f"--max-length {cutting.max_length:,} for the other"
        )
        least = cutting.max_length - room + stride + 1
        if not self._shape.overflow:
            return f"{reason}; give --truncate longest_first, or --max-length {least:,} or more"
        reason += f", too few for --stride {stride:,}" if stride else ""
        smaller = f"--stride {room - 1:,} or less, or " if stride and room > 0 else ""
        return f"{reason}; give {smaller}--max-length {least:,} or more"

    def shape(
        self, ids: pa.Array, texts: Sequence[Tokenized], sizes: Sequence[np.ndarray] | None = None
    ) -> Mapping[str, pa.Array]:
        """The columns of a batch of documents: their ids, their token ids, and what is asked for beside them.

        `texts` are the texts of the documents, or the first and the second ones of pairs; `sizes` int64[d] the bytes of each, for
        `kept_bytes`. An `offsets` column counts in int32: raises DataError for a text that is longer.
        """
        if not self._changes:
            return {"doc_id": ids, "input_ids": texts[0].encoded.ids}
        tokens = [one.tokens for one in texts]
        rows = build_rows(
            tokens[0],
            tokens[1] if len(tokens) > 1 else None,
            self._elements,
            self._vocab,
            truncation=self._shape.truncation,
            overflow=self._shape.overflow,
            padding=self._shape.padding,
        )
        self._counts["cut_tokens"] += rows.cut
        self._counts["cut_documents"] += self._count_cut(np.sum([one.lengths for one in texts], axis=0))
        if sizes is not None and (self._shape.truncation or self._shape.padding):
            self._count_kept(rows, texts, sizes)
        columns = row_columns(rows)
        chosen = {name: columns[name] for name in ("input_ids", *self._shape.columns)}
        return {"doc_id": ids.take(pa.array(rows.texts)), **chosen, **_place_tokens(rows, [one.spans for one in texts])}

    def _count_cut(self, lengths: np.ndarray) -> int:
        """Documents that are longer than a row."""
        if self._shape.truncation is None:
            return 0
        return int(np.count_nonzero(lengths > self._shape.truncation.max_length - self._added))

    def _count_kept(self, rows: Rows, texts: Sequence[Tokenized], sizes: Sequence[np.ndarray]) -> None:
        """Add the text that stands in the rows of a batch."""
        tokens = sum(int(one.lengths.sum()) for one in texts) - rows.cut
        self._counts["kept_tokens"] += tokens + self._added * len(texts[0].lengths)
        if not rows.cut:
            self._counts["kept_bytes"] += sum(int(size.sum()) for size in sizes)
            return
        kept = np.zeros(sum(int(one.lengths.sum()) for one in texts), np.bool_)
        kept[rows.arrays.sources[rows.arrays.sources >= 0]] = True
        start = 0
        for one, size in zip(texts, sizes, strict=True):
            stop = start + int(one.lengths.sum())
            self._counts["kept_bytes"] += _measure_kept(self._tokenizer, one, kept[start:stop], size)
            start = stop

    def describe(self) -> dict[str, int]:
        """What the manifest says of the shard beside what its writer does; nothing where nothing was done."""
        return {name: count for name, count in self._counts.items() if count}


def _measure_kept(tokenizer: Tokenizer, text: Tokenized, kept: np.ndarray, sizes: np.ndarray) -> int:
    """The bytes of the tokens that are kept, bool[t]; `sizes` int64[d] are the bytes of the texts."""
    lengths = _measure_tokens(tokenizer)
    if lengths is not None:
        return int(lengths[text.tokens.ids[kept]].sum())
    ends = np.cumsum(kept)[np.cumsum(text.lengths) - 1] if kept.size else np.zeros(len(sizes), np.int64)
    ends[np.cumsum(text.lengths) == 0] = 0
    return int(np.where(text.lengths, sizes * np.diff(ends, prepend=0) // np.maximum(text.lengths, 1), sizes).sum())


@functools.lru_cache(maxsize=1)
def _measure_tokens(tokenizer: Tokenizer) -> np.ndarray | None:
    """int64[rows]: the bytes of text that each token stands for; None where a tokenizer does not give back every byte."""
    alphabet = tokenizer.model.alphabet
    if not (isinstance(alphabet, ByteAlphabet) and tokenizer.normalizer.is_identity and tokenizer.pretokenizer.lossless):
        return None
    lengths = np.zeros(tokenizer.embedding_rows, np.int64)
    specials = set(tokenizer.special_tokens)
    for token, token_id in tokenizer.vocab.items():
        lengths[token_id] = len(token.encode() if token in specials else alphabet.spell(token))
    return lengths


def _place_tokens(rows: Rows, spans: Sequence[np.ndarray | None]) -> dict[str, pa.Array]:
    """The columns on where tokens begin and end in their texts: both 0 for special tokens of the template and for padding."""
    known = [one for one in spans if one is not None]
    if not known:
        return {}
    places = take_sources(np.concatenate(known), rows.arrays.sources, missing=0)
    if places.size and int(places.max()) > np.iinfo(np.int32).max:
        raise DataError(f"a text is too long for offsets, which are int32: {int(places.max()):,}; leave out --offsets")
    columns = zip(schemas.TOKEN_OFFSETS, places.T.astype(np.int32, order="C"), strict=True)
    return {name: wrap_lists(values, rows.offsets) for name, values in columns}
