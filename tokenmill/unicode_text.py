"""Text that UTF-8 can hold, and text that a terminal can show.

A `str` may hold surrogates, the halves of UTF-16's pairs, out of JSON escapes, file names and the words of a command line. Alone
they stand for no character, and UTF-8 has no place for them.
"""

from __future__ import annotations

import re

from tokenmill.errors import InvalidTextError, UsageError

SURROGATES = range(0xD800, 0xE000)
SURROGATE = re.compile("[\ud800-\udfff]")


def encode_text(text: str, *, name: str = "the text") -> bytes:
    """UTF-8. Raises InvalidTextError for a lone surrogate, with its place; `name` is what the message calls the text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidTextError(
            f"{name} holds the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}, "
            "which UTF-8 cannot hold; replace it with U+FFFD"
        ) from None


def check_unicode(text: str, *, name: str) -> None:
    """Raise UsageError for an option with a lone surrogate in it."""
    if SURROGATE.search(text):
        raise UsageError(f"{name} {text!r} is not Unicode text; leave its surrogates out")


def show_printable(text: str) -> str:
    r"""Text in one line, safe on a terminal, which corpora are not: what does not print shows as an escape, ESC as `\x1b`."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text)


def show_text(text: str) -> str:
    r"""Text of several lines, safe on a terminal: line ends and tabs stay, all else that does not print shows as an escape.

    That is also U+009B, which terminals take for ESC and a bracket, and U+202E, behind which text runs from right to left.
    """
    return "".join(letter if letter.isprintable() or letter in "\n\t" else show_printable(letter) for letter in text)
