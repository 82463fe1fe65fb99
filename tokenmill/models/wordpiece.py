"""The WordPiece model: it takes the longest token that a word begins with, then the longest that continues it, and so on.

Encoding uses only the vocabulary. The merge rules record how training built it; they are empty for a vocabulary made elsewhere.
Encoding follows BERT's published code: a word becomes one unk token if it cannot be split into tokens or has too many characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.kernels import bpe_merge
from tokenmill.kernels import wordpiece as kernel
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet
from tokenmill.models.base import CommonFields, Model, Rules, TokenWords, describe_remedies
from tokenmill.models.continuations import PREFIX, ContinuationAlphabet
from tokenmill.models.kinds import kind_of
from tokenmill.models.token_trees import TokenTree

#: The limit of BERT.
MOST_CHARACTERS = 100
#: The highest limit that is allowed.
MOST_LIMIT = (1 << 31) - 1
_NO_LIMIT = (1 << 63) - 1
#: How many characters of a word a message shows.
_SHOWN = 40


def wordpiece_alphabet(model: str, *, marks_spaces: bool, prefix: str | None = None) -> ContinuationAlphabet:
    """The alphabet of a WordPiece model, by the name of its kind. Raises `UsageError` for an empty prefix."""
    base = ByteAlphabet() if kind_of(model).of_bytes else CharacterAlphabet(marks_spaces)
    return ContinuationAlphabet(base, PREFIX if prefix is None else prefix)


@dataclass(frozen=True)
class WordPieceModel(Model):
    """A WordPiece model (Schuster and Nakajima, 2012; as in BERT); `merge_rules` are pairs such as `("l", "##o")`.

    Words longer than `max_word_characters` become the unk token; None means no limit. A byte model has no limit, because it can
    split every word into tokens.
    """

    loses_words: ClassVar[bool] = True

    alphabet: ContinuationAlphabet
    max_word_characters: int | None = MOST_CHARACTERS

    @classmethod
    def make_alphabet(cls, name: str, *, marks_spaces: bool, **options: Any) -> ContinuationAlphabet:
        """Make the alphabet of a kind from the training option for the continuation prefix."""
        return wordpiece_alphabet(name, marks_spaces=marks_spaces, prefix=options["continuation_prefix"])

    @classmethod
    def of_training(cls, name: str, alphabet: Any, vocab: Mapping[str, int], rules: Rules, **options: Any) -> WordPieceModel:
        """Make a model from the result of training. `options["max_word_characters"]` is the limit on words, 0 for no limit."""
        limit = limit_of(name, options["max_word_characters"])
        return cls(name, alphabet, vocab, rules, options["specials"], options["unk"], limit)

    @classmethod
    def of_fields(cls, name: str, common: CommonFields, *, marks_spaces: bool, **fields: Any) -> WordPieceModel:
        """Make the model of a native tokenizer.json."""
        try:
            alphabet = wordpiece_alphabet(name, marks_spaces=marks_spaces, prefix=fields.get("continuation_prefix"))
        except UsageError as error:
            raise TokenizerFileError(f"continuation_prefix: {error}") from None
        limit = fields.get("max_word_characters", limit_of(name, None))
        return cls(
            name,
            alphabet,
            common.vocab,
            common.rules,
            common.specials,
            common.unk,
            limit,
            added_tokens=common.added,
            token_flags=common.flags,
        )

    def describe_fields(self) -> dict[str, Any]:
        """The fields that determine encoding."""
        return {"continuation_prefix": self.continuation_prefix, "max_word_characters": self.max_word_characters}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limit(self.max_word_characters, of_bytes=self.takes_any_bytes)

    @property
    def continuation_prefix(self) -> str:
        """The prefix of tokens that continue a word."""
        return self.alphabet.prefix

    @cached_property
    def tables(self) -> kernel.WordPieceTables:
        """The model as arrays for the kernels."""
        beginnings = _grow_tree(TokenWords.of(self._first), backwards=False)
        continuations = _grow_tree(TokenWords.of(self._later), backwards=True)
        limit = _NO_LIMIT if self.max_word_characters is None else self.max_word_characters
        return kernel.WordPieceTables(
            beginnings.edges,
            beginnings.tokens,
            continuations.edges,
            *continuations.link(),
            np.int64(limit),
        )

    def allocate_scratch(self) -> np.ndarray:
        """Allocate the memory for the ids of a short word."""
        return np.empty(bpe_merge.SHORT_SYMBOLS, np.int64)

    def list_whole_tokens(self) -> list[int]:
        """The ids of tokens of two or more characters that begin a word."""
        return sorted(self._ordinary[token] for token in self._ordinary if len(token) > 1 and not self.alphabet.continues(token))

    def list_continuing_tokens(self) -> list[int]:
        """The ids of tokens that continue a word."""
        return sorted(self._later.values())

    def find_lost(self, word: bytes) -> tuple[int, str] | None:
        """Find the byte at which encoding a word fails, and the reason: too many characters, or no token that fits there."""
        limit, characters = self.max_word_characters, word.decode()
        shown = characters[:_SHOWN]
        if limit is not None and len(characters) > limit:
            return 0, (
                f"the word {shown!r} has {len(characters)} characters, more than the {limit} of max_word_characters; "
                "train with --unk TOKEN, or without a limit (--max-word-characters 0)"
            )
        at = self.find_unmatched(word)
        if at == len(word):
            return None
        character = word[at:].decode()[0]
        found = f"{character!r} (U+{ord(character):04X}) in the word {shown!r}"
        return at, f"{found} begins no token that fits; {describe_remedies(self)}"

    def find_unmatched(self, word: bytes) -> int:
        """Find the first byte of a word where no token fits; the length of the word if tokens cover it."""
        place, known = 0, self._first.keys()
        while place < len(word):
            ends = range(min(len(word), place + self._longest), place, -1)
            end = next((end for end in ends if word[place:end] in known), place)
            if end == place:
                break
            place, known = end, self._later.keys()
        return place

    @cached_property
    def _ordinary(self) -> dict[str, int]:
        """The tokens that can be produced from text."""
        reserved = self.reserved_tokens
        return {token: token_id for token, token_id in self.vocab.items() if token not in reserved}

    @cached_property
    def _longest(self) -> int:
        """The length of the longest token in bytes."""
        return max(map(len, self._first), default=0)

    @cached_property
    def _first(self) -> dict[bytes, int]:
        """The tokens that a word can begin with, by their bytes. These are all tokens, also those that continue a word.

        The published algorithm looks up the start of a word without a prefix, so a word such as `##s` can match a continuation
        token. BERT's pre-tokenizer never produces such a word.
        """
        return {self.alphabet.base.spell(token): token_id for token, token_id in self._ordinary.items()}

    @cached_property
    def _later(self) -> dict[bytes, int]:
        """The continuation tokens, by their bytes without the prefix."""
        tokens = self._ordinary.items()
        return {self.spellings[token_id]: token_id for token, token_id in tokens if self.alphabet.continues(token)}

    @cached_property
    def word_starts(self) -> frozenset[int]:
        """The ids of all tokens except those that continue a word."""
        return frozenset(self.vocab.values()) - frozenset(self._later.values())

    def _spell_words(self, ids: Iterable[int], between_words: bytes) -> Iterator[bytes]:
        """Insert `between_words` between the words."""
        inside, between = frozenset(self._later.values()), b""
        for token_id in ids:
            spelled = self.spellings[token_id]
            yield spelled if token_id in inside else between + spelled
            between = between_words


def limit_of(model: str, most_characters: int | None) -> int | None:
    """The `max_word_characters` of a model from the training option: None means the default, 0 no limit."""
    if most_characters is None:
        return None if kind_of(model).of_bytes else MOST_CHARACTERS
    return most_characters or None


def check_limit(most_characters: int | None, *, of_bytes: bool) -> None:
    """Check that a limit is an integer from 1 to `MOST_LIMIT` and the model is one of characters. Raises `TokenizerFileError`."""
    if most_characters is None:
        return
    if of_bytes:
        raise TokenizerFileError(
            f"max_word_characters: {most_characters}, but a byte-wordpiece model takes words of any length; leave it out"
        )
    if not isinstance(most_characters, int) or isinstance(most_characters, bool) or not 1 <= most_characters <= MOST_LIMIT:
        raise TokenizerFileError(f"max_word_characters: {most_characters!r} is no whole number from 1 to {MOST_LIMIT}")


def _grow_tree(words: TokenWords, *, backwards: bool) -> TokenTree:
    return TokenTree.of(words.text, words.ends, words.ids, backwards=backwards)
