"""What `train_tokenizer` is asked for, and which options go together."""

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
    """What to train. Exactly one of `vocab_size` (specials, alphabet and products together) and `merges` (rules) is given.

    `pretokenizer`, `normalizer`: those that the words were counted with; a name will do where the pre-tokenizer has no options.
    `ties`: `smallest` or `first-seen`; `ids`: `rank` or `sorted`, or `codepoint` with the model `char`, which has no merges and
    needs neither size; `min_count`: pairs that occur less often are not merged;
    `strict`: too few pairs for what was asked is an error. `unk_token` becomes a special token behind `special_tokens` unless it
    is one of them. `template`: which special tokens stand around a text, part of the tokenizer.

    `max_token_length`: no token gets longer, in characters, or bytes of a byte model. Of character models, `limit_alphabet`: only
    so many characters, the most frequent, get a symbol; `byte_fallback`: 256 byte tokens, behind the special ones, spell all
    others. `end_of_word_suffix`: a symbol behind the last of every word; `continuation_prefix`: what symbols inside a word begin
    with.

    Of WordPiece models, `score`: `likelihood` (default) or `frequency`; `continuation_prefix` is `##` unless it is given;
    `max_word_characters`: longer words become the unk token (default 100, of bytes none), 0 for no limit.

    `extend`: a tokenizer whose vocabulary and rules stay as they are, and to which training adds: `vocab_size` is then the size
    of all together, `merges` how many rules are new; so are `special_tokens` and `unk_token`.
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
        """Each option by itself."""
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
        self.alphabet(marks_spaces=False)  # which options go together is the alphabet's matter

    def _check_word_limit(self) -> None:
        most = self.max_word_characters
        if most is not None and not 0 <= most <= MOST_LIMIT:
            raise UsageError(f"max word characters {most} is not from 0 (no limit) to {MOST_LIMIT}")
        if most and self.kind.of_bytes:
            raise UsageError(f"max word characters {most} is for wordpiece; {self.model} takes words of any length")

    def _check_extension(self, extended: Tokenizer) -> None:
        """What belongs to the tokenizer that is extended cannot be chosen."""
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
        """Code points as ids leave nothing to choose but special tokens."""
        if self.ids != "codepoint":
            return
        if self.model != "char":
            raise UsageError(f"ids codepoint: a token of a {self.model} model is more than a character; choose the model char")
        for name in ("vocab_size", "unk_token", *self.kind.options):
            if getattr(self, name):
                raise UsageError(f"{name.replace('_', ' ')} makes no sense with code points as ids: every character has one")

    def alphabet(self, *, marks_spaces: bool) -> Alphabet | ContinuationAlphabet:
        """The alphabet that these options ask for."""
        return self.kind.load_model().make_alphabet(self.model, marks_spaces=marks_spaces, **self._kind_options())

    def make_model(self, alphabet: Any, vocab: Mapping[str, int], rules: Rules) -> Model:
        """The model that a training has made under these options."""
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
        """The tokens that spell characters without a symbol."""
        return byte_tokens() if self.byte_fallback else ()

    @property
    def least_alphabet(self) -> int:
        """How many tokens there are whatever the corpus holds: bytes, byte tokens, the suffix; those that are extended."""
        if self.extend is not None:
            return len(self.extend)
        return self.kind.least_alphabet + len(self.byte_tokens) + (self.end_of_word_suffix is not None)

    @property
    def specials(self) -> tuple[str, ...]:
        """All special tokens in order of id, the unk token among them."""
        unk = () if self.unk_token is None or self.unk_token in self.special_tokens else (self.unk_token,)
        return self.special_tokens + unk


def describe_least(size: int, alphabet: int, specials: int) -> str:
    """Why a vocabulary of `size` tokens cannot be, and what is the least."""
    return (
        f"vocabulary size {size} is too small: {alphabet} symbols of the alphabet and {specials} special tokens "
        f"need at least {alphabet + specials}"
    )
