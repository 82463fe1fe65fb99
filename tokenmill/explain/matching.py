"""Explains longest matching step by step: the strings tried at each place of a word, and the token that was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tokenmill.explain.steps import Match, Steps
from tokenmill.models.alphabets import CharacterAlphabet
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.reference import bpe as reference
from tokenmill.reference.bpe import Pair

#: In a word longer than this, strings longer than any token are not tried.
_MOST_TRIED = 100


@dataclass(frozen=True)
class MatchedWord:
    """The steps of matching a word. `too_long`: the word has more characters than the model allows, so there are no steps.

    `lost_at`: the symbol where no token fits, or None.
    """

    matches: tuple[Match, ...]
    too_long: bool
    lost_at: int | None


def explain_word(model: WordPieceModel, ranks: Mapping[Pair, int], word: str) -> Steps:
    """Explain the longest matches in a word. A word that is too long or cannot be split into tokens is one unk token."""
    symbols = split_symbols(model, word)
    matched, whole = match_symbols(model, symbols), "".join(symbols)
    tokens: list[str] = [match.token for match in matched.matches if match.token is not None]
    ids: list[int | None] = [model.vocab[token] for token in tokens]
    if matched.too_long or matched.lost_at is not None:
        unk = model.unk_token
        tokens, ids = [whole if unk is None else unk], [None if unk is None else model.vocab[unk]]
    lost = [] if matched.lost_at is None else [matched.lost_at]
    return Steps(whole, symbols, tokens, ids, lost, matches=matched.matches)


def split_symbols(model: WordPieceModel, word: str) -> list[str]:
    """Split a word into characters, or into bytes in visible form, without a prefix."""
    alphabet = model.alphabet.base
    if not isinstance(alphabet, CharacterAlphabet):
        return reference.split_into_bytes(word)
    return reference.split_into_characters(word) if alphabet.marks_spaces else list(word)


def match_symbols(model: WordPieceModel, symbols: list[str]) -> MatchedWord:
    """The steps of `reference.wordpiece.match_word`."""
    limit = model.max_word_characters
    if limit is not None and len(symbols) > limit:
        return MatchedWord((), True, None)
    matches = tuple(_match(model, symbols))
    return MatchedWord(matches, False, matches[-1].at if matches and matches[-1].token is None else None)


def _match(model: WordPieceModel, symbols: list[str]) -> Iterator[Match]:
    vocab = model.vocab.keys() - model.reserved_tokens
    most, at = max([_MOST_TRIED, *map(len, vocab)]), 0
    while at < len(symbols):
        prefix = model.continuation_prefix if at else ""
        tried = []
        for end in range(min(len(symbols), at + most), at, -1):
            candidate = prefix + "".join(symbols[at:end])
            if candidate in vocab:
                break
            tried.append(candidate)
        else:
            yield Match(at, tuple(tried), None)
            return
        yield Match(at, tuple(tried), candidate)
        at = end
