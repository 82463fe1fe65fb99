"""What the scanners do one character at a time: read it, find the end of a run, find the end of one word of each rule.

Positions are byte positions in `text` (uint8[n], C-contiguous); a document ends at `end` and nothing beyond it is read as part of
a character. Invalid UTF-8 is safe: a byte that begins no character is one character of no class (what Python's `surrogateescape`
does), so a scanner always moves on and never loses a byte. `classes` is the class table, uint16[0x110000].
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import part
from tokenmill.kernels.intrinsics import copy_64_bytes
from tokenmill.kernels.scan_classes import NO_CLASS, RE_WORD, WHITESPACE

_SPACE, _APOSTROPHE = b" '"
_D, _E, _L, _M, _R, _S, _T, _V = b"delmrstv"


@part
def _continuation(text, position, end):
    """The six payload bits of a continuation byte, or -1 where there is none: byte 0x89 gives 9, `a` gives -1."""
    if position < end and text[position] & 0xC0 == 0x80:
        return np.int64(text[position] & 0x3F)
    return np.int64(-1)


@part
def decode_character(text, position, end):
    """Code point and length of the character that begins at `position` with a byte >= 0x80; (-1, 1) if it is no valid UTF-8.

    The bytes C3 A9 give (0xE9, 2); overlong forms, surrogates, code points above 10FFFF and truncated forms give (-1, 1).
    """
    lead = np.int64(text[position])
    second = _continuation(text, position + 1, end)
    if lead < 0xC2 or lead > 0xF4 or second < 0:
        return -1, 1
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | second, 2
    third = _continuation(text, position + 2, end)
    if third < 0:
        return -1, 1
    if lead < 0xF0:
        code_point = (lead & 0x0F) << 12 | second << 6 | third
        return (code_point, 3) if code_point >= 0x800 and code_point >> 11 != 0x1B else (-1, 1)
    fourth = _continuation(text, position + 3, end)
    code_point = (lead & 0x07) << 18 | second << 12 | third << 6 | fourth
    return (code_point, 4) if fourth >= 0 and 0x10000 <= code_point < 0x110000 else (-1, 1)


@part
def read_class(text, position, end, classes):
    """Class bits and length in bytes of the character at `position`: `A` gives (LETTER | ..., 1), a bad byte gives (0, 1)."""
    byte = np.int64(text[position])
    if byte < 0x80:
        return np.int64(classes[byte]), 1
    code_point, length = decode_character(text, position, end)
    return (np.int64(classes[code_point]) if code_point >= 0 else NO_CLASS), length


@part
def end_of_run(text, position, end, classes, bits, wanted):
    """End of the characters from `position` on that have one of `bits`, or none of them if not `wanted`.

    In `12a`, from 0, it is 2 for NUMBER and True, and for LETTER and False.
    """
    while position < end:
        found, length = read_class(text, position, end, classes)
        if (found & bits != 0) != wanted:
            break
        position += length
    return position


@part
def end_of_whitespace(text, position, end, classes):
    """End of the match of `\\s+(?!\\S)|\\s+` at `position`, where whitespace stands.

    Whitespace leaves its last character to the word behind it: in three spaces and `a`, from 0, it is 2; from 2, it is 3.
    """
    last, stop = position, position
    while stop < end:
        found, length = read_class(text, stop, end, classes)
        if not found & WHITESPACE:
            return last if last > position else stop
        last, stop = stop, stop + length
    return end


@part
def contraction_length(text, position, end):
    """Length of the match of `'s|'t|'re|'ve|'m|'ll|'d` at `position`, 0 if there is none: `'re` gives 3, `'R` gives 0."""
    if position + 1 >= end or text[position] != _APOSTROPHE:
        return 0
    first = text[position + 1]
    if first in (_S, _T, _M, _D):
        return 2
    second = text[position + 2] if position + 2 < end else np.uint8(0)
    full = (first == _R and second == _E) or (first == _V and second == _E) or (first == _L and second == _L)
    return 3 if full else 0


@part
def end_of_lossless_word(text, position, end, classes, kinds):
    """End of the word at `position` by the GPT-2 pattern, or by ` ?\\S+|\\s+(?!\\S)|\\s+`, which knows no letters and numbers.

    `kinds` are the classes that words are made of: (LETTER, NUMBER), or (NO_CLASS, NO_CLASS). ` 12a` gives 3 (or 4), `'so` 2
    (or 3).
    """
    letter, number = kinds
    contraction = contraction_length(text, position, end) if letter else 0
    if contraction:
        return position + contraction
    start = position + (text[position] == _SPACE)
    found, length = read_class(text, start, end, classes) if start < end else (WHITESPACE, 0)
    if found & WHITESPACE:
        return end_of_whitespace(text, position, end, classes)
    if found & (letter | number):
        return end_of_run(text, start + length, end, classes, found & (letter | number), True)
    return end_of_run(text, start + length, end, classes, letter | number | WHITESPACE, False)


@part
def end_of_wordpunct_word(text, position, end, classes):
    """End of the match of `\\w+(?:'\\w+)?|[^\\w\\s]` at `position`, where no whitespace stands: `don't've` gives 5, `(a` 1."""
    stop = end_of_run(text, position, end, classes, RE_WORD, True)
    if stop == position:
        return position + read_class(text, position, end, classes)[1]
    if stop < end and text[stop] == _APOSTROPHE:
        second = end_of_run(text, stop + 1, end, classes, RE_WORD, True)
        return second if second > stop + 1 else stop
    return stop


@part
def copy_bytes(text, start, end, target, at):
    """Copy text[start:end] to `target` from `at` on and return where the copy ends; bytes behind that may be overwritten.

    64 bytes at a time where both arrays have room; `target` must have room for text[start:end] itself.
    """
    while start < end and start + 64 <= text.size and at + 64 <= target.size:
        copy_64_bytes(text, start, target, at)
        start, at = start + 64, at + 64
    if start >= end:
        return at - (start - end)
    for position in range(start, end):
        target[at + position - start] = text[position]
    return at + end - start
