"""Alphabets whose symbols tell where a word begins or ends.

    a suffix as a symbol      e s t </w>        the last symbol of every word; what rules make of it ends with it
    a suffix on the last      e s t</w>         the form that Hugging Face calls `end_of_word_suffix`, known for imported models
    a prefix on all others    e ##s ##t         Hugging Face's `continuing_subword_prefix`; what rules make has it once, in front

A token says what it is by its text alone, so text must not look like a mark: where a word holds the suffix, or begins with the
prefix, training never merges across the first character of it.
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
    """An end-of-word suffix (`attached` to the last symbol, or a symbol by itself) or a continuation prefix; not both.

    Raises UsageError for marks that cannot be.
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
        """The suffix or the prefix, whichever there is; it is empty without marks."""
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
        """Whether a token has the mark: with the prefix `##`, `##a` has, and `##` and `a##` have not."""
        if self.prefix:
            return token.startswith(self.prefix) and len(token) > len(self.prefix)
        return token.endswith(self.suffix) and len(token) >= len(self.suffix) + self.attached

    def bare(self, token: str) -> str:
        """A token without its mark: `est</w>` is `est`."""
        if not self.holds(token):
            return token
        return token[len(self.prefix) : len(token) - len(self.suffix)]

    def put_on(self, symbol: str) -> str:
        """The second form of a base symbol: `##a`, `a</w>`."""
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
        """Whether unknown characters are spelt by byte tokens."""
        return self.base.byte_fallback

    def join(self, left: str, right: str) -> str:
        """What two tokens make: `##l` and `##o` are `##lo`."""
        return left + right.removeprefix(self.marks.prefix)

    def check_rule(self, left: str, right: str) -> str | None:
        """What is wrong with a rule whose tokens contradict their marks, None when nothing is."""
        holds, product = self.marks.holds, self.join(left, right)
        if self.marks.prefix:
            fits = holds(right) and holds(product) == holds(left)
        else:
            fits = not holds(left) and holds(product) == holds(right)
        return None if fits else f"({left!r}, {right!r}) does not fit the mark {self.marks.text!r}"

    def spell(self, token: str) -> bytes:
        """The bytes that a token stands for, whatever is between words left out."""
        if self.byte_fallback and token in bytes_of_tokens():
            return bytes_of_tokens()[token]
        return self.base.spell(self.marks.bare(token))

    def base_symbols(self, token: str) -> list[str] | None:
        """A string in the visible form as base symbols of a whole word, its end marked if the string's is."""
        marks = self.marks
        bare = self.base.base_symbols(marks.bare(token)) or []
        if marks.prefix:
            first = marks.put_on if marks.holds(token) else str
            return [first(symbol) if place == 0 else marks.put_on(symbol) for place, symbol in enumerate(bare)]
        if not marks.holds(token):
            return bare
        return [*bare[:-1], marks.put_on(bare[-1])] if marks.attached else [*bare, marks.suffix]

    def check_tokens(self, tokens: Collection[str]) -> None:
        """The bytes are there in both forms, or the suffix is; nothing else is asked of the alphabet of a character model."""
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
        """`(byte_ids, character_ids)` of `kernels.bpe.BpeTables`; with second forms, those are the second half."""
        marks = self.marks
        tables = self.base.lookup_tables({token: token_id for token, token_id in vocab.items() if not marks.holds(token)})
        if marks.marking == PLAIN:
            return tables
        marked = {marks.bare(token): token_id for token, token_id in vocab.items() if marks.holds(token)}
        second = self.base.lookup_tables(marked)
        return np.concatenate([tables[0], second[0]]), np.concatenate([tables[1], second[1]])

    def ending(self, vocab: Mapping[str, int]) -> int | None:
        """The id of the symbol behind the last of every word, None where there is none."""
        return vocab[self.marks.suffix] if self.marks.has_ending else None


Alphabet = ByteAlphabet | CharacterAlphabet | MarkedAlphabet
