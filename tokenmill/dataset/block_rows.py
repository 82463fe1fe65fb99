"""Restores documents from packed blocks by joining their parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: The columns with the tokens of a block and the documents that they belong to.
PART_COLUMNS = ("input_ids", "doc_ids", "doc_offsets", "doc_starts", "doc_lengths")


class Part(NamedTuple):
    """The part of a document in a block: the document's id, where the part begins in it, and its tokens (int32, without EOS)."""

    doc_id: str
    start: int
    tokens: npt.NDArray[np.int32]


def list_parts(blocks: Mapping[str, Any]) -> Iterator[Part]:
    """The parts of blocks, in order. `blocks` has the columns `PART_COLUMNS` as Arrow arrays with one row per block."""
    tokens, ends = _flatten(blocks["input_ids"])
    names, counts = _flatten(blocks["doc_ids"])
    offsets, starts, lengths = (_flatten(blocks[name])[0].to_numpy() for name in PART_COLUMNS[2:])
    values = tokens.to_numpy()
    row_begins = np.repeat(ends[:-1], np.diff(counts))
    begins = row_begins + offsets
    for name, begin, start, length in zip(names.to_pylist(), begins.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        yield Part(name, start, values[begin : begin + length])


def join_parts(parts: Iterable[Part]) -> Iterator[tuple[str, npt.NDArray[np.int32]]]:
    """Join the parts of a shard to documents `(doc_id, tokens)`, in the order of their first parts.

    Two documents with the same id stay separate. Tokens that were dropped with the tail of a shard are missing.
    """
    found: dict[str, list[list[Part]]] = {}
    order: list[list[Part]] = []
    waiting = []
    for part in parts:
        if part.start:
            waiting.append(part)
        else:
            order.append([part])
            found.setdefault(part.doc_id, []).append(order[-1])
    for part in sorted(waiting, key=lambda part: part.start):
        for document in found.get(part.doc_id, []):
            if document[-1].start + document[-1].tokens.size == part.start:
                document.append(part)
                break
    for document in order:
        yield document[0].doc_id, np.concatenate([part.tokens for part in document])


def _flatten(lists: Any) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The values of lists, and the offsets of the lists among them."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    values = lists.flatten()
    if pa.types.is_fixed_size_list(lists.type):
        return values, np.arange(len(lists) + 1, dtype=np.int64) * lists.type.list_size
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return values, offsets - offsets[0]
