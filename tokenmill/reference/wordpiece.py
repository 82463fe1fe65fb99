"""WordPiece in plain Python, in short functions. It is the definition that the tests compare the kernels with.

Words are lists of symbols; all symbols but the first of a word have the prefix `##`. The algorithm is that of Schuster and
Nakajima, "Japanese and Korean voice search" (2012): it merges the pair that increases the likelihood of the corpus most, which is
the pair with the highest count(xy) / (count(x) * count(y)).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from tokenmill.reference.bpe import Pair, best_pair, count_pairs, replace_pair

PREFIX = "##"


def split_word(word: Sequence[str], prefix: str = PREFIX) -> list[str]:
    """Split a word into symbols: `"low"` is `["l", "##o", "##w"]`."""
    return [prefix * (place > 0) + symbol for place, symbol in enumerate(word)]


def join_pair(pair: Pair, prefix: str = PREFIX) -> str:
    """The product of a pair: `("l", "##o")` makes `lo`, `("##o", "##w")` makes `##ow`."""
    return pair[0] + pair[1][len(prefix) :]


def count_symbols(words: Sequence[Sequence[str]], counts: Sequence[int]) -> dict[str, int]:
    """How often each symbol occurs, weighted by the word's count."""
    symbols: dict[str, int] = {}
    for word, count in zip(words, counts, strict=True):
        for symbol in word:
            symbols[symbol] = symbols.get(symbol, 0) + count
    return symbols


def score_pairs(words: Sequence[Sequence[str]], counts: Sequence[int]) -> dict[Pair, Fraction]:
    """count(xy) / (count(x) * count(y)) of each pair, in order of first occurrence.

    `score_pairs([["l", "##o"], ["l"]], [2, 1])` is `{("l", "##o"): Fraction(2, 3 * 2)}`.
    """
    symbols = count_symbols(words, counts)
    pairs = count_pairs(words, counts)
    return {pair: Fraction(count, symbols[pair[0]] * symbols[pair[1]]) for pair, count in pairs.items() if count}


def sort_alphabet(symbols: Iterable[str], prefix: str = PREFIX) -> list[str]:
    """Sort symbols in order of id: first those that begin words, then those that continue them, both by code point."""
    return sorted(symbols, key=lambda symbol: (len(symbol) > len(prefix) and symbol.startswith(prefix), symbol))


def train_wordpiece(
    words: Iterable[tuple[Sequence[str], int]],
    merges: int,
    *,
    ties: str = "smallest",
    forbidden: frozenset[str] = frozenset(),
    min_count: int = 1,
) -> list[tuple[Pair, int]]:
    """The merge rules in order, each with the pair's count when it was chosen; arguments as in `reference.bpe.train_bpe`.

    >>> words = [(split_word(word), count) for word, count in [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)]]
    >>> train_wordpiece(words, 3)
    [(('w', '##i'), 3), (('wi', '##d'), 3), (('l', '##o'), 7)]
    """
    counted = [(list(word), count) for word, count in words]
    states, counts = [word for word, _ in counted], [count for _, count in counted]
    order = {symbol: number for number, symbol in enumerate(sort_alphabet({symbol for word in states for symbol in word}))}
    rules: list[tuple[Pair, int]] = []
    while len(rules) < merges:
        pairs = count_pairs(states, counts)
        scores = {
            pair: score
            for pair, score in score_pairs(states, counts).items()
            if pairs[pair] >= min_count and join_pair(pair) not in forbidden
        }
        if not scores:
            break
        pair = best_pair(scores, order if ties == "smallest" else None)
        rules.append((pair, pairs[pair]))
        order.setdefault(join_pair(pair), len(order))
        states = [replace_pair(word, pair, join_pair(pair)) if pair[0] in word else word for word in states]
    return rules


def match_word(word: str, vocab: Collection[str], prefix: str = PREFIX) -> list[str] | None:
    """Match the longest token that a word begins with, then the longest that continues it, and so on. None if none fits.

    `match_word("lows", {"lo", "##w", "##ws", "##s"})` is `["lo", "##ws"]`.
    """
    tokens: list[str] = []
    start = 0
    while start < len(word):
        candidates = (prefix * (start > 0) + word[start:end] for end in range(len(word), start, -1))
        found = next((token for token in candidates if token in vocab), None)
        if found is None:
            return None
        start += len(found) - len(prefix) * (start > 0)
        tokens.append(found)
    return tokens


def encode_word(
    word: str, vocab: Mapping[str, int], *, unk: int, most_characters: int | None = 100, prefix: str = PREFIX
) -> list[int]:
    """The ids of a word; only `unk` if it has too many characters or cannot be split into tokens."""
    if most_characters is not None and len(word) > most_characters:
        return [unk]
    tokens = match_word(word, vocab, prefix)
    return [unk] if tokens is None else [vocab[token] for token in tokens]
