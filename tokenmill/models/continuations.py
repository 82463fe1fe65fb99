"""Alphabets whose symbols show where in a word they stand: the first as it is, those that continue it behind a prefix.

`low` is `l`, `##o`, `##w`, and two symbols make a token that shows where it begins: `##o` and `##w` make `##ow`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.models.alphabets import BaseSymbols, ByteAlphabet, CharacterAlphabet, visible_bytes
from tokenmill.unicode_text import SURROGATE

PREFIX = "##"


@dataclass(frozen=True)
class ContinuationAlphabet:
    """An alphabet of bytes or characters, each in two forms. Raises `UsageError` for a prefix that is empty."""

    byte_fallback: ClassVar[bool] = False

    base: ByteAlphabet | CharacterAlphabet
    prefix: str = PREFIX

    def __post_init__(self) -> None:
        if not self.prefix or SURROGATE.search(self.prefix):
            raise UsageError(
                f"continuation prefix {self.prefix!r} must be Unicode text, one character or more, such as {PREFIX!r}"
            )

    @property
    def takes_any_bytes(self) -> bool:
        """Whether words need not be UTF-8."""
        return self.base.takes_any_bytes

    def join(self, left: str, right: str) -> str:
        """What two tokens make: `l` and `##o` make `lo`."""
        return left + right[len(self.prefix) :]

    def continues(self, token: str) -> bool:
        """Whether a token stands inside words: it has the prefix, and something behind it."""
        return len(token) > len(self.prefix) and token.startswith(self.prefix)

    def show_places(self, plain: BaseSymbols) -> BaseSymbols:
        """Words in symbols of the base alphabet (-1 for none), in the forms that these have at their places.

        Of bytes there are all 512, of characters those that the words hold: those that words begin with first, then those that
        continue them, both by code point.
        """
        inside = np.ones(plain.symbols.size, bool)
        inside[plain.starts[:-1][plain.starts[:-1] < plain.starts[1:]]] = False
        forms, known = 2 * plain.symbols.astype(np.int64) + inside, plain.symbols >= 0
        used = np.arange(2 * len(plain.visible)) if self.takes_any_bytes else np.unique(forms[known])
        used = used[np.argsort(used % 2, kind="stable")]
        number_of = np.zeros(2 * len(plain.visible), np.int32)
        number_of[used] = np.arange(used.size, dtype=np.int32)
        visible = tuple(self.prefix * (form % 2) + plain.visible[form // 2] for form in used.tolist())
        return BaseSymbols(np.where(known, number_of[forms], -1).astype(np.int32), plain.starts, visible)

    def spell(self, token: str) -> bytes:
        """The bytes a token stands for: `##ow` is `b"ow"`."""
        return self.base.spell(token[len(self.prefix) :] if self.continues(token) else token)

    def base_symbols(self, token: str) -> list[str] | None:
        """A token as base symbols: `low` is `l`, `##o`, `##w`."""
        symbols = self.base.base_symbols(token[len(self.prefix) :] if self.continues(token) else token)
        if not symbols:
            return symbols
        return [(self.prefix if place or self.continues(token) else "") + symbol for place, symbol in enumerate(symbols)]

    def check_tokens(self, tokens: Collection[str]) -> None:
        """A byte model has each byte in both forms, and no token that is not spelled in them."""
        if not self.takes_any_bytes:
            return
        for kind, prefix in (("initial", ""), ("continuation", self.prefix)):
            missing = [prefix + symbol for symbol in visible_bytes() if prefix + symbol not in tokens]
            if missing:
                raise TokenizerFileError(
                    f"vocab: a byte model needs all 256 {kind} bytes; {len(missing)} are missing, first {missing[0]!r}"
                )
        for token in sorted(tokens):
            if self.base.base_symbols(token[len(self.prefix) :] if self.continues(token) else token) is None:
                raise TokenizerFileError(f"vocab: {token!r} is not spelled in visible bytes; is this a wordpiece model?")
