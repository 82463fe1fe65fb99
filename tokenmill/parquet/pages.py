"""Reads a column of a row group without decoding its levels. If all lists have the same length, the integers lie end to end.

Arrow's reader decodes the levels of each token, but if all lists are full the levels add no information. Any other layout
(another encoding, nulls, empty lists) raises `OtherLayout`, and the caller uses Arrow.

    page of 2 lists of 3:   [size][repetition levels] [size][definition levels] [int32 x 6]

Source: the Parquet format's description (github.com/apache/parquet-format), `Encodings.md` and `parquet.thrift`, and the Thrift
specification, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BOOLEANS, _INTEGERS, _DOUBLE, _BINARY, _STRUCT = (1, 2), (3, 4, 5, 6), 7, 8, 12
_DATA_PAGE, _PLAIN = 0, 0
_MOST_NESTED = 8
#: The room for a page: five bytes for each value (four, and at most two bits of levels), and space for the heads.
_BYTES_A_VALUE, _SPARE_BYTES = 5, 1024


class OtherLayout(Exception):
    """A column chunk other than plain, full lists of integers. This is not an error: Arrow can read it."""


def read_integers(chunk: bytes | pa.Buffer, values: int, compression: str) -> npt.NDArray[np.int32]:
    """Read the `values` integers of a column chunk into a new array (int32). Raises OtherLayout."""
    if compression not in ("ZSTD", "SNAPPY", "GZIP", "LZ4", "BROTLI"):
        raise OtherLayout(compression)
    codec, view = pa.Codec(compression.lower()), memoryview(chunk)
    result, filled, position = _allocate(values), 0, 0
    while filled < values:
        header, position = _read_struct(view, position)
        count, raw_size, size = _check_header(header, values - filled)
        page = codec.decompress(view[position : position + size], raw_size, asbytes=False)
        # Copied as bytes. NumPy copies unaligned integers one by one, which took as long as zstd.
        result[filled : filled + count].view(np.uint8)[:] = _find_integers(memoryview(page), count)
        filled, position = filled + count, position + size
    return result


def _allocate(values: int) -> npt.NDArray[np.int32]:
    """Allocate an array in Arrow's memory pool, which reuses freed memory. The system would clear new pages each time."""
    return np.frombuffer(pa.allocate_buffer(4 * values), np.int32)


def _check_header(header: dict[int, Any], most: int) -> tuple[int, int, int]:
    """Check the header of a page. Returns its number of values, and its sizes without and with compression."""
    about = header.get(5)
    if header.get(1) != _DATA_PAGE or not isinstance(about, dict) or about.get(2) != _PLAIN:
        raise OtherLayout("page")
    count, raw_size, size = about.get(1), header.get(2), header.get(3)
    if not (isinstance(count, int) and isinstance(raw_size, int) and isinstance(size, int)) or not 0 < count <= most or size <= 0:
        raise OtherLayout("sizes")
    if not 4 * count < raw_size <= _BYTES_A_VALUE * count + _SPARE_BYTES:
        raise OtherLayout("sizes")
    return count, raw_size, size


def _find_integers(page: memoryview, count: int) -> npt.NDArray[np.uint8]:
    """The bytes after the levels. If there is a value for each level, no list is empty and no value is null."""
    start = 0
    for _ in range(2):
        start += 4 + int.from_bytes(page[start : start + 4], "little")
    if start + 4 * count != len(page):
        raise OtherLayout("levels")
    return np.frombuffer(page, np.uint8, 4 * count, start)


def _read_struct(view: memoryview, position: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read a struct: its fields that are integers or structs, by number, and where it ends."""
    if depth > _MOST_NESTED:
        raise OtherLayout("depth")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        if position >= len(view):
            raise OtherLayout("end")
        head, position = view[position], position + 1
        if head == 0:
            return fields, position
        kind, step = head & 15, head >> 4
        if step == 0:
            step, position = _read_integer(view, position)
            number = 0
        number += step
        fields[number], position = _read_value(view, position, kind, depth)


def _read_value(view: memoryview, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _BOOLEANS:
        return kind == _BOOLEANS[0], position
    if kind in _INTEGERS:
        return _read_integer(view, position)
    if kind == _DOUBLE:
        return None, position + 8
    if kind == _BINARY:
        size, position = _read_varint(view, position)
        return None, position + size
    if kind == _STRUCT:
        return _read_struct(view, position, depth + 1)
    raise OtherLayout("type")


def _read_integer(view: memoryview, position: int) -> tuple[int, int]:
    """Read a zigzag varint: 0x03 is -2."""
    value, position = _read_varint(view, position)
    return value >> 1 ^ -(value & 1), position


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(view) or shift > 63:
            raise OtherLayout("end")
        byte, position = view[position], position + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position
