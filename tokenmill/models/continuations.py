"""Alphabets whose symbols show their position in a word: all symbols but the first have a continuation prefix.

`low` is `l`, `##o`, `##w`. A token made of two symbols shows where it begins too: `##o` and `##w` make `##ow`.
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
    """An alphabet of bytes or characters, each with and without the prefix. Raises `UsageError` for an empty prefix."""

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
        """Join two tokens: `l` and `##o` make `lo`."""
        return left + right[len(self.prefix) :]

    def continues(self, token: str) -> bool:
        """Whether a token continues a word: it has the prefix, and at least one character after it."""
        return len(token) > len(self.prefix) and token.startswith(self.prefix)

    def show_places(self, plain: BaseSymbols) -> BaseSymbols:
        """Give each base symbol of the words (-1 for none) the form of its position: without the prefix at the start of a word.

        The new alphabet has all 512 forms of bytes, but only those forms of characters that occur in the words. The forms that
        begin words come first, then those that continue them, each in order of code point.
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
        """The bytes of a token: `##ow` is `b"ow"`."""
        return self.base.spell(token[len(self.prefix) :] if self.continues(token) else token)

    def base_symbols(self, token: str) -> list[str] | None:
        """Split a token into base symbols: `low` is `l`, `##o`, `##w`."""
        symbols = self.base.base_symbols(token[len(self.prefix) :] if self.continues(token) else token)
        if not symbols:
            return symbols
        return [(self.prefix if place or self.continues(token) else "") + symbol for place, symbol in enumerate(symbols)]

    def check_tokens(self, tokens: Collection[str]) -> None:
        """Check that a byte model has each byte in both forms and that bytes spell every token. Raises `TokenizerFileError`."""
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
