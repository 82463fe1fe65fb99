"""Training a tokenizer: from word counts and options to a `Tokenizer`.

counts = pq.read_table("word-counts/part-00000-of-00001.parquet")
tokenizer, rules = train_tokenizer(counts, TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=8192))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tokenmill import wordpiece
from tokenmill.alphabets import Alphabet, BaseSymbols, TokenAlphabet
from tokenmill.continuations import ContinuationAlphabet
from tokenmill.errors import NothingToTrainOnError, UsageError, VocabularySizeError
from tokenmill.merge_loop import MergeRules, OnMerges, WordSymbols, cut_ambiguous, learn_merges
from tokenmill.models import BpeModel, alphabet_of, number_tokens
from tokenmill.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.word_counts import binary_buffers, fingerprint_counts, in_corpus_order
from tokenmill.wordpiece import WordPieceModel, check_wordpiece_options, wordpiece_alphabet

#: Called now and then while merging: how many rules are made, and the latest of them as (left, right, count), in visible form.
OnNamedMerges = Callable[[int, list[tuple[str, str, int]]], None]

TIES = ("smallest", "first-seen")
IDS = ("rank", "sorted")


@dataclass(frozen=True)
class TrainingOptions:
    """What to train. Exactly one of `vocab_size` (specials, alphabet and products together) and `merges` (rules) is given.

    `pretokenizer`: the one that the words were counted with; a name will do where it has no options.
    `ties`: `smallest` or `first-seen`; `ids`: `rank` or `sorted`; `min_count`: pairs that occur less often are not merged;
    `strict`: too few pairs for what was asked is an error. `unk_token` becomes a special token behind `special_tokens` unless it
    is one of them.

    Of WordPiece models alone, `score`: `likelihood` (default) or `frequency`; `continuation_prefix` (default `##`);
    `max_word_characters`: longer words become the unk token (default 100, of bytes none), 0 for no limit.
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
    score: str | None = None
    continuation_prefix: str | None = None
    max_word_characters: int | None = None

    def __post_init__(self) -> None:
        if (self.vocab_size is None) == (self.merges is None):
            raise UsageError("give either a vocabulary size or a number of merges")
        for name, value, choices in (("ties", self.ties, TIES), ("ids", self.ids, IDS)):
            if value not in choices:
                raise UsageError(f"{name} {value!r} is not known; choose one of {', '.join(choices)}")
        for name, number, least in (
            ("merges", self.merges, 0),
            ("vocabulary size", self.vocab_size, 1),
            ("min count", self.min_count, 1),
        ):
            if number is not None and number < least:
                raise UsageError(f"{name} {number} is below {least}")
        check_wordpiece_options(self.model, self.score, self.continuation_prefix, self.max_word_characters)
        if self.vocab_size is not None and self.least_alphabet and self.vocab_size < self.least_alphabet + len(self.specials):
            raise VocabularySizeError(_describe_least(self.vocab_size, self.least_alphabet, len(self.specials)))
        for token in self.specials:
            if any(0xD800 <= ord(character) < 0xE000 for character in token):
                raise UsageError(f"special token {token!r} is not Unicode text")
        if "" in self.specials or len(set(self.specials)) != len(self.specials):
            raise UsageError(f"special tokens must differ and not be empty: {', '.join(map(repr, self.specials))}")

    def alphabet(self, *, marks_spaces: bool) -> TokenAlphabet:
        """The alphabet that these options ask for."""
        if self.model in wordpiece.MODELS:
            return wordpiece_alphabet(self.model, marks_spaces=marks_spaces, prefix=self.continuation_prefix)
        return alphabet_of(self.model, marks_spaces=marks_spaces)

    @property
    def least_alphabet(self) -> int:
        """How many symbols there are whatever the corpus holds."""
        return {"byte-bpe": 256, "byte-wordpiece": 512}.get(self.model, 0)

    @property
    def scores_likelihood(self) -> bool:
        """Whether the pair with the highest score is merged, not the one with the highest count."""
        return self.model in wordpiece.MODELS and self.score != "frequency"

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
    ordered = in_corpus_order(counts) if options.ties == "first-seen" else counts.combine_chunks()
    base = alphabet.symbols_of(*_words_of(ordered))
    _check_room(base, options)
    words = WordSymbols(base.symbols, base.starts, ordered["count"].to_numpy())
    rules = learn_merges(
        cut_ambiguous(words, base.visible, alphabet) if isinstance(alphabet, ContinuationAlphabet) else words,
        alphabet=len(base.visible),
        merges=_count_merges(base, options),
        ties=options.ties,
        min_count=options.min_count,
        forbidden=_forbid_specials(alphabet, base.visible, options.specials),
        on_merges=None if on_merges is None else _name_merges(base.visible, alphabet, on_merges),
        score="likelihood" if options.scores_likelihood else "frequency",
    )
    if options.strict and rules.exhausted:
        raise VocabularySizeError(_describe_shortage(rules, options))
    return _build_tokenizer(counts, rules, base.visible, options, pretokenizer), rules


def token_strings(rules: MergeRules, visible: Sequence[str], alphabet: TokenAlphabet) -> list[str]:
    """The visible form of every token of a training run by its number: the base symbols, then the products."""
    tokens = list(visible)
    for left, right in zip(*rules.pairs.T.tolist(), strict=True):
        tokens.append(alphabet.join(tokens[left], tokens[right]))
    return tokens


def _count_merges(base: BaseSymbols, options: TrainingOptions) -> int:
    """How many rules are asked for."""
    if options.merges is not None:
        return options.merges
    return (options.vocab_size or 0) - len(options.specials) - len(base.visible)


def _name_merges(visible: Sequence[str], alphabet: TokenAlphabet, on_merges: OnNamedMerges) -> OnMerges:
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


def _check_room(base: BaseSymbols, options: TrainingOptions) -> None:
    """The vocabulary must hold at least the specials and the alphabet, and no special token may be a character."""
    least = len(options.specials) + len(base.visible)
    if options.vocab_size is not None and options.vocab_size < least:
        raise VocabularySizeError(_describe_least(options.vocab_size, len(base.visible), len(options.specials)))
    for token in options.specials:
        if token in base.visible:
            raise UsageError(f"special token {token!r} is a symbol of the alphabet; choose a longer one")


def _describe_least(size: int, alphabet: int, specials: int) -> str:
    return (
        f"vocabulary size {size} is too small: {alphabet} symbols of the alphabet and {specials} special tokens "
        f"need at least {alphabet + specials}"
    )


def _forbid_specials(alphabet: TokenAlphabet, visible: Sequence[str], specials: Sequence[str]) -> list[list[int]]:
    """Special tokens that text could spell, as symbol numbers: no rule may make them."""
    number_of = {symbol: number for number, symbol in enumerate(visible)}
    spelled = (alphabet.base_symbols(token) for token in specials)
    return [
        [number_of[symbol] for symbol in symbols]
        for symbols in spelled
        if symbols and all(symbol in number_of for symbol in symbols)
    ]


def _describe_shortage(rules: MergeRules, options: TrainingOptions) -> str:
    size = rules.tokens + len(options.specials)
    wanted = f"{options.merges} merges" if options.vocab_size is None else f"a vocabulary of {options.vocab_size}"
    return f"{wanted} cannot be had: no pair is left after {len(rules.pairs)} merges, vocabulary {size}; ask for that or add text"


def _build_tokenizer(
    counts: pa.Table, rules: MergeRules, visible: Sequence[str], options: TrainingOptions, pretokenizer: PreTokenizer
) -> Tokenizer:
    alphabet = options.alphabet(marks_spaces=pretokenizer.marks_spaces)
    tokens = token_strings(rules, visible, alphabet)
    vocab = number_tokens(options.specials, visible, tokens[len(visible) :], ids=options.ids)
    lefts, rights = ([tokens[token] for token in column] for column in rules.pairs.T.tolist())
    pairs = tuple(zip(lefts, rights, strict=True))
    return Tokenizer(
        _build_model(options, alphabet, vocab, pairs), pretokenizer=pretokenizer, training=_describe_training(counts, options)
    )


def _build_model(
    options: TrainingOptions, alphabet: TokenAlphabet, vocab: dict[str, int], rules: tuple[tuple[str, str], ...]
) -> BpeModel | WordPieceModel:
    if isinstance(alphabet, ContinuationAlphabet):
        limit = wordpiece.limit_of(options.model, options.max_word_characters)
        return WordPieceModel(options.model, alphabet, vocab, rules, options.specials, options.unk_token, limit)
    assert isinstance(alphabet, Alphabet)
    return BpeModel(options.model, alphabet, vocab, rules, options.specials, options.unk_token)


def _describe_training(counts: pa.Table, options: TrainingOptions) -> dict[str, object]:
    """What the tokenizer file says of its origin: options, and the fingerprint of the counts that bear on the result."""
    return {
        "word_counts_sha256": fingerprint_counts(counts, with_order=options.ties == "first-seen"),
        "distinct_words": counts.num_rows,
        "merges": options.merges,
        "vocab_size": options.vocab_size,
        "ties": options.ties,
        "ids": options.ids,
        "min_count": options.min_count,
        **({"score": options.score or "likelihood"} if options.model in wordpiece.MODELS else {}),
    }
