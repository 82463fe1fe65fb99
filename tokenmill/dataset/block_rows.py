"""Documents out of packed blocks: the parts of each, put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: The columns that say which documents a block holds, and the tokens.
PART_COLUMNS = ("input_ids", "doc_ids", "doc_offsets", "doc_starts", "doc_lengths")


class Part(NamedTuple):
    """What a block holds of a document: its id, where the part begins in the document, and its tokens, int32, without EOS."""

    doc_id: str
    start: int
    tokens: npt.NDArray[np.int32]


def list_parts(blocks: Mapping[str, Any]) -> Iterator[Part]:
    """The parts of blocks in order; `blocks` gives the columns `PART_COLUMNS` as arrays of Arrow, one row a block."""
    tokens, ends = _flatten(blocks["input_ids"])
    names, counts = _flatten(blocks["doc_ids"])
    offsets, starts, lengths = (_flatten(blocks[name])[0].to_numpy() for name in PART_COLUMNS[2:])
    values = tokens.to_numpy()
    row_begins = np.repeat(ends[:-1], np.diff(counts))
    begins = row_begins + offsets
    for name, begin, start, length in zip(names.to_pylist(), begins.tolist(), starts.tolist(), lengths.tolist(), strict=True):
        yield Part(name, start, values[begin : begin + length])


def join_parts(parts: Iterable[Part]) -> Iterator[tuple[str, npt.NDArray[np.int32]]]:
    """`(doc_id, tokens)` of each document of a shard, in the order in which their first parts stand there.

    Two documents of the same id stay two. An end that was dropped with a shard's tail is missing.
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
    """The values of lists, and where each list begins and the last one ends among them."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    values = lists.flatten()
    if pa.types.is_fixed_size_list(lists.type):
        return values, np.arange(len(lists) + 1, dtype=np.int64) * lists.type.list_size
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return values, offsets - offsets[0]
