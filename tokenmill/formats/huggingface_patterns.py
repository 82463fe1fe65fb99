"""Patterns of a Hugging Face tokenizer.json that have the same meaning in its engine (Oniguruma) and in the `regex` package.

The two share most of their syntax, but some of it differs. In Oniguruma, `^` and `$` match at lines instead of at the text,
`[a&&b]` is an intersection, and empty matches are replaced too. A pattern is accepted if every part of it has the same meaning in
both.
"""

from __future__ import annotations

import re
from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.huggingface_fields import typed
from tokenmill.formats.json_text import excerpt

_ESCAPE = r"\\(?:[sSdDwWAzntrfv]|[pP]\{[A-Z][a-z]?\}|[^\w\s])"
_MEMBER = rf"(?:{_ESCAPE}|[^\]\[\\&|~-](?:-[^\]\[\\&|~-])?)"
_REPEAT = r"(?P<repeat>[*+?][+?]?|\{(?P<least>\d+),?\d*\}(?![+?]))?"
#: A character, the start or the end of a group, or an alternative, with its quantifier.
_SIGN = re.compile(
    rf"(?:(?P<one>{_ESCAPE}|\[\^?{_MEMBER}+\]|[^\\\[\]{{}}()*+?^$|])|(?P<close>\))){_REPEAT}"
    r"|(?P<open>\((?!\?)|\(\?(?:[:=!]|<[=!]))|\|"
)


def read_pattern(place: str, pattern: str) -> str:
    """Read a pattern for `regex`. Raises `TokenizerFileError` if it could match other text or the empty string in Oniguruma."""
    signs, end = [], 0
    while found := _SIGN.match(pattern, end):
        signs.append(found)
        end = found.end()
    if end < len(pattern):
        raise TokenizerFileError(
            f"{place}: {excerpt(pattern[end : end + 20])} at character {end} of the pattern {excerpt(pattern)} can mean "
            "something else in Hugging Face's engine; write it with plain classes, groups and repeats"
        )
    if not _least_length(signs):
        raise TokenizerFileError(
            f"{place}: the pattern {excerpt(pattern)} can match nothing, which Hugging Face replaces too; write + in place of *"
        )
    return "".join(r"\Z" if sign.group() == r"\z" else sign.group() for sign in signs)


def read_kind(place: str, component: Any) -> tuple[str, str]:
    """The kind and the text of `{"String": ...}` or `{"Regex": ...}`, with a pattern in the syntax of `regex`."""
    found = typed(place, component, dict)
    if len(found) != 1 or not found.keys() <= {"String", "Regex"}:
        raise TokenizerFileError(f"{place}: {excerpt(found)} is neither String nor Regex")
    ((kind, value),) = found.items()
    text = str(typed(f"{place}.{kind}", value, str))
    return kind, read_pattern(place, text) if kind == "Regex" else text


def write_pattern(pattern: str) -> str:
    """Write the pattern of a `replace_regex` for Hugging Face. Raises `UsageError` if it could match other text there."""
    try:
        theirs = re.sub(r"(\\.)", lambda escape: r"\z" if escape[1] == r"\Z" else escape[1], pattern, flags=re.DOTALL)
        read_pattern("replace_regex", theirs)
    except TokenizerFileError as error:
        raise UsageError(f"{error}; or use --to native") from None
    return theirs


def _least_length(signs: list[re.Match[str]]) -> int:
    """The least number of characters of a match: 1 for `a*(bc|d)`."""
    # For each open group: its shortest alternative so far, the length of the current one, and whether it is a lookaround.
    groups: list[tuple[int | None, int, bool]] = [(None, 0, False)]
    for sign in signs:
        shortest, length, looks = groups.pop()
        if sign["one"]:
            length += 0 if sign["one"] in (r"\A", r"\z") else _times(sign)
        elif sign["open"]:
            groups.append((shortest, length, looks))
            shortest, length, looks = None, 0, sign["open"] not in ("(", "(?:")
        elif sign["close"] and groups:
            inner = 0 if looks else _shorter(shortest, length) * _times(sign)
            shortest, length, looks = groups.pop()
            length += inner
        else:
            shortest, length = _shorter(shortest, length), 0
        groups.append((shortest, length, looks))
    # Compiling the pattern refuses a group that is not closed.
    return _shorter(*groups[0][:2]) if len(groups) == 1 else 1


def _shorter(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def _times(sign: re.Match[str]) -> int:
    """The least number of repetitions of a part."""
    if sign["least"]:
        return int(sign["least"])
    return 0 if (sign["repeat"] or "")[:1] in ("*", "?") and sign["repeat"] else 1
