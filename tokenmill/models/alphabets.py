"""Alphabets: the base symbols of a model, and the visible form of its tokens.

A word is a sequence of bytes. In a byte alphabet each byte is a symbol, shown in GPT-2's visible form. In a character alphabet
each character is a symbol; if the pre-tokenizer marks spaces, a space is shown as `Ġ`. Base symbols are numbered in order of the
code points of their visible form.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tokenmill.errors import DataError, TokenizerFileError

CODE_POINTS = 0x110000
#: The 13 bytes that UTF-8 text never contains. Some published byte vocabularies do not have them.
NEVER_IN_UTF_8 = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})
#: The character that shows a space.
MARKER = "Ġ"


@dataclass(frozen=True)
class BaseSymbols:
    """Words as base symbols: `symbols` int32[n], `starts` int64[w + 1], and the visible form of each symbol id.

    -1 marks the place of a character that has no symbol; its neighbours form no pair with it.
    """

    symbols: np.ndarray
    starts: np.ndarray
    visible: tuple[str, ...]


@dataclass(frozen=True)
class ByteAlphabet:
    """The alphabet of the 256 bytes, in which nothing is unknown.

    A vocabulary need not have tokens for the bytes that UTF-8 text never contains.
    """

    takes_any_bytes: ClassVar[bool] = True
    byte_fallback: ClassVar[bool] = False

    def join(self, left: str, right: str) -> str:
        """Join two tokens."""
        return left + right

    def symbols_of(self, data: np.ndarray, offsets: np.ndarray) -> BaseSymbols:
        """Split words `data[offsets[w]:offsets[w + 1]]` (uint8[n], int64[w + 1]) into base symbols."""
        visible = visible_bytes()
        order = sorted(range(256), key=lambda byte: visible[byte])
        symbol_of = np.empty(256, np.int32)
        symbol_of[order] = np.arange(256, dtype=np.int32)
        return BaseSymbols(symbol_of[data], offsets, tuple(sorted(visible)))

    def spell(self, token: str) -> bytes:
        """The bytes of a token: `Ġthe` is `b" the"`."""
        return bytes(_byte_of_visible()[character] for character in token)

    def base_symbols(self, token: str) -> list[str] | None:
        """Split a string in the visible form into base symbols; None if it is not in the visible form."""
        return list(token) if all(character in _byte_of_visible() for character in token) else None

    def check_tokens(self, tokens: Collection[str]) -> None:
        """Check that all bytes of UTF-8 text are tokens and all tokens are in the visible form. Raises `TokenizerFileError`."""
        missing = [symbol for byte, symbol in enumerate(visible_bytes()) if symbol not in tokens and byte not in NEVER_IN_UTF_8]
        if missing:
            raise TokenizerFileError(f"vocab: a byte model needs all 256 bytes; {len(missing)} are missing, first {missing[0]!r}")
        visible = frozenset(visible_bytes())
        if not visible.issuperset("".join(tokens)):
            others = [token for token in tokens if not visible.issuperset(token)]
            raise TokenizerFileError(f"vocab: {min(others)!r} is not spelled in visible bytes; is this a char-bpe model?")

    def lookup_tables(self, vocab: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """`(byte_ids, character_ids)` of `kernels.encode.BpeTables`."""
        return np.array([vocab.get(symbol, -1) for symbol in visible_bytes()], np.int32), np.empty(0, np.int32)


@dataclass(frozen=True)
class CharacterAlphabet:
    """The alphabet of the characters seen in training. With `marks_spaces`, a space is shown and stored as `Ġ`.

    With `byte_fallback`, other characters are encoded with the tokens `<0x00>` to `<0xFF>`, one for each byte. If `Ġ` stands for
    a space, a `Ġ` in the text is encoded in bytes too, so decoding returns every text unchanged.
    """

    marks_spaces: bool
    byte_fallback: bool = False
    takes_any_bytes: ClassVar[bool] = False

    def join(self, left: str, right: str) -> str:
        """Join two tokens."""
        return left + right

    def symbols_of(self, data: np.ndarray, offsets: np.ndarray) -> BaseSymbols:
        """Split words of valid UTF-8 into base symbols, as `ByteAlphabet.symbols_of` does. Their characters are the alphabet."""
        code_points = code_points_of(data, offsets)
        if self.marks_spaces:
            shown = np.where(code_points == ord(" "), np.uint32(ord(MARKER)), code_points)
            # A number after all code points: it sorts last, so removing it does not change the numbers of the others.
            code_points = np.where(code_points == ord(MARKER), np.uint32(CODE_POINTS), shown) if self.byte_fallback else shown
        alphabet, symbols = np.unique(code_points, return_inverse=True)
        symbols = np.where(alphabet[symbols] == CODE_POINTS, -1, symbols) if alphabet[-1:] == CODE_POINTS else symbols
        characters_before = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
        visible = tuple(chr(point) for point in alphabet if point < CODE_POINTS)
        return BaseSymbols(symbols.astype(np.int32), characters_before[offsets], visible)

    def spell(self, token: str) -> bytes:
        """The bytes of a token: with `marks_spaces`, `Ġthe` is `b" the"`."""
        if self.byte_fallback and token in bytes_of_tokens():
            return bytes_of_tokens()[token]
        return (token.replace(MARKER, " ") if self.marks_spaces else token).encode("utf-8")

    def base_symbols(self, token: str) -> list[str] | None:
        """Split a token into base symbols."""
        return list(token)

    def check_tokens(self, tokens: Collection[str]) -> None:
        """Check that the 256 byte tokens are there if `byte_fallback` is set; nothing else is required.

        Raises `TokenizerFileError`. Characters without a token are unknown.
        """
        missing = [token for token in byte_tokens() if token not in tokens] if self.byte_fallback else []
        if missing:
            raise TokenizerFileError(
                f"vocab: byte_fallback needs all 256 byte tokens; {len(missing)} are missing, first {missing[0]!r}"
            )

    def lookup_tables(self, vocab: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """`(byte_ids, character_ids)` of `kernels.encode.BpeTables`."""
        character_ids = np.full(CODE_POINTS, -1, np.int32)
        for token, token_id in vocab.items():
            if len(token) == 1:
                character_ids[ord(token)] = token_id
        if self.marks_spaces:
            character_ids[ord(" ")] = character_ids[ord(MARKER)]
            if self.byte_fallback:
                character_ids[ord(MARKER)] = -1
        return np.empty(0, np.int32), character_ids


def code_points_of(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The code points of words `data[offsets[w]:offsets[w + 1]]`, uint32[n]. Raises `DataError` for a word that is not UTF-8."""
    try:
        text = data.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        word = int(np.searchsorted(offsets, error.start, side="right")) - 1
        raise DataError(f"word {word} of the counts is not UTF-8; train a byte-bpe model, or count the corpus again") from None
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


@lru_cache(maxsize=1)
def visible_bytes() -> tuple[str, ...]:
    """GPT-2's visible form of each byte, one character: `visible_bytes()[0x20]` is `Ġ`, `visible_bytes()[0x41]` is `A`."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


@lru_cache(maxsize=1)
def byte_tokens() -> tuple[str, ...]:
    """The tokens of byte fallback, which encode unknown characters: `byte_tokens()[10]` is `<0x0A>`."""
    return tuple(f"<0x{byte:02X}>" for byte in range(256))


@lru_cache(maxsize=1)
def bytes_of_tokens() -> dict[str, bytes]:
    """The byte of each token of byte fallback: `bytes_of_tokens()["<0x0A>"]` is the byte 10."""
    return {token: bytes([byte]) for byte, token in enumerate(byte_tokens())}


@lru_cache(maxsize=1)
def _byte_of_visible() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(visible_bytes())}
