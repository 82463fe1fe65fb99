"""What training and encoding have in common: words as base symbols, and how much text can be followed step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.errors import UsageError
from tokenmill.models.kinds import kind_of
from tokenmill.reference import bpe as reference
from tokenmill.reference import wordpiece as reference_wordpiece

if TYPE_CHECKING:
    from tokenmill.models.base import Model

#: Characters of a text, and of all words trained on: more than anybody reads step by step.
MOST_CHARACTERS = 2_000


def split_word(word: str, model: str, marks_spaces: bool) -> list[str]:
    """The base symbols of a word in a model; `marks_spaces` as in `CharacterAlphabet`: `" é"` is `Ġ`, `é`, or in bytes `ĠÃ©`."""
    if kind_of(model).of_bytes:
        symbols = reference.split_into_bytes(word)
    else:
        symbols = reference.split_into_characters(word) if marks_spaces else list(word)
    return reference_wordpiece.split_word(symbols) if kind_of(model).takes("score") else symbols


def is_known(model: Model, symbol: str) -> bool:
    """Whether text can make a token of this spelling: special tokens never come out of text."""
    return symbol in model.vocab and symbol not in model.reserved_tokens


def check_length(characters: int, what: str, way_out: str) -> None:
    """No more characters than one can follow step by step, or UsageError."""
    if characters > MOST_CHARACTERS:
        raise UsageError(f"{what} {characters:,} characters; explain takes at most {MOST_CHARACTERS:,}: {way_out}")
