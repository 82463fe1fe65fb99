"""Models: a vocabulary and merge rules, and the arrays that the kernels encode with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.kernels import base_symbols, bpe_merge, encode, rules
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet, bytes_of_tokens
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.marks import Alphabet, MarkedAlphabet, WordMarks
from tokenmill.names import MODELS, TOKEN_FLAGS

MAX_ID = 2**31 - 2

_MARKINGS = {"plain": base_symbols.PLAIN, "later": base_symbols.LATER, "last": base_symbols.LAST}


def alphabet_of(model: str, *, marks_spaces: bool, marks: WordMarks | None = None, byte_fallback: bool = False) -> Alphabet:
    """The alphabet of a BPE model by name; `marks_spaces` and `byte_fallback` matter to character models alone."""
    if model not in MODELS:
        raise UsageError(f"model {model!r} is not known; choose one of {', '.join(MODELS)}")
    if model == "byte-bpe" and byte_fallback:
        raise UsageError("byte fallback is for characters without an id; a byte-bpe model has none")
    if byte_fallback and marks is not None and marks.marking != "plain":
        raise UsageError("byte fallback does not go together with marks on symbols; leave one of both out")
    base = ByteAlphabet() if model == "byte-bpe" else CharacterAlphabet(marks_spaces, byte_fallback)
    return base if marks is None or not marks.text else MarkedAlphabet(base, marks)


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
    merge_rules: tuple[tuple[str, str], ...]
    special_tokens: tuple[str, ...] = ()
    unk_token: str | None = None
    added_tokens: tuple[str, ...] = field(default=(), kw_only=True)
    token_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict, kw_only=True)

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


@dataclass(frozen=True)
class BpeModel(Model):
    """A BPE model. With `ignore_merges` a word that is a token is that token, whatever the rules make of it.

    With `fuse_unk` unknown characters side by side in a word are one unk token.
    """

    alphabet: Alphabet
    ignore_merges: bool = False
    fuse_unk: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name == "char" and self.merge_rules:
            raise TokenizerFileError(f"merge_rules[0]: a char model has no rules, this is {self.merge_rules[0]}; choose char-bpe")
        if self.ignore_merges and (not self.takes_any_bytes or self.marks.text):
            raise TokenizerFileError(
                f"ignore_merges: a {self.name} model cannot do that, only byte-bpe without marks; leave it out"
            )
        if self.marks.text or self.alphabet.byte_fallback:
            for place, (left, right) in enumerate(self.merge_rules):
                self._check_rule(f"merge_rules[{place}]", left, right)

    def _check_rule(self, place: str, left: str, right: str) -> None:
        wrong = self.alphabet.check_rule(left, right) if isinstance(self.alphabet, MarkedAlphabet) else None
        if self.alphabet.byte_fallback and {left, right, self.alphabet.join(left, right)} & bytes_of_tokens().keys():
            wrong = f"({left!r}, {right!r}) holds a byte token, which spells unknown characters alone"
        if wrong:
            raise TokenizerFileError(f"{place}: {wrong}")

    @property
    def can_lack_characters(self) -> bool:
        """Whether a text can hold what has no id, not even that of the unk token."""
        if self.takes_any_bytes:
            return self.lacks_bytes
        return not (self.alphabet.byte_fallback or self.unk_token is not None)

    @property
    def lacks_bytes(self) -> bool:
        """Whether this is a model of bytes that lacks some of those that no UTF-8 text holds."""
        return self.takes_any_bytes and bool((self.tables.byte_ids < 0).any())

    @property
    def marks(self) -> WordMarks:
        """How tokens tell where words begin or end; empty marks where they do not."""
        return self.alphabet.marks if isinstance(self.alphabet, MarkedAlphabet) else WordMarks()

    @cached_property
    def tables(self) -> encode.BpeTables:
        """The model as arrays for the kernels."""
        ordinary = {token: token_id for token, token_id in self.vocab.items() if token not in self.reserved_tokens}
        byte_ids, character_ids = self.alphabet.lookup_tables(ordinary)
        unknown = base_symbols.UNKNOWN if self.unk_token is None else self.vocab[self.unk_token]
        table, forms = self._build_rules(), self._build_forms()
        if byte_ids.size and byte_ids.min() >= 0 and forms.marking == base_symbols.PLAIN and forms.ending == base_symbols.UNKNOWN:
            table = table._replace(byte_ranks=rules.rank_byte_pairs(table, byte_ids))
        return encode.BpeTables(byte_ids, character_ids, table, np.int64(unknown), forms)

    def _build_forms(self) -> base_symbols.WordForms:
        ending = self.alphabet.ending(self.vocab) if isinstance(self.alphabet, MarkedAlphabet) else None
        byte_ids = [self.vocab[token] for token in bytes_of_tokens()] if self.alphabet.byte_fallback else []
        return base_symbols.WordForms(
            marking=np.int64(_MARKINGS[self.marks.marking]),
            ending=np.int64(base_symbols.UNKNOWN if ending is None else ending),
            fallback=np.array(byte_ids, np.int32),
            fuses_unknown=np.bool_(self.fuse_unk),
        )

    def _build_rules(self) -> rules.RuleTable:
        id_of, count, most = self.vocab.__getitem__, len(self.merge_rules), rules.MOST_RULES
        if count >= most:
            raise TokenizerFileError(f"merge_rules: there are {count:,}; a model has fewer than {most:,}")
        columns = (np.fromiter(map(id_of, tokens), np.int32, count) for tokens in self._columns_of_rules())
        return rules.build_table(*columns)

    @cached_property
    def unmerged(self) -> TokenWords:
        """The tokens that merging their own bytes does not give: those for which `ignore_merges` matters, in order of id."""
        spelt = self._ordinary() - (bytes_of_tokens().keys() if self.alphabet.byte_fallback else set())
        words = TokenWords.of({self.spellings[self.vocab[token]]: self.vocab[token] for token in spelt})
        found = np.zeros(words.ids.size, np.bool_)
        encode.find_unmerged(self.tables, bpe_merge.allocate_scratch(), words.text, words.ends, words.ids, found)
        return TokenWords.of({self.spellings[token_id]: token_id for token_id in words.ids[found].tolist()})

    def _spell_words(self, ids: Iterable[int], between_words: bytes) -> Iterator[bytes]:
        """With marks, `between_words` stands behind what ends a word, or in front of what begins one; not at the ends."""
        if not self.marks.text or not between_words:
            yield from super()._spell_words(ids, between_words)
            return
        waiting = False
        for place, token_id in enumerate(ids):
            if waiting or (place and token_id in self.word_starts):
                yield between_words
            waiting = token_id in self.word_ends
            yield self.spellings[token_id]

    @cached_property
    def word_ends(self) -> frozenset[int]:
        """The ids of tokens that end a word, by their suffix."""
        marked = self._ordinary() if self.marks.suffix else ()
        return frozenset(self.vocab[token] for token in marked if self.marks.holds(token))

    @cached_property
    def word_starts(self) -> frozenset[int]:
        """The ids of tokens that begin a word, by the prefix that they lack."""
        marked = self._ordinary() if self.marks.prefix else ()
        return frozenset(self.vocab[token] for token in marked if not self.marks.holds(token))

    def _ordinary(self) -> set[str]:
        return self.vocab.keys() - self.reserved_tokens


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
