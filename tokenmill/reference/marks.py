"""What options make of the symbols of a word before rules are learnt or applied, in plain Python: the oracle of the kernels.

A word is a list of characters in the visible form (or of bytes, each as its character of the GPT-2 alphabet).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def most_frequent(words: Iterable[tuple[Sequence[str], int]], limit: int) -> set[str]:
    """The `limit` most frequent characters; of equally frequent ones the smallest: of `aab` and `b`, with limit 1, `a`."""
    totals: dict[str, int] = {}
    for word, count in words:
        for character in word:
            totals[character] = totals.get(character, 0) + count
    return set(sorted(totals, key=lambda character: (-totals[character], character))[:limit])


def mark_word(word: Sequence[str], *, suffix: str = "", prefix: str = "", attached: bool = False) -> list[str]:
    """The symbols of a word with their marks.

    `low` is `l o w </w>` with the suffix `</w>`, `l o w</w>` with that suffix attached, and `l ##o ##w` with the prefix `##`.
    """
    symbols = [character if place == 0 else prefix + character for place, character in enumerate(word)]
    if suffix and attached:
        symbols[-1] += suffix
    elif suffix:
        symbols.append(suffix)
    return symbols


def cut_word(
    word: Sequence[str], *, known: Collection[str], suffix: str = "", prefix: str = "", attached: bool = False
) -> list[list[str]]:
    """The parts of a word that training merges within.

    Characters that are not known are left out, and a word is cut there; also behind the first character of what looks like the
    suffix, or like the prefix at the beginning of the word: `a##b` is whole with the prefix `##`, and `##b` is `#`, `### ##b`.
    """
    marked = mark_word(word, suffix=suffix, prefix=prefix, attached=attached)
    text = [character if character in known else "" for character in word]
    parts: list[list[str]] = [[]]
    for place, symbol in enumerate(marked):
        before = place - 1
        looks_like_suffix = suffix and place > 0 and text[before : before + len(suffix)] == list(suffix)
        looks_like_prefix = prefix and place == 1 and text[: len(prefix)] == list(prefix)
        if (looks_like_suffix or looks_like_prefix) and place < len(text):
            parts.append([])
        if place < len(text) and not text[place]:
            parts.append([])
        else:
            parts[-1].append(symbol)
    return [part for part in parts if part]


def look_up_symbols(
    symbols: Sequence[str], known: Collection[str], *, unk: str, byte_fallback: bool = False, fuse_unk: bool = False
) -> list[str]:
    """The symbols that a model encodes: an unknown one is `unk`, or its bytes; with `fuse_unk` one for several in a row.

    With byte fallback `é` is `<0xC3> <0xA9>`.
    """
    found: list[str] = []
    after_unknown = False
    for symbol in symbols:
        unknown = symbol not in known
        if not unknown:
            found.append(symbol)
        elif byte_fallback:
            found += [f"<0x{byte:02X}>" for byte in symbol.encode()]
        elif not (fuse_unk and after_unknown):
            found.append(unk)
        after_unknown = unknown
    return found
