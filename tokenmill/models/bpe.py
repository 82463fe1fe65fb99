"""The BPE model: applies merge rules in order of rank to the characters or the bytes of a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.kernels import base_symbols, bpe_merge, encode, rules
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet, bytes_of_tokens
from tokenmill.models.base import CommonFields, Model, TokenWords
from tokenmill.models.kinds import kind_of
from tokenmill.models.marks import Alphabet, MarkedAlphabet, WordMarks

_MARKINGS = {"plain": base_symbols.PLAIN, "later": base_symbols.LATER, "last": base_symbols.LAST}


def alphabet_of(model: str, *, marks_spaces: bool, marks: WordMarks | None = None, byte_fallback: bool = False) -> Alphabet:
    """The alphabet of a BPE model, by the name of its kind.

    `marks_spaces` and `byte_fallback` are for character models. Raises `UsageError` for byte fallback with bytes or with marks.
    """
    of_bytes = kind_of(model).of_bytes
    if of_bytes and byte_fallback:
        raise UsageError(f"byte fallback is for characters without an id; a {model} model has none")
    if byte_fallback and marks is not None and marks.marking != "plain":
        raise UsageError("byte fallback does not go together with marks on symbols; leave one of both out")
    base = ByteAlphabet() if of_bytes else CharacterAlphabet(marks_spaces, byte_fallback)
    return base if marks is None or not marks.text else MarkedAlphabet(base, marks)


@dataclass(frozen=True)
class BpeModel(Model):
    """A BPE model. With `ignore_merges`, a word that is a token is encoded as that token without applying the rules.

    With `fuse_unk`, adjacent unknown characters in a word become one unk token.
    """

    alphabet: Alphabet
    ignore_merges: bool = False
    fuse_unk: bool = False

    @classmethod
    def make_alphabet(cls, name: str, *, marks_spaces: bool, **options: Any) -> Alphabet:
        """Make the alphabet of a kind from the training options for marks and byte fallback."""
        marks = WordMarks(options["end_of_word_suffix"] or "", options["continuation_prefix"] or "")
        return alphabet_of(name, marks_spaces=marks_spaces, marks=marks, byte_fallback=options["byte_fallback"])

    @classmethod
    def of_fields(cls, name: str, common: CommonFields, *, marks_spaces: bool, **fields: Any) -> BpeModel:
        """Make the model of a native tokenizer.json."""
        fallback = fields.get("byte_fallback", False)
        try:
            alphabet = alphabet_of(name, marks_spaces=marks_spaces, marks=_read_marks(fields), byte_fallback=fallback)
        except UsageError as error:
            raise TokenizerFileError(f"model: {error}") from None
        return cls(
            name,
            alphabet,
            common.vocab,
            common.rules,
            common.specials,
            common.unk,
            ignore_merges=fields.get("ignore_merges", False),
            fuse_unk=fields.get("fuse_unk", False),
            added_tokens=common.added,
            token_flags=common.flags,
        )

    def describe_fields(self) -> dict[str, Any]:
        """The fields that determine encoding; only those that differ from the default."""
        told = {
            "ignore_merges": self.ignore_merges,
            "fuse_unk": self.fuse_unk,
            "byte_fallback": self.alphabet.byte_fallback,
            "end_of_word_suffix": self.marks.suffix,
            "suffix_attached": self.marks.attached,
            "continuation_prefix": self.marks.prefix,
        }
        return {key: value for key, value in told.items() if value}

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """Whether a text can contain something that has no id and cannot become an unk token."""
        if self.takes_any_bytes:
            return self.lacks_bytes
        return not (self.alphabet.byte_fallback or self.unk_token is not None)

    @property
    def lacks_bytes(self) -> bool:
        """Whether this is a byte model without tokens for some of the bytes that UTF-8 text never contains."""
        return self.takes_any_bytes and bool((self.tables.byte_ids < 0).any())

    @property
    def marks(self) -> WordMarks:
        """The marks that show where words begin or end; empty marks if the tokens have none."""
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

    def allocate_scratch(self) -> bpe_merge.MergeScratch:
        """Allocate the memory that merging writes to."""
        return bpe_merge.allocate_scratch()

    @property
    def whole_words(self) -> TokenWords:
        """With `ignore_merges`, the tokens that merging would not produce."""
        return self.unmerged if self.ignore_merges else super().whole_words

    @property
    def ids_per_byte(self) -> int:
        """At most 2 if a symbol ends every word, otherwise 1. A word has at least one byte."""
        return 2 if self.marks.has_ending else 1

    @property
    def character_forms(self) -> np.ndarray:
        """The id of each character in each form that it can have in a word."""
        return self.tables.character_ids

    def list_whole_tokens(self) -> list[int]:
        """The ids of tokens of two or more base symbols. With marks, only the tokens whose mark allows a whole word."""
        return sorted(self.vocab[token] for token in self._ordinary() if self._stands_alone(token))

    def _stands_alone(self, token: str) -> bool:
        if self.marks.text:
            marked = self.word_ends or self.word_starts
            return len(token) > 1 + len(self.marks.text) and self.vocab[token] in marked
        if self.alphabet.byte_fallback and token in bytes_of_tokens():
            return False
        return len(self.alphabet.base_symbols(token) or ()) > 1

    @cached_property
    def unreached(self) -> frozenset[int]:
        """The ids of tokens that merging their own bytes does not produce."""
        return frozenset() if self.ignore_merges or self.marks.text else frozenset(self.unmerged.ids.tolist())

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
        """The tokens that merging their own bytes does not produce, in order of id. `ignore_merges` matters only for these."""
        spelt = self._ordinary() - (bytes_of_tokens().keys() if self.alphabet.byte_fallback else set())
        words = TokenWords.of({self.spellings[self.vocab[token]]: self.vocab[token] for token in spelt})
        found = np.zeros(words.ids.size, np.bool_)
        encode.find_unmerged(self.tables, bpe_merge.allocate_scratch(), words.text, words.ends, words.ids, found)
        return TokenWords.of({self.spellings[token_id]: token_id for token_id in words.ids[found].tolist()})

    def _spell_words(self, ids: Iterable[int], between_words: bytes) -> Iterator[bytes]:
        """With marks, insert `between_words` between words: after a token that ends one, or before a token that begins one."""
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
        """The ids of tokens that end a word, which have the suffix."""
        marked = self._ordinary() if self.marks.suffix else ()
        return frozenset(self.vocab[token] for token in marked if self.marks.holds(token))

    @cached_property
    def word_starts(self) -> frozenset[int]:
        """The ids of tokens that begin a word, which do not have the prefix."""
        marked = self._ordinary() if self.marks.prefix else ()
        return frozenset(self.vocab[token] for token in marked if not self.marks.holds(token))

    def _ordinary(self) -> set[str]:
        return self.vocab.keys() - self.reserved_tokens


def _read_marks(fields: Mapping[str, Any]) -> WordMarks:
    suffix, prefix = fields.get("end_of_word_suffix", ""), fields.get("continuation_prefix", "")
    attached = fields.get("suffix_attached", False)
    if attached and not suffix:
        raise TokenizerFileError("suffix_attached: there is no end_of_word_suffix that could be; add one, or leave it out")
    return WordMarks(suffix, prefix, attached)
