"""Writes Thrift's compact protocol, as far as Parquet's headers and footers use it.

A value is its wire type and its bytes; `struct` and `array` combine values:

    struct({1: i32(3), 4: binary(b"ab")})   ->   15 06 38 02 61 62 00

Source: the Thrift specification, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Value = tuple[int, bytes]

_I8, _I16, _I32, _I64, _BINARY, _ARRAY, _STRUCT = 3, 4, 5, 6, 8, 9, 12
_SHORT = 15
#: The value True as a field of a struct.
TRUE: Value = (1, b"")


def varint(number: int) -> bytes:
    """Encode a number of 0 or more with seven bits per byte, the lowest first: 300 is `AC 02`."""
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    content.append(number)
    return bytes(content)


def _zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else ~number << 1 | 1)


def i8(number: int) -> Value:
    return _I8, number.to_bytes(1, "little", signed=True)


def i16(number: int) -> Value:
    return _I16, _zigzag(number)


def i32(number: int) -> Value:
    return _I32, _zigzag(number)


def i64(number: int) -> Value:
    return _I64, _zigzag(number)


def binary(content: bytes) -> Value:
    """Encode bytes, or the UTF-8 of a string."""
    return _BINARY, varint(len(content)) + content


def array(values: Sequence[Value]) -> Value:
    """Encode a list of one or more values of the same type."""
    kind = values[0][0]
    head = bytes([len(values) << 4 | kind]) if len(values) < _SHORT else bytes([_SHORT << 4 | kind]) + varint(len(values))
    return _ARRAY, head + b"".join(content for _, content in values)


def struct(fields: Mapping[int, Value]) -> Value:
    """Encode a struct, or a union with one field. Field ids must ascend in steps of at most 15."""
    content = bytearray()
    last = 0
    for identifier, (kind, value) in fields.items():
        content += bytes([identifier - last << 4 | kind]) + value
        last = identifier
    return _STRUCT, bytes(content) + b"\0"
