"""Packing: puts documents of any length into blocks of one length, as training needs them.

    documents of 3, 5 and 9 tokens, blocks of 8; `E` is the EOS token, `.` padding

    concat     a a a E b b b b | b E c c c c c c | c c c E . . . .     joined, cut every 8 tokens
    best-fit   a a a b b b b b | c c c c c c c c | c . . . . . . .     whole documents, least padding
    none       a a a . . . . . | b b b b b . . . | c c c c c c c c | c . . . . . . .

A *part* is the portion of one document in one block. `Parts` has the document of each part, its place in the block and in the
document, and its length, so no document boundary is lost. `reference/packing.py` does the same in plain Python.

best-fit is the algorithm of Ding et al., "Fewer Truncations Improve Language Modeling" (2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenmill.errors import UsageError
from tokenmill.kernels import pack
from tokenmill.names import MOST_BLOCK, PACKS, TAILS

Ints = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Packing:
    """How documents are packed into blocks of `block` tokens. `mode` is concat, best-fit or none.

    `eos` is put after each document, and `pad` fills the rest of a block; both are tokens with their ids. `bounded`: documents
    begin or end with a token of the tokenizer's template, which counts as their own, so they need no `eos`. `tail` says what
    happens with concat to the tokens after the last full block of a shard: `pad`, `keep` (a shorter row) or `drop`. Raises
    UsageError for options that cannot be combined.
    """

    block: int
    mode: str = "concat"
    tail: str = "pad"
    eos: tuple[str, int] | None = None
    pad: tuple[str, int] | None = None
    segment_ids: bool = False
    position_ids: bool = False
    bounded: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.block <= MOST_BLOCK:
            raise UsageError(f"--block {self.block}: give a number of tokens from 1 to {MOST_BLOCK:,}")
        for option, value, known in (("--pack", self.mode, PACKS), ("--tail", self.tail, TAILS)):
            if value not in known:
                raise UsageError(f"{option} {value!r}: choose from {', '.join(known)}")
        if self.tail != "pad" and self.mode != "concat":
            raise UsageError(f"--tail {self.tail} is for --pack concat; under {self.mode} every block may hold padding")
        if self.mode == "concat" and self.eos is None and not self.bounded:
            raise UsageError("--pack concat joins documents with a token: give --eos TOKEN, or choose --pack best-fit")
        if self.pads and self.pad is None:
            raise UsageError("blocks that are not full are padded: give --pad TOKEN (or --eos TOKEN, which then pads too)")

    @property
    def pads(self) -> bool:
        """Whether a block can contain padding. If so, there is a column `attention_mask`."""
        return self.mode != "concat" or self.tail == "pad"

    def describe(self) -> dict[str, Any]:
        """The description in the manifest and in the footers of shards."""
        tokens = {
            name: None if token is None else {"token": token[0], "id": token[1]}
            for name, token in (("eos", self.eos), ("pad", self.pad))
        }
        bounded = {"bounded": True} if self.bounded else {}
        return {"block": self.block, "pack": self.mode, "tail": self.tail, **tokens, **bounded}

    @property
    def eos_tokens(self) -> int:
        """The number of EOS tokens after a document: 0 or 1."""
        return int(self.eos is not None)


@dataclass(frozen=True)
class Parts:
    """The parts of blocks, in order of block and offset. All arrays are int64[p].

    `documents` is the index of a part's document in the input, `blocks` the number of its block. `offsets` is where the part
    begins in its block, `starts` where it begins in its document, and `sizes` its number of tokens, including EOS. A document
    without tokens has no part.
    """

    documents: Ints
    blocks: Ints
    offsets: Ints
    starts: Ints
    sizes: Ints

    def take(self, places: npt.NDArray[np.integer | np.bool_]) -> Parts:
        """Select parts, in this order."""
        return Parts(*(getattr(self, name)[places] for name in ("documents", "blocks", "offsets", "starts", "sizes")))


def cut_documents(sizes: Ints, block: int, *, joined: bool) -> Parts:
    """Cut documents of `sizes` tokens, 1 or more, into parts of at most `block`.

    If `joined`, the documents are concatenated and cut every `block` tokens. Otherwise each document is cut on its own, and each
    part gets a block of its own. `cut_documents([3, 10], 8, joined=True)` has the parts 3 + 5 | 5.
    """
    ends = np.cumsum(sizes)
    begins = ends - sizes
    origin = begins if joined else np.zeros_like(begins)
    first = origin // block
    counts = (origin + sizes - 1) // block - first + 1
    documents = np.repeat(np.arange(sizes.size), counts)
    number = np.arange(documents.size) - np.repeat(np.cumsum(counts) - counts, counts)
    blocks = first[documents] + number
    low = np.maximum(origin[documents], blocks * block)
    high = np.minimum((origin + sizes)[documents], (blocks + 1) * block)
    places = blocks if joined else np.arange(documents.size)
    return Parts(documents, places, low - blocks * block, low - origin[documents], high - low)


def place_best_fit(sizes: Ints, block: int) -> tuple[Ints, int]:
    """Place parts of `sizes` (0..block), the largest first, each in the block with the least room that fits it.

    Returns the block of each part and the number of blocks. Blocks are numbered in the order of their first parts.
    `place_best_fit([3, 5, 8, 1], 8)` returns [0 0 1 2], 3.
    """
    largest_first = np.argsort(-sizes, kind="stable")
    places = np.empty(sizes.size, np.int64)
    count = pack.place_best_fit(sizes[largest_first], block, places)
    chosen = np.empty_like(places)
    chosen[largest_first] = places
    firsts = np.full(count, sizes.size, np.int64)
    np.minimum.at(firsts, chosen, np.arange(sizes.size))
    numbers = np.empty(count, np.int64)
    numbers[np.argsort(firsts, kind="stable")] = np.arange(count)
    return numbers[chosen], int(count)


def pack_documents(lengths: Ints, packing: Packing) -> tuple[Parts, int]:
    """Pack documents of `lengths` tokens (without EOS). Returns the parts and the number of blocks.

    With concat, the last block may not be full.
    """
    sizes = lengths + packing.eos_tokens
    held = np.flatnonzero(sizes)
    parts = cut_documents(sizes[held], packing.block, joined=packing.mode == "concat")
    parts = replace(parts, documents=held[parts.documents])
    if packing.mode == "concat":
        return parts, -(-int(sizes.sum()) // packing.block)
    if packing.mode == "none":
        return parts, parts.blocks.size
    places, count = place_best_fit(parts.sizes, packing.block)
    order = np.argsort(places, kind="stable")
    sizes, places = parts.sizes[order], places[order]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    first = np.searchsorted(places, places, side="left")
    return Parts(parts.documents[order], places, starts - starts[first], parts.starts[order], sizes), count


def permute(count: int, *seed: int) -> Ints:
    """A permutation of 0 .. count - 1 that depends only on the seed, not on the machine or the release of NumPy.

    It uses only the bit stream of Philox, which NumPy guarantees not to change: `permute(4, 1)` is always [2 0 1 3].
    """
    bits = np.random.Philox(np.random.SeedSequence(seed)).random_raw(count)
    return np.argsort(bits, kind="stable")
