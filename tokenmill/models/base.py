"""What every model is: a vocabulary, the rules that made it, and what encoding, decoding and reports ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.marks import Alphabet
from tokenmill.names import TOKEN_FLAGS

MAX_ID = 2**31 - 2


@dataclass(frozen=True)
class TokenWords:
    """Tokens as words: `text` uint8[n], their bytes end to end; `ends` int64[t], where each ends; `ids` int32[t], ascending."""

    text: np.ndarray
    ends: np.ndarray
    ids: np.ndarray

    @classmethod
    def of(cls, words: dict[bytes, int]) -> TokenWords:
        """From bytes to id: `TokenWords.of({b"ab": 7}).ends` is `[2]`."""
        ordered = sorted(words.items(), key=lambda entry: entry[1])
        ends = np.cumsum([len(word) for word, _ in ordered], dtype=np.int64)
        text = np.frombuffer(b"".join(word for word, _ in ordered), np.uint8)
        return cls(text, ends, np.array([token_id for _, token_id in ordered], np.int32))


Rules = tuple[tuple[str, str], ...]


class CommonFields(NamedTuple):
    """What a tokenizer file says of every kind of model."""

    vocab: Mapping[str, int]
    rules: Rules
    specials: tuple[str, ...]
    unk: str | None
    added: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Model:
    """What every model is: `vocab` maps tokens in their visible form to ids, `merge_rules` are pairs of tokens in order of rank.

    `special_tokens` are in `vocab`; they never come out of text and no rule makes them. The same goes for `added_tokens`, which
    the tokenizer finds in every text before the model sees it. `token_flags` says of some of both how they are found: each has
    one or more of `TOKEN_FLAGS`. Construction checks that ids are unique, fit into int32, and that every rule has its tokens;
    errors are `TokenizerFileError` and name the entry.
    """

    name: str
    alphabet: Alphabet | ContinuationAlphabet
    vocab: Mapping[str, int]
    merge_rules: Rules
    special_tokens: tuple[str, ...] = ()
    unk_token: str | None = None
    added_tokens: tuple[str, ...] = field(default=(), kw_only=True)
    token_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict, kw_only=True)

    #: Whether what a word lacks costs the whole word, which becomes one unk token; else it costs the character.
    loses_words: ClassVar[bool] = False
    #: Whether unknown characters side by side in a word are one unk token.
    fuse_unk = False

    @classmethod
    def make_alphabet(cls, name: str, *, marks_spaces: bool, **options: Any) -> Alphabet | ContinuationAlphabet:
        """The alphabet of a kind; `options` are training options, those that say nothing of alphabets among them.

        Raises `UsageError` for options that do not go together.
        """
        raise NotImplementedError

    @classmethod
    def of_training(cls, name: str, alphabet: Any, vocab: Mapping[str, int], rules: Rules, **options: Any) -> Model:
        """The model that a training has made; `options` are `specials` (the unk token among them), `unk` and training options."""
        return cls(name, alphabet, vocab, rules, options["specials"], options["unk"])

    @classmethod
    def of_fields(cls, name: str, common: CommonFields, *, marks_spaces: bool, **fields: Any) -> Model:
        """The model of a native tokenizer.json; `fields` are those of the kind's `file_keys` that the file has.

        Raises `TokenizerFileError`, which names the key.
        """
        raise NotImplementedError

    @property
    def listed_vocab(self) -> Mapping[str, int]:
        """The part of the vocabulary that a file lists."""
        return self.vocab

    def describe_fields(self) -> dict[str, Any]:
        """What `of_fields` takes: what encoding goes by beside vocabulary and rules."""
        return {}

    def __post_init__(self) -> None:
        check_ids(self.vocab)
        self._check_reserved()
        ordinary = self.vocab.keys() - self.reserved_tokens
        self.alphabet.check_tokens(ordinary)
        if not all(map(ordinary.issuperset, self._columns_of_rules())):
            self._refuse_rule(ordinary)

    def _columns_of_rules(self) -> tuple[Sequence[str], Sequence[str], Iterable[str]]:
        """The left tokens of all rules, the right ones, and what they make: columns take a third of the time of rows."""
        lefts, rights = [left for left, _ in self.merge_rules], [right for _, right in self.merge_rules]
        return lefts, rights, map(self.alphabet.join, lefts, rights)

    def _refuse_rule(self, ordinary: Set[str]) -> NoReturn:
        """Name the first rule that lacks a token."""
        for place, (left, right) in enumerate(self.merge_rules):
            if not {left, right, self.alphabet.join(left, right)} <= ordinary:
                raise TokenizerFileError(f"merge_rules[{place}]: {self._describe_missing(left, right)}")
        raise AssertionError("no rule lacks a token")

    def _describe_missing(self, left: str, right: str) -> str:
        """Which token of a rule is none, or is a special one."""
        for token in (left, right, self.alphabet.join(left, right)):
            if token not in self.vocab:
                return f"({left!r}, {right!r}) needs the token {token!r}, which vocab lacks"
            if token in self.reserved_tokens:
                kind = "special" if token in self.special_tokens else "added"
                return f"the {kind} token {token!r} can be no part of a rule"
        raise AssertionError(f"({left!r}, {right!r}) lacks no token")

    def _check_reserved(self) -> None:
        seen: set[str] = set()
        for name in ("special_tokens", "added_tokens"):
            for place, token in enumerate(getattr(self, name)):
                if token not in self.vocab:
                    raise TokenizerFileError(f"{name}[{place}]: {token!r} has no id in vocab; add it there")
                if token in seen:
                    also = ", in special_tokens too" if name == "added_tokens" and token in self.special_tokens else ""
                    raise TokenizerFileError(f"{name}[{place}]: {token!r} stands twice{also}; keep one")
                seen.add(token)
        for token, flags in self.token_flags.items():
            if token not in seen:
                raise TokenizerFileError(f"token_flags: {token!r} is neither a special nor an added token; leave it out")
            if not flags or len({*flags} & {*TOKEN_FLAGS}) != len(flags):
                raise TokenizerFileError(f"token_flags: {token!r} has {list(flags)!r}; known are {', '.join(TOKEN_FLAGS)}")
        if self.unk_token is not None and self.unk_token not in self.special_tokens:
            raise TokenizerFileError(f"unk: {self.unk_token!r} is not among special_tokens; add it there")

    @cached_property
    def reserved_tokens(self) -> frozenset[str]:
        """Special and added tokens: those that the model makes of no text."""
        return frozenset((*self.special_tokens, *self.added_tokens))

    @cached_property
    def token_of_id(self) -> Mapping[int, str]:
        """The vocabulary the other way round."""
        return {token_id: token for token, token_id in self.vocab.items()}

    @property
    def takes_any_bytes(self) -> bool:
        """Whether texts need not be UTF-8."""
        return self.alphabet.takes_any_bytes

    @cached_property
    def embedding_rows(self) -> int:
        """How many rows an Embedding layer needs: the largest id + 1."""
        return max(self.vocab.values(), default=-1) + 1

    @cached_property
    def spellings(self) -> dict[int, bytes]:
        """The bytes of each id; a special or added token stands for its own text."""
        reserved = self.reserved_tokens
        return {
            token_id: token.encode("utf-8") if token in reserved else self.alphabet.spell(token)
            for token, token_id in self.vocab.items()
        }

    def spell(self, ids: Iterable[int], *, between_words: bytes = b"") -> bytes:
        """The bytes that token ids stand for. Raises `UsageError` for an id outside the vocabulary.

        `between_words`: what was dropped there, for models whose tokens tell where words begin.
        """
        try:
            return b"".join(self._spell_words(ids, between_words))
        except KeyError as error:
            raise UsageError(self._describe_id(error.args[0])) from None

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids. Raises `UsageError` for an id outside the vocabulary."""
        try:
            return [self.token_of_id[token_id] for token_id in ids]
        except KeyError as error:
            raise UsageError(self._describe_id(error.args[0])) from None

    def _describe_id(self, token_id: object) -> str:
        return f"id {token_id} is not in the vocabulary (ids 0 to {self.embedding_rows - 1})"

    # --- what encoding asks

    @property
    def tables(self) -> Any:
        """The model as arrays for the kernels: a NamedTuple that `kernels/encode.py` knows."""
        raise NotImplementedError

    def allocate_scratch(self) -> Any:
        """Memory that the kernels write to while they encode a word."""
        raise NotImplementedError

    @property
    def whole_words(self) -> TokenWords:
        """Words that are one token whatever the rules make of them."""
        return TokenWords.of({})

    @property
    def ids_per_byte(self) -> int:
        """How many ids a byte of text can become at most."""
        return 1

    @property
    def can_lack_characters(self) -> bool:
        """Whether the kernels can find something in a text for which they have no id."""
        return not self.takes_any_bytes

    def find_lost(self, word: bytes) -> tuple[int, str] | None:
        """At which byte a word is lost, and why; None for a word that has tokens. For models that lose words."""
        raise NotImplementedError

    @property
    def lacks_bytes(self) -> bool:
        """Whether this is a model of bytes that lacks some of those that no UTF-8 text holds."""
        return False

    @property
    def character_forms(self) -> np.ndarray:
        """int32[forms * code points]: the id of each character in each form, -1 for none; empty where the model takes bytes."""
        return np.empty(0, np.int32)

    # --- what reports ask

    def list_whole_tokens(self) -> list[int]:
        """The ids of tokens that are more than a base symbol, and can be a word by themselves as far as their form tells."""
        raise NotImplementedError

    def list_continuing_tokens(self) -> list[int]:
        """The ids of tokens that only continue a word."""
        return []

    @property
    def unreached(self) -> frozenset[int]:
        """The ids of tokens that no merges lead to, where the model encodes by merging."""
        return frozenset()

    # --- what decoding asks

    @property
    def word_starts(self) -> frozenset[int]:
        """The ids of tokens that tell that a word begins with them."""
        return frozenset()

    @property
    def word_ends(self) -> frozenset[int]:
        """The ids of tokens that tell that a word ends with them."""
        return frozenset()

    def _spell_words(self, ids: Iterable[int], between_words: bytes) -> Iterator[bytes]:
        return (self.spellings[token_id] for token_id in ids)


def check_ids(vocab: Mapping[str, int]) -> None:
    """Every id is a whole number from 0 to 2^31 - 2 and stands once."""
    ids = vocab.values()  # all at once; one by one only where one is wrong
    if "" not in vocab and set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) <= MAX_ID and len(set(ids)) == len(ids):
        return
    owner: dict[int, str] = {}
    for token, token_id in vocab.items():
        if not token:
            raise TokenizerFileError("vocab: the empty string is no token; leave it out")
        if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id <= MAX_ID:
            raise TokenizerFileError(f"vocab: the id of {token!r} is {token_id!r}; ids are whole numbers from 0 to {MAX_ID}")
        if token_id in owner:
            raise TokenizerFileError(
                f"vocab: id {token_id} stands twice, for {owner[token_id]!r} and {token!r}; give each token its own"
            )
        owner[token_id] = token


def number_tokens(specials: Sequence[str], alphabet: Sequence[str], products: Sequence[str], *, ids: str) -> dict[str, int]:
    """The vocabulary in order of id: `rank` takes specials, alphabet, products as they come; `sorted` sorts all by code point.

    >>> number_tokens(["<s>"], ["a", "b"], ["ab"], ids="sorted")
    {'<s>': 0, 'a': 1, 'ab': 2, 'b': 3}
    """
    tokens = [*specials, *alphabet, *products]
    ordered = sorted(tokens) if ids == "sorted" else tokens
    return {token: token_id for token_id, token in enumerate(ordered)}
