"""Writing packed blocks: documents in, a shard of blocks out.

    write -> (windows of documents) -> shuffle -> pack -> fill -> shuffle blocks -> rows of `schemas.block_schema`

Everything happens inside one split: no block holds documents of two, and each shard has one tail. Documents are collected until a
window of them is full, then packed at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import pyarrow as pa

from tokenmill import schemas
from tokenmill.dataset.packing import Ints, Packing, Parts, Tokens, pack_documents, permute
from tokenmill.kernels import pack
from tokenmill.transforms.shuffle import WindowCutter
from tokenmill.transforms.write import ShardWriter

#: Tokens of blocks in a row group, the least that is read to get at one of them. 64 blocks of 2,048.
ROW_GROUP_TOKENS = 1 << 17


def row_group_blocks(block: int) -> int:
    """How many blocks a row group has, but for the last of a shard."""
    return -(-ROW_GROUP_TOKENS // block)


@dataclass(frozen=True)
class Documents:
    """Documents that wait to be packed: ids, all tokens end to end, and for each where it begins there, how many tokens it has,
    and how many of it are in blocks already (of one that a window's last block has cut).
    """

    ids: pa.StringArray
    values: Tokens
    froms: Ints
    lengths: Ints
    done: Ints

    def take(self, order: Ints) -> Documents:
        """The same documents in another order."""
        return Documents(self.ids.take(pa.array(order)), self.values, self.froms[order], self.lengths[order], self.done[order])


class BlockWriter:
    """Writes documents as a shard of packed blocks. `seed` shuffles documents and blocks; None leaves them in order.

    A context manager like `ShardWriter`, and takes documents as that one does.
    """

    def __init__(self, path: str, metadata: dict[str, str], packing: Packing, seed: tuple[int, ...] | None) -> None:
        self._packing, self._seed = packing, seed
        self._shard = ShardWriter(path, metadata, block_columns(packing), row_group_tokens=ROW_GROUP_TOKENS)
        self._cutter = WindowCutter()
        self._rest = _NOTHING
        self._windows = self._empty = 0
        self._counts = dict.fromkeys(("documents", "tokens", "eos", "padding", "dropped_tokens", "dropped_documents"), 0)

    def __enter__(self) -> BlockWriter:
        self._shard.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._shard:
            if error is not None:
                raise error
            last = next(self._cutter.rest(), None)
            self._pack(self._rest if last is None else _join(self._rest, last), last=True)

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Add documents: `doc_id` and `input_ids`."""
        for window in self._cutter.cut(columns):
            self._pack(_join(self._rest, window), last=False)

    def describe(self) -> dict[str, int | str]:
        """What the manifest says of the finished shard: `tokens` are those of documents, `eos` and `padding` come on top.

        `empty_documents` are those without a token: they are in no block.
        """
        about = self._shard.describe()
        empty = {"empty_documents": self._empty} if self._empty else {}
        return {"documents": 0, "blocks": about.pop("rows"), **about, **self._counts, **empty}

    def _pack(self, documents: Documents, *, last: bool) -> None:
        """Pack a window, and write all of its blocks but what concat leaves for the next one."""
        if self._seed is not None:
            rest = len(self._rest.ids)
            order = permute(len(documents.ids) - rest, *self._seed, self._windows, 0)
            documents = documents.take(np.concatenate([np.arange(rest), order + rest]))
        parts, blocks = pack_documents(documents.lengths, self._packing)
        self._empty += int(np.count_nonzero(documents.lengths + self._packing.eos_tokens == 0))
        full = int(parts.sizes.sum()) // self._packing.block if self._packing.mode == "concat" else blocks
        self._rest = _NOTHING
        if full < blocks and (not last or self._packing.tail == "drop"):
            tail, parts, blocks = parts.take(parts.blocks == full), parts.take(parts.blocks < full), full
            self._rest = self._leave(documents, tail, last=last)
        if blocks:
            self._write_blocks(documents, parts, blocks, full)
        self._windows += 1

    def _leave(self, documents: Documents, tail: Parts, *, last: bool) -> Documents:
        """What is left behind the last full block: documents of the next window, or dropped and counted."""
        starts, done = tail.starts, documents.done[tail.documents]
        lengths = documents.lengths[tail.documents] - starts
        if last:
            self._counts["dropped_tokens"] += int(lengths.sum())
            self._counts["dropped_documents"] += int(np.count_nonzero(starts + done == 0))
            return _NOTHING
        froms = documents.froms[tail.documents] + starts
        kept = [documents.values[begin : begin + length] for begin, length in zip(froms.tolist(), lengths.tolist(), strict=True)]
        values = np.concatenate([documents.values[:0], *kept])
        ids = documents.ids.take(pa.array(tail.documents))
        return Documents(ids, values, np.cumsum(lengths) - lengths, lengths, done + starts)

    def _write_blocks(self, documents: Documents, parts: Parts, blocks: int, full: int) -> None:
        columns = fill_columns(documents, parts, blocks, self._packing)
        self._count(documents, parts, blocks)
        if self._packing.tail == "keep":
            sizes = np.full(blocks, self._packing.block)
            sizes[full:] = parts.sizes[parts.blocks == full].sum()
            columns |= {name: shorten_rows(columns[name], sizes) for name in ("input_ids", *added_columns(self._packing))}
        if self._seed is not None:
            order = permute(full, *self._seed, self._windows, 1)
            order = np.concatenate([order, np.arange(full, blocks)])
            columns = {name: column.take(pa.array(order)) for name, column in columns.items()}
        self._shard.write(columns)

    def _count(self, documents: Documents, parts: Parts, blocks: int) -> None:
        own = own_lengths(documents, parts)
        self._counts["documents"] += int(np.count_nonzero(parts.starts + documents.done[parts.documents] == 0))
        self._counts["tokens"] += int(own.sum())
        self._counts["eos"] += int((parts.sizes - own).sum())
        self._counts["padding"] += int(blocks * self._packing.block - parts.sizes.sum()) if self._packing.pads else 0


def added_columns(packing: Packing) -> tuple[str, ...]:
    """The columns with a number a token that stand beside `input_ids`."""
    wanted = {"attention_mask": packing.pads, "segment_ids": packing.segment_ids, "position_ids": packing.position_ids}
    return tuple(name for name, is_wanted in wanted.items() if is_wanted)


def block_columns(packing: Packing) -> pa.Schema:
    """The schema of shards that are packed so."""
    return schemas.block_schema(packing.block, ragged=packing.tail == "keep", columns=added_columns(packing))


def own_lengths(documents: Documents, parts: Parts) -> Ints:
    """How many of each part's tokens are the document's own: all but an EOS."""
    return np.minimum(parts.sizes, documents.lengths[parts.documents] - parts.starts)


def fill_columns(documents: Documents, parts: Parts, blocks: int, packing: Packing) -> dict[str, pa.Array]:
    """The rows of `blocks` blocks, each of full length."""
    own = own_lengths(documents, parts)
    ids = np.full((blocks, packing.block), packing.pad[1] if packing.pad else 0, np.int32)
    pack.fill_blocks(ids, documents.values, documents.froms[parts.documents] + parts.starts, parts.blocks, parts.offsets, own)
    ended = own < parts.sizes
    if packing.eos is not None:
        ids[parts.blocks[ended], (parts.offsets + own)[ended]] = packing.eos[1]
    edges = np.searchsorted(parts.blocks, np.arange(blocks + 1)).astype(np.int32)
    lists = {
        "doc_ids": documents.ids.take(pa.array(parts.documents)),
        "doc_offsets": pa.array(parts.offsets.astype(np.int32)),
        "doc_starts": pa.array(parts.starts + documents.done[parts.documents]),
        "doc_lengths": pa.array(own.astype(np.int32)),
    }
    arrays = {"input_ids": ids, **number_tokens(parts, blocks, packing)}
    rows = {name: pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), packing.block) for name, array in arrays.items()}
    return rows | {name: pa.ListArray.from_arrays(pa.array(edges), column) for name, column in lists.items()}


def number_tokens(parts: Parts, blocks: int, packing: Packing) -> dict[str, np.ndarray]:
    """Mask, segments and positions as far as they are asked for: arrays of blocks x block."""
    arrays: dict[str, np.ndarray] = {}
    if packing.pads:
        used = np.bincount(parts.blocks, parts.sizes, minlength=blocks)
        arrays["attention_mask"] = (np.arange(packing.block) < used[:, None]).astype(np.int8)
    if packing.segment_ids or packing.position_ids:
        segments, positions = np.zeros((2, blocks, packing.block), np.int32)
        pack.number_parts(segments, positions, parts.blocks, parts.offsets, parts.sizes)
        arrays |= {"segment_ids": segments} if packing.segment_ids else {}
        arrays |= {"position_ids": positions} if packing.position_ids else {}
    return arrays


def shorten_rows(rows: pa.FixedSizeListArray, sizes: Ints) -> pa.Array:
    """Rows of `sizes` tokens; all but the last are full."""
    values = rows.values.slice(0, int(sizes.sum()))
    return pa.LargeListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(sizes)])), values)


def _join(rest: Documents, window: Mapping[str, pa.Array]) -> Documents:
    """What a window left over, and the documents of the next one."""
    lists = window["input_ids"]
    lengths = np.diff(lists.offsets.to_numpy()).astype(np.int64, copy=False)
    return Documents(
        pa.concat_arrays([rest.ids, window["doc_id"]]),
        np.concatenate([rest.values, lists.flatten().to_numpy()]),
        np.concatenate([rest.froms, np.cumsum(lengths) - lengths + rest.values.size]),
        np.concatenate([rest.lengths, lengths]),
        np.concatenate([rest.done, np.zeros_like(lengths)]),
    )


_NO_NUMBERS = np.empty(0, np.int64)
_NOTHING = Documents(pa.array([], pa.string()), np.empty(0, np.int32), _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS)
