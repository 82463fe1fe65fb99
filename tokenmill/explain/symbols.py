"""Shared by the explanations of training and encoding: base symbols of words, and the limit on the length of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.errors import UsageError
from tokenmill.models.kinds import kind_of
from tokenmill.reference import bpe as reference
from tokenmill.reference import wordpiece as reference_wordpiece

if TYPE_CHECKING:
    from tokenmill.models.base import Model

#: The limit on the characters of a text, and of all training words together. Longer explanations would not be readable.
MOST_CHARACTERS = 2_000


def split_word(word: str, model: str, marks_spaces: bool) -> list[str]:
    """Split a word into base symbols: `" é"` is `Ġ`, `é`, or in bytes `ĠÃ©`. `marks_spaces` is as in `CharacterAlphabet`."""
    if kind_of(model).of_bytes:
        symbols = reference.split_into_bytes(word)
    else:
        symbols = reference.split_into_characters(word) if marks_spaces else list(word)
    return reference_wordpiece.split_word(symbols) if kind_of(model).takes("score") else symbols


def is_known(model: Model, symbol: str) -> bool:
    """Whether a symbol is a token that text can produce; text never produces special tokens."""
    return symbol in model.vocab and symbol not in model.reserved_tokens


def check_length(characters: int, what: str, way_out: str) -> None:
    """Raise UsageError for more than `MOST_CHARACTERS` characters."""
    if characters > MOST_CHARACTERS:
        raise UsageError(f"{what} {characters:,} characters; explain takes at most {MOST_CHARACTERS:,}: {way_out}")
