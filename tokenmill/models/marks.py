"""Alphabets whose symbols show where a word begins or ends.

    suffix as a symbol      e s t </w>    the last symbol of every word; a token made from it ends with it
    suffix on the last      e s t</w>     Hugging Face's `end_of_word_suffix`; only for imported models
    prefix on the others    e ##s ##t     Hugging Face's `continuing_subword_prefix`; a token has it at most once, at its start

The mark is part of the token's text, so ordinary text must not look like a mark. If a word contains the text of the suffix, or
begins with the text of the prefix, training never merges the first character of that text with the character after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet, bytes_of_tokens, visible_bytes
from tokenmill.unicode_text import check_unicode

#: Which symbols of a word have a second form.
PLAIN, LATER, LAST = "plain", "later", "last"


@dataclass(frozen=True)
class WordMarks:
    """An end-of-word suffix (`attached` to the last symbol, or a symbol of its own) or a continuation prefix, but not both.

    Raises UsageError for both, and for a mark that is not Unicode text.
    """

    suffix: str = ""
    prefix: str = ""
    attached: bool = False

    def __post_init__(self) -> None:
        if self.suffix and self.prefix:
            raise UsageError("an end-of-word suffix and a continuation prefix do not go together; give one of them")
        for name, mark in (("end-of-word suffix", self.suffix), ("continuation prefix", self.prefix)):
            check_unicode(mark, name=name)

    @property
    def text(self) -> str:
        """The suffix or the prefix, whichever is set; empty without marks."""
        return self.suffix or self.prefix

    @property
    def marking(self) -> str:
        """Which symbols have a second form: PLAIN, LATER (all but the first) or LAST."""
        if self.prefix:
            return LATER
        return LAST if self.attached else PLAIN

    @property
    def has_ending(self) -> bool:
        """Whether the suffix is a symbol of its own."""
        return bool(self.suffix) and not self.attached

    def holds(self, token: str) -> bool:
        """Whether a token has the mark. With the prefix `##`, `##a` has it; `##` and `a##` do not."""
        if self.prefix:
            return token.startswith(self.prefix) and len(token) > len(self.prefix)
        return token.endswith(self.suffix) and len(token) >= len(self.suffix) + self.attached

    def bare(self, token: str) -> str:
        """A token without its mark: `est</w>` is `est`."""
        if not self.holds(token):
            return token
        return token[len(self.prefix) : len(token) - len(self.suffix)]

    def put_on(self, symbol: str) -> str:
        """Add the mark to a base symbol, which gives its second form: `##a`, `a</w>`."""
        return self.prefix + symbol + self.suffix


@dataclass(frozen=True)
class MarkedAlphabet:
    """An alphabet with marks on its symbols."""

    base: ByteAlphabet | CharacterAlphabet
    marks: WordMarks

    @property
    def takes_any_bytes(self) -> bool:
        """Whether texts need not be UTF-8."""
        return self.base.takes_any_bytes

    @property
    def byte_fallback(self) -> bool:
        """Whether unknown characters are encoded with byte tokens."""
        return self.base.byte_fallback

    def join(self, left: str, right: str) -> str:
        """Join two tokens: `##l` and `##o` make `##lo`."""
        return left + right.removeprefix(self.marks.prefix)

    def check_rule(self, left: str, right: str) -> str | None:
        """Say what is wrong with a rule whose tokens do not fit the marks; None if they fit."""
        holds, product = self.marks.holds, self.join(left, right)
        if self.marks.prefix:
            fits = holds(right) and holds(product) == holds(left)
        else:
            fits = not holds(left) and holds(product) == holds(right)
        return None if fits else f"({left!r}, {right!r}) does not fit the mark {self.marks.text!r}"

    def spell(self, token: str) -> bytes:
        """The bytes of a token without its mark; text dropped between words is not included."""
        if self.byte_fallback and token in bytes_of_tokens():
            return bytes_of_tokens()[token]
        return self.base.spell(self.marks.bare(token))

    def base_symbols(self, token: str) -> list[str] | None:
        """Split a string in the visible form into base symbols.

        The first symbol has the prefix, or the last one the suffix, only if the string has it.
        """
        marks = self.marks
        bare = self.base.base_symbols(marks.bare(token)) or []
        if marks.prefix:
            first = marks.put_on if marks.holds(token) else str
            return [first(symbol) if place == 0 else marks.put_on(symbol) for place, symbol in enumerate(bare)]
        if not marks.holds(token):
            return bare
        return [*bare[:-1], marks.put_on(bare[-1])] if marks.attached else [*bare, marks.suffix]

    def check_tokens(self, tokens: Collection[str]) -> None:
        """Check that the suffix is a token if it is a symbol, and that a byte model has all bytes in the forms that it needs.

        Raises `TokenizerFileError`. A character model has no further requirements.
        """
        marks = self.marks
        if marks.has_ending and marks.suffix not in tokens:
            raise TokenizerFileError(f"vocab: the end-of-word suffix {marks.suffix!r} has no id; add it")
        if not isinstance(self.base, ByteAlphabet):
            self.base.check_tokens(tokens)
            return
        if marks.text in visible_bytes():
            raise TokenizerFileError(f"the mark {marks.text!r} is a byte itself; a longer one is needed")
        self.base.check_tokens({token for token in tokens if not marks.holds(token)})
        missing = [form for symbol in visible_bytes() if (form := marks.put_on(symbol)) not in tokens]
        if marks.marking != PLAIN and missing:
            raise TokenizerFileError(
                f"vocab: a byte model needs all 256 bytes with the mark too; {len(missing)} are missing, first {missing[0]!r}"
            )
        self.base.check_tokens({*visible_bytes(), *filter(None, (marks.bare(token) for token in tokens if marks.holds(token)))})

    def lookup_tables(self, vocab: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """`(byte_ids, character_ids)` of `kernels.encode.BpeTables`; if symbols have a second form, it is the second half."""
        marks = self.marks
        tables = self.base.lookup_tables({token: token_id for token, token_id in vocab.items() if not marks.holds(token)})
        if marks.marking == PLAIN:
            return tables
        marked = {marks.bare(token): token_id for token, token_id in vocab.items() if marks.holds(token)}
        second = self.base.lookup_tables(marked)
        return np.concatenate([tables[0], second[0]]), np.concatenate([tables[1], second[1]])

    def ending(self, vocab: Mapping[str, int]) -> int | None:
        """The id of the symbol that ends every word, or None if there is none."""
        return vocab[self.marks.suffix] if self.marks.has_ending else None


Alphabet = ByteAlphabet | CharacterAlphabet | MarkedAlphabet
