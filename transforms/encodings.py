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
#: In UTF-16 the high bytes of Latin, Greek, Cyrillic and most other alphabets are control characters.
_LEAST_HIGH_CONTROLS, _NARROW_SHARE = 5, 0.6
#: In UTF-16 the low bytes of East Asian characters have all values, while those of text in another encoding read so are mostly
#: ASCII. Spaces and ends of lines are ASCII in both.
_LEAST_ASCII_BESIDE_WIDE, _SPREAD_SHARE, _EAST_ASIAN_SHARE = 3, 0.25, 0.8
#: But those of kana are mostly ASCII too, under one high byte.
_HIGH_OF_KANA, _KANA_SHARE = 0x30, 0.35
_EAST_ASIAN = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef]")
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
    """UTF-16 or UTF-32 without a mark; None for all else, and for what is too short to tell.

    Text in another encoding with one or two NULs is never taken for either.

    >>> guess_wide_encoding("a first line\\n".encode("utf-16-le"))
    'utf-16-le'
    """
    if len(head) < LEAST_WIDE_BYTES or not count_controls(head):
        return None
    for encodings, width in ((("utf-32-le", "utf-32-be"), 4), (("utf-16-le", "utf-16-be"), 2)):
        found = [encoding for encoding in encodings if _looks_like(head, encoding, width)]
        if found:  # of both orders, the one whose high bytes vary less
            return min(found, key=lambda encoding: len(set(_take_high(head, width, is_little=encoding.endswith("le")))))
    return None


def _take_high(head: bytes, width: int, *, is_little: bool) -> bytes:
    """The highest byte of each code unit."""
    return head[width - 1 if is_little else 0 :: width]


def _looks_like(head: bytes, encoding: str, width: int) -> bool:
    """Whether all of it is text in that encoding, and is hardly text in another."""
    head = head[: len(head) // width * width]
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    if any(ord(letter) < 32 and letter not in "\t\n\r\f\v" for letter in text):
        return False
    return width == 4 or _is_utf_16(head, text, is_little=encoding.endswith("le"))


def _is_utf_16(head: bytes, text: str, *, is_little: bool) -> bool:
    """Whether the high bytes of `text` are those of an alphabet, or of East Asian text, and there are enough of them to tell."""
    high, low = (_take_high(head, 2, is_little=order) for order in (is_little, not is_little))
    controls, narrow = count_controls(high), sum(byte < 32 for byte in high)
    if controls >= _LEAST_HIGH_CONTROLS and narrow >= _NARROW_SHARE * len(high):
        return True
    if controls < _LEAST_ASCII_BESIDE_WIDE or is_utf_8(head):
        return False
    is_spread = sum(byte > 127 for byte in low) >= _SPREAD_SHARE * len(low)
    is_spread = is_spread or high.count(_HIGH_OF_KANA) >= _KANA_SHARE * len(high)
    return is_spread and len(_EAST_ASIAN.findall(text)) + narrow >= _EAST_ASIAN_SHARE * len(high)


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
