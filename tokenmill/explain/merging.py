"""Explains merging step by step: the base symbols of a word, the unknown ones among them, and each rule that is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tokenmill.explain.steps import AppliedMerge, Steps
from tokenmill.explain.symbols import is_known
from tokenmill.models.alphabets import MARKER, CharacterAlphabet, byte_tokens
from tokenmill.models.bpe import BpeModel
from tokenmill.models.marks import MarkedAlphabet
from tokenmill.reference import bpe as reference
from tokenmill.reference import marks as reference_marks
from tokenmill.reference.bpe import Pair

#: Replaces an unknown symbol while rules are applied. The empty string is not a token, so no rule applies to it.
_UNKNOWN = ""


@dataclass(frozen=True)
class BaseWord:
    """A word in visible form, its base symbols with their marks, and the places of symbols that are not in the vocabulary."""

    text: str
    symbols: tuple[str, ...]
    unknown: tuple[int, ...]


@dataclass(frozen=True)
class MergedWord:
    """The rules applied to a word, and the resulting tokens with their ids.

    An unknown symbol is shown as in the word. If there is no unk token, it is a token without an id (None).
    """

    merges: tuple[AppliedMerge, ...]
    tokens: tuple[str, ...]
    ids: tuple[int | None, ...]


def explain_word(model: BpeModel, ranks: Mapping[Pair, int], word: str) -> Steps:
    """Explain the rules that are applied to a word."""
    base = split_into_symbols(model, word)
    merged = merge_symbols(model, ranks, base)
    return Steps(base.text, base.symbols, merged.tokens, merged.ids, base.unknown, merges=merged.merges)


def split_into_symbols(model: BpeModel, word: str) -> BaseWord:
    """The symbols of `reference.marks.mark_word`: with the suffix `</w>`, ` low` has the symbols `Ġ l o w </w>`."""
    marks, alphabet = model.marks, model.alphabet.base if isinstance(model.alphabet, MarkedAlphabet) else model.alphabet
    bare, foreign = reference.split_into_bytes(word), set[str]()
    if isinstance(alphabet, CharacterAlphabet):
        bare = reference.split_into_characters(word) if alphabet.marks_spaces else list(word)
        # Characters that look like a symbol but are not one: the suffix, and `Ġ` if only a space may be shown as `Ġ`.
        foreign |= {marks.suffix} if marks.has_ending else set()
        foreign |= {MARKER} if alphabet.marks_spaces and alphabet.byte_fallback else set()
    symbols = reference_marks.mark_word(bare, suffix=marks.suffix, prefix=marks.prefix, attached=marks.attached)
    unknown = {place for place in range(len(bare)) if not is_known(model, symbols[place])}
    unknown |= {place for place, character in enumerate(word) if character in foreign}
    return BaseWord("".join(bare), tuple(symbols), tuple(sorted(unknown)))


def merge_symbols(model: BpeModel, ranks: Mapping[Pair, int], word: BaseWord) -> MergedWord:
    """The steps of `reference.bpe.encode_word`. `ranks` are those of the rules. With `ignore_merges`, a token is kept whole."""
    symbols, lost = _replace_unknown(model, word)
    steps = list(_apply_rules(model, ranks, symbols))
    last = steps[-1].symbols if steps else tuple(symbols)
    if model.ignore_merges and last != (word.text,) and is_known(model, word.text):
        return MergedWord((), (word.text,), (model.vocab[word.text],))
    unk = model.unk_token
    tokens = _put_back(last, lost if unk is None else [unk] * len(lost))
    unk_id = None if unk is None else model.vocab[unk]
    return MergedWord(
        merges=tuple(AppliedMerge(step.rank, step.left, step.right, _put_back(step.symbols, lost)) for step in steps),
        tokens=tokens,
        ids=tuple(unk_id if symbol == _UNKNOWN else model.vocab[symbol] for symbol in last),
    )


def spell_unknown(character: str) -> list[str]:
    """The byte tokens of an unknown character: `é` is `<0xC3> <0xA9>`."""
    return [byte_tokens()[byte] for byte in character.encode()]


def _replace_unknown(model: BpeModel, word: BaseWord) -> tuple[list[str], list[str]]:
    """Replace unknown symbols with byte tokens or `_UNKNOWN`. Also returns the symbols that `_UNKNOWN` replaces."""
    symbols: list[str] = []
    lost: list[str] = []
    for place, symbol in enumerate(word.symbols):
        if place not in word.unknown:
            symbols.append(symbol)
        elif model.alphabet.byte_fallback:
            symbols += spell_unknown(symbol)
        elif model.fuse_unk and place - 1 in word.unknown:
            lost[-1] += symbol
        else:
            symbols.append(_UNKNOWN)
            lost.append(symbol)
    return symbols, lost


def _apply_rules(model: BpeModel, ranks: Mapping[Pair, int], symbols: Sequence[str]) -> Iterator[AppliedMerge]:
    """Apply rules one place at a time: the lowest rank first, and the leftmost place first."""
    symbols = list(symbols)
    while candidates := [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]:
        rank, at = min(candidates)
        left, right = symbols[at : at + 2]
        symbols[at : at + 2] = [model.alphabet.join(left, right)]
        yield AppliedMerge(rank, left, right, tuple(symbols))


def _put_back(symbols: Sequence[str], lost: Sequence[str]) -> tuple[str, ...]:
    """Put the unknown symbols back in place of `_UNKNOWN`; rules never change their order."""
    waiting = iter(lost)
    return tuple(next(waiting) if symbol == _UNKNOWN else symbol for symbol in symbols)
