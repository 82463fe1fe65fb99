"""UTF-8: whether bytes are such, 64 at a time, and how a character is written.

Leads and followers are marked as bits, and shifted leads must cover the followers.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import mark_bytes_between

_ALL, _ONE, _TWO, _THREE = (np.uint64(number) for number in (0xFFFFFFFFFFFFFFFF, 1, 2, 3))
#: A lead and its followers are seen together when the next 64 bytes begin three before the end of these.
_STEP = 61


@part
def has_bad_second_byte(text, position, checked):
    """Whether one of the `checked` bytes behind E0, ED, F0 or F4 makes an overlong form, a surrogate or what is above 10FFFF."""
    return checked & (
        mark_bytes_between(text, position, 0xE0, 0xE0) << _ONE & mark_bytes_between(text, position, 0x80, 0x9F)
        | mark_bytes_between(text, position, 0xED, 0xED) << _ONE & mark_bytes_between(text, position, 0xA0, 0xBF)
        | mark_bytes_between(text, position, 0xF0, 0xF0) << _ONE & mark_bytes_between(text, position, 0x80, 0x8F)
        | mark_bytes_between(text, position, 0xF4, 0xF4) << _ONE & mark_bytes_between(text, position, 0x90, 0xBF)
    ) != np.uint64(0)


@kernel
def is_utf8(text, start, end):
    """Whether text[start:end] is UTF-8 (no overlong forms, no surrogates, nothing cut); 64 bytes must lie behind `end`."""
    position, checked = start, _ALL
    while position < end:
        inside = _ALL if end - position >= 64 else (_ONE << np.uint64(end - position)) - _ONE
        beyond_ascii = mark_bytes_between(text, position, 0x80, 0xFF) & inside
        if beyond_ascii:
            followers = mark_bytes_between(text, position, 0x80, 0xBF) & inside
            fours = mark_bytes_between(text, position, 0xF0, 0xF4) & inside
            threes = mark_bytes_between(text, position, 0xE0, 0xEF) & inside | fours
            leads = mark_bytes_between(text, position, 0xC2, 0xDF) & inside | threes
            covered = leads << _ONE | threes << _TWO | fours << _THREE
            if followers | leads != beyond_ascii or (covered ^ followers) & checked:
                return False
            if threes and has_bad_second_byte(text, position, checked & inside):
                return False
        if position + 64 >= end + 3:
            break
        position, checked = position + _STEP, _ALL << _THREE
    return True


@part
def write_code_point(code_point, target, at):
    """Write a character as UTF-8; returns where it ends: 0xE9 gives C3 A9."""
    if code_point < 0x80:
        target[at] = code_point
        return at + 1
    if code_point < 0x800:
        target[at] = 0xC0 | code_point >> 6
        target[at + 1] = 0x80 | code_point & 0x3F
        return at + 2
    if code_point < 0x10000:
        target[at] = 0xE0 | code_point >> 12
        target[at + 1] = 0x80 | code_point >> 6 & 0x3F
        target[at + 2] = 0x80 | code_point & 0x3F
        return at + 3
    target[at] = 0xF0 | code_point >> 18
    target[at + 1] = 0x80 | code_point >> 12 & 0x3F
    target[at + 2] = 0x80 | code_point >> 6 & 0x3F
    target[at + 3] = 0x80 | code_point & 0x3F
    return at + 4
