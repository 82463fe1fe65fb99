r"""How people see tokens, whatever their model: as the text that they stand for.

    of a byte-bpe       Ġthe     is shown as  ␣the
                        å¦Ĥ      is shown as  如
                        Ã        is shown as  \xc3, a byte that is no whole character
    of a wordpiece      ##ing    is shown as  ##ing: what marks a token's place in a word stays
    of any              a * 99   is shown as  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa... (99 characters)

Files, and the `tokens` of JSON, hold the visible form in place of it, which says exactly which bytes a token has.
"""

from __future__ import annotations

from tokenmill.models.alphabets import bytes_of_tokens
from tokenmill.models.base import Model
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.marks import Alphabet, MarkedAlphabet
from tokenmill.unicode_text import show_printable

#: Longer tokens are cut to `_KEPT` characters.
MOST_SHOWN = 60
_KEPT = 40


def spell_out(model: Model, token_id: int) -> str:
    r"""The text that an id stands for, whole and as it is; bytes that are no whole character as `\xe1`: `Ġthe` is ` the`."""
    return _spell(model, model.token_of_id[token_id]).decode("utf-8", "backslashreplace")


def _spell(model: Model, token: str) -> bytes:
    """One token alone: `Model.spellings` are those of a whole vocabulary, which takes its time."""
    return token.encode("utf-8", "surrogatepass") if token in model.reserved_tokens else model.alphabet.spell(token)


def show_token(model: Model, token: str) -> str:
    """A token of a vocabulary, for people. Special and added tokens stand for their own text."""
    return show_spelling(_spell(model, token)) if token in model.reserved_tokens else show_symbol(model.alphabet, token)


def show_symbol(alphabet: Alphabet | ContinuationAlphabet, symbol: str) -> str:
    """A base symbol, or what some of them make: its mark, if it has one, and what it stands for; byte tokens are their names."""
    if alphabet.byte_fallback and symbol in bytes_of_tokens():
        return symbol
    prefix, suffix = _find_marks(alphabet, symbol)
    return show_printable(prefix) + show_spelling(alphabet.spell(symbol)) + show_printable(suffix)


def _find_marks(alphabet: Alphabet | ContinuationAlphabet, symbol: str) -> tuple[str, str]:
    if isinstance(alphabet, ContinuationAlphabet):
        return (alphabet.prefix, "") if alphabet.continues(symbol) else ("", "")
    if isinstance(alphabet, MarkedAlphabet) and alphabet.marks.holds(symbol):
        return alphabet.marks.prefix, alphabet.marks.suffix
    return "", ""


def show_text(text: str) -> str:
    """A text for people, as a token of this text shows."""
    return show_spelling(text.encode("utf-8", "surrogatepass"))


def show_spelling(spelling: bytes) -> str:
    r"""Bytes as text in one line: `␣` for a space, escapes for what does not print, `\xe1` for bytes that are no character."""
    text = spelling.decode("utf-8", "surrogateescape")
    if len(text) > MOST_SHOWN:
        return f"{_show_letters(text[:_KEPT])}... ({len(text):,} characters)"
    return _show_letters(text)


def _show_letters(text: str) -> str:
    shown = text.replace(" ", "␣").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return show_printable(shown)
