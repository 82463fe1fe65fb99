"""Finds the fields of a Parquet footer in one pass over its bytes, which are untrusted, and returns them as arrays.

    fields = FooterFields(content)
    fields.numbers("group", "group.rows", 0)         # int64[g], 0 for a row group without the field

Source: the Parquet format's description (github.com/apache/parquet-format), `parquet.thrift`.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokenmill.kernels import thrift_fields

Ints = npt.NDArray[np.int64]

#: The fields to find: the path of field numbers from the outermost struct inwards, and the type.
FIELDS: dict[str, tuple[tuple[int, ...], int]] = {
    "column": ((2,), thrift_fields.STRUCTS),
    "column.type": ((2, 1), thrift_fields.I32),
    "column.repetition": ((2, 3), thrift_fields.I32),
    "column.name": ((2, 4), thrift_fields.BINARY),
    "column.children": ((2, 5), thrift_fields.I32),
    "rows": ((3,), thrift_fields.I64),
    "group": ((4,), thrift_fields.STRUCTS),
    "group.rows": ((4, 3), thrift_fields.I64),
    "chunk": ((4, 1), thrift_fields.STRUCTS),
    "chunk.encryption": ((4, 1, 8), thrift_fields.STRUCT),
    "chunk.about": ((4, 1, 3), thrift_fields.STRUCT),
    "chunk.type": ((4, 1, 3, 1), thrift_fields.I32),
    "chunk.codec": ((4, 1, 3, 4), thrift_fields.I32),
    "chunk.values": ((4, 1, 3, 5), thrift_fields.I64),
    "chunk.raw_size": ((4, 1, 3, 6), thrift_fields.I64),
    "chunk.size": ((4, 1, 3, 7), thrift_fields.I64),
    "chunk.offset": ((4, 1, 3, 9), thrift_fields.I64),
    "chunk.dictionary": ((4, 1, 3, 11), thrift_fields.I64),
    "chunk.statistics": ((4, 1, 3, 12), thrift_fields.STRUCT),
    "chunk.largest": ((4, 1, 3, 12, 5), thrift_fields.BINARY),
    "chunk.smallest": ((4, 1, 3, 12, 6), thrift_fields.BINARY),
    "chunk.levels": ((4, 1, 3, 16), thrift_fields.STRUCT),
    "chunk.text_bytes": ((4, 1, 3, 16, 1), thrift_fields.I64),
    "chunk.repetitions": ((4, 1, 3, 16, 2), thrift_fields.NUMBERS),
    "chunk.definitions": ((4, 1, 3, 16, 3), thrift_fields.NUMBERS),
}
_STATES = {name: state for state, name in enumerate(FIELDS, 1)}
_MOST_FIELDS = 17
_FAULTS = {
    thrift_fields.CUT_OFF: "it ends too early",
    thrift_fields.TOO_DEEP: "too many values within each other",
    thrift_fields.UNKNOWN_TYPE: "a type that does not exist",
    thrift_fields.OTHER_TYPE: "a field of another type than it should be",
    thrift_fields.TOO_LARGE: "a number too large for its type",
}


class DamagedFooter(pa.ArrowInvalid):
    """A Parquet footer that is damaged, encrypted or missing. It is a kind of the error that Arrow raises for damage."""


class FooterFields:
    """The fields `FIELDS` of a footer. Raises DamagedFooter for an incomplete struct or a field of the wrong type."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._nodes = scan_fields(content)

    def numbers(self, owner: str, name: str, absent: int) -> Ints:
        """The number `name` in each struct `owner`, `absent` if it is missing. A list counts as its length, a struct as 0.

        If a struct has a field twice, the last one is used, as in other readers.
        """
        return self._by_owner(owner, name, absent)[0]

    def strings(self, owner: str, name: str) -> list[bytes | None]:
        """The bytes `name` in each struct `owner`, None if they are missing."""
        starts, sizes = self._by_owner(owner, name, -1)
        places = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
        return [None if start < 0 else self.content[start:end] for start, end in places]

    def count_within(self, owner: str, name: str) -> Ints:
        """The number of structs `name` in each struct `owner`."""
        owners, places = self._find(owner), self._find(name)
        return np.diff(np.searchsorted(places, owners), append=places.size)

    def last_number(self, name: str) -> int | None:
        """A number of the footer itself, or None if it is missing."""
        places = self._find(name)
        return int(self._nodes[1, places[-1]]) if places.size else None

    def _by_owner(self, owner: str, name: str, absent: int) -> tuple[Ints, Ints]:
        """The values and sizes of `name` by struct `owner`. The fields of a struct come after it and before the next struct."""
        owners, places = self._find(owner), self._find(name)
        values, sizes = np.full(owners.size, absent, np.int64), np.zeros(owners.size, np.int64)
        which = np.searchsorted(owners, places) - 1
        values[which], sizes[which] = self._nodes[1:, places]
        return values, sizes

    def _find(self, name: str) -> Ints:
        return np.flatnonzero(self._nodes[0] == _STATES[name])


def scan_fields(content: bytes) -> Ints:
    """Scan for FIELDS with `scan_struct`: int64[3, m]. States are places in FIELDS, counted from 1. Raises DamagedFooter."""
    data, (steps, kinds) = np.frombuffer(content, np.uint8), _wanted()
    room = len(content) // 4 + 64
    while True:
        nodes = np.empty((3, room), np.int64)
        count, place = thrift_fields.scan_struct(data, steps, kinds, nodes)
        if count < 0:
            raise DamagedFooter(f"the footer is damaged at byte {place} of {len(content)}: {_FAULTS[int(count)]}")
        if count <= room:
            return nodes[:, :count]
        room = int(count)


@functools.cache
def _wanted() -> tuple[Ints, Ints]:
    """Build the tables of `scan_struct`."""
    states = {(): 0, **{path: _STATES[name] for name, (path, _) in FIELDS.items()}}
    steps = np.full((len(states), _MOST_FIELDS), -1, np.int64)
    kinds = np.array([thrift_fields.STRUCT, *(kind for _, kind in FIELDS.values())], np.int64)
    for path, state in states.items():
        if path:
            steps[states[path[:-1]], path[-1]] = state
    return steps, kinds
