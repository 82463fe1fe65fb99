"""Explains why a model without an unk token cannot encode a text: names the first unknown character or word, and its place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokenmill.arrow import read_only
from tokenmill.models.alphabets import CODE_POINTS
from tokenmill.models.base import Model, describe_remedies
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer


class PlaceNamer:
    """Names places in a text as it was before normalizing. `text` may be the part of a text from character `first` on.

    The attribute `text` is the normalized text. With nfkc, the `x` of `ﬁx` is at `character 1 (2 when normalized)`.
    """

    def __init__(self, text: str, normalizer: Normalizer, first: int) -> None:
        self._original, self._first = np.frombuffer(text.encode(), np.uint8), first
        self._changes = not normalizer.is_identity
        self.text, self._origins = text, None
        if self._changes:
            data, _, self._origins = normalizer.runner().align(read_only(self._original), np.array([self._original.size]))
            self.text = data.tobytes().decode()

    def name(self, position: int) -> str:
        """Name the place that character number `position` of the normalized text comes from."""
        if not self._changes:
            return f"character {self._first + position}"
        place = len(self.text[:position].encode())
        source = place if self._origins is None else int(self._origins[place, 0])
        before = int(np.count_nonzero((self._original[:source] & 0xC0) != 0x80))
        return f"character {self._first + before} ({position} when normalized)"


def describe_lost_character(model: Model, pretokenizer: PreTokenizer, place: str, namer: PlaceNamer) -> str:
    """Say which character is not in the alphabet, where it is and what to do."""
    forms = model.character_forms.reshape(-1, CODE_POINTS)
    for ids, where in ((forms.max(axis=0), ""), (forms.min(axis=0), " where it stands")):
        for position, character in _kept_characters(pretokenizer, namer.text):
            if ids[ord(character)] < 0:
                found = f"{place}, {namer.name(position)}: {character!r} (U+{ord(character):04X})"
                return f"{found} is not in the alphabet{where}; {describe_remedies(model)}"
    return f"{place}: a character is not in the alphabet; {describe_remedies(model)}"


def _kept_characters(pretokenizer: PreTokenizer, text: str) -> Iterator[tuple[int, str]]:
    """The characters that reach the model, with their positions. Whitespace that marks the start of a word becomes a space."""
    for position, character in enumerate(text):
        if not pretokenizer.lossless and character.isspace():
            if pretokenizer.drops_spaces or position + 1 == len(text) or text[position + 1].isspace():
                continue  # The pre-tokenizer drops this whitespace.
            character = " "
        yield position, character


def describe_lost_word(model: Model, pretokenizer: PreTokenizer, place: str, namer: PlaceNamer) -> str:
    """Say which word is too long or cannot be split into tokens, where it is and what to do."""
    data = namer.text.encode()
    fine: set[bytes] = set()
    for word, start in _place_words(pretokenizer, data):
        lost = None if word in fine else model.find_lost(word)
        if lost is not None:
            at, reason = lost
            return f"{place}, {namer.name(len(data[: start + at].decode()))}: {reason}"
        fine.add(word)
    return f"{place}: tokens do not make up a word; {describe_remedies(model)}"


def _place_words(pretokenizer: PreTokenizer, data: bytes) -> Iterator[tuple[bytes, int]]:
    """The words, with the byte at which each begins. A word with a space marker begins at its whitespace."""
    position = 0
    for block in pretokenizer.blocks(np.frombuffer(data, np.uint8), np.array([len(data)])):
        start = block.first
        for end in block.word_ends.tolist():
            word = block.text[start:end].tobytes()
            marked = not pretokenizer.lossless and word.startswith(b" ")
            position = data.index(word[marked:], position) - marked
            yield word, position
            position, start = position + len(word), end
