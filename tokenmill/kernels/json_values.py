"""JSON strings and the values around them: checked, skipped, unescaped, at the speed of memory.

Blocks are those of `tokenmill.kernels.lines`. No JSON token goes over a newline: so nothing here looks for the end of a line or
of the block, and what lies behind is read but never used. -1 stands for "refused" wherever a position is returned. `sink`
(uint8[n + 64]) takes what strings unescape to, also those that are only skipped: never more than was read, but 64 bytes behind
that may be overwritten.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import part
from tokenmill.kernels.intrinsics import copy_64_bytes, count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.lines import skip_space
from tokenmill.kernels.utf8 import is_utf8, write_code_point

_LAST_CONTROL = 0x1F
_QUOTE, _BACKSLASH, _COLON, _COMMA, _MINUS, _PLUS, _POINT, _ZERO, _NINE = b'"\\:,-+.09'
_OPEN_LIST, _CLOSE_LIST, _OPEN_OBJECT, _CLOSE_OBJECT = b"[]{}"
_LOWER_E, _UPPER_E, _LOWER_U = b"eEu"
_DEEPEST = 64
_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


def _make_table(keys, values, default):
    """A table over all bytes: `values` for the bytes of `keys`, `default` for the others."""
    table = np.full(256, default, np.int64)
    table[list(keys)] = list(values)
    return table


#: What the character behind a backslash stands for, 0 where there is no such escape; the values of hexadecimal digits, or -1.
_MEANINGS = _make_table(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', 0)
_DIGITS = _make_table(b"0123456789abcdefABCDEF", [*range(16), *range(10, 16)], -1)

_TRUE, _FALSE, _NULL, _NAN, _INFINITY = (
    np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null", b"NaN", b"Infinity")
)


# --- strings --------------------------------------------------------------------------------------------------------------------


@part
def read_code_unit(block, position):
    """The number in `\\u00e9` at `position`, -1 if there is no such escape."""
    if block[position] != _BACKSLASH or block[position + 1] != _LOWER_U:
        return np.int64(-1)
    first, second = _DIGITS[block[position + 2]], _DIGITS[block[position + 3]]
    third, fourth = _DIGITS[block[position + 4]], _DIGITS[block[position + 5]]
    if first | second | third | fourth < 0:
        return np.int64(-1)
    return first << 12 | second << 8 | third << 4 | fourth


@part
def copy_code_point(block, position, sink, at):
    """Write the character that `\\u00e9` or a pair of surrogates at `position` names; returns where it ends in both arrays.

    Lone surrogates are refused.
    """
    code_point = read_code_unit(block, position)
    position += 6
    if code_point >> 10 == 0x36:
        low = read_code_unit(block, position)
        if low >> 10 != 0x37:
            return np.int64(-1), at
        code_point = 0x10000 + ((code_point & 0x3FF) << 10 | low & 0x3FF)
        position += 6
    elif code_point < 0 or code_point >> 10 == 0x37:
        return np.int64(-1), at
    return position, write_code_point(code_point, sink, at)


@part
def copy_string(block, position, sink, at):
    """Unescape the string whose quote is at `position`; returns where it ends, behind its last quote, and where the copy ends.

    64 bytes are looked at together; between two of their escapes 64 are copied, of which the next copy overwrites what was too
    much. UTF-8 is checked at the end, where there was more than ASCII.
    """
    start = position = position + 1
    beyond_ascii = np.uint64(0)
    while True:
        base, end = position, position + 64
        special = (
            mark_bytes_between(block, base, 0, _LAST_CONTROL)
            | mark_bytes_between(block, base, _QUOTE, _QUOTE)
            | mark_bytes_between(block, base, _BACKSLASH, _BACKSLASH)
        )
        beyond_ascii |= mark_bytes_between(block, base, 0x80, 0xFF)
        while special:
            place = base + count_trailing_zeros(special)
            copy_64_bytes(block, position, sink, at)
            at += place - position
            position = place
            if block[position] != _BACKSLASH:
                inside = block[position] == _QUOTE and (beyond_ascii == 0 or is_utf8(block, start, position))
                return (position + 1 if inside else np.int64(-1)), at
            meaning = _MEANINGS[block[position + 1]]
            if meaning:
                sink[at] = meaning
                position, at = position + 2, at + 1
            else:
                position, at = copy_code_point(block, position, sink, at)
                if position < 0:
                    return position, at
            if position >= end:
                break
            special &= _ALL << np.uint64(position - base)
        if position < end:
            copy_64_bytes(block, position, sink, at)
            at += end - position
            position = end


# --- other values ---------------------------------------------------------------------------------------------------------------


@part
def skip_digits(block, position):
    """End of a run of one digit or more, -1 where there is none."""
    start = position
    while _ZERO <= block[position] <= _NINE:
        position += 1
    return position if position > start else np.int64(-1)


@part
def skip_number(block, position):
    """End of the number at `position`, -1 for what is none: of `-1.5e3,` it is 6, of `01` it is 1 (and what follows is wrong)."""
    position += block[position] == _MINUS
    position = position + 1 if block[position] == _ZERO else skip_digits(block, position)
    if position >= 0 and block[position] == _POINT:
        position = skip_digits(block, position + 1)
    if position < 0:
        return position
    byte = block[position]
    if byte in (_LOWER_E, _UPPER_E):
        sign = block[position + 1]
        position = skip_digits(block, position + 1 + (sign in (_PLUS, _MINUS)))
    return position


@part
def skip_word(block, position, word):
    """End of a word such as `true`, -1 where something else stands."""
    for place in range(word.size):
        if block[position + place] != word[place]:
            return np.int64(-1)
    return position + word.size


@part
def skip_scalar(block, position):
    """End of a number or a word, -1 for what is neither."""
    byte = block[position]
    if byte == _TRUE[0]:
        return skip_word(block, position, _TRUE)
    if byte == _FALSE[0]:
        return skip_word(block, position, _FALSE)
    if byte == _NULL[0]:
        return skip_word(block, position, _NULL)
    if byte == _NAN[0]:
        return skip_word(block, position, _NAN)
    sign = byte == _MINUS
    if block[position + sign] == _INFINITY[0]:
        return skip_word(block, position + sign, _INFINITY)
    return skip_number(block, position) if sign or _ZERO <= byte <= _NINE else np.int64(-1)


@part
def skip_colon(block, position):
    """Where the value behind a key that ends at `position` begins."""
    position = skip_space(block, position)
    return skip_space(block, position + 1) if block[position] == _COLON else np.int64(-1)


@part
def skip_key(block, position, sink, at):
    """Where the value behind the key at `position` begins."""
    if block[position] != _QUOTE:
        return np.int64(-1)
    position, _ = copy_string(block, position, sink, at)
    return skip_colon(block, position) if position >= 0 else position


@part
def skip_value(block, position, sink, at):
    """End of the value at `position`, whatever it holds; what nests more than 64 levels deep is refused."""
    depth, objects = 0, np.uint64(0)  # a bit for each open level, the innermost lowest: whether it is an object
    while position >= 0:
        byte = block[position]
        opens = byte in (_OPEN_OBJECT, _OPEN_LIST)
        if opens:
            if depth == _DEEPEST:
                break
            depth, objects = depth + 1, objects << _ONE | np.uint64(byte == _OPEN_OBJECT)
            position = skip_space(block, position + 1)
        elif byte == _QUOTE:
            position, _ = copy_string(block, position, sink, at)
        else:
            position = skip_scalar(block, position)
        while depth and position >= 0:
            inside_object = objects & _ONE != 0
            position = skip_space(block, position)
            byte = block[position]
            if byte == (_CLOSE_OBJECT if inside_object else _CLOSE_LIST):
                depth, objects, opens = depth - 1, objects >> _ONE, False
                position += 1
                continue
            if not opens:
                position = skip_space(block, position + 1) if byte == _COMMA else np.int64(-1)
            if inside_object and position >= 0:
                position = skip_key(block, position, sink, at)
            break
        if not depth:
            return position
    return np.int64(-1)
