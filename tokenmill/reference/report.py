"""The counts of a report in plain Python. Tests use it as the oracle of `kernels/measure.py`."""

from __future__ import annotations

from collections.abc import Sequence


def measure_document(text: str) -> tuple[int, int]:
    """The numbers of characters and of words (runs of characters without the property White_Space): 5 and 2 for `a  bé`."""
    import regex

    return len(text), len(regex.findall(r"\S+", text))


def join_words(tokens: Sequence[tuple[bytes, int]], *, spaced: bool) -> bytes:
    """Decode tokens, given with their roles (1: begins a word, 2: ends a word). `spaced`: put a space between words.

    `(b"ab", 1), (b"c", 2), (b"d", 0)` gives `abc d`.
    """
    decoded, waits = b"", False
    for place, (data, role) in enumerate(tokens):
        if spaced and (waits or (place and role & 1)):
            decoded += b" "
        decoded, waits = decoded + data, bool(role & 2)
    return decoded


def find_difference(decoded: bytes, text: bytes) -> int:
    """The place of the first difference between two texts, -1 if they are equal: 2 for `ab` and `abc`."""
    if decoded == text:
        return -1
    pairs = zip(decoded, text, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(decoded), len(text)))
