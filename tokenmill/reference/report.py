"""What a report counts, in plain Python: the oracle of `kernels/measure.py`."""

from __future__ import annotations

from collections.abc import Sequence


def measure_document(text: str) -> tuple[int, int]:
    """Characters, and words: runs of characters without the property White_Space. `a  bé` has 5 and 2."""
    import regex

    return len(text), len(regex.findall(r"\S+", text))


def join_words(tokens: Sequence[tuple[bytes, int]], *, spaced: bool) -> bytes:
    """Tokens, each with its role (1: begins a word, 2: ends one), decoded; `spaced`: with a space between words.

    `(b"ab", 1), (b"c", 2), (b"d", 0)` gives `abc d`.
    """
    decoded, waits = b"", False
    for place, (data, role) in enumerate(tokens):
        if spaced and (waits or (place and role & 1)):
            decoded += b" "
        decoded, waits = decoded + data, bool(role & 2)
    return decoded


def find_difference(decoded: bytes, text: bytes) -> int:
    """Where two texts first differ, -1 where they are the same: `ab` and `abc` do at 2."""
    if decoded == text:
        return -1
    pairs = zip(decoded, text, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(decoded), len(text)))
