"""Kernels on vectors and numbers of 128 bits: with JIT and without, what plain Python says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.training import compiled, few_cases
from tokenmill.kernels import intrinsics, vectors

ALL_ONES = 0xFFFFFFFF


def call(function: object, *arguments: object) -> object:
    """Call an intrinsic, which only kernels can, from a kernel."""

    def kernel(arguments):  # type: ignore[no-untyped-def]
        return function(*arguments)  # type: ignore[operator]

    return compiled(kernel)(arguments)


@few_cases(100, 50)
@given(st.lists(st.integers(0, 2**20 - 1), min_size=6, max_size=6), st.integers(0, 15))
def test_six_ids_come_out_of_128_bits(ids: list[int], size: int) -> None:
    both = sum(one << 20 * place for place, one in enumerate(ids)) | size << 124
    numbers, items = np.array([7, both % 2**64, both >> 64], np.uint64), np.full(12, -1, np.int32)
    call(vectors.unpack_six, numbers, 1, items, 3)
    assert items[3:9].tolist() == ids
    assert items[:3].tolist() == [-1] * 3
    assert items[11] == -1


@few_cases(100, 50)
@given(st.lists(st.integers(0, 40), min_size=18, max_size=18), st.integers(0, 10), st.integers(1, 4))
def test_the_lowest_match_of_sixteen(values: list[int], key: int, shift: int) -> None:
    items = np.array(values, np.uint32)
    matches = [value % 2**shift for value in values[2:] if value >> shift == key]
    assert call(vectors.lowest_match_of_16, items, 2, np.uint32(key), np.uint32(shift)) == min(matches, default=ALL_ONES)


@few_cases(100, 50)
@given(st.lists(st.integers(0, ALL_ONES), min_size=33, max_size=33), st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_the_lowest_of_sixteen_but_three(values: list[int], places: list[int]) -> None:
    items = np.array(values, np.uint32)
    assert call(vectors.lowest_of_16, items, 17) == min(values[17:])
    others = [value for place, value in enumerate(values) if place >= 17 and place not in places]
    assert call(vectors.lowest_other_of_16, items, 17, *places) == min(others)


@few_cases(100, 50)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_product_is_folded(first: int, second: int) -> None:
    product = first * second
    assert int(call(intrinsics.fold_product, np.uint64(first), np.uint64(second))) == (product >> 64) ^ (product % 2**64)  # type: ignore[call-overload]


def test_items_and_rows() -> None:
    rows = np.arange(12, dtype=np.int32).reshape(3, 4)

    def change(rows):  # type: ignore[no-untyped-def]
        items = intrinsics.flatten(rows)
        intrinsics.prefetch_item(items, 4)
        intrinsics.store_item(items, 5, np.int32(-7))
        return intrinsics.load_item(items, 5), intrinsics.load_item(items, 11), items.size

    assert compiled(change)(rows) == (-7, 11, 12)
    assert rows[1, 1] == -7
