"""A character model whose ids are code points: the id of `a` is 97. It needs no vocabulary.

Special tokens have ids after 0x10FFFF, the last code point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.kernels import base_symbols, encode
from tokenmill.models.alphabets import CODE_POINTS, CharacterAlphabet
from tokenmill.models.base import MAX_ID, CommonFields
from tokenmill.models.bpe import BpeModel
from tokenmill.unicode_text import SURROGATES


@dataclass(frozen=True)
class CodePointVocabulary(Mapping[str, int]):
    """A vocabulary of every character with its code point, and of special tokens with the ids they were given.

    It has more than a million entries and is never stored in full. `CodePointVocabulary({})["a"]` is 97.
    """

    specials: dict[str, int]

    def __getitem__(self, token: str) -> int:
        if token in self.specials:
            return self.specials[token]
        if len(token) == 1 and ord(token) not in SURROGATES:
            return ord(token)
        raise KeyError(token)

    def __iter__(self) -> Iterator[str]:
        for code_point in range(CODE_POINTS):
            if code_point not in SURROGATES:
                yield chr(code_point)
        yield from self.specials

    def __len__(self) -> int:
        return CODE_POINTS - len(SURROGATES) + len(self.specials)


@dataclass(frozen=True)
class TokensByCodePoint(Mapping[int, str]):
    """The inverse of a `CodePointVocabulary`: the token of each id."""

    vocabulary: CodePointVocabulary

    def __getitem__(self, token_id: int) -> str:
        if 0 <= token_id < CODE_POINTS and token_id not in SURROGATES:
            return chr(token_id)
        for token, special_id in self.vocabulary.specials.items():
            if special_id == token_id:
                return token
        raise KeyError(token_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self.vocabulary.values())

    def __len__(self) -> int:
        return len(self.vocabulary)


@dataclass(frozen=True)
class CodePointModel(BpeModel):
    """The model `char` with code points as ids. Every character has an id, so nothing is unknown.

    Raises `TokenizerFileError` for a special token of one character, and for an id that is taken or out of range.
    """

    vocab: CodePointVocabulary

    @classmethod
    def of(cls, specials: dict[str, int]) -> CodePointModel:
        """Make a model with these special tokens: `CodePointModel.of({"<s>": 0x110000}).embedding_rows` is 0x110001."""
        return cls("char", CharacterAlphabet(marks_spaces=False), CodePointVocabulary(specials), (), tuple(specials))

    @classmethod
    def of_fields(cls, name: str, common: CommonFields, *, marks_spaces: bool, **fields: Any) -> CodePointModel:
        """Make the model of a native tokenizer.json whose `vocab` holds only the special tokens.

        Raises `TokenizerFileError` for any other field that determines encoding.
        """
        if fields["ids"] != "codepoint":
            raise TokenizerFileError(f"ids: {fields['ids']!r} is not known; it can be codepoint in a {name} model")
        told = {
            "merge_rules": common.rules,
            "unk": common.unk,
            "added_tokens": common.added,
            "token_flags": common.flags,
            **fields,
            "ids": None,
        }
        for key, value in told.items():
            if value:
                raise TokenizerFileError(f"{key}: there is none where code points are ids; leave it out")
        if sorted(common.vocab) != sorted(common.specials):
            raise TokenizerFileError("vocab: where code points are ids it holds the special tokens alone; leave the others out")
        return cls.of({token: common.vocab[token] for token in common.specials})

    def describe_fields(self) -> dict[str, Any]:
        """The fields that determine encoding: only that ids are code points."""
        return {"ids": "codepoint"}

    @property
    def listed_vocab(self) -> Mapping[str, int]:
        """The special tokens; the ids of all other tokens are their code points."""
        return self.vocab.specials

    def list_whole_tokens(self) -> list[int]:
        """An empty list: every token but the special ones is a base symbol."""
        return []

    def __post_init__(self) -> None:
        owner: dict[int, str] = {}
        for token, token_id in self.vocab.specials.items():
            if len(token) < 2:
                raise TokenizerFileError(
                    f"special token {token!r} is a character, with its code point for an id; take a longer one"
                )
            if not isinstance(token_id, int) or not CODE_POINTS <= token_id <= MAX_ID:
                told = f"the id of {token!r} is {token_id!r}; behind the code points are {CODE_POINTS} to {MAX_ID}"
                raise TokenizerFileError(f"vocab: {told}")
            if token_id in owner:
                raise TokenizerFileError(
                    f"vocab: id {token_id} stands twice, for {owner[token_id]!r} and {token!r}; give each token its own"
                )
            owner[token_id] = token

    @cached_property
    def token_of_id(self) -> Mapping[int, str]:
        """The inverse of `vocab`: the token of each id."""
        return TokensByCodePoint(self.vocab)

    @cached_property
    def embedding_rows(self) -> int:
        """The number of rows that an embedding layer needs: one for every code point, and those for the special tokens."""
        return max((CODE_POINTS - 1, *self.vocab.specials.values())) + 1

    @property
    def can_lack_characters(self) -> bool:
        """Always False: every character has an id."""
        return False

    @cached_property
    def tables(self) -> encode.BpeTables:
        """The model as arrays for the kernels."""
        character_ids = np.arange(CODE_POINTS, dtype=np.int32)
        character_ids[SURROGATES.start : SURROGATES.stop] = base_symbols.UNKNOWN
        none, unknown = np.empty(0, np.int32), np.int64(base_symbols.UNKNOWN)
        return encode.BpeTables(none, character_ids, self._build_rules(), unknown, self._build_forms())

    def spell(self, ids: Iterable[int], *, between_words: bytes = b"") -> bytes:
        """Decode token ids to bytes. Raises `UsageError` for an id of no character and no special token."""
        try:
            return "".join(self.token_of_id[token_id] for token_id in ids).encode("utf-8")
        except KeyError as error:
            raise UsageError(f"id {error.args[0]} is no code point of a character, and no special token") from None
