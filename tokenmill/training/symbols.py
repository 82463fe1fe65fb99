"""Turns the words of a corpus into the symbols that training merges: chooses the alphabet and adds the marks.

Two symbols must not become a pair if a character between them has no symbol, or if together they would look like a mark. The
word is cut there, and each part has the count of the word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tokenmill.errors import UsageError
from tokenmill.models.alphabets import BaseSymbols
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.marks import PLAIN, Alphabet, MarkedAlphabet, WordMarks
from tokenmill.training.merge_loop import WordSymbols


@dataclass(frozen=True)
class TrainingSymbols:
    """Words as symbols, the visible form of each symbol, and its length in characters (int32; 0 for an ending)."""

    words: WordSymbols
    visible: tuple[str, ...]
    lengths: np.ndarray


def symbols_for_training(
    alphabet: Alphabet | ContinuationAlphabet,
    data: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    *,
    limit_alphabet: int | None = None,
) -> TrainingSymbols:
    """Turn words `data[offsets[w]:offsets[w + 1]]` (uint8[n], int64[w + 1]) with counts `counts[w]` (int64) into symbols.

    `limit_alphabet` limits the alphabet to the most frequent characters; among equally frequent ones, smaller code points win.
    Raises `UsageError` for a mark that is a character of the corpus.
    """
    plain = alphabet.base if isinstance(alphabet, MarkedAlphabet | ContinuationAlphabet) else alphabet
    base = plain.symbols_of(data, offsets)
    if limit_alphabet is not None:
        base = keep_most_frequent(base, counts, limit_alphabet)
    lengths = np.ones(len(base.visible), np.int32)
    breaks = np.zeros(base.symbols.size, np.bool_)
    if isinstance(alphabet, MarkedAlphabet):
        _check_mark(base, alphabet.marks)
        breaks = find_false_marks(base, alphabet.marks)
        if alphabet.marks.marking == PLAIN:
            base, breaks, lengths = add_endings(base, breaks, alphabet.marks.suffix)
        else:
            base = put_marks_on(base, alphabet.marks)
            lengths = np.ones(len(base.visible), np.int32)
    if isinstance(alphabet, ContinuationAlphabet):
        breaks = find_false_marks(base, WordMarks(prefix=alphabet.prefix))
        base = alphabet.show_places(base)
        lengths = np.ones(len(base.visible), np.int32)
    return TrainingSymbols(cut_words(base, counts, breaks), base.visible, lengths)


def keep_most_frequent(base: BaseSymbols, counts: np.ndarray, limit: int) -> BaseSymbols:
    """Replace the symbols of all but the `limit` most frequent characters with -1; the others keep their order."""
    known = base.symbols >= 0
    totals = np.zeros(len(base.visible), np.int64)
    np.add.at(totals, base.symbols[known], np.repeat(counts, np.diff(base.starts))[known])
    kept = np.sort(np.argsort(-totals, kind="stable")[:limit])
    numbers = np.full(len(base.visible) + 1, -1, np.int32)  # The last entry is for the symbol -1.
    numbers[kept] = np.arange(kept.size, dtype=np.int32)
    return BaseSymbols(numbers[base.symbols], base.starts, tuple(base.visible[symbol] for symbol in kept.tolist()))


def find_false_marks(base: BaseSymbols, marks: WordMarks) -> np.ndarray:
    """bool[n]: the second characters of text that looks like the suffix anywhere in a word, or like the prefix at its start."""
    number_of = {symbol: number for number, symbol in enumerate(base.visible)}
    mark = [number_of.get(character, -2) for character in marks.text]
    ends = np.repeat(base.starts[1:], np.diff(base.starts))
    size, padded = base.symbols.size, np.concatenate([base.symbols, np.full(len(mark), -1, np.int32)])
    matching = np.arange(size) + len(mark) <= ends
    for place, number in enumerate(mark):
        matching &= padded[place : place + size] == number
    if marks.prefix:
        first = np.zeros(size, np.bool_)
        first[base.starts[:-1]] = True
        matching &= first
    return np.concatenate([[False], matching])[:size]


def add_endings(base: BaseSymbols, breaks: np.ndarray, suffix: str) -> tuple[BaseSymbols, np.ndarray, np.ndarray]:
    """Append the suffix to every word as its last symbol. Also returns `breaks` with entries for it, and the lengths."""
    visible = sorted([*base.visible, suffix])
    ending = visible.index(suffix)
    symbols = np.where(base.symbols >= ending, base.symbols + 1, base.symbols)
    symbols = np.insert(symbols, base.starts[1:], ending).astype(np.int32)
    breaks = np.insert(breaks, base.starts[1:], False)
    lengths = np.ones(len(visible), np.int32)
    lengths[ending] = 0
    return BaseSymbols(symbols, base.starts + np.arange(base.starts.size), tuple(visible)), breaks, lengths


def put_marks_on(base: BaseSymbols, marks: WordMarks) -> BaseSymbols:
    """Give each symbol the form of its position in the word, and number the symbols by visible form."""
    marked = np.ones(base.symbols.size, np.bool_)
    if marks.prefix:
        marked[base.starts[:-1]] = False
    else:
        marked[:] = False
        marked[base.starts[1:] - 1] = True
    known = base.symbols >= 0
    forms, which = np.unique(2 * base.symbols[known].astype(np.int64) + marked[known], return_inverse=True)
    shown = [base.visible[form >> 1] if form % 2 == 0 else marks.put_on(base.visible[form >> 1]) for form in forms.tolist()]
    order = sorted(range(len(shown)), key=lambda form: shown[form])
    numbers = np.empty(len(shown), np.int32)
    numbers[order] = np.arange(len(shown), dtype=np.int32)
    symbols = np.full(base.symbols.size, -1, np.int32)
    symbols[known] = numbers[which]
    return replace(base, symbols=symbols, visible=tuple(shown[form] for form in order))


def cut_words(base: BaseSymbols, counts: np.ndarray, breaks: np.ndarray) -> WordSymbols:
    """Cut the words at missing symbols (-1) and before the symbols of `breaks` (bool[n]). Parts without a symbol are dropped."""
    missing = base.symbols < 0
    if not (missing.any() or breaks.any()):
        return WordSymbols(base.symbols, base.starts, counts)
    begins = breaks.copy()
    begins[base.starts[:-1]] = True
    begins[1:] |= missing[:-1]
    part = np.cumsum(begins)[~missing]
    starts = np.flatnonzero(np.diff(part, prepend=0))
    word = np.repeat(np.arange(counts.size), np.diff(base.starts))[~missing]
    return WordSymbols(base.symbols[~missing], np.append(starts, part.size).astype(np.int64), counts[word[starts]])


def _check_mark(base: BaseSymbols, marks: WordMarks) -> None:
    if len(marks.text) == 1 and marks.suffix and marks.text in base.visible:
        raise UsageError(f"end-of-word suffix {marks.text!r} is a character of the corpus; choose another, such as '</w>'")
