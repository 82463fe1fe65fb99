"""How each pre-tokenizer cuts a text into words, in plain Python: the oracle of the scanners.

The patterns are run by `re` and `regex` with those packages' own Unicode tables, so characters that Unicode changed since differ
from what the scanners do with the project's table.
"""

from __future__ import annotations

import re

MARKER = "Ġ"

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WHITESPACE_PATTERN = r" ?\S+|\s+(?!\S)|\s+"
WORDPUNCT_PATTERN = r"\w+(?:'\w+)?|[^\w\s]"


def words_none(text: str) -> list[str]:
    """The document is one word, an empty document none: `Hi, you` gives `Hi, you`."""
    return [text] if text else []


def words_whitespace(text: str) -> list[str]:
    """Whitespace separates, and stays: `Hi,  you` gives `Hi,`, ` `, ` you`."""
    import regex

    return regex.findall(WHITESPACE_PATTERN, text)


def words_gpt2(text: str) -> list[str]:
    """The pattern that GPT-2 was published with: `Hi, I'm` gives `Hi`, `,`, ` I`, `'m`."""
    import regex

    return regex.findall(GPT2_PATTERN, text)


def words_wordpunct(text: str, *, marker: str = MARKER) -> list[str]:
    """Runs of word characters, punctuation alone, a marker for whitespace before: `Hi, I'm` gives `Hi`, `,`, `ĠI'm`."""
    matches = re.finditer(WORDPUNCT_PATTERN, text)
    return [marker * text[match.start() - 1 : match.start()].isspace() + match.group() for match in matches]
