"""Reads Thrift's compact protocol in plain Python. The tests compare the kernel `scan_struct` with it.

    15 06 38 02 61 62 00   ->   [(1, 5, 3), (4, 8, b"ab")]: fields in their order, as number, type and value

A value is an int, bytes (also for a double or a UUID), a bool, or the fields of a struct. A list is its elements and their type;
a map is its keys and values, alternating. Source: the Thrift specification, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

from typing import Any

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
_SIZES = {I8: 1, DOUBLE: 8, UUID: 16}
_BITS = {I16: 16, I32: 32, I64: 64}

Field = tuple[int, int, Any]


class Refused(Exception):
    """The bytes are not a struct, or structs and lists are nested too deeply."""


class Reader:
    """Reads values from `content`, one after the other."""

    def __init__(self, content: bytes, deepest: int) -> None:
        self._content = content
        self._deepest = deepest
        self.position = 0

    def read_struct(self, depth: int = 1) -> list[Field]:
        """Read the fields of a struct, up to a zero byte."""
        fields: list[Field] = []
        last = 0
        while head := self._take(1)[0]:
            kind, step = head & 15, head >> 4
            last = last + step if step else self._read_number(I16)
            is_flag = kind in (TRUE, FALSE)
            fields.append((last, kind, kind == TRUE if is_flag else self._read_value(kind, depth)))
        return fields

    def _read_value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE):
            return self._take(1) == b"\1"
        if kind in _SIZES:
            return self._take(_SIZES[kind])
        if kind in _BITS:
            return self._read_number(kind)
        if kind == BINARY:
            return self._take(self._read_varint())
        if depth == self._deepest:
            raise Refused("too deep")
        if kind == STRUCT:
            return self.read_struct(depth + 1)
        if kind in (LIST, SET):
            return self._read_list(depth + 1)
        if kind == MAP:
            return self._read_map(depth + 1)
        raise Refused(f"type {kind}")

    def _read_list(self, depth: int) -> tuple[list[Any], int]:
        head = self._take(1)[0]
        count = head >> 4 if head >> 4 < 15 else self._read_varint()
        return self._read_elements(count, [head & 15], depth), head & 15

    def _read_map(self, depth: int) -> list[Any]:
        count = self._read_varint()
        if count == 0:
            return []
        kinds = self._take(1)[0]
        return self._read_elements(2 * count, [kinds >> 4, kinds & 15], depth)

    def _read_elements(self, count: int, kinds: list[int], depth: int) -> list[Any]:
        if count and not all(TRUE <= kind <= UUID for kind in kinds):
            raise Refused(f"types {kinds}")
        return [self._read_value(kinds[place % len(kinds)], depth) for place in range(count)]

    def _read_number(self, kind: int) -> int:
        """Read a zigzag number: 3 is -2."""
        raw = self._read_varint()
        number = raw >> 1 ^ -(raw & 1)
        if not -(1 << _BITS[kind] - 1) <= number < 1 << _BITS[kind] - 1:
            raise Refused(f"{number} in {_BITS[kind]} bits")
        return number

    def _read_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if value >= 1 << 64 or shift > 70:
                raise Refused("number")
            if byte < 128:
                return value

    def _take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        if self.position > len(self._content):
            raise Refused("cut off")
        return self._content[start : self.position]
