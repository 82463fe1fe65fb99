"""Strings as Parquet stores them plainly: each behind its length, four bytes, little-endian."""

from __future__ import annotations

from tokenmill.kernels.compiling import kernel
from tokenmill.kernels.intrinsics import borrow
from tokenmill.kernels.scan_bytes import copy_bytes

LENGTH_BYTES = 4


@kernel
def put_lengths_first(data, ends, target):
    """Write strings that lie end to end (uint8[n], ending at int64[d]) to `target` (uint8[n + 4 * d])."""
    data, ends, target = borrow(data), borrow(ends), borrow(target)
    start = at = 0
    for item in range(ends.size):
        length = ends[item] - start
        if at + LENGTH_BYTES + length > target.size:
            break
        for byte in range(LENGTH_BYTES):
            target[at + byte] = length >> 8 * byte & 0xFF
        at = copy_bytes(data, start, ends[item], target, at + LENGTH_BYTES)
        start = ends[item]
