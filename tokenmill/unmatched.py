"""Why a WordPiece model without an unk token cannot encode a text: the first word that is lost, and where."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokenmill.pretokenizers import PreTokenizer
from tokenmill.wordpiece import WordPieceModel

_SHOWN = 40


def describe_lost_word(model: WordPieceModel, pretokenizer: PreTokenizer, text: str, place: str) -> str:
    """Which word tokens do not make up or is too long, at which character of the text, and what to do about it."""
    data = text.encode()
    fine: set[bytes] = set()
    for word, start in _place_words(pretokenizer, data):
        lost = None if word in fine else _describe_word(model, word)
        if lost is not None:
            at, reason = lost
            return f"{place}, character {len(data[: start + at].decode())}: {reason}"
        fine.add(word)
    return f"{place}: tokens do not make up a word; train with --unk or byte-wordpiece"


def _describe_word(model: WordPieceModel, word: bytes) -> tuple[int, str] | None:
    """At which byte a word is lost, and why; None for one that is not."""
    limit, characters = model.max_word_characters, word.decode()
    shown = characters[:_SHOWN]
    if limit is not None and len(characters) > limit:
        return 0, (
            f"the word {shown!r} has {len(characters)} characters, more than the {limit} of max_word_characters; "
            "train with --unk, or without a limit"
        )
    at = model.find_unmatched(word)
    if at == len(word):
        return None
    character = word[at:].decode()[0]
    found = f"{character!r} (U+{ord(character):04X}) in the word {shown!r}"
    return at, f"{found} begins no token that fits; train with --unk or byte-wordpiece"


def _place_words(pretokenizer: PreTokenizer, data: bytes) -> Iterator[tuple[bytes, int]]:
    """Words, and the bytes where they begin; a marked one begins at its whitespace."""
    position = 0
    for block in pretokenizer.blocks(np.frombuffer(data, np.uint8), np.array([len(data)])):
        start = block.first
        for end in block.word_ends.tolist():
            word = block.text[start:end].tobytes()
            marked = not pretokenizer.lossless and word.startswith(b" ")
            position = data.index(word[marked:], position) - marked
            yield word, position
            position, start = position + len(word), end
