"""Packing in plain Python. The tests compare `dataset/packing.py` and its kernels with it.

A block is a list of parts `(document, start, tokens)`. The tokens of a document are followed by EOS, if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

Part = tuple[int, int, list[int]]
Block = list[Part]


def pack(documents: Sequence[Sequence[int]], block: int, mode: str, eos: int | None) -> list[Block]:
    """Pack `documents` into blocks. Blocks that are not full are not padded."""
    ended = [[*tokens, *([] if eos is None else [eos])] for tokens in documents]
    if mode == "concat":
        return join(ended, block)
    parts = [
        (document, start, tokens[start : start + block]) for document, tokens in enumerate(ended) for start in cuts(tokens, block)
    ]
    return [[part] for part in parts] if mode == "none" else fit(parts, block)


def cuts(tokens: Sequence[int], block: int) -> range:
    """The places where the parts of a document begin. A document without tokens has no part."""
    return range(0, len(tokens), block)


def join(documents: Sequence[Sequence[int]], block: int) -> list[Block]:
    """Concatenate documents, and begin a new block every `block` tokens."""
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
    """Place the largest part first, each in the block with the least room that fits it.

    If several blocks have this room, the one that reached it last is used.
    """
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
