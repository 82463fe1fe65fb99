"""The base class of models: a vocabulary, merge rules, and the methods that encoding, decoding and reports need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.kinds import kind_of
from tokenmill.models.marks import Alphabet
from tokenmill.names import TOKEN_FLAGS

MAX_ID = 2**31 - 2


@dataclass(frozen=True)
class TokenWords:
    """Tokens as words: `text` uint8[n], their bytes end to end; `ends` int64[t], the end of each; `ids` int32[t], ascending."""

    text: np.ndarray
    ends: np.ndarray
    ids: np.ndarray

    @classmethod
    def of(cls, words: dict[bytes, int]) -> TokenWords:
        """Build from a mapping of bytes to id: `TokenWords.of({b"ab": 7}).ends` is `[2]`."""
        ordered = sorted(words.items(), key=lambda entry: entry[1])
        ends = np.cumsum([len(word) for word, _ in ordered], dtype=np.int64)
        text = np.frombuffer(b"".join(word for word, _ in ordered), np.uint8)
        return cls(text, ends, np.array([token_id for _, token_id in ordered], np.int32))


Rules = tuple[tuple[str, str], ...]


class CommonFields(NamedTuple):
    """The fields of a tokenizer file that every kind of model has."""

    vocab: Mapping[str, int]
    rules: Rules
    specials: tuple[str, ...]
    unk: str | None
    added: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Model:
    """The base class of models. `vocab` maps tokens in visible form to ids; `merge_rules` are pairs of tokens in rank order.

    `special_tokens` are in `vocab`. The model never produces them from text, and no merge rule produces them. The same is true of
    `added_tokens`, which the tokenizer finds in every text before the model sees it. `token_flags` says how some of these tokens
    are matched: each entry has one or more of `TOKEN_FLAGS`. Construction checks that ids are unique and fit into int32, and that
    every rule has its tokens. It raises `TokenizerFileError`, which names the entry.
    """

    name: str
    alphabet: Alphabet | ContinuationAlphabet
    vocab: Mapping[str, int]
    merge_rules: Rules
    special_tokens: tuple[str, ...] = ()
    unk_token: str | None = None
    added_tokens: tuple[str, ...] = field(default=(), kw_only=True)
    token_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict, kw_only=True)

    #: Whether an unknown part turns the whole word into one unk token. If False, only the unknown character is replaced.
    loses_words: ClassVar[bool] = False
    #: Whether adjacent unknown characters in a word become one unk token.
    fuse_unk = False

    @classmethod
    def make_alphabet(cls, name: str, *, marks_spaces: bool, **options: Any) -> Alphabet | ContinuationAlphabet:
        """Make the alphabet of a kind. `options` are all training options; those not about alphabets are ignored.

        Raises `UsageError` for options that cannot be combined.
        """
        raise NotImplementedError

    @classmethod
    def of_training(cls, name: str, alphabet: Any, vocab: Mapping[str, int], rules: Rules, **options: Any) -> Model:
        """Make a model from the result of training. `options` are `specials` (including the unk token), `unk` and the training
        options."""
        return cls(name, alphabet, vocab, rules, options["specials"], options["unk"])

    @classmethod
    def of_fields(cls, name: str, common: CommonFields, *, marks_spaces: bool, **fields: Any) -> Model:
        """Make the model of a native tokenizer.json; `fields` are those of the kind's `file_keys` that the file has.

        Raises `TokenizerFileError`, which names the key.
        """
        raise NotImplementedError

    @property
    def listed_vocab(self) -> Mapping[str, int]:
        """The part of the vocabulary that a file lists."""
        return self.vocab

    def describe_fields(self) -> dict[str, Any]:
        """The `fields` for `of_fields`: everything that determines encoding in addition to the vocabulary and the rules."""
        return {}

    def __post_init__(self) -> None:
        check_ids(self.vocab)
        self._check_reserved()
        ordinary = self.vocab.keys() - self.reserved_tokens
        self.alphabet.check_tokens(ordinary)
        if not all(map(ordinary.issuperset, self._columns_of_rules())):
            self._refuse_rule(ordinary)

    def _columns_of_rules(self) -> tuple[Sequence[str], Sequence[str], Iterable[str]]:
        """The left tokens, the right tokens and the products of all rules. Columns take a third of the time of rows."""
        lefts, rights = [left for left, _ in self.merge_rules], [right for _, right in self.merge_rules]
        return lefts, rights, map(self.alphabet.join, lefts, rights)

    def _refuse_rule(self, ordinary: Set[str]) -> NoReturn:
        """Raise `TokenizerFileError` for the first rule with a missing token."""
        for place, (left, right) in enumerate(self.merge_rules):
            if not {left, right, self.alphabet.join(left, right)} <= ordinary:
                raise TokenizerFileError(f"merge_rules[{place}]: {self._describe_missing(left, right)}")
        raise AssertionError("no rule lacks a token")

    def _describe_missing(self, left: str, right: str) -> str:
        """Say which token of a rule is missing, or is a special or added token."""
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
        """The special and added tokens, which the model never produces from text."""
        return frozenset((*self.special_tokens, *self.added_tokens))

    @cached_property
    def token_of_id(self) -> Mapping[int, str]:
        """The inverse of `vocab`: the token of each id."""
        return {token_id: token for token, token_id in self.vocab.items()}

    @property
    def takes_any_bytes(self) -> bool:
        """Whether texts need not be UTF-8."""
        return self.alphabet.takes_any_bytes

    @cached_property
    def embedding_rows(self) -> int:
        """The number of rows that an embedding layer needs: the largest id + 1."""
        return max(self.vocab.values(), default=-1) + 1

    @cached_property
    def spellings(self) -> dict[int, bytes]:
        """The bytes of each id. The bytes of a special or added token are its own text."""
        reserved = self.reserved_tokens
        return {
            token_id: token.encode("utf-8") if token in reserved else self.alphabet.spell(token)
            for token, token_id in self.vocab.items()
        }

    def spell(self, ids: Iterable[int], *, between_words: bytes = b"") -> bytes:
        """Decode token ids to bytes. Raises `UsageError` for an id outside the vocabulary.

        `between_words` is what the pre-tokenizer dropped between words. It is inserted by models whose tokens show where words
        begin or end.
        """
        try:
            return b"".join(self._spell_words(ids, between_words))
        except KeyError as error:
            raise UsageError(self._describe_id(error.args[0])) from None

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """The tokens of token ids. Raises `UsageError` for an id outside the vocabulary."""
        try:
            return [self.token_of_id[token_id] for token_id in ids]
        except KeyError as error:
            raise UsageError(self._describe_id(error.args[0])) from None

    def _describe_id(self, token_id: object) -> str:
        return f"id {token_id} is not in the vocabulary (ids 0 to {self.embedding_rows - 1})"

    # --- for encoding

    @property
    def tables(self) -> Any:
        """The model as arrays for the kernels: a NamedTuple defined for `kernels/encode.py`."""
        raise NotImplementedError

    def allocate_scratch(self) -> Any:
        """Allocate the memory that the kernels write to while they encode a word."""
        raise NotImplementedError

    @property
    def whole_words(self) -> TokenWords:
        """Words that are encoded as one token without applying the merge rules."""
        return TokenWords.of({})

    @property
    def ids_per_byte(self) -> int:
        """The largest number of ids that one byte of text can become."""
        return 1

    @property
    def can_lack_characters(self) -> bool:
        """Whether the kernels can find something in a text that they have no id for."""
        return not self.takes_any_bytes

    def find_lost(self, word: bytes) -> tuple[int, str] | None:
        """Find the byte at which encoding a word fails, and the reason; None if it succeeds. For models with `loses_words`."""
        raise NotImplementedError

    @property
    def lacks_bytes(self) -> bool:
        """Whether this is a byte model without tokens for some of the bytes that UTF-8 text never contains."""
        return False

    @property
    def character_forms(self) -> np.ndarray:
        """int32[forms * code points]: the id of each character in each form, -1 for none. Empty for a byte model."""
        return np.empty(0, np.int32)

    # --- for reports

    def list_whole_tokens(self) -> list[int]:
        """The ids of tokens that are longer than a base symbol and whose form allows them to be a whole word."""
        raise NotImplementedError

    def list_continuing_tokens(self) -> list[int]:
        """The ids of tokens that can only continue a word."""
        return []

    @property
    def unreached(self) -> frozenset[int]:
        """The ids of tokens that merging can never produce. Empty for a model that does not encode by merging."""
        return frozenset()

    # --- for decoding

    @property
    def word_starts(self) -> frozenset[int]:
        """The ids of tokens whose form shows that a word begins with them."""
        return frozenset()

    @property
    def word_ends(self) -> frozenset[int]:
        """The ids of tokens whose form shows that a word ends with them."""
        return frozenset()

    def _spell_words(self, ids: Iterable[int], between_words: bytes) -> Iterator[bytes]:
        return (self.spellings[token_id] for token_id in ids)


def check_ids(vocab: Mapping[str, int]) -> None:
    """Check that every id is an integer from 0 to 2^31 - 2 and occurs once. Raises `TokenizerFileError`."""
    ids = vocab.values()  # The fast check looks at all ids at once; the loop below runs only to find the wrong one.
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
    """Number the tokens. `ids="rank"` keeps the order specials, alphabet, products; `ids="sorted"` sorts all by code point.

    >>> number_tokens(["<s>"], ["a", "b"], ["ab"], ids="sorted")
    {'<s>': 0, 'a': 1, 'ab': 2, 'b': 3}
    """
    tokens = [*specials, *alphabet, *products]
    ordered = sorted(tokens) if ids == "sorted" else tokens
    return {token: token_id for token_id, token in enumerate(ordered)}


def describe_remedies(model: Model) -> str:
    """Say which options of training give a model of this kind ids for every character."""
    kind = kind_of(model.name)
    fallback = "--byte-fallback, " if kind.takes("byte_fallback") else ""
    return f"train with --unk TOKEN, {fallback}or --model {kind.byte_kind}"
