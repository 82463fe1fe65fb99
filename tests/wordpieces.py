"""WordPiece models and trainings that several test files share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tests.training import CountedWords
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.reference import wordpiece as reference
from tokenmill.reference.bpe import Pair, visible_bytes
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merge_loop import MergeOptions, WordSymbols, learn_merges

NEWEST = [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)]
BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def split_words(words: CountedWords) -> list[tuple[list[str], int]]:
    """Counted words as symbols, for the reference."""
    return [(reference.split_word(word), count) for word, count in words]


def learn_by_score(
    words: CountedWords, *, forbidden: Sequence[str] = (), alphabet: Iterable[str] = (), merges: int = 1 << 30, **options: Any
) -> list[tuple[Pair, int]]:
    """The rules of the kernel as `reference_wordpiece.train_wordpiece` gives them; no two of them make one token."""
    split = split_words(words)
    symbols = reference.sort_alphabet({symbol for word, _ in split for symbol in word} | set(alphabet))
    number = {symbol: place for place, symbol in enumerate(symbols)}
    flat = WordSymbols(
        symbols=np.array([number[symbol] for word, _ in split for symbol in word], np.int32),
        starts=np.cumsum([0, *(len(word) for word, _ in split)], dtype=np.int64),
        counts=np.array([count for _, count in split], np.int64),
    )
    reserved = [[number[symbol] for symbol in reference.split_word(token)] for token in forbidden]
    how = MergeOptions(merges, score="likelihood", **options)
    rules = learn_merges(flat, how, alphabet=len(symbols), forbidden=reserved)
    named: list[tuple[Pair, int]] = []
    for (left, right), count in zip(rules.pairs.tolist(), rules.counts.tolist(), strict=True):
        named.append(((symbols[left], symbols[right]), count))
        assert reference.join_pair(named[-1][0]) not in symbols
        symbols.append(reference.join_pair(named[-1][0]))
    return named


def tokenizer_of(
    tokens: Iterable[str],
    *,
    unk: str | None = "[UNK]",
    pretokenizer: str = "none",
    most_characters: int | None = 100,
    specials: Sequence[str] = (),
    prefix: str = "##",
) -> Tokenizer:
    """A WordPiece model of characters with these tokens; ids fall, so that none equals a place by chance."""
    every = list(dict.fromkeys([*specials, *([unk] if unk else []), *tokens]))
    vocab = {token: 7 + place for place, token in enumerate(reversed(every))}
    cutter = PreTokenizer(pretokenizer)
    alphabet = ContinuationAlphabet(CharacterAlphabet(cutter.marks_spaces), prefix)
    names = tuple(dict.fromkeys([*specials, *([unk] if unk else [])]))
    model = WordPieceModel("wordpiece", alphabet, vocab, (), names, unk, max_word_characters=most_characters)
    return Tokenizer(model, pretokenizer=cutter)


def byte_tokenizer_of(tokens: Iterable[str], *, pretokenizer: str = "none") -> Tokenizer:
    """A WordPiece model of bytes, with these tokens in their visible form beside all bytes."""
    every = dict.fromkeys([*visible_bytes(), *("##" + byte for byte in visible_bytes()), *tokens])
    vocab = {token: place for place, token in enumerate(every)}
    model = WordPieceModel("byte-wordpiece", ContinuationAlphabet(ByteAlphabet()), vocab, (), max_word_characters=None)
    return Tokenizer(model, pretokenizer=PreTokenizer(pretokenizer))
