"""Byte-pair encoding in plain Python, in short functions.

The code is deliberately simple and slow. It is the definition that the tests compare the kernels with. Words are lists of
symbols, and symbols are strings in visible form (a space is `Ġ`; a byte is its character in GPT-2's alphabet).

The algorithm is that of Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

Pair = tuple[str, str]
MARKER = "Ġ"


def visible_bytes() -> list[str]:
    """GPT-2's visible form of each byte: `visible_bytes()[0x20]` is `Ġ`, `visible_bytes()[0x41]` is `A`.

    Printable bytes are shown as themselves. The other 68 bytes are shown as the code points from U+0100 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 0x100 + others.index(byte)) for byte in range(256)]


def split_into_characters(word: str) -> list[str]:
    """Split a word into the symbols of a character model; a space is shown as the marker: `" so"` -> `["Ġ", "s", "o"]`."""
    return [MARKER if character == " " else character for character in word]


def split_into_bytes(word: str) -> list[str]:
    """Split a word into the symbols of a byte model: `"é "` -> `["Ã", "©", "Ġ"]`."""
    alphabet = visible_bytes()
    return [alphabet[byte] for byte in word.encode()]


def count_pairs(words: Sequence[Sequence[str]], counts: Sequence[int]) -> dict[Pair, int]:
    """Count the pairs at all positions, weighted by the word's count, in order of first occurrence.

    `count_pairs([["a", "a", "a"]], [5])` is `{("a", "a"): 10}`: the pair is at two overlapping positions.
    """
    pairs: dict[Pair, int] = {}
    for word, count in zip(words, counts, strict=True):
        for pair in pairwise(word):
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def join_pair(pair: Pair, prefix: str = "") -> str:
    """The product of a rule, without the continuation prefix inside: `join_pair(("##a", "##b"), "##")` is `##ab`."""
    return pair[0] + pair[1].removeprefix(prefix)


def replace_pair(word: Sequence[str], pair: Pair, product: str | None = None) -> list[str]:
    """Merge left to right without overlap: `replace_pair(["a", "a", "a"], ("a", "a"))` is `["aa", "a"]`.

    `product`: the product of the pair, if it is not the concatenation of the two strings.
    """
    product = pair[0] + pair[1] if product is None else product
    merged: list[str] = []
    position = 0
    while position < len(word):
        if tuple(word[position : position + 2]) == pair:
            merged.append(product)
            position += 2
        else:
            merged.append(word[position])
            position += 1
    return merged


def best_pair(pairs: Mapping[Pair, int | Fraction], order: Mapping[str, int] | None) -> Pair:
    """The pair with the highest count or score; in a tie the first-seen, or the one with the smallest ids if `order` has ids."""
    top = max(pairs.values())
    tied = [pair for pair, count in pairs.items() if count == top]
    if order is None:
        return tied[0]
    return min(tied, key=lambda pair: (order[pair[0]], order[pair[1]]))


def train_bpe(
    words: Iterable[tuple[Sequence[str], int]],
    merges: int,
    *,
    ties: str = "smallest",
    forbidden: frozenset[str] = frozenset(),
    min_count: int = 1,
    alphabet: Iterable[str] | None = None,
    tokens: Sequence[str] | None = None,
    prefix: str = "",
    may_make: Callable[[str], bool] = lambda token: True,
) -> list[tuple[Pair, int]]:
    """The merge rules in order, each with its count when it was chosen.

    `words` are in corpus order. A pair is never merged if its product is in `forbidden` (the special tokens) or if `may_make`
    returns False for it. `tokens`: the existing tokens in order of id, to extend a vocabulary. `prefix`: the prefix of symbols
    inside a word, if they have one. Stops early when no pair of at least `min_count` is left.

    >>> train_bpe([("low", 2), ("lower", 1), ("lowest", 1)], 2, ties="first-seen")
    [(('l', 'o'), 4), (('lo', 'w'), 4)]
    """
    pairs_of = [(list(word), count) for word, count in words]
    states, counts = [word for word, _ in pairs_of], [count for _, count in pairs_of]
    symbols = tokens or sorted(alphabet if alphabet is not None else {symbol for word in states for symbol in word})
    order = {symbol: position for position, symbol in enumerate(symbols)}
    rules: list[tuple[Pair, int]] = []
    while len(rules) < merges:
        pairs = {pair: n for pair, n in count_pairs(states, counts).items() if may_make(join_pair(pair, prefix))}
        pairs = {pair: n for pair, n in pairs.items() if join_pair(pair, prefix) not in forbidden}
        if not pairs or max(pairs.values()) < min_count:
            break
        pair = best_pair(pairs, order if ties == "smallest" else None)
        rules.append((pair, pairs[pair]))
        order.setdefault(join_pair(pair, prefix), len(order))
        states = [replace_pair(word, pair, join_pair(pair, prefix)) if pair[0] in word else word for word in states]
    return rules


def encode_word(word: Sequence[str], rules: Sequence[Pair], prefix: str = "") -> list[str]:
    """Apply rules by lowest rank, then leftmost place: `there` with `(t, h), (th, e)` is `["the", "r", "e"]`.

    A repeated rule has the rank of its last occurrence, as in Hugging Face tokenizers.
    """
    ranks: dict[Pair, int] = {(rule[0], rule[1]): rank for rank, rule in enumerate(rules)}
    symbols = list(word)
    while True:
        candidates = [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not candidates:
            return symbols
        _, at = min(candidates)
        symbols[at : at + 2] = [join_pair((symbols[at], symbols[at + 1]), prefix)]


def recover_rule(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """The two tokens that a token of a rank file is merged from; None if merging its bytes ends with more than two parts.

    With ranks for `a`, `b`, `c`, `ab`, `abc`, the token `abc` is merged from `ab` and `c`. With ranks for `a`, `b`, `c`, `abc`,
    the result is None.
    """
    parts = [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 2:
        candidates = [(ranks[left + right], at) for at, (left, right) in enumerate(pairwise(parts)) if left + right in ranks]
        if not candidates:
            return None
        _, at = min(candidates)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 else None


def encode_word_by_rules(word: Sequence[str], rules: Sequence[Pair]) -> list[str]:
    """Apply every rule once, in order. The result is that of `encode_word` for trained rules, if their products are distinct.

    If two rules make the same token, such as `(a, aa)` and `(aa, a)`, an earlier rule can apply to a later product.
    """
    symbols = list(word)
    for rule in rules:
        symbols = replace_pair(symbols, rule)
    return symbols
