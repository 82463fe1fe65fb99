"""Training a tokenizer: from word counts and options to a `Tokenizer`.

counts = pq.read_table("word-counts/part-00000-of-00001.parquet")
tokenizer, rules = train_tokenizer(counts, TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=8192))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tokenmill import wordpiece
from tokenmill.alphabets import CODE_POINTS, byte_tokens
from tokenmill.code_points import CodePointModel
from tokenmill.continuations import ContinuationAlphabet
from tokenmill.errors import NothingToTrainOnError, UsageError, VocabularySizeError
from tokenmill.extension import check_extended, check_size, extend_model, new_specials, symbols_for_extension
from tokenmill.merge_loop import MergeRules, OnMerges, learn_merges
from tokenmill.models import BpeModel, alphabet_of, number_tokens
from tokenmill.names import BPE_OPTION_NAMES, ID_ORDERS, TIES, WORDPIECE_MODELS
from tokenmill.normalizers import Normalizer
from tokenmill.pretokenizers import PreTokenizer
from tokenmill.templates import Template, check_template
from tokenmill.tokenizer import Tokenizer
from tokenmill.training_symbols import TrainingSymbols, symbols_for_training
from tokenmill.unicode_text import check_unicode
from tokenmill.word_counts import binary_buffers, fingerprint_counts, in_corpus_order
from tokenmill.word_marks import Alphabet, WordMarks
from tokenmill.wordpiece import WordPieceModel, check_options, wordpiece_alphabet

#: Called now and then while merging: how many rules are made, and the latest of them as (left, right, count), in visible form.
OnNamedMerges = Callable[[int, list[tuple[str, str, int]]], None]


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
        if (self.vocab_size is None) == (self.merges is None) and (self.model != "char" or self.merges is not None):
            raise UsageError("give one of --vocab-size and --merges (vocab_size, merges)")
        if self.model == "char" and self.merges:
            raise UsageError(f"merges {self.merges}: a char model has none; leave it out, or choose char-bpe")
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
                raise UsageError(f"{name} {number} is below {least}")
        if self.extend is not None:
            self._check_extension(self.extend)
        self._check_alphabet_options()
        self._check_code_points()
        least = self.least_alphabet
        if self.extend is None and self.vocab_size is not None and self.vocab_size < least + len(self.specials) and least:
            raise VocabularySizeError(_describe_least(self.vocab_size, least, len(self.specials)))
        for token in self.specials:
            check_unicode(token, name="special token")
        if "" in self.specials or len(set(self.specials)) != len(self.specials):
            raise UsageError(f"special tokens must differ and not be empty: {', '.join(map(repr, self.specials))}")
        check_template(self.template, (*self.specials, *(() if self.extend is None else self.extend.special_tokens)))

    def _check_alphabet_options(self) -> None:
        for name, mark in (("end-of-word suffix", self.end_of_word_suffix), ("continuation prefix", self.continuation_prefix)):
            if mark == "":
                raise UsageError(f"the {name} is empty; leave it out, or give one such as '</w>' or '##'")
        for name, given in (("limit of the alphabet", self.limit_alphabet), ("continuation prefix", self.continuation_prefix)):
            if given is not None and (self.model == "byte-bpe" or (self.model == "byte-wordpiece" and "limit" in name)):
                raise UsageError(f"a {name} is for models of characters, not for {self.model}; leave it out")
        check_options(self.model, self.score, self.max_word_characters)
        if self.is_wordpiece and (self.byte_fallback or self.end_of_word_suffix):
            name = "byte fallback" if self.byte_fallback else "an end-of-word suffix"
            raise UsageError(f"{name} is for BPE, not for {self.model}; leave it out")
        self.alphabet(marks_spaces=False)  # which options go together is the alphabet's matter

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
        for name in ("vocab_size", "unk_token", *BPE_OPTION_NAMES):
            if getattr(self, name):
                raise UsageError(f"{name.replace('_', ' ')} makes no sense with code points as ids: every character has one")

    def alphabet(self, *, marks_spaces: bool) -> Alphabet | ContinuationAlphabet:
        """The alphabet that these options ask for."""
        if self.is_wordpiece:
            return wordpiece_alphabet(self.model, marks_spaces=marks_spaces, prefix=self.continuation_prefix)
        marks = WordMarks(self.end_of_word_suffix or "", self.continuation_prefix or "")
        return alphabet_of(self.model, marks_spaces=marks_spaces, marks=marks, byte_fallback=self.byte_fallback)

    @property
    def is_wordpiece(self) -> bool:
        """Whether the model is WordPiece, of characters or of bytes."""
        return self.model in WORDPIECE_MODELS

    @property
    def byte_tokens(self) -> tuple[str, ...]:
        """The tokens that spell characters without a symbol."""
        return byte_tokens() if self.byte_fallback else ()

    @property
    def least_alphabet(self) -> int:
        """How many tokens there are whatever the corpus holds: bytes, byte tokens, the suffix; those that are extended."""
        if self.extend is not None:
            return len(self.extend)
        bytes_ = 512 if self.model == "byte-wordpiece" else 256 if self.model == "byte-bpe" or self.byte_fallback else 0
        return bytes_ + (self.end_of_word_suffix is not None)

    @property
    def specials(self) -> tuple[str, ...]:
        """All special tokens in order of id, the unk token among them."""
        unk = () if self.unk_token is None or self.unk_token in self.special_tokens else (self.unk_token,)
        return self.special_tokens + unk


def train_tokenizer(
    counts: pa.Table, options: TrainingOptions, *, on_merges: OnNamedMerges | None = None
) -> tuple[Tokenizer, MergeRules]:
    """Train on word counts (`schemas.WORD_COUNTS`, sorted as on disk); `on_merges` hears of the rules as they are made.

    Raises `NothingToTrainOnError` for no words, `VocabularySizeError` where the size is too small for the alphabet or, under
    `strict`, larger than the corpus allows.
    """
    pretokenizer = PreTokenizer.of(options.pretokenizer)
    alphabet = options.alphabet(marks_spaces=pretokenizer.marks_spaces)
    if counts.num_rows == 0:
        raise NothingToTrainOnError("nothing to train on: the corpus holds no word")
    if options.extend is not None:
        return _extend_tokenizer(counts, options, options.extend, on_merges)
    ordered = in_corpus_order(counts) if options.ties == "first-seen" else counts.combine_chunks()
    word_counts = ordered["count"].to_numpy()
    base = symbols_for_training(alphabet, *_words_of(ordered), word_counts, limit_alphabet=options.limit_alphabet)
    _check_room(base, options)
    rules = learn_merges(
        base.words,
        alphabet=len(base.visible),
        merges=_count_merges(base, options),
        ties=options.ties,
        min_count=options.min_count,
        forbidden=_forbid_tokens(alphabet, base.visible, (*options.specials, *options.byte_tokens)),
        lengths=base.lengths,
        most_length=options.max_token_length,
        on_merges=None if on_merges is None else _name_merges(base.visible, alphabet, on_merges),
        score=options.score or "likelihood" if options.is_wordpiece else "frequency",
    )
    if options.strict and rules.exhausted:
        others = len(options.specials) + len(options.byte_tokens) + len(base.visible)
        raise VocabularySizeError(_describe_shortage(rules, others, options))
    return _build_tokenizer(counts, rules, base.visible, options, pretokenizer), rules


def _extend_tokenizer(
    counts: pa.Table, options: TrainingOptions, extended: Tokenizer, on_merges: OnNamedMerges | None
) -> tuple[Tokenizer, MergeRules]:
    """`train_tokenizer` from where another training ended."""
    model = check_extended(extended)
    specials = new_specials(model, options.special_tokens, options.unk_token)
    ordered = in_corpus_order(counts) if options.ties == "first-seen" else counts.combine_chunks()
    base = symbols_for_extension(model, ordered, specials)
    merges = options.merges if options.vocab_size is None else check_size(model, base, specials, options.vocab_size)
    rules = learn_merges(
        base.words,
        alphabet=len(base.visible),
        merges=merges or 0,
        ties=options.ties,
        min_count=options.min_count,
        forbidden=base.forbidden,
        lengths=base.lengths,
        most_length=options.max_token_length,
        on_merges=None if on_merges is None else _name_merges(base.visible, model.alphabet, on_merges),
    )
    if options.strict and rules.exhausted:
        others = len(model.vocab) + len(specials) + len(base.characters)
        raise VocabularySizeError(_describe_shortage(rules, others, options))
    tokens = token_strings(rules, base.visible, model.alphabet)
    pairs = [(tokens[left], tokens[right]) for left, right in rules.pairs.tolist()]
    longer = extend_model(model, base, pairs, specials, options.unk_token)
    training = {**_describe_training(counts, options), "extends": extended.sha256, "old_merges": len(model.merge_rules)}
    parts: dict[str, Any] = {
        "pretokenizer": extended.pretokenizer,
        "normalizer": extended.normalizer,
        "template": extended.template if options.template.is_empty else options.template,
    }
    return Tokenizer(longer, **parts, training=training), rules


def token_strings(rules: MergeRules, visible: Sequence[str], alphabet: Alphabet | ContinuationAlphabet) -> list[str]:
    """The visible form of every token of a training run by its number: the base symbols, then the products."""
    tokens = list(visible)
    for left, right in zip(*rules.pairs.T.tolist(), strict=True):
        tokens.append(alphabet.join(tokens[left], tokens[right]))
    return tokens


def _count_merges(base: TrainingSymbols, options: TrainingOptions) -> int:
    """How many rules are asked for."""
    if options.merges is not None or options.model == "char":
        return options.merges or 0
    return (options.vocab_size or 0) - len(options.specials) - len(options.byte_tokens) - len(base.visible)


def _name_merges(visible: Sequence[str], alphabet: Alphabet | ContinuationAlphabet, on_merges: OnNamedMerges) -> OnMerges:
    """Translate the kernel's numbers for those who watch."""
    names = list(visible)

    def tell(made: int, rows: np.ndarray) -> None:
        latest = []
        for left, right, count in rows.tolist():
            latest.append((names[left], names[right], count))
            names.append(alphabet.join(names[left], names[right]))
        on_merges(made, latest)

    return tell


def _words_of(counts: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Words as `(data, offsets)`: uint8[n], int64[w + 1]."""
    data, ends = binary_buffers(counts["word"])
    return data, np.concatenate([np.zeros(1, np.int64), ends])


def _check_room(base: TrainingSymbols, options: TrainingOptions) -> None:
    """The vocabulary must hold at least the specials and the alphabet, and no special token may be one of its symbols."""
    symbols = {*base.visible, *options.byte_tokens}
    if options.vocab_size is not None and options.vocab_size < len(options.specials) + len(symbols):
        raise VocabularySizeError(_describe_least(options.vocab_size, len(symbols), len(options.specials)))
    for token in options.specials:
        if token in symbols:
            raise UsageError(f"special token {token!r} is a symbol of the alphabet; choose a longer one")


def _describe_least(size: int, alphabet: int, specials: int) -> str:
    return (
        f"vocabulary size {size} is too small: {alphabet} symbols of the alphabet and {specials} special tokens "
        f"need at least {alphabet + specials}"
    )


def _forbid_tokens(alphabet: Alphabet | ContinuationAlphabet, visible: Sequence[str], tokens: Sequence[str]) -> list[list[int]]:
    """Tokens that are there already and that text could spell, as symbol numbers: no rule may make them."""
    number_of = {symbol: number for number, symbol in enumerate(visible)}
    spelled = (alphabet.base_symbols(token) for token in tokens)
    return [
        [number_of[symbol] for symbol in symbols]
        for symbols in spelled
        if symbols and all(symbol in number_of for symbol in symbols)
    ]


def _describe_shortage(rules: MergeRules, others: int, options: TrainingOptions) -> str:
    size = others + len(rules.pairs)
    wanted = f"{options.merges} merges" if options.vocab_size is None else f"a vocabulary of {options.vocab_size}"
    return f"{wanted} cannot be had: no pair is left after {len(rules.pairs)} merges, vocabulary {size}; ask for that or add text"


def _build_tokenizer(
    counts: pa.Table, rules: MergeRules, visible: Sequence[str], options: TrainingOptions, pretokenizer: PreTokenizer
) -> Tokenizer:
    training = _describe_training(counts, options)
    parts: dict[str, Any] = {"pretokenizer": pretokenizer, "normalizer": options.normalizer, "template": options.template}
    if options.ids == "codepoint":
        by_code_point = CodePointModel.of({token: CODE_POINTS + place for place, token in enumerate(options.specials)})
        return Tokenizer(by_code_point, **parts, training=training)
    alphabet = options.alphabet(marks_spaces=pretokenizer.marks_spaces)
    tokens = token_strings(rules, visible, alphabet)
    symbols, products = [*options.byte_tokens, *visible], tokens[len(visible) :]
    vocab = number_tokens(options.specials, symbols, products, ids=options.ids)
    lefts, rights = ([tokens[token] for token in column] for column in rules.pairs.T.tolist())
    pairs = tuple(zip(lefts, rights, strict=True))
    model: BpeModel | WordPieceModel
    if isinstance(alphabet, ContinuationAlphabet):
        limit = wordpiece.limit_of(options.model, options.max_word_characters)
        model = WordPieceModel(options.model, alphabet, vocab, pairs, options.specials, options.unk_token, limit)
    else:
        model = BpeModel(options.model, alphabet, vocab, pairs, options.specials, options.unk_token)
    return Tokenizer(model, **parts, training=training)


def _describe_training(counts: pa.Table, options: TrainingOptions) -> dict[str, object]:
    """What the tokenizer file says of its origin: options, and the fingerprint of the counts that bear on the result."""
    chosen = {name: value for name in BPE_OPTION_NAMES if (value := getattr(options, name))}
    return {
        "word_counts_sha256": fingerprint_counts(counts, with_order=options.ties == "first-seen"),
        "distinct_words": counts.num_rows,
        "merges": options.merges,
        "vocab_size": options.vocab_size,
        "ties": options.ties,
        "ids": options.ids,
        "min_count": options.min_count,
        **chosen,
        **({"score": options.score or "likelihood"} if options.is_wordpiece else {}),
    }
