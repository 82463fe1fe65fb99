"""Corpora, trainings and plain forms of arrays that several test files share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import settings
from numba import njit

from tokenmill.reference.bpe import Pair
from tokenmill.schemas import WORD_COUNTS
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merge_loop import MergeOptions, MergeRules, OnMerges, WordSymbols, learn_merges
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer
from tokenmill.training.word_counts import WordCounter, combine_counts, sort_counts

JIT = os.environ.get("NUMBA_DISABLE_JIT") != "1"
WRITE_GOLDEN = os.environ.get("TOKENMILL_WRITE_GOLDEN") == "1"

#: What is said to those whose character-level model lacks a character.
WAYS_OUT = "train with --unk TOKEN, --byte-fallback, or --model byte-bpe"

CountedWords = Sequence[tuple[str, int]]


@cache
def compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    """A part of kernels as Python can call it; without JIT it is the plain function."""
    function: Callable[..., Any] = njit(part)
    return function


def few_cases(with_jit: int, without: int) -> settings:
    """How many cases Hypothesis tries: kernels as plain Python are some hundred times slower."""
    return settings(max_examples=with_jit if JIT else without, deadline=None)


def count_parts(
    texts: Iterable[str],
    pretokenizer: PreTokenizer | str,
    *,
    split: int = 0,
    table_words: int = 1 << 12,
    arena_bytes: int = 1 << 16,
) -> list[tuple[int, pa.Table]]:
    """The partitions that come out of counting one split."""
    counter = WordCounter(PreTokenizer.of(pretokenizer), table_words=table_words, arena_bytes=arena_bytes)
    counter.begin_split(split)
    return [*counter.count(pa.array(list(texts), pa.large_string())), *counter.drain()]


def count_texts(texts: Iterable[str], pretokenizer: PreTokenizer | str) -> pa.Table:
    """The word counts of a corpus as they stand on disk."""
    return sort_counts(combine_counts(table for _, table in count_parts(texts, pretokenizer)))


def counts_table(words: Sequence[tuple[bytes, int]]) -> pa.Table:
    """Word counts by hand, in corpus order."""
    columns = [[word for word, _ in words], [count for _, count in words], list(range(len(words)))]
    return sort_counts(pa.table([pa.array(column) for column in columns], names=WORD_COUNTS.names).cast(WORD_COUNTS))


def train(
    corpus: Iterable[str] | pa.Table, *, model: str = "char-bpe", pretokenizer: PreTokenizer | str = "wordpunct", **options: Any
) -> Tokenizer:
    """Train on texts or on word counts; `options` are those of `TrainingOptions`."""
    counts = corpus if isinstance(corpus, pa.Table) else count_texts(corpus, pretokenizer)
    tokenizer, _ = train_tokenizer(counts, TrainingOptions(model=model, pretokenizer=pretokenizer, **options))
    return tokenizer


def learn_arrays(
    words: CountedWords,
    *,
    alphabet: Sequence[str] | None = None,
    forbidden: Sequence[str] = (),
    merges: int = 1 << 30,
    on_merges: OnMerges | None = None,
    **options: Any,
) -> tuple[MergeRules, list[str]]:
    """Run the merge loop on words of characters; also gives the sorted alphabet."""
    letters = sorted(alphabet or {letter for word, _ in words for letter in word})
    number = {letter: symbol for symbol, letter in enumerate(letters)}
    flat = WordSymbols(
        symbols=np.array([number[letter] for word, _ in words for letter in word], np.int32),
        starts=np.cumsum([0, *(len(word) for word, _ in words)], dtype=np.int64),
        counts=np.array([count for _, count in words], np.int64),
    )
    reserved = [[number[letter] for letter in token] for token in forbidden]
    how = MergeOptions(merges, **options)
    return learn_merges(flat, how, alphabet=len(letters), forbidden=reserved, on_merges=on_merges), letters


def learn(words: CountedWords, **options: Any) -> list[tuple[Pair, int]]:
    """The rules of the merge loop as `reference.train_bpe` gives them; every rule must make a token that no other makes."""
    rules, tokens = learn_arrays(words, **options)
    named: list[tuple[Pair, int]] = []
    for (left, right), count in zip(rules.pairs.tolist(), rules.counts.tolist(), strict=True):
        assert tokens[left] + tokens[right] not in tokens
        tokens.append(tokens[left] + tokens[right])
        named.append(((tokens[left], tokens[right]), count))
    assert rules.tokens == len(tokens)
    return named
