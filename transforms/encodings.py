"""Encodings of text: told from a file's first bytes, and read as UTF-8.

UTF-8 is read as it is. Every other encoding has to be asked for (`--encoding`). Its files become UTF-8 block by block, in bounded
memory. Positions of lines then count bytes of that UTF-8, as those of compressed files count decompressed bytes. What the
encoding does not allow becomes a byte that UTF-8 does not allow, so that one policy (`invalid_utf8`) governs both.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from tokenmill.errors import UsageError
from tokenmill.unicode_text import SURROGATE

#: Longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
#: Encodings of code units of several bytes: they have no byte in common with ASCII text.
_WIDE = ("utf-16", "utf-32")
#: Not of text in files: of host names, of program sources, of nothing.
_OTHER_CODECS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "charmap", "mbcs", "oem"})
_UTF_8 = frozenset({"utf-8", "utf-8-sig", "ascii"})

#: A text may hold NULs and other control characters, as documents of their own. With more of them than this, it is no text.
MOST_CONTROLS, MOST_CONTROL_SHARE = 8, 0.1
#: Bytes that are no UTF-8 may be text of another encoding, which has next to no control characters.
MOST_FOREIGN_CONTROLS, MOST_FOREIGN_CONTROL_SHARE = 4, 0.02
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\v\f\r\b\x1b")
#: A shorter text with NULs may be either.
LEAST_WIDE_BYTES = 16
#: Half of the bytes of UTF-16 text in Latin letters are NULs; of other letters, those of spaces and ends of lines alone.
_UTF_16_NUL_SHARE = 0.3
_MARK_DAMAGE = "tokenmill.mark"
_DAMAGE = "\udcff"


def name_encoding(text: str) -> str:
    """The usual name of the encoding that an option asks for; empty for UTF-8, which needs no reading.

    >>> name_encoding("UTF16"), name_encoding("utf8")
    ('utf-16', '')
    """
    try:
        found = codecs.lookup(text)
    except (LookupError, ValueError):
        found = None
    name = "" if found is None else found.name.replace("_", "-")
    if found is None or not found._is_text_encoding or not found.incrementaldecoder or name in _OTHER_CODECS:
        raise UsageError(
            f"--encoding {text!r} is not an encoding of text that Python has; utf-16, latin-1 and shift_jis are three"
        )
    return "" if name in _UTF_8 else name


def find_mark(head: bytes) -> str | None:
    """The encoding whose byte order mark a file begins with."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def guess_wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark, told by where its NULs stand; None for all else.

    >>> guess_wide_encoding("a first line\\n".encode("utf-16-le"))
    'utf-16-le'
    """
    if len(head) < LEAST_WIDE_BYTES or not head.count(0):
        return None
    for encoding, width in (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2)):
        if _looks_like(head, encoding, width):
            return encoding
    return None


def _looks_like(head: bytes, encoding: str, width: int) -> bool:
    """Whether all of it is text in that encoding, and its NULs are no more likely in another."""
    head = head[: len(head) // width * width]
    high = head[width - 1 :: width] if encoding.endswith("le") else head[::width]
    if head.count(0) != high.count(0) and width == 2:
        return False
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    if any(ord(letter) < 32 and letter not in "\t\n\r\f\v" for letter in text):
        return False
    if width == 4 or head.count(0) >= _UTF_16_NUL_SHARE * len(head):
        return True
    return not is_utf_8(head) or count_controls(head) > MOST_CONTROL_SHARE * len(head)


def is_utf_8(head: bytes) -> bool:
    """Whether the beginning of a file is UTF-8, but for a last character that is cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def is_plain_text(head: bytes) -> bool:
    """Whether the beginning of a file is UTF-8 without control characters."""
    return not count_controls(head) and is_utf_8(head)


def count_controls(head: bytes) -> int:
    """How many bytes are control characters that have no place in text."""
    return len(head) - len(head.translate(None, _CONTROLS))


def is_binary(head: bytes) -> bool:
    """Whether the beginning of a file is no text in any encoding of single bytes.

    NUL is a character like any other as long as there are few: not above one byte in ten, or not above 8 in all.
    """
    controls = count_controls(head)
    if controls > max(MOST_CONTROLS, MOST_CONTROL_SHARE * len(head)):
        return True
    return controls > max(MOST_FOREIGN_CONTROLS, MOST_FOREIGN_CONTROL_SHARE * len(head)) and not is_utf_8(head)


def is_wide(encoding: str) -> bool:
    """Whether an encoding is UTF-16 or UTF-32."""
    return encoding.startswith(_WIDE)


def turn_into_utf_8(blocks: Iterator[bytes], encoding: str, block_bytes: int) -> Iterator[bytes]:
    """Blocks of a file in another encoding as blocks of UTF-8, none above `block_bytes`; a byte 0xFF stands for damage."""
    codecs.register_error(_MARK_DAMAGE, _mark_damage)
    decoder = codecs.getincrementaldecoder(encoding)(_MARK_DAMAGE)
    for block in blocks:
        yield from _cut(_encode(decoder.decode(block)), block_bytes)
    yield from _cut(_encode(decoder.decode(b"", True)), block_bytes)


def name_damage(reason: str, encoding: str) -> str:
    """Why a text was rejected, in terms of the encoding that its file is in.

    >>> name_damage("invalid UTF-8: byte 4 of the text is 0xff", "utf-16-le")
    'invalid utf-16-le: byte 4 of the text as UTF-8'
    """
    return re.sub(r"^invalid UTF-8: (.*) is (?:the byte )?0xff$", rf"invalid {encoding}: \1 as UTF-8", reason)


def _mark_damage(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _DAMAGE, error.end


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates, which some decoders let pass
        return SURROGATE.sub(_DAMAGE, text).encode("utf-8", "surrogateescape")


def _cut(content: bytes, block_bytes: int) -> Iterator[bytes]:
    for start in range(0, len(content), block_bytes):
        yield content[start : start + block_bytes]
