"""Byte-pair encoding in plain Python, a few obvious lines each.

Slow on purpose: this is the definition that the kernels are held to by the tests. Words are lists of symbols, symbols are strings
in the visible form (a space is `Ġ`; a byte is its character of the GPT-2 alphabet).

The algorithm is that of Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

Pair = tuple[str, str]
MARKER = "Ġ"


def visible_bytes() -> list[str]:
    """The GPT-2 visible form of each byte: `visible_bytes()[0x20]` is `Ġ`, `visible_bytes()[0x41]` is `A`.

    Printable bytes stand for themselves; the other 68 take the code points from U+0100 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 0x100 + others.index(byte)) for byte in range(256)]


def split_into_characters(word: str) -> list[str]:
    """Symbols of a word in a character model; a space shows as the marker: `" so"` -> `["Ġ", "s", "o"]`."""
    return [MARKER if character == " " else character for character in word]


def split_into_bytes(word: str) -> list[str]:
    """Symbols of a word in a byte model: `"é "` -> `["Ã", "©", "Ġ"]`."""
    alphabet = visible_bytes()
    return [alphabet[byte] for byte in word.encode()]


def count_pairs(words: Sequence[Sequence[str]], counts: Sequence[int]) -> dict[Pair, int]:
    """Every adjacent position, weighted by the word's count, in order of first occurrence.

    `count_pairs([["a", "a", "a"]], [5])` is `{("a", "a"): 10}`: two positions hold the pair, overlapping.
    """
    pairs: dict[Pair, int] = {}
    for word, count in zip(words, counts, strict=True):
        for pair in pairwise(word):
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def join_pair(pair: Pair, prefix: str = "") -> str:
    """What a rule makes; a continuation prefix inside goes: `join_pair(("##a", "##b"), "##")` is `##ab`."""
    return pair[0] + pair[1].removeprefix(prefix)


def replace_pair(word: Sequence[str], pair: Pair, product: str | None = None) -> list[str]:
    """Merge left to right without overlap: `replace_pair(["a", "a", "a"], ("a", "a"))` is `["aa", "a"]`.

    `product`: what the pair makes, where that is not one string behind the other.
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
    """The pair with the highest count, or score; a tie goes to the first-seen, or to the smallest ids where `order` gives ids."""
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

    `words` come in corpus order. A pair whose product is in `forbidden` (the special tokens), or which `may_make` says no to, is
    never merged. `tokens`: those that are there already, in order of id, where training goes on from a vocabulary. `prefix`: that
    of symbols inside a word, if they have one. Stops early when no pair of at least `min_count` is left.

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
    """Lowest merge rank first, leftmost first: `there` under `(t, h), (th, e)` is `["the", "r", "e"]`.

    A rule that stands twice has the rank of its last place, as in Hugging Face tokenizers.
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
    """The two tokens that a token of a rank file is merged from; None where merging its bytes gets stuck in more than two parts.

    With ranks for `a`, `b`, `c`, `ab`, `abc` it is `ab` and `c` for `abc`; with ranks for `a`, `b`, `c`, `abc` there are none.
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
    """Apply every rule once, in order: for rules that training produced, each with a product of its own, this is `encode_word`.

    (Where two rules make the same token, `(a, aa)` and `(aa, a)`, a late product can meet an early rule.)
    """
    symbols = list(word)
    for rule in rules:
        symbols = replace_pair(symbols, rule)
    return symbols
