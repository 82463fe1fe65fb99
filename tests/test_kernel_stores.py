"""No store of a kernel without a check of the array that it writes to, or a reason that it needs none."""

from __future__ import annotations

import ast

from tests.kernel_stores import REASONS, find_stores, list_stores


def test_every_store_is_checked_or_has_a_reason() -> None:
    unchecked = [store for store, checked in list_stores().items() if not checked]
    reasoned = [store for stores in REASONS.values() for store in stores]
    assert sorted(unchecked) == sorted(reasoned)


def test_a_new_store_is_found() -> None:
    source = """
def fill(target, others, count):
    for place in range(min(count, others.size)):
        target[place] = others[place] = 1
        store_item(target, place, 1)
    def inner(more):
        more[0] += 1
"""
    assert find_stores(ast.parse(source), "new") == {
        "new.fill: target": False,
        "new.fill: others": True,
        "new.inner: more": False,
    }
