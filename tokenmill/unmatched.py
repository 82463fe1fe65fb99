"""Why a WordPiece model without an unk token cannot encode a text: the first word that is lost, and where."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokenmill.pretokenizers import PreTokenizer
from tokenmill.wordpiece import WordPieceModel

_SHOWN = 40


def describe_lost_word(model: WordPieceModel, pretokenizer: PreTokenizer, text: str, place: str) -> str:
    """Which word tokens do not make up or is too long, at which character of the text, and what to do about it."""
    limit = model.max_word_characters
    for word, start in _place_words(pretokenizer, text.encode()):
        shown, position, characters = word.decode()[:_SHOWN], len(text.encode()[:start].decode()), len(word.decode())
        if limit is not None and characters > limit:
            return (
                f"{place}, character {position}: the word {shown!r} has {characters} characters, more than the {limit} "
                "of max_word_characters; train with --unk, or without a limit"
            )
        at = model.find_unmatched(word)
        if at < len(word):
            character, position = word[at:].decode()[0], position + len(word[:at].decode())
            return (
                f"{place}, character {position}: {character!r} (U+{ord(character):04X}) in the word {shown!r} begins no token "
                "that fits; train with --unk or byte-wordpiece"
            )
    return f"{place}: tokens do not make up a word; train with --unk or byte-wordpiece"


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
