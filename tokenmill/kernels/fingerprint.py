"""Content fingerprints of documents: 128 bits that add up, so that a file has the same one however it was split and in whatever
order.

The fingerprint of a set of documents is the sum of theirs, each half modulo 2^64. The hash of one document reads 32 bytes a step
in four independent lanes, in the manner of xxHash. It finds changes; it is no proof against someone who makes collisions.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.hashing import combine, mix
from tokenmill.kernels.intrinsics import load_u64
from tokenmill.kernels.tables import hash_bytes

PRIME_1 = np.uint64(0x9E3779B185EBCA87)
PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
ROTATION, REST = np.uint64(31), np.uint64(33)
STRIPE_BYTES = 32


@part
def stir(lane, value):
    """One lane, one step."""
    lane += value * PRIME_2
    return ((lane << ROTATION) | (lane >> REST)) * PRIME_1


@part
def hash_text(text, start, end, seed):
    """Two 64-bit hashes of a byte string."""
    first, second, third, fourth = seed + PRIME_1, seed + PRIME_2, seed, seed - PRIME_1
    position = start
    while position + STRIPE_BYTES <= end:
        first = stir(first, load_u64(text, position))
        second = stir(second, load_u64(text, position + 8))
        third = stir(third, load_u64(text, position + 16))
        fourth = stir(fourth, load_u64(text, position + 24))
        position += STRIPE_BYTES
    rest = hash_bytes(text, position, end)
    return combine(combine(first, second) + rest, third ^ fourth), combine(combine(third, fourth) ^ rest, first + second)


@kernel
def add_documents(total, ids, id_ends, skip, text, text_ends):
    """Add documents to `total` (uint64[2]): ids and texts lie end to end (uint8[n]), ending at int64[d].

    `skip` bytes of ids do not count.
    """
    id_start = text_start = 0
    for document in range(text_ends.size):
        seed = hash_bytes(ids, min(id_start + skip, id_ends[document]), id_ends[document])
        low, high = hash_text(text, text_start, text_ends[document], seed)
        total[0] += mix(low)
        total[1] += mix(high)
        id_start, text_start = id_ends[document], text_ends[document]
