r"""Display forms of tokens: shows tokens of any model as text that people can read.

    byte-bpe            Ġthe     is shown as  ␣the
                        å¦Ĥ      is shown as  如
                        Ã        is shown as  \xc3, a byte that is not a whole character
    wordpiece           ##ing    is shown as  ##ing: the mark of its position in the word is kept
    any model           a * 99   is shown as  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa... (99 characters)

Files, and the `tokens` in JSON, contain the visible form instead, which gives the exact bytes of a token.
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
    r"""The full text of a token id, with bytes that are not a whole character as `\xe1`: `Ġthe` is ` the`."""
    return _spell(model, model.token_of_id[token_id]).decode("utf-8", "backslashreplace")


def _spell(model: Model, token: str) -> bytes:
    """The bytes of one token. `Model.spellings` would compute the bytes of the whole vocabulary."""
    return token.encode("utf-8", "surrogatepass") if token in model.reserved_tokens else model.alphabet.spell(token)


def show_token(model: Model, token: str) -> str:
    """The display form of a token of a vocabulary. Special and added tokens are shown as their own text."""
    return show_spelling(_spell(model, token)) if token in model.reserved_tokens else show_symbol(model.alphabet, token)


def show_symbol(alphabet: Alphabet | ContinuationAlphabet, symbol: str) -> str:
    """The display form of a base symbol or a product: its mark, if any, and its text. Byte tokens are shown by name."""
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
    """The display form of a text, the same as that of a token with this text."""
    return show_spelling(text.encode("utf-8", "surrogatepass"))


def show_spelling(spelling: bytes) -> str:
    r"""Show bytes as one line of text: `␣` for a space, escapes for unprintable characters, `\xe1` for invalid bytes."""
    text = spelling.decode("utf-8", "surrogateescape")
    if len(text) > MOST_SHOWN:
        return f"{_show_letters(text[:_KEPT])}... ({len(text):,} characters)"
    return _show_letters(text)


def _show_letters(text: str) -> str:
    shown = text.replace(" ", "␣").encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return show_printable(shown)
