"""Explains training round by round: the leading pairs, the pair that is merged and why, and the words after the merge.

To add a way to rank pairs, add an entry to `SCORINGS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from tokenmill.errors import NothingToTrainOnError, UsageError, VocabularySizeError
from tokenmill.explain.symbols import check_length, split_word
from tokenmill.models.kinds import KINDS, check_options, kind_of
from tokenmill.names import SCORES, TIES
from tokenmill.reference import bpe as reference
from tokenmill.reference import wordpiece as reference_wordpiece
from tokenmill.reference.bpe import Pair
from tokenmill.unicode_text import encode_text

#: The kinds of models whose training can be explained.
EXPLAINED = tuple(kind.name for kind in KINDS.values() if kind.explains_training)
SHOWN_CANDIDATES = 5
_SHOWN_WORDS = 4

Score = int | Fraction


@dataclass(frozen=True)
class CountedWord:
    """A word of the corpus, its count, and its symbols: the base symbols, or the symbols after some merges."""

    word: str
    count: int
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Scoring:
    """How a model ranks pairs. The pair with the highest score is merged.

    `score_pairs` returns the score of each pair of the words, in order of first occurrence. `show_working` shows how a score is
    computed. `join` returns the product of a pair.
    """

    name: str
    score_pairs: Callable[[Sequence[CountedWord]], dict[Pair, Score]]
    show_working: Callable[[Pair, Sequence[CountedWord]], str]
    join: Callable[[Pair], str] = "".join


@dataclass(frozen=True)
class Candidate:
    """A pair that could be merged: its score, how it was computed, and whether another pair has the same highest score."""

    left: str
    right: str
    score: Score
    working: str
    tied: bool
    chosen: bool


@dataclass(frozen=True)
class LearnedMerge:
    """One round of training.

    `candidates` are the leading pairs among `pairs`, the chosen one first; `words` are the symbols of each word after the merge.
    """

    rank: int
    left: str
    right: str
    product: str
    score: Score
    reason: str
    pairs: int
    candidates: tuple[Candidate, ...]
    words: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TrainingExplanation:
    """A whole training. `vocabulary` has the tokens in order of id: first the alphabet, then the products by rank."""

    model: str
    score: str
    ties: str
    words: tuple[CountedWord, ...]
    alphabet: tuple[str, ...]
    merges: tuple[LearnedMerge, ...]
    stop: str
    vocabulary: tuple[str, ...]


def explain_training(
    words: Mapping[str, int],
    *,
    model: str = "char-bpe",
    marks_spaces: bool = True,
    ties: str = "smallest",
    score: str | None = None,
    vocab_size: int | None = None,
    merges: int | None = None,
) -> TrainingExplanation:
    """Train on words and their counts, given in corpus order, and explain each round.

    Training stops at `vocab_size` tokens (alphabet and products) or after `merges` rules, whichever is given, or if no pair is
    left. `marks_spaces`: a character model shows a space as `Ġ`. `score` (for wordpiece): `likelihood` (default) or `frequency`.
    Raises `NothingToTrainOnError` if there are no words, `VocabularySizeError` if the size is below the alphabet, and
    `UsageError` for too much text and for invalid options.
    """
    _check_training(words, model, ties, vocab_size, merges)
    scoring = choose_scoring(model, score)
    counted = tuple(CountedWord(word, n, tuple(split_word(word, model, marks_spaces))) for word, n in words.items())
    seen = {symbol for word in counted for symbol in word.symbols}
    kind = kind_of(model)
    sort = reference_wordpiece.sort_alphabet if kind.takes("score") else sorted
    alphabet = sort(reference.visible_bytes() if kind.of_bytes else seen)
    if vocab_size is not None and vocab_size < len(alphabet):
        raise VocabularySizeError(
            f"vocabulary size {vocab_size} is too small: the alphabet has {len(alphabet)} symbols; give at least {len(alphabet)}"
        )
    wanted = vocab_size - len(alphabet) if vocab_size is not None else merges or 0
    learned = tuple(_learn_merges(counted, alphabet, scoring, ties, wanted))
    stop = f"vocabulary size {vocab_size} reached" if merges is None else f"{merges} merges made"
    if len(learned) < wanted:
        stop = f"no pair is left after {len(learned)} merges: every word is one symbol"
    products = tuple(merge.product for merge in learned)
    return TrainingExplanation(model, scoring.name, ties, counted, tuple(alphabet), learned, stop, (*alphabet, *products))


def choose_scoring(model: str, score: str | None) -> Scoring:
    """Choose how a model ranks pairs. Raises `UsageError` for a score that the model does not support."""
    kind = kind_of(model)
    check_options(kind, {"score": score})
    if score is not None and score not in SCORES:
        raise UsageError(f"score {score!r} is not known; choose one of {', '.join(SCORES)}")
    scoring = SCORINGS[score or kind.score]
    return replace(scoring, join=reference_wordpiece.join_pair) if kind.takes("score") else scoring


def _check_training(words: Mapping[str, int], model: str, ties: str, vocab_size: int | None, merges: int | None) -> None:
    for name, value, choices in (("model", model, EXPLAINED), ("ties", ties, TIES)):
        if value not in choices:
            raise UsageError(f"{name} {value!r} is not known; choose one of {', '.join(choices)}")
    if (vocab_size is None) == (merges is None):
        raise UsageError("give one of --vocab-size and --merges (vocab_size, merges)")
    if merges is not None and merges < 0:
        raise UsageError(f"merges {merges} is below 0; give 0 or more")
    if not words:
        raise NothingToTrainOnError("nothing to train on: no word is given, and the text holds none; give words such as low:5")
    for word in words:
        encode_text(word, name=f"the word {word[:40]!r}")
    check_length(sum(map(len, words)), "the words have", "train on fewer of them")


def _learn_merges(
    words: Sequence[CountedWord], alphabet: Sequence[str], scoring: Scoring, ties: str, wanted: int
) -> Iterator[LearnedMerge]:
    """Learn merges, until there are `wanted` rules or no pair is left."""
    ids = {symbol: number for number, symbol in enumerate(alphabet)}
    order = ids if ties == "smallest" else None
    for rank in range(wanted):
        scores = scoring.score_pairs(words)
        if not scores:
            return
        ranked = _rank_pairs(scores, order)
        left, right = chosen = ranked[0]
        highest = scores[chosen]
        sharing = sum(score == highest for score in scores.values())
        candidates = tuple(
            Candidate(
                *pair, scores[pair], scoring.show_working(pair, words), sharing > 1 and scores[pair] == highest, pair == chosen
            )
            for pair in ranked[:SHOWN_CANDIDATES]
        )
        reason = _give_reason(chosen, sharing, words, order)
        product = scoring.join(chosen)
        words = [replace(word, symbols=tuple(reference.replace_pair(word.symbols, chosen, product))) for word in words]
        after = tuple(word.symbols for word in words)
        yield LearnedMerge(rank, left, right, product, highest, reason, len(scores), candidates, after)
        ids.setdefault(product, len(ids))


def _rank_pairs(scores: Mapping[Pair, Score], ids: Mapping[str, int] | None) -> list[Pair]:
    """Sort the pairs by score, highest first. Ties are sorted by ids if these are given, otherwise as first seen."""
    pairs = list(scores) if ids is None else sorted(scores, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    return sorted(pairs, key=scores.__getitem__, reverse=True)


def _give_reason(chosen: Pair, sharing: int, words: Sequence[CountedWord], ids: Mapping[str, int] | None) -> str:
    """Say why the chosen pair is merged; `sharing` pairs have the highest score."""
    if sharing == 1:
        return "the highest"
    if ids is not None:
        return f"{sharing} pairs share the highest; this one has the smallest ids, ({ids[chosen[0]]}, {ids[chosen[1]]})"
    first = next(word for word in words if chosen in pairwise(word.symbols))
    return f"{sharing} pairs share the highest; this one is seen first, in {_name(first)}"


def _score_by_count(words: Sequence[CountedWord]) -> dict[Pair, Score]:
    """The score of BPE: how often a pair occurs."""
    return {**reference.count_pairs([word.symbols for word in words], [word.count for word in words])}


def _add_up(pair: Pair, words: Sequence[CountedWord]) -> str:
    """Show where a pair occurs: `newest 6 + widest 3`, or `2 × banana 5` for two places in a word."""
    places = [(sum(found == pair for found in pairwise(word.symbols)), word) for word in words]
    terms = [f"{f'{number} × ' if number > 1 else ''}{_name(word)} {word.count:,}" for number, word in places if number]
    more = [f"{len(terms) - _SHOWN_WORDS} more words"] if len(terms) > _SHOWN_WORDS else []
    return " + ".join(terms[:_SHOWN_WORDS] + more)


def _name(word: CountedWord) -> str:
    return word.word.replace(" ", "␣")


def _score_by_likelihood(words: Sequence[CountedWord]) -> dict[Pair, Score]:
    """The score of WordPiece: how much more often a pair occurs than its parts would meet by chance."""
    return {**reference_wordpiece.score_pairs([word.symbols for word in words], [word.count for word in words])}


def _show_quotient(pair: Pair, words: Sequence[CountedWord]) -> str:
    """Show the counts of a pair and of its two symbols: `7 / (7 × 7)`."""
    states, counts = [word.symbols for word in words], [word.count for word in words]
    symbols = reference_wordpiece.count_symbols(states, counts)
    together = reference.count_pairs(states, counts)[pair]
    return f"{together:,} / ({symbols[pair[0]]:,} × {symbols[pair[1]]:,})"


#: The ways to rank pairs, by the names that `--score` takes.
SCORINGS: dict[str, Scoring] = {
    "frequency": Scoring("count", _score_by_count, _add_up),
    "likelihood": Scoring("score", _score_by_likelihood, _show_quotient),
}
