"""Packing in plain Python: what `packing.py` and its kernels are held to by the tests.

A block is a list of parts `(document, start, tokens)`, where the tokens of a document are followed by EOS if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

Part = tuple[int, int, list[int]]
Block = list[Part]


def pack(documents: Sequence[Sequence[int]], block: int, mode: str, eos: int | None) -> list[Block]:
    """The blocks of `documents`; those that are not full are not padded."""
    ended = [[*tokens, *([] if eos is None else [eos])] for tokens in documents]
    if mode == "concat":
        return join(ended, block)
    parts = [
        (document, start, tokens[start : start + block]) for document, tokens in enumerate(ended) for start in cuts(tokens, block)
    ]
    return [[part] for part in parts] if mode == "none" else fit(parts, block)


def cuts(tokens: Sequence[int], block: int) -> range:
    """Where the parts of a document begin; a document without a token has none."""
    return range(0, len(tokens), block)


def join(documents: Sequence[Sequence[int]], block: int) -> list[Block]:
    """Documents one behind the other, a new block every `block` tokens."""
    blocks: list[Block] = []
    room = 0
    for document, tokens in enumerate(documents):
        start = 0
        while start < len(tokens):
            if room == 0:
                blocks.append([])
                room = block
            part = list(tokens[start : start + room])
            blocks[-1].append((document, start, part))
            start, room = start + len(part), room - len(part)
    return blocks


def fit(parts: Sequence[Part], block: int) -> list[Block]:
    """The largest part first, each into the block with the least room for it: of several, that which came to this room last."""
    blocks: list[list[int]] = []
    by_room: dict[int, list[int]] = {}
    for number in sorted(range(len(parts)), key=lambda number: -len(parts[number][2])):
        size = len(parts[number][2])
        room = min((room for room, waiting in by_room.items() if waiting and room >= size), default=block)
        if not by_room.get(room):
            by_room.setdefault(room, []).append(len(blocks))
            blocks.append([])
        chosen = by_room[room].pop()
        blocks[chosen].append(number)
        by_room.setdefault(room - size, []).append(chosen)
    return [[parts[number] for number in numbers] for numbers in sorted(map(sorted, blocks))]
