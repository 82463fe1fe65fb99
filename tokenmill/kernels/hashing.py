"""Hashing of 64-bit keys for the open-addressing tables."""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import part

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXER = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)


@part
def mix(key):
    """Spread a 64-bit key over all 64 bits; tables take the low ones. `mix(uint64(0))` is 0."""
    key = np.uint64(key) * GOLDEN
    key = (key ^ (key >> HALF)) * MIXER
    return key ^ (key >> HALF)


@part
def combine(first, second):
    """Hash of an ordered pair of 64-bit keys."""
    return mix(mix(first) + np.uint64(second))
