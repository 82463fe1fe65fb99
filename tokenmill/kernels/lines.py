"""Lines of a block: where they end, how many there are, and their bytes without the ends.

`block` (uint8[n + 64]) holds n bytes of whole lines and `PADDING` more. The last line ends with a newline, at n - 1 or, where the
file has none, at n: so the search for a line's end needs no bounds.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow, count_trailing_zeros, mark_bytes_between
from tokenmill.kernels.scan_bytes import copy_bytes

#: How many bytes lie behind the lines of a block: what is read 64 bytes at a time needs them.
PADDING = 64

_TAB, _NEWLINE, _RETURN, _SPACE = b"\t\n\r "


@kernel
def end_of_line(block, position):
    """Where the line that holds `position` ends: at its newline."""
    while True:
        newlines = mark_bytes_between(block, position, _NEWLINE, _NEWLINE)
        if newlines:
            return position + count_trailing_zeros(newlines)
        position += 64


@part
def skip_space(block, position):
    """Where the space ends that JSON allows within a line: spaces, tabs and returns."""
    while block[position] == _SPACE or block[position] == _TAB or block[position] == _RETURN:
        position += 1
    return position


@kernel
def count_lines(block):
    """How many lines there are, and how many of them are blank (hold nothing but spaces, tabs and returns)."""
    block = borrow(block)
    lines = blank = position = np.int64(0)
    while position < block.size - PADDING:
        first = skip_space(block, position)
        blank += block[first] == _NEWLINE
        lines += 1
        position = end_of_line(block, first) + 1
    return lines, blank


@kernel
def take_lines(block, starts, text, bounds):
    """Copy the lines without their ends (`\\n` or `\\r\\n`), end to end, to `text` (uint8[n]).

    `starts` (int64[l]) gets where each begins in the block, bounds[1:] (int64[l + 1]) where each ends in the text.
    """
    block, text = borrow(block), borrow(text)
    position = at = np.int64(0)
    for line in range(min(starts.size, bounds.size - 1)):
        stop = end_of_line(block, position)
        has_return = stop > position and block[stop - 1] == _RETURN and stop < block.size - PADDING
        at = copy_bytes(block, position, stop - has_return, text, at)
        starts[line], bounds[line + 1] = position, at
        position = stop + 1
