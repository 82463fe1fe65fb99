"""Runs of decimal digits cut out of documents: singly, or in groups counted from the right.

What comes out are segments, which other scanners take for documents: each reaches from the end of the one before it to its own
end, and holds digits alone or none.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_blocks import BLOCK_BYTES
from tokenmill.kernels.scan_bytes import read_class
from tokenmill.kernels.scan_classes import DECIMAL, RE_SPACE

# Places in `state`.
DOCUMENT, POSITION, DIGITS_LEFT = 0, 1, 2


@part
def skip_plain(text, position, end):
    """The next byte from `position` on that is an ASCII digit or no ASCII, or `end`: `ab1` gives 2."""
    while position < end:
        if position + BLOCK_BYTES <= text.size:
            found = mark_bytes_between(text, position, 0x30, 0x39) | mark_bytes_between(text, position, 0x80, 0xFF)
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
        if position < end and text[position] < 0x80:
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
def start_of_space(text, position, first, classes):
    """Where the whitespace character that ends at `position` begins, `position` if there is none from `first` on.

    In `a b`, from 2, it is 1.
    """
    for start in range(position - 1, max(position - 5, first - 1), -1):
        found, length = read_class(text, start, position, classes)
        if found & RE_SPACE and start + length == position:
            return start
    return position


@part
def end_of_group(text, position, end, classes, digits):
    """Behind the next `digits` digits, and a whitespace character before them if there is one: in ` 123`, for 2, it is 3."""
    found, length = read_class(text, position, end, classes)
    if found & RE_SPACE:
        position += length
    for _ in range(digits):
        position += read_class(text, position, end, classes)[1]
    return position


@kernel
def cut_digits(text, doc_ends, classes, group, takes_space, state, segment_ends, closes):
    """Write the next segments and return how many; none is left when state[DOCUMENT] is the number of documents.

    text, doc_ends, classes   as in `scan.py`
    group          int, 1 or 3: digits of a segment; the first of a run has what is over
    takes_space    bool: the first segment of a run of digits takes the whitespace character before it
    state          int64[3], in and out: document, position, digits of a run that are still to come; zeros to begin with
    segment_ends   int64[s], out: where each segment ends
    closes         bool[s], out: whether a document ends with it; an empty document is one empty segment

    `ab 1234` gives 3, 4, 7 in groups of three, and False, False, True.
    """
    document, position, left, count = state[DOCUMENT], state[POSITION], state[DIGITS_LEFT], np.int64(0)
    while document < doc_ends.size and count < segment_ends.size:
        end = doc_ends[document]
        if left == 0:
            digit = find_digit(text, position, end, classes)
            left = count_digits(text, digit, end, classes)
            start = start_of_space(text, digit, position, classes) if takes_space and left else digit
            if start > position or start == end:
                position = segment_ends[count] = start
                closes[count] = start == end
                document, count = document + (start == end), count + 1
                continue
        size = np.int64(1) if group == 1 else (left - 1) % 3 + 1
        position = segment_ends[count] = end_of_group(text, position, end, classes, size)
        left -= size
        closes[count] = position == end
        document, count = document + (position == end), count + 1
    state[DOCUMENT], state[POSITION], state[DIGITS_LEFT] = document, position, left
    return count
