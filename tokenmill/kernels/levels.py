"""Levels of Parquet as runs: each the number of its levels, twice, seven bits a byte with the lowest first, and the level.

000 1 00 as runs of bytes:   06 00   02 01   04 00
"""

from __future__ import annotations

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow

#: No run takes more bytes: nine hold a number of 63 bits.
MOST_RUN_BYTES = 10


@part
def put_run(target, at, length, level):
    """Write a run of one level to target[at:]; returns where it ends."""
    number = length << 1
    while number >= 0x80:
        target[at] = number & 0x7F | 0x80
        number >>= 7
        at += 1
    target[at], target[at + 1] = number, level
    return at + 2


@kernel
def put_row_starts(starts, values, target):
    """Write the repetition levels of so many values: 0 at `starts` (int64[r], ascending), where rows begin, 1 elsewhere.

    `target` is uint8[2 * r * MOST_RUN_BYTES + MOST_RUN_BYTES]. Returns how many bytes are written.
    """
    starts, target = borrow(starts), borrow(target)
    at = place = 0
    for row in range(starts.size):
        if starts[row] > place:
            at = put_run(target, at, starts[row] - place, 1)
        at = put_run(target, at, 1, 0)
        place = starts[row] + 1
    if values > place:
        at = put_run(target, at, values - place, 1)
    return at
