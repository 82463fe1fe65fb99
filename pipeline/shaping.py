"""The rows of a dataset: whether documents or blocks, in which order, and what is said of it in the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill import schemas
from tokenmill.dataset.packing import Packing
from tokenmill.encoding.postprocessors import Padding, Truncation, find_room
from tokenmill.encoding.templates import TOKEN
from tokenmill.errors import UsageError
from tokenmill.tokenizer import Tokenizer
from tokenmill.transforms.pack import block_columns, row_group_blocks
from tokenmill.transforms.shape import RowShape

_SUMMED = ("blocks", "eos", "padding", "dropped_tokens", "dropped_documents")
_NEED_BLOCK = ("pack", "tail", "eos", "segment_ids", "position_ids")
_COLUMNS = ("attention_mask", "token_type_ids", "special_tokens_mask")
_SHOWN_SPECIALS = 5


@dataclass(frozen=True)
class RowOptions:
    """The options of `encode` that say what rows are, --block to --allow-special, as they are given."""

    block: int | None = None
    pack: str | None = None
    tail: str | None = None
    eos: str | None = None
    pad: str | None = None
    segment_ids: bool = False
    position_ids: bool = False
    shuffle: int | None = None
    max_length: int | None = None
    stride: int = 0
    overflow: str | None = None
    truncate: str | None = None
    pad_to: int | None = None
    attention_mask: bool = False
    token_type_ids: bool = False
    special_tokens_mask: bool = False
    offsets: str | None = None
    special_tokens: bool = True
    allow_special: bool = False


def choose_shape(rows: RowOptions, tokenizer: Tokenizer, *, pair: bool = False) -> RowShape:
    """What rows of documents, or of pairs of texts, are. Raises UsageError for what does not go together."""
    if rows.block is not None:
        for name in ("max_length", "stride", "overflow", "truncate", "pad_to", *_COLUMNS, "offsets"):
            if getattr(rows, name):
                raise UsageError(
                    f"--{name.replace('_', '-')} is for rows of documents, not for packed blocks; leave out one of both"
                )
        return RowShape(rows.special_tokens, rows.allow_special, pair=pair)
    _check_cutting(rows, pair=pair)
    if rows.pad is not None and rows.pad_to is None:
        raise UsageError("--pad fills rows up; give --pad-to N, or --block N, too")
    if rows.pad_to is not None and rows.pad is None:
        raise UsageError(f"--pad-to fills rows up with a token: give --pad TOKEN ({_name_specials(tokenizer)})")
    padding = None if rows.pad is None else Padding(_find_special(rows.pad, "--pad", tokenizer)[0], rows.pad_to)
    how = rows.truncate or "longest_first"
    truncation = None if rows.max_length is None else Truncation(rows.max_length, rows.stride, how)
    shape = RowShape(
        rows.special_tokens,
        rows.allow_special,
        truncation,
        rows.overflow == "rows",
        padding,
        tuple(name for name in _COLUMNS if getattr(rows, name)),
        rows.offsets,
        pair,
    )
    _check_room(shape, tokenizer)
    return shape


def _check_cutting(rows: RowOptions, *, pair: bool) -> None:
    """The options on cutting go together."""
    if rows.max_length is None and (given := [name for name in ("stride", "overflow", "truncate") if getattr(rows, name)]):
        raise UsageError(f"--{given[0]} says what becomes of what is cut off; give --max-length N too")
    if rows.stride and rows.overflow != "rows":
        raise UsageError("--stride is how much rows of one document have in common; give --overflow rows too")
    if rows.truncate is not None and not pair:
        raise UsageError("--truncate says which text of a pair is cut; give --pair-column COL too")
    if pair and rows.overflow == "rows" and rows.truncate in (None, "longest_first"):
        raise UsageError("--overflow rows cuts one text of a pair: say which, with --truncate only_first or only_second")


def _check_room(shape: RowShape, tokenizer: Tokenizer) -> None:
    """Found out before any work: a row has room for the template and a token, or for the stride and one more."""
    if shape.truncation is not None:
        elements = tokenizer.template.elements(pair=shape.pair, add_special_tokens=shape.add_special_tokens)
        added = len(elements) - (2 if shape.pair else 1)
        try:
            find_room(shape.truncation, added)
        except UsageError as error:
            room, stride = shape.truncation.max_length - added, shape.truncation.stride
            smaller = f", or --stride {room - 1} or less" if stride and room > 0 else ""
            raise UsageError(f"{error}: --max-length {added + stride + 1} or more{smaller}") from None


def choose_packing(rows: RowOptions, tokenizer: Tokenizer, *, pair: bool = False) -> Packing | None:
    """How documents become blocks, None where rows are documents. Raises UsageError for what does not go together.

    Where the template begins or ends documents with the token of --eos, no second one is put behind them; where it does so with
    any token, concat needs no --eos.
    """
    if rows.block is None:
        given = [name for name in _NEED_BLOCK if getattr(rows, name)]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is for packed blocks; give --block N too")
        return None
    mode = rows.pack or "concat"
    elements = tokenizer.template.elements(pair=pair, add_special_tokens=rows.special_tokens)
    bounds = [element.token for element in (elements[0], elements[-1]) if element.sequence == TOKEN]
    bounded = bool(bounds) and mode == "concat" if rows.eos is None else rows.eos in bounds
    if mode == "concat" and rows.eos is None and not bounded:
        raise UsageError(
            f"--pack concat joins documents with a token: give --eos TOKEN ({_name_specials(tokenizer)}), a tokenizer with a "
            "template, or --pack best-fit"
        )
    eos = None if rows.eos is None else _find_special(rows.eos, "--eos", tokenizer)
    pad = eos if rows.pad is None else _find_special(rows.pad, "--pad", tokenizer)
    eos = None if bounded else eos
    try:
        return Packing(rows.block, mode, rows.tail or "pad", eos, pad, rows.segment_ids, rows.position_ids, bounded)
    except UsageError as error:
        raise UsageError(f"{error}; {_name_specials(tokenizer)}") if "--pad TOKEN" in str(error) else error from None


def _find_special(token: str, option: str, tokenizer: Tokenizer) -> tuple[str, int]:
    if token not in tokenizer.special_tokens:
        raise UsageError(f"{option} {token!r} is no special token of this tokenizer: {_name_specials(tokenizer)}")
    return token, tokenizer.vocab[token]


def _name_specials(tokenizer: Tokenizer) -> str:
    names = tokenizer.special_tokens
    if not names:
        return "it has no special tokens; train with --special '<|endoftext|>'"
    more = ", ..." if len(names) > _SHOWN_SPECIALS else ""
    return f"it has {', '.join(names[:_SHOWN_SPECIALS])}{more}"


def describe_rows(packing: Packing | None, shuffle: int | None, shape: RowShape) -> dict[str, Any]:
    """The manifest's entries on rows: `packing` where they are blocks, `rows` where documents are not rows as they are, `shuffle`
    where the order is not that of the corpus.
    """
    packed = {}
    if packing is not None:
        layout = {"row_group_blocks": row_group_blocks(packing.block), "columns": block_columns(packing).names}
        packed = {"packing": {**packing.describe(), **layout}}
    packed |= {"rows": shape.describe()} if shape.describe() else {}
    return packed | ({} if shuffle is None else {"shuffle": shuffle})


def total_shaped(packing: Packing | None, shards: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Totals of what was cut, and of special tokens that were found; what there is none of is left out. Rows, unless packed."""
    totals = {name: sum(shard.get(name, 0) for shard in shards) for name in schemas.SHAPED}
    rows = {} if packing is not None else {"rows": sum(map(schemas.count_rows, shards))}
    return rows | {name: number for name, number in totals.items() if number}


def total_blocks(packing: Packing | None, shards: Sequence[dict[str, Any]]) -> dict[str, int | float]:
    """Totals of packed shards: blocks, EOS tokens, padding, what was dropped, and which share of all places holds tokens."""
    if packing is None:
        return {}
    totals: dict[str, int | float] = {name: sum(shard[name] for shard in shards) for name in _SUMMED}
    empty = sum(shard.get("empty_documents", 0) for shard in shards)
    totals |= {"empty_documents": empty} if empty else {}
    used = sum(shard["tokens"] for shard in shards) + totals["eos"]
    return totals | {"density": round(used / (used + totals["padding"]), 6) if used else 0.0}
