"""What a report counts, in plain Python: the oracle of `kernels/measure.py`."""

from __future__ import annotations

from collections.abc import Sequence


def measure_document(text: str) -> tuple[int, int]:
    """Characters, and words: runs of characters without the property White_Space. `a  bé` has 5 and 2."""
    import regex

    return len(text), len(regex.findall(r"\S+", text))


def find_difference(parts: Sequence[bytes], text: bytes) -> int:
    """Where parts, one after another, first differ from a text; -1 where they are the same. `[b"ab"]` and `b"abc"`: 2."""
    joined = b"".join(parts)
    if joined == text:
        return -1
    pairs = zip(joined, text, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(joined), len(text)))
