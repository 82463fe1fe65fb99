"""Runs of decimal digits cut out of documents: singly, or in groups counted from the right.

A scanner that cuts them takes what lies between two runs, a segment, for a document of its own: whitespace before digits is
whitespace at the end, and no word goes on behind digits. As everywhere, the rules come twice: for masks of a block, and for a
position. `group` is how many digits make a word, 1 or 3; 0 where digits are not cut out.

Digits beyond ASCII are left to the rules for a position: a block is known up to the first one.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, part
from tokenmill.kernels.intrinsics import count_leading_zeros, count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_blocks import BLOCK_BYTES, mark_first
from tokenmill.kernels.scan_bytes import read_class
from tokenmill.kernels.scan_classes import DECIMAL

_NO_BITS = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_LONGEST_CHARACTER = 4


@inline_part
def mark_digits(text, position, known, group):
    """The digits of a block that are cut out: `a12...` gives 0b0110, and without a group nothing."""
    return mark_bytes_between(text, position, 0x30, 0x39) & mark_first(known) if group else _NO_BITS


@inline_part
def mark_digit_groups(digits, group):
    """Starts of groups of digits, counted from the right end of each run: `12345` gives 0b00101 by three, 0b11111 by one."""
    if group != 3:
        return digits
    inside = digits & (digits >> _ONE) & (digits >> _TWO)
    starts = digits & ~(digits << _ONE)
    last = ((digits & ~(digits >> _ONE)) >> _THREE) & inside
    while last:
        starts |= last << _ONE
        last = (last >> _THREE) & inside
    return starts


@inline_part
def keep_whole_runs(digits, known, at_end, group):
    """How many bytes of a block are known when groups are: of a run that goes on behind the block only the start is.

    A start needs its next byte to be known: five known bytes of `ab1234` give 4, in which there is the start of `1` alone.
    """
    if group != 3 or at_end:
        return known
    return min(known, 66 - count_leading_zeros(mark_first(known) & ~digits))


@inline_part
def mark_possible_digits(text, position):
    """The bytes of a block that a decimal digit can begin with.

    Beyond ASCII there are few (D9, DB, DF, E0, E1, EA, EF, F0; here are some more), so most characters need not be read: this is
    half the time on scripts without spaces.
    """
    found = mark_bytes_between(text, position, 0x30, 0x39) | mark_bytes_between(text, position, 0xD9, 0xE1)
    return found | mark_bytes_between(text, position, 0xEA, 0xEA) | mark_bytes_between(text, position, 0xEF, 0xF0)


@part
def skip_plain(text, position, end):
    """A byte from `position` on that a decimal digit can begin with, or `end`; none is passed over: `ab1` gives 2."""
    while position < end:
        if position + BLOCK_BYTES <= text.size:
            found = mark_possible_digits(text, position)
            position += count_trailing_zeros(found)
            if found:
                return min(position, end)
        elif text[position] >= 0x80 or 0x30 <= text[position] <= 0x39:
            return position
        else:
            position += 1
    return end


@part
def find_digit(text, position, end, classes):
    """Where the next decimal digit (Nd) from `position` on begins, or `end`: `a²٣` gives 3."""
    position = skip_plain(text, position, end)
    while position < end:
        found, length = read_class(text, position, end, classes)
        if found & DECIMAL:
            break
        position += length
        if position < end and not 0xD9 <= text[position] <= 0xE1:
            position = skip_plain(text, position, end)
    return position


@part
def count_digits(text, position, end, classes):
    """How many decimal digits stand at `position` without anything between: `12a3` gives 2."""
    count = np.int64(0)
    while position < end:
        found, length = read_class(text, position, end, classes)
        if not found & DECIMAL:
            break
        position += length
        count += 1
    return count


@part
def follows_digit(text, position, begin, classes):
    """Whether the character before `position` is a decimal digit that does not begin before `begin`: `1a` gives True for 1."""
    for start in range(position - 1, max(position - _LONGEST_CHARACTER, begin) - 1, -1):
        found, length = read_class(text, start, position, classes)
        if found & DECIMAL and start + length == position:
            return True
    return False


@part
def end_of_group(text, position, limits, classes, group):
    """End of the group of digits at `position`, or `position` without digits there; `limits` are those of the document.

    `1234` gives 1, by three. Behind a digit a whole group begins, so the digits of a run are counted once: from 1 on it is 4.
    """
    begin, end = limits
    size = np.int64(group)
    if not read_class(text, position, end, classes)[0] & DECIMAL:
        return position
    if group == 3 and not follows_digit(text, position, begin, classes):
        size = (count_digits(text, position, end, classes) - 1) % 3 + 1
    for _ in range(size):
        position += read_class(text, position, end, classes)[1]
    return position


@part
def end_of_segment(text, position, end, classes, cursor):
    """Where the next digits behind `position` begin, or `end`: `ab1` gives 2.

    It is kept in cursor[2] and looked for once a segment, however many words of the segment, and calls of a scanner, ask.
    """
    if cursor[2] <= position:
        cursor[2] = find_digit(text, position, end, classes)
    return cursor[2]
