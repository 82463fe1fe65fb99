"""Checks that text can be encoded as UTF-8, and escapes text for terminals.

A `str` may contain lone surrogates, single halves of UTF-16 pairs. They come from JSON escapes, file names and command-line
arguments. A lone surrogate is not a character, and UTF-8 cannot encode it.
"""

from __future__ import annotations

import re

from tokenmill.errors import InvalidTextError, UsageError

SURROGATES = range(0xD800, 0xE000)
SURROGATE = re.compile("[\ud800-\udfff]")


def encode_text(text: str, *, name: str = "the text") -> bytes:
    """Encode a text as UTF-8. Raises InvalidTextError for a lone surrogate; the message calls the text `name`."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidTextError(
            f"{name} holds the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}, "
            "which UTF-8 cannot hold; replace it with U+FFFD"
        ) from None


def check_unicode(text: str, *, name: str) -> None:
    """Raise UsageError if the value of an option contains a lone surrogate."""
    if SURROGATE.search(text):
        raise UsageError(f"{name} {text!r} is not Unicode text; leave its surrogates out")


def show_printable(text: str) -> str:
    r"""Make text of a corpus safe for one line of a terminal: unprintable characters become escapes, such as `\x1b` for ESC."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text)


def show_text(text: str) -> str:
    r"""Make text safe for a terminal: line ends and tabs stay, other unprintable characters become escapes.

    Among them are U+009B, which terminals read as ESC and a bracket, and U+202E, after which text runs from right to left.
    """
    return "".join(letter if letter.isprintable() or letter in "\n\t" else show_printable(letter) for letter in text)
