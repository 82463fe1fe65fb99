"""The WordPiece model: a word is the longest token that it begins with, then the longest that continues it, and so on.

Encoding needs the vocabulary alone; the merge rules say how training came by it, and are empty where it was made elsewhere. It
encodes as BERT's published code does: a word that tokens do not make up, and one of too many characters, becomes one unk token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.kernels import wordpiece as kernel
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet
from tokenmill.models.bpe import Model, TokenWords
from tokenmill.models.continuations import PREFIX, ContinuationAlphabet
from tokenmill.models.token_trees import TokenTree
from tokenmill.names import SCORES, WORDPIECE_MODELS

#: BERT's own limit.
MOST_CHARACTERS = 100
#: The highest that a limit can be.
MOST_LIMIT = (1 << 31) - 1
_NO_LIMIT = (1 << 63) - 1


def wordpiece_alphabet(model: str, *, marks_spaces: bool, prefix: str | None = None) -> ContinuationAlphabet:
    """The alphabet of a WordPiece model by name. Raises `UsageError` for a prefix that is empty."""
    base = ByteAlphabet() if model == "byte-wordpiece" else CharacterAlphabet(marks_spaces)
    return ContinuationAlphabet(base, PREFIX if prefix is None else prefix)


@dataclass(frozen=True)
class WordPieceModel(Model):
    """A WordPiece model (Schuster and Nakajima, 2012; as in BERT); `merge_rules` are pairs such as `("l", "##o")`.

    `max_word_characters`: longer words become the unk token, None for no limit. A model of bytes has none: it makes up every
    word.
    """

    alphabet: ContinuationAlphabet
    max_word_characters: int | None = MOST_CHARACTERS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limit(self.max_word_characters, of_bytes=self.takes_any_bytes)

    @property
    def continuation_prefix(self) -> str:
        """What tokens that continue a word begin with."""
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

    def find_unmatched(self, word: bytes) -> int:
        """The byte of a word, which tokens do not make up, where none fits."""
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
        """The tokens that come out of text."""
        reserved = self.reserved_tokens
        return {token: token_id for token, token_id in self.vocab.items() if token not in reserved}

    @cached_property
    def _longest(self) -> int:
        """Bytes of the longest token."""
        return max(map(len, self._first), default=0)

    @cached_property
    def _first(self) -> dict[bytes, int]:
        """Tokens that a word can begin with, by its bytes: all of them, since the published algorithm looks it up as it is.

        So a word that begins with the prefix can be a continuation token. (No pre-tokenizer of BERT gives such a word.)
        """
        return {self.alphabet.base.spell(token): token_id for token, token_id in self._ordinary.items()}

    @cached_property
    def _later(self) -> dict[bytes, int]:
        """Continuation tokens, by the bytes that they stand for."""
        tokens = self._ordinary.items()
        return {self.spellings[token_id]: token_id for token, token_id in tokens if self.alphabet.continues(token)}

    @cached_property
    def word_starts(self) -> frozenset[int]:
        """The ids of all tokens but those that continue a word."""
        return frozenset(self.vocab.values()) - frozenset(self._later.values())

    def _spell_words(self, ids: Iterable[int], between_words: bytes) -> Iterator[bytes]:
        """Between words stands what was dropped there."""
        inside, between = frozenset(self._later.values()), b""
        for token_id in ids:
            spelled = self.spellings[token_id]
            yield spelled if token_id in inside else between + spelled
            between = between_words


def check_limit(most_characters: int | None, *, of_bytes: bool) -> None:
    """A limit is a whole number of one or more, and only models of characters can have one."""
    if most_characters is None:
        return
    if of_bytes:
        raise TokenizerFileError(
            f"max_word_characters: {most_characters}, but a byte-wordpiece model takes words of any length; leave it out"
        )
    if not isinstance(most_characters, int) or isinstance(most_characters, bool) or not 1 <= most_characters <= MOST_LIMIT:
        raise TokenizerFileError(f"max_word_characters: {most_characters!r} is no whole number from 1 to {MOST_LIMIT}")


# --- options of training --------------------------------------------------------------------------------------------------------


def check_options(model: str, score: str | None, most_characters: int | None) -> None:
    """Options of training that are for WordPiece alone. Raises `UsageError` for another model, and for values that are wrong."""
    if model not in WORDPIECE_MODELS:
        for name, value in (("score", score), ("max word characters", most_characters)):
            if value is not None:
                raise UsageError(f"{name} {value!r} is for wordpiece, not for {model}; leave it out")
        return
    if score is not None and score not in SCORES:
        raise UsageError(f"score {score!r} is not known; choose one of {', '.join(SCORES)}")
    if most_characters is not None and not 0 <= most_characters <= MOST_LIMIT:
        raise UsageError(f"max word characters {most_characters} is not from 0 (no limit) to {MOST_LIMIT}")
    if most_characters and model == "byte-wordpiece":
        raise UsageError(f"max word characters {most_characters} is for wordpiece; byte-wordpiece takes words of any length")


def limit_of(model: str, most_characters: int | None) -> int | None:
    """`max_word_characters` of a model, out of the option: None is the default, 0 no limit."""
    if most_characters is None:
        return None if model == "byte-wordpiece" else MOST_CHARACTERS
    return most_characters or None


def _grow_tree(words: TokenWords, *, backwards: bool) -> TokenTree:
    return TokenTree.of(words.text, words.ends, words.ids, backwards=backwards)
