"""The effect of options on the symbols of a word before rules are learned or applied, in plain Python. Tests use it as an oracle.

A word is a list of characters in visible form (or of bytes, each as its character in GPT-2's alphabet).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def most_frequent(words: Iterable[tuple[Sequence[str], int]], limit: int) -> set[str]:
    """The `limit` most frequent characters, the smaller one in a tie: for `aab` and `b` with limit 1, `a`."""
    totals: dict[str, int] = {}
    for word, count in words:
        for character in word:
            totals[character] = totals.get(character, 0) + count
    return set(sorted(totals, key=lambda character: (-totals[character], character))[:limit])


def mark_word(word: Sequence[str], *, suffix: str = "", prefix: str = "", attached: bool = False) -> list[str]:
    """The symbols of a word with their marks.

    `low` is `l o w </w>` with the suffix `</w>`, `l o w</w>` if the suffix is attached, and `l ##o ##w` with the prefix `##`.
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
    """Cut a word into the parts that training merges within.

    Unknown characters are removed, and the word is cut there. It is also cut after the first character of text that looks like
    the suffix, or like the prefix at the start of the word: with the prefix `##`, `a##b` is not cut, and `##b` is `#`, `### ##b`.
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
    """The symbols that a model encodes. An unknown symbol becomes `unk` or its bytes; `fuse_unk` joins adjacent ones.

    With byte fallback, `é` is `<0xC3> <0xA9>`.
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
