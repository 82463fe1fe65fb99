"""The options of `train_tokenizer`, and checks that they can be combined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenmill.encoding.templates import Template, check_template
from tokenmill.errors import UsageError, VocabularySizeError
from tokenmill.models.alphabets import byte_tokens
from tokenmill.models.base import Model, Rules
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.kinds import ModelKind, check_options, kind_of, list_options
from tokenmill.models.marks import Alphabet
from tokenmill.models.wordpiece import MOST_LIMIT
from tokenmill.names import ID_ORDERS, SCORES, TIES
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.extension import check_extended
from tokenmill.unicode_text import check_unicode


@dataclass(frozen=True)
class TrainingOptions:
    """What to train.

    Give exactly one of `vocab_size`, the number of special tokens, symbols of the alphabet and products together, and `merges`,
    the number of merge rules. The model `char` has no merges and needs neither.

    - `pretokenizer`, `normalizer`: those that the words were counted with. A name is enough for a pre-tokenizer without options.
    - `ties`: `smallest` or `first-seen`. `ids`: `rank` or `sorted`, or `codepoint` with the model `char`.
    - `min_count`: pairs that occur less often are not merged. `strict`: raise an error if the corpus has too few pairs.
    - `special_tokens`, `unk_token`: the unk token comes after the other special tokens, unless it is one of them.
    - `template`: the special tokens around a text; it is saved in the tokenizer.
    - `max_token_length`: the limit on the length of a token, in characters, or in bytes for a byte model.
    - `limit_alphabet` (character models): only so many characters, the most frequent ones, get a symbol.
    - `byte_fallback` (character models): 256 byte tokens, after the special tokens, encode all other characters.
    - `end_of_word_suffix`: a symbol at the end of every word. `continuation_prefix`: the prefix of symbols inside a word, `##` by
      default for WordPiece models.
    - `score` (WordPiece models): `likelihood` (default) or `frequency`.
    - `max_word_characters` (WordPiece models): longer words become the unk token. The default is 100, for byte models no limit; 0
      means no limit.
    - `extend`: a tokenizer to add tokens to; its vocabulary and rules do not change. `vocab_size` is then the total size,
      `merges` the number of new rules, and `special_tokens` and `unk_token` are added.
    """

    model: str
    pretokenizer: PreTokenizer | str
    vocab_size: int | None = None
    merges: int | None = None
    ties: str = "smallest"
    ids: str = "rank"
    special_tokens: tuple[str, ...] = ()
    unk_token: str | None = None
    min_count: int = 1
    strict: bool = False
    normalizer: Normalizer = field(default_factory=Normalizer)
    template: Template = field(default_factory=Template)
    max_token_length: int | None = None
    limit_alphabet: int | None = None
    end_of_word_suffix: str | None = None
    continuation_prefix: str | None = None
    byte_fallback: bool = False
    extend: Tokenizer | None = None
    score: str | None = None
    max_word_characters: int | None = None

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_values()
        if self.extend is not None:
            self._check_extension(self.extend)
        self._check_alphabet_options()
        self._check_code_points()
        least = self.least_alphabet
        if self.extend is None and self.vocab_size is not None and self.vocab_size < least + len(self.specials) and least:
            raise VocabularySizeError(describe_least(self.vocab_size, least, len(self.specials)))
        self._check_specials()

    def _check_sizes(self) -> None:
        has_merges = self.kind.has_merges
        if (self.vocab_size is None) == (self.merges is None) and (has_merges or self.merges is not None):
            raise UsageError("give one of --vocab-size and --merges (vocab_size, merges)")
        if self.merges and not has_merges:
            raise UsageError(f"merges {self.merges}: a {self.model} model has none; leave it out, or choose char-bpe")

    def _check_values(self) -> None:
        """Check each option by itself."""
        for name, value, choices in (("ties", self.ties, TIES), ("ids", self.ids, ID_ORDERS)):
            if value not in choices:
                raise UsageError(f"{name} {value!r} is not known; choose one of {', '.join(choices)}")
        for name, number, least in (
            ("merges", self.merges, 0),
            ("vocabulary size", self.vocab_size, 1),
            ("min count", self.min_count, 1),
            ("max token length", self.max_token_length, 1),
            ("limit of the alphabet", self.limit_alphabet, 1),
        ):
            if number is not None and number < least:
                raise UsageError(f"{name} {number} is below {least}; give {least} or more")

    def _check_specials(self) -> None:
        for token in self.specials:
            check_unicode(token, name="special token")
        if "" in self.specials or len(set(self.specials)) != len(self.specials):
            raise UsageError(
                f"special tokens must differ and not be empty: {', '.join(map(repr, self.specials))}; give each once"
            )
        check_template(self.template, (*self.specials, *(() if self.extend is None else self.extend.special_tokens)))

    def _check_alphabet_options(self) -> None:
        for name, mark in (("end-of-word suffix", self.end_of_word_suffix), ("continuation prefix", self.continuation_prefix)):
            if mark == "":
                raise UsageError(f"the {name} is empty; leave it out, or give one such as '</w>' or '##'")
        check_options(self.kind, {name: getattr(self, name) for name in list_options()})
        if self.score is not None and self.score not in SCORES:
            raise UsageError(f"score {self.score!r} is not known; choose one of {', '.join(SCORES)}")
        self._check_word_limit()
        self.alphabet(marks_spaces=False)  # The alphabet checks which of these options can be combined.

    def _check_word_limit(self) -> None:
        most = self.max_word_characters
        if most is not None and not 0 <= most <= MOST_LIMIT:
            raise UsageError(f"max word characters {most} is not from 0 (no limit) to {MOST_LIMIT}")
        if most and self.kind.of_bytes:
            raise UsageError(f"max word characters {most} is for wordpiece; {self.model} takes words of any length")

    def _check_extension(self, extended: Tokenizer) -> None:
        """Check that the options do not change anything that the extended tokenizer determines."""
        check_extended(extended)
        for name, ours, theirs in (
            ("model", self.model, extended.model.name),
            ("pre-tokenizer", PreTokenizer.of(self.pretokenizer), extended.pretokenizer),
            ("normalizer", self.normalizer, extended.normalizer),
        ):
            if ours != theirs:
                raise UsageError(f"the tokenizer to extend has the {name} {theirs}, not {ours}; it belongs to the tokenizer")
        for name in ("limit_alphabet", "end_of_word_suffix", "continuation_prefix", "byte_fallback"):
            if getattr(self, name):
                raise UsageError(f"{name.replace('_', ' ')} belongs to the tokenizer that is extended; leave it out")
        if self.ids != "rank":
            raise UsageError(f"ids {self.ids} would change those of the tokenizer that is extended; leave it out")

    def _check_code_points(self) -> None:
        """Check that only special tokens are chosen if ids are code points."""
        if self.ids != "codepoint":
            return
        if self.model != "char":
            raise UsageError(f"ids codepoint: a token of a {self.model} model is more than a character; choose the model char")
        for name in ("vocab_size", "unk_token", *self.kind.options):
            if getattr(self, name):
                raise UsageError(f"{name.replace('_', ' ')} makes no sense with code points as ids: every character has one")

    def alphabet(self, *, marks_spaces: bool) -> Alphabet | ContinuationAlphabet:
        """Make the alphabet that these options describe."""
        return self.kind.load_model().make_alphabet(self.model, marks_spaces=marks_spaces, **self._kind_options())

    def make_model(self, alphabet: Any, vocab: Mapping[str, int], rules: Rules) -> Model:
        """Make the model from the result of training with these options."""
        make = self.kind.load_model().of_training
        said = {"specials": self.specials, "unk": self.unk_token, "ids": self.ids}
        return make(self.model, alphabet, vocab, rules, **said, **self._kind_options())

    def _kind_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in list_options()}

    @property
    def kind(self) -> ModelKind:
        """The kind of model."""
        return kind_of(self.model)

    @property
    def byte_tokens(self) -> tuple[str, ...]:
        """The tokens that encode characters without a symbol; empty without `byte_fallback`."""
        return byte_tokens() if self.byte_fallback else ()

    @property
    def least_alphabet(self) -> int:
        """The number of tokens that exist for every corpus: bytes, byte tokens and the suffix, or the extended vocabulary."""
        if self.extend is not None:
            return len(self.extend)
        return self.kind.least_alphabet + len(self.byte_tokens) + (self.end_of_word_suffix is not None)

    @property
    def specials(self) -> tuple[str, ...]:
        """All special tokens in order of id, including the unk token."""
        unk = () if self.unk_token is None or self.unk_token in self.special_tokens else (self.unk_token,)
        return self.special_tokens + unk


def describe_least(size: int, alphabet: int, specials: int) -> str:
    """Say why a vocabulary of `size` tokens is too small, and what the minimum is."""
    return (
        f"vocabulary size {size} is too small: {alphabet} symbols of the alphabet and {specials} special tokens "
        f"need at least {alphabet + specials}; give more than that"
    )


def describe_shortage(asked: Mapping[str, Any], merges: int, size: int) -> str:
    """Say why a training ended early, at what size, and what to do. `asked`: options by name, as the tokenizer file has them.

    `asked for a vocabulary of 300 and got 257: after 1 merge no pair of symbols is left; ask for 257, or add text`
    """
    least, longest = asked.get("min_count") or 1, asked.get("max_token_length")
    wanted = f"a vocabulary of {asked['vocab_size']:,}" if asked.get("vocab_size") else f"{asked.get('merges') or 0:,} merges"
    got = f"{size:,}" if asked.get("vocab_size") else f"{merges:,} (a vocabulary of {size:,})"
    pair = "no pair of symbols" + (f" that occurs {least:,} times" if least > 1 else "")
    within = f" within {longest:,} characters or bytes a token" if longest else ""
    ways = [f"ask for {size if asked.get('vocab_size') else merges:,}", "add text"]
    ways += ["lower --min-count"] if least > 1 else []
    ways += ["raise --max-token-length"] if longest else []
    return (
        f"asked for {wanted} and got {got}: after {merges:,} merge{'' if merges == 1 else 's'} {pair} is left{within}; "
        f"{', '.join(ways[:-1])}, or {ways[-1]}"
    )
