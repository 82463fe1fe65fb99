"""Tokens looked for in texts: at each place the longest one that begins there, in time that is linear in the text.

Texts are read once, from the end to the beginning, by an automaton over the tokens spelled backwards, as `wordpiece.py` has it.
While no token is being spelled, bytes are passed over that end none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow, count_leading_zeros, mark_bytes_between
from tokenmill.kernels.wordpiece import LENGTH_SHIFT, LOW_32, NO_TOKEN, ROOT, Edges, follow_byte

__all__ = ["LENGTH_SHIFT", "LOW_32", "ROOT", "TokenTables", "find_tokens", "keep_apart"]

#: In `state`: how many documents are left, the last of them being read; the place down to which it is read; the node there.
DOCUMENT, POSITION, NODE = 0, 1, 2
PLACE, TOKEN = 0, 1
#: With more last bytes than this, looking at 64 bytes at once costs more than it saves.
FEW_BYTES = 4
_BLOCK = 64


class TokenTables(NamedTuple):
    """Tokens, each as its length in bytes << 32 | its number.

    `edges`: the tree of the tokens from the last byte to the first. `longest` (int64[nodes]): the longest token that begins
    where a node was reached, or NO_TOKEN; `fallbacks` (int32[nodes]): the node to go on from where an edge is missing. `lasts`:
    int64[k], the last bytes of the tokens, or none where those are more than FEW_BYTES. `endings`: bool[65536], whether a token
    ends with two bytes, the first in the higher half; of a token of one byte the first is any.
    """

    edges: Edges
    longest: np.ndarray
    fallbacks: np.ndarray
    lasts: np.ndarray
    endings: np.ndarray


@part
def skip_back(tables, text, start, position):
    """Where bytes end, from `position` on backwards, that may be the end of a token; `start` if there are none."""
    while tables.lasts.size and position - start > _BLOCK:
        marks = np.uint64(0)
        for last in tables.lasts:
            marks |= mark_bytes_between(text, position - _BLOCK, last, last)
        position -= count_leading_zeros(marks)
        if marks:
            if tables.endings[np.int64(text[position - 2]) << 8 | np.int64(text[position - 1])]:
                return position
            position -= 1
    while position - start > 1 and not tables.endings[np.int64(text[position - 2]) << 8 | np.int64(text[position - 1])]:
        position -= 1
    return position


@kernel
def find_tokens(tables, text, doc_ends, state, hits):
    """Write to `hits` (int64[h, 2]) where tokens begin and which is the longest there, the last place of the batch first.

    `text`: uint8[n], documents that end at `doc_ends` (int64[d]); `state`: int64[3], at first the number of documents, n, and
    ROOT. Returns how many hits are written; while `state` has a document left, call again.
    """
    tables, text, doc_ends, hits = borrow(tables), borrow(text), borrow(doc_ends), borrow(hits)
    document, position, node, found = state[DOCUMENT], state[POSITION], state[NODE], np.int64(0)
    while document > 0:
        start = doc_ends[document - 2] if document > 1 else np.int64(0)
        while position > start and found < hits.shape[0]:
            if node == ROOT:
                position = skip_back(tables, text, start, position)
                if position == start:
                    break
            position -= 1
            node = follow_byte(tables.edges, tables.fallbacks, node, text[position])
            if tables.longest[node] != NO_TOKEN:
                hits[found, PLACE], hits[found, TOKEN] = position, tables.longest[node]
                found += 1
        if position > start:
            break
        document, node = document - 1, np.int64(ROOT)
    state[DOCUMENT], state[POSITION], state[NODE] = document, position, node
    return found


@kernel
def keep_apart(hits):
    """Of hits in order of their places, move those to the front that begin where no earlier one stands; returns how many."""
    kept = end = np.int64(0)
    for hit in range(hits.shape[0]):
        place, token = hits[hit, PLACE], hits[hit, TOKEN]
        if place >= end:
            hits[kept, PLACE], hits[kept, TOKEN] = place, token
            end = place + (token >> LENGTH_SHIFT)
            kept += 1
    return kept
