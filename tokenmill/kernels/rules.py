"""Merge rules as a table of pairs of ids."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel, part
from tokenmill.kernels.hashing import HALF, draw_secret
from tokenmill.kernels.intrinsics import load_item
from tokenmill.kernels.tables import aligned_zeros
from tokenmill.kernels.vectors import lowest_match_of_16

#: Entries of a bucket: a cache line, compared at once. And how many rules it is made for: so few that hardly one is full.
BUCKET, RULES_PER_BUCKET = 16, 10
#: The rank where there is no rule, above every rank; a free entry.
NO_RULE, FREE_ENTRY = np.int64(0xFFFFFFFF), np.uint32(0xFFFFFFFF)
#: Ranks and fingerprints share 32 bits, so there are fewer rules than this.
MOST_RULES = 1 << 22
#: What `lowest_match_of_16` finds where there is nothing.
NO_MATCH = np.uint32(0xFFFFFFFF)
ONE, TWO, LOW_32 = np.uint64(1), np.uint64(2), np.uint64(0xFFFFFFFF)
#: In place of a pair that a later rule has too: of symbols that stand beside none.
OVERRULED = np.uint64(0xFFFFFFFE_FFFFFFFE)


class RuleTable(NamedTuple):
    """Merge rules by rank, and a table of pairs that is small enough to stay in the processor's cache.

    `pairs`: uint64[rules], left id << 32 | right id, or OVERRULED where a later rule has the same. `products`: int32[rules], the
    id that each rule makes, or empty where that is `first_product` + rank. `buckets`: uint32[n * BUCKET], hashed by pair:
    fingerprint << `rank_bits` | rank, or FREE_ENTRY; a bucket is filled from its first entry on, in order of rank, and what it
    does not hold goes to the next one. Another pair can have the same fingerprint: whoever applies a rule compares `pairs`.
    `multiplier`: a random odd number that pairs are hashed by. `byte_ranks`: uint32[65536], the rank of the rule of two bytes,
    the first one in the higher half, or NO_RULE; empty where a word's first symbols are not those of its bytes.
    """

    pairs: np.ndarray
    products: np.ndarray
    first_product: np.int64
    buckets: np.ndarray
    rank_bits: np.uint32
    multiplier: np.uint64
    byte_ranks: np.ndarray


def build_table(lefts: np.ndarray, rights: np.ndarray, products: np.ndarray) -> RuleTable:
    """The table of rules that are given by rank, as ids (int32[rules]); without `byte_ranks`."""
    count = products.size
    first = int(products[0]) if count else 0
    buckets = aligned_zeros((count // RULES_PER_BUCKET + 1) * BUCKET, np.uint32)
    buckets[:] = FREE_ENTRY
    table = RuleTable(
        pairs=lefts.astype(np.uint64) << HALF | rights.astype(np.uint64),
        products=products[:0] if np.array_equal(products, np.arange(first, first + count)) else products,
        first_product=np.int64(first),
        buckets=buckets,
        rank_bits=np.uint32(max(1, count.bit_length())),
        multiplier=draw_secret()[1],
        byte_ranks=np.empty(0, np.uint32),
    )
    add_rules(table)
    return table


@part
def key_of_pair(left, right):
    """Two ids as one number: 1 and 2 give 0x1_0000_0002."""
    return np.uint64(np.int64(left)) << HALF | np.uint64(np.int64(right)) & LOW_32


@part
def home_of_pair(rules, key):
    """The place of the first entry of a pair's bucket, and the pair's fingerprint, an even number: no free entry has it."""
    mixed = key * rules.multiplier >> HALF
    buckets, fingerprints = np.uint64(rules.buckets.size // BUCKET), (ONE << np.uint64(32 - rules.rank_bits)) - TWO
    return np.int64(mixed * buckets >> HALF) * BUCKET, np.uint32(mixed & fingerprints)


@kernel
def add_rules(rules):
    """Fill the empty buckets of `rules`. Of a pair that stands twice the last rule counts; the time is linear all the same."""
    if fill_buckets(rules):
        for rank in range(rules.pairs.size):
            if rank_of(rules, rules.pairs[rank]) != rank:
                rules.pairs[rank] = OVERRULED
        for place in range(rules.buckets.size):
            rules.buckets[place] = FREE_ENTRY
        fill_buckets(rules)


@part
def fill_buckets(rules):
    """Put in the rules that count, in order of rank; returns whether a pair stands twice, so that this order is not kept.

    The last rank takes the place of the first one then. In a full bucket another pair, which had to go to the next one, could be
    taken for it, and `least_rank` find a higher rank than the pair has.
    """
    stands_twice = False
    for rank in range(rules.pairs.size):
        if rules.pairs[rank] == OVERRULED:
            continue
        place, fingerprint = home_of_pair(rules, rules.pairs[rank])
        while rules.buckets[place] != FREE_ENTRY and not holds_pair(rules, place, fingerprint, rules.pairs[rank]):
            place = place + 1 if place + 1 < rules.buckets.size else 0
        stands_twice |= rules.buckets[place] != FREE_ENTRY
        rules.buckets[place] = fingerprint << rules.rank_bits | np.uint32(rank)
    return stands_twice


@part
def holds_pair(rules, place, fingerprint, key):
    """Is an entry that of a pair?"""
    entry = rules.buckets[place]
    return entry >> rules.rank_bits == fingerprint and rules.pairs[entry & mask_of_ranks(rules)] == key


@part
def mask_of_ranks(rules):
    """The bits of an entry that are its rank."""
    return np.uint32((1 << rules.rank_bits) - 1)


@part
def rank_of(rules, key):
    """The rank of the rule for a pair, NO_RULE where there is none."""
    place, fingerprint = home_of_pair(rules, key)
    while rules.buckets[place] != FREE_ENTRY:
        if holds_pair(rules, place, fingerprint, key):
            return np.int64(rules.buckets[place] & mask_of_ranks(rules))
        place = place + 1 if place + 1 < rules.buckets.size else 0
    return NO_RULE


@inline_part
def least_rank(rules, key):
    """The rank of the rule for a pair or, once in thousands of times, a lower one, of a pair with the same fingerprint.

    One cache line, no branch: what stands there is compared when its turn comes.
    """
    buckets = rules.buckets
    place, fingerprint = home_of_pair(rules, key)
    found = lowest_match_of_16(buckets, place, fingerprint, rules.rank_bits)
    while (found == NO_MATCH) & (load_item(buckets, place + BUCKET - 1) != FREE_ENTRY):
        place = place + BUCKET if place + BUCKET < buckets.size else 0
        found = lowest_match_of_16(buckets, place, fingerprint, rules.rank_bits)
    return np.int64(found)


@part
def product_of(rules, rank):
    """The id that a rule makes."""
    return np.int64(rules.products[rank]) if rules.products.size else rules.first_product + rank


@kernel
def rank_byte_pairs(rules, byte_ids):
    """`byte_ranks` of `RuleTable`: the first pairs of a word are read from it, without a search (9 of 20 look-ups of a word)."""
    count = byte_ids.size
    ranks = np.empty(count * count, np.uint32)
    for left in range(count):
        for right in range(count):
            ranks[left * count + right] = rank_of(rules, key_of_pair(byte_ids[left], byte_ids[right]))
    return ranks
