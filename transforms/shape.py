"""The rows of a shard of documents: special tokens around them, cut to a length, filled up, with masks beside their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from tokenmill import schemas
from tokenmill.errors import UsageError
from tokenmill.postprocessors import Padding, Tokens, Truncation, build_rows
from tokenmill.processing import row_columns
from tokenmill.tokenizer import Tokenizer


@dataclass(frozen=True)
class RowShape:
    """What becomes of the token ids of a document on their way into its row.

    `add_special_tokens`: those of the tokenizer's template; `allow_special`: special tokens inside texts are found;
    `truncation`, with `overflow` what is cut off becomes rows of its own; `padding`; `columns`: which of the columns
    attention_mask, token_type_ids and special_tokens_mask stand beside the ids.
    """

    add_special_tokens: bool = True
    allow_special: bool = False
    truncation: Truncation | None = None
    overflow: bool = False
    padding: Padding | None = None
    columns: tuple[str, ...] = ()

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
        return pa.schema([*schemas.TOKENS, *(pa.field(name, schemas.TOKEN_MASK) for name in self.columns)])

    def describe(self) -> dict[str, Any]:
        """What the manifest says of rows: the options that are not as they always are."""
        always = asdict(RowShape())
        return {name: value for name, value in asdict(self).items() if value != always[name]}


class RowShaper:
    """Shapes the documents of one split; `cut_tokens`, `cut_documents` and `special_tokens_found` count what was done to them."""

    def __init__(self, tokenizer: Tokenizer, shape: RowShape) -> None:
        self._pieces = tokenizer.template.pieces(pair=False, add_special_tokens=shape.add_special_tokens)
        self._vocab, self._shape = tokenizer.model.vocab, shape
        self._changes = bool(len(self._pieces) > 1 or shape.truncation or shape.padding or shape.columns)
        self._counts = dict.fromkeys(schemas.SHAPED, 0)

    def find(self, specials: int) -> None:
        """So many special tokens were found inside the texts of a batch."""
        self._counts["special_tokens_found"] += specials

    def shape(self, ids: pa.Array, encoded: pa.LargeListArray) -> Mapping[str, pa.Array]:
        """The columns of a batch of documents: their ids, their token ids, and what is asked for beside them."""
        if not self._changes:
            return {"doc_id": ids, "input_ids": encoded}
        first = Tokens(encoded.values.to_numpy(), encoded.offsets.to_numpy())
        options = {"truncation": self._shape.truncation, "overflow": self._shape.overflow, "padding": self._shape.padding}
        rows = build_rows(first, None, self._pieces, self._vocab, **options)
        self._counts["cut_tokens"] += rows.cut
        self._counts["cut_documents"] += self._count_cut(first, rows.arrays.attention.size > 0)
        columns = row_columns(rows)
        taken = ids.take(pa.array(rows.texts))
        return {"doc_id": taken, **{name: columns[name] for name in ("input_ids", *self._shape.columns)}}

    def _count_cut(self, documents: Tokens, has_rows: bool) -> int:
        """Documents that are longer than a row."""
        if self._shape.truncation is None or not has_rows:
            return 0
        room = self._shape.truncation.max_length - (len(self._pieces) - 1)
        return int((documents.offsets[1:] - documents.offsets[:-1] > room).sum())

    def describe(self) -> dict[str, int]:
        """What the manifest says of the shard beside what its writer does; nothing where nothing was done."""
        return {name: count for name, count in self._counts.items() if count}
