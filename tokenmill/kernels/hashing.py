"""Hashing of 64-bit keys.

Tables hash with a secret: two random numbers that each table draws for itself. So nobody can choose words or pairs that all
belong into one place, where a search is as long as the table. Where an entry stands must decide nothing else: what is read out
of a table comes in another order (`first_seen`, the first cell of a pair), and what is kept or told to another process, such as
partitions and fingerprints, is hashed by `mix`, `combine` and `tables.hash_word`, which have no secret.
"""

from __future__ import annotations

import secrets

import numpy as np

from tokenmill.kernels.compiling import part
from tokenmill.kernels.intrinsics import fold_product

#: Two random numbers; the second one is odd.
Secret = tuple[np.uint64, np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXER = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)


def draw_secret() -> Secret:
    """The secret of a new table."""
    return np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64) | 1)


@part
def hash_secretly(key, secret):
    """Spread a 64-bit key over all 64 bits by a product of 128 bits, which nobody can foresee who does not know the secret."""
    return fold_product(np.uint64(key) ^ secret[0], secret[1])


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
