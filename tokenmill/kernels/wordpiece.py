"""WordPiece: the longest token that fits, again and again, in time that is linear in the word, whatever its tokens are.

Looking for the longest token at each place anew takes the length of the longest token a place. Instead a word is read once, from
its end: an automaton over the continuation tokens, spelled backwards, knows at each place the longest one that begins there (Aho
and Corasick, "Efficient string matching", 1975, with the text and the tokens turned round). Where a word begins, other tokens
fit: those are read forwards, once. Then it is a walk from the beginning from token to token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.hashing import HALF
from tokenmill.kernels.intrinsics import borrow

#: What stands in place of an id: no tokens make up the word; it has too many characters.
UNKNOWN, TOO_LONG = -1, -2
ROOT, BYTE_BITS, LENGTH_SHIFT = 0, 8, 32
NO_TOKEN = np.int64(-1)
#: The key of a free entry among edges, and the node that no edge leads to.
EMPTY = -1
LOW_32 = np.int64(0xFFFFFFFF)


class Edges(NamedTuple):
    """The edges of a tree, by open addressing.

    `slots`: int64[power of two, 2], node << 8 | byte, and the node that it leads to; the root is 0. `multiplier`: a random odd
    number, what edges are hashed by.
    """

    slots: np.ndarray
    multiplier: np.uint64


class WordPieceTables(NamedTuple):
    """A WordPiece model as arrays; a token is its length in bytes << 32 | its id, NO_TOKEN for none.

    `beginnings`, `continuations`: the edges of two trees. The first is of the tokens that a word can begin with, and
    `first_tokens` (int64[nodes]) says which ends at a node. The second is of continuation tokens without their prefix, from the
    last byte to the first; `longest` (int64[nodes]) is the longest token that begins at the place where a node was reached,
    `fallbacks` (int32[nodes]) the node of the longest continuation that is left when an edge is missing. `most_characters`:
    longer words are TOO_LONG.
    """

    beginnings: Edges
    first_tokens: np.ndarray
    continuations: Edges
    longest: np.ndarray
    fallbacks: np.ndarray
    most_characters: np.int64


# --- building -------------------------------------------------------------------------------------------------------------------


@kernel
def grow_tree(edges, text, ends, backwards, origins, depths, last_nodes):
    """Add the paths of tokens, which lie end to end in `text` (uint8[n], int64[t]), to an empty tree; returns its nodes.

    `origins` (int64[n + 1]) becomes the edge that leads to each node, `depths` (int32[n + 1], the root's is 0) how far it is from
    the root, `last_nodes` (int32[t]) where each token ends.
    """
    nodes, start = np.int64(1), np.int64(0)
    for token in range(min(ends.size, last_nodes.size)):
        node = np.int64(ROOT)
        for step in range(ends[token] - start):
            byte = text[ends[token] - 1 - step] if backwards else text[start + step]
            key = node << BYTE_BITS | np.int64(byte)
            slot = find_edge(edges, key)
            if edges.slots[slot, 0] == EMPTY:
                edges.slots[slot, 0], edges.slots[slot, 1], origins[nodes], depths[nodes] = key, nodes, key, depths[node] + 1
                nodes += 1
            node = edges.slots[slot, 1]
        last_nodes[token] = node
        start = ends[token]
    return nodes


@kernel
def link_fallbacks(edges, origins, order, longest, fallbacks):
    """Fill `fallbacks`, and complete `longest`, which holds the tokens that end at nodes; `order`: nodes, those nearest the root
    first.
    """
    for node in order[1:]:
        parent, byte = origins[node] >> BYTE_BITS, origins[node] & 0xFF
        fallbacks[node] = ROOT if parent == ROOT else follow_byte(edges, fallbacks, np.int64(fallbacks[parent]), byte)
        if longest[node] == NO_TOKEN:
            longest[node] = longest[fallbacks[node]]


@part
def find_edge(edges, key):
    """The entry of an edge, or the free entry where it belongs."""
    slots = edges.slots
    mask = np.uint64(slots.shape[0] - 1)
    slot = (np.uint64(key) * edges.multiplier >> HALF) & mask
    while slots[slot, 0] != key and slots[slot, 0] != EMPTY:
        slot = (slot + np.uint64(1)) & mask
    return slot


@part
def edge_of(edges, node, byte):
    """The node that a byte leads to, EMPTY for none."""
    key = node << BYTE_BITS | np.int64(byte)
    slot = find_edge(edges, key)
    return edges.slots[slot, 1] if edges.slots[slot, 0] == key else np.int64(EMPTY)


@part
def follow_byte(edges, fallbacks, node, byte):
    """The node of the longest continuation that the bytes so far and one more leave."""
    while True:
        found = edge_of(edges, node, byte)
        if found != EMPTY:
            return found
        if node == ROOT:
            return np.int64(ROOT)
        node = np.int64(fallbacks[node])


# --- matching -------------------------------------------------------------------------------------------------------------------


@part
def match_word(tables, text, start, end, ids, used, found):
    """Write the ids of a word (one byte or more) to `ids[used:]`; returns how many. `found`: int64[m], scratch for short ones."""
    tables, text, ids, found = borrow(tables), borrow(text), borrow(ids), borrow(found)
    size = end - start
    if size > tables.most_characters and count_characters(text, start, end) > tables.most_characters:
        ids[used] = TOO_LONG
        return np.int64(1)
    token = match_beginning(tables.beginnings, tables.first_tokens, text, start, end)
    if token == NO_TOKEN or token >> LENGTH_SHIFT == size:
        ids[used] = token & LOW_32 if token != NO_TOKEN else UNKNOWN
        return np.int64(1)
    if size <= found.size:
        return match_rest(tables, text, start, end, ids, used, token, found)
    return match_rest(tables, text, start, end, ids, used, token, np.empty(size, np.int64))


@part
def match_beginning(edges, tokens, text, start, end):
    """The longest token that a word can begin with."""
    node, token = np.int64(ROOT), NO_TOKEN
    for position in range(start, end):
        node = edge_of(edges, node, text[position])
        if node == EMPTY:
            break
        if tokens[node] != NO_TOKEN:
            token = tokens[node]
    return token


@part
def match_rest(tables, text, start, end, ids, used, token, found):
    """Write the ids of a word that begins with a token; `found` takes the longest continuation at each other place."""
    edges, fallbacks, longest = tables.continuations, tables.fallbacks, tables.longest
    place, size, node = token >> LENGTH_SHIFT, end - start, np.int64(ROOT)
    for at in range(size - 1, place - 1, -1):
        node = follow_byte(edges, fallbacks, node, text[start + at])
        found[at] = longest[node]
    ids[used] = token & LOW_32
    written = np.int64(1)
    while place < size:
        token = found[place]
        if token == NO_TOKEN:
            ids[used] = UNKNOWN
            return np.int64(1)
        ids[used + written] = token & LOW_32
        place += token >> LENGTH_SHIFT
        written += 1
    return written


@part
def count_characters(text, start, end):
    """Characters of valid UTF-8: bytes that begin one."""
    characters = np.int64(0)
    for position in range(start, end):
        characters += text[position] & 0xC0 != 0x80
    return characters
