"""Writes a token shard as a Parquet file (magic bytes, row groups, footer), which any Parquet reader can read.

`parquet/columns.py` writes columns of strings and of lists of int32 or int8. If a shard has a column of another type, Arrow's
writer writes the whole shard, with the same compression and encoding, at half the speed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill.parquet.columns import COMPRESSION_LEVEL, ColumnChunk, write_lists, write_strings
from tokenmill.parquet.thrift import TRUE, Value, array, binary, i8, i16, i32, i64, struct
from tokenmill.version import __version__

#: The arrays of each column of a row group, in row order. All columns are split into arrays at the same rows.
Columns = Mapping[str, Sequence[pa.Array]]

_MAGIC = b"PAR1"
_FORMAT_VERSION = 2
_INT32, _BYTE_ARRAY = 1, 6
_OPTIONAL, _REPEATED = 1, 2
#: Numbers of converted types. The fields of the union of logical types have the same names but other numbers.
_UTF8, _LIST, _INT_8 = 0, 3, 15
_LOGICAL_STRING, _LOGICAL_LIST, _LOGICAL_INTEGER = 1, 3, 10
_EMPTY = struct({})
_LIST_TYPES = (pa.list_(pa.int32()), pa.list_(pa.int8()))


class RowGroupFile(Protocol):
    """A Parquet file that is written row group by row group."""

    def write_row_group(self, columns: Columns) -> None:
        """Write a row group of one or more rows, with all columns of the schema."""

    def close(self) -> None:
        """Write the footer."""

    def abandon(self) -> None:
        """Stop without writing a footer."""


def open_file(output: IO[bytes], schema: pa.Schema, metadata: Mapping[str, str]) -> RowGroupFile:
    """Open a file for writing with this schema and `metadata` in its footer."""
    ours = all(field.type == pa.string() or field.type in _LIST_TYPES for field in schema)
    return TokenFile(output, schema, metadata) if ours else ArrowFile(output, schema, metadata)


class ArrowFile:
    """A shard with any columns, written by Arrow."""

    def __init__(self, output: IO[bytes], schema: pa.Schema, metadata: Mapping[str, str]) -> None:
        self._schema = schema.with_metadata(dict(metadata))
        how = {"compression": "zstd", "compression_level": COMPRESSION_LEVEL, "use_dictionary": False}
        searched = ["doc_id", "doc_ids.list.element"]
        self._writer = pq.ParquetWriter(output, self._schema, write_statistics=searched, **how)

    def write_row_group(self, columns: Columns) -> None:
        arrays = [pa.chunked_array(columns[field.name]).cast(field.type) for field in self._schema]
        table = pa.table(arrays, schema=self._schema)
        self._writer.write_table(table, row_group_size=table.num_rows)

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        self._writer.is_open = False  # Otherwise it writes its footer when it is garbage-collected.


class TokenFile:
    """A shard with columns of strings and lists of integers only."""

    def __init__(self, output: IO[bytes], schema: pa.Schema, metadata: Mapping[str, str]) -> None:
        self._output, self._schema, self._metadata = output, schema, metadata
        self._groups: list[Value] = []
        self._rows = 0
        self._offset = 0
        self._write(_MAGIC)

    def write_row_group(self, columns: Columns) -> None:
        start, chunks = self._offset, []
        described = []
        for field in self._schema:
            chunk = _write_column(columns[field.name], field)
            chunks.append(chunk)
            described.append(chunk.describe(self._offset))
            for page in chunk.pages:
                self._write(page)
            chunk.pages = []
        rows = sum(map(len, columns[self._schema.names[0]]))
        fields = {
            1: array(described),
            2: i64(sum(chunk.raw_size for chunk in chunks)),
            3: i64(rows),
            5: i64(start),
            6: i64(self._offset - start),
            7: i16(len(self._groups)),
        }
        self._groups.append(struct(fields))
        self._rows += rows

    def close(self) -> None:
        _, footer = struct(
            {
                1: i32(_FORMAT_VERSION),
                2: array(_describe_schema(self._schema)),
                3: i64(self._rows),
                4: array(self._groups) if self._groups else _NO_GROUPS,
                5: array([struct({1: binary(key), 2: binary(value)}) for key, value in self._list_metadata()]),
                6: binary(f"tokenmill version {__version__}".encode()),
                7: array([struct({1: _EMPTY})] * len(self._schema)),
            }
        )
        self._write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def abandon(self) -> None:
        """Do nothing: everything written is already in the output."""

    def _list_metadata(self) -> list[tuple[bytes, bytes]]:
        """The metadata of the shard, and Arrow's copy of the schema, from which Arrow restores exactly this schema."""
        schema = base64.b64encode(self._schema.with_metadata(dict(self._metadata)).serialize())
        return [(key.encode(), value.encode()) for key, value in self._metadata.items()] + [(b"ARROW:schema", schema)]

    def _write(self, content: bytes | pa.Buffer) -> None:
        self._offset += self._output.write(content)


def _write_column(arrays: Sequence[pa.Array], field: pa.Field) -> ColumnChunk:
    if field.type == pa.string():
        return write_strings(pa.concat_arrays(arrays), field.name)
    return write_lists(arrays, field.name)


def _describe_schema(schema: pa.Schema) -> list[Value]:
    """The `SchemaElement`s of a schema, depth first."""
    elements = [struct({4: binary(b"schema"), 5: i32(len(schema))})]
    for field in schema:
        name = binary(field.name.encode())
        elements += [_describe_string(name)] if field.type == pa.string() else _describe_list(name, field.type.value_type)
    return elements


def _describe_string(name: Value) -> Value:
    logical = struct({_LOGICAL_STRING: _EMPTY})
    return struct({1: i32(_BYTE_ARRAY), 3: i32(_OPTIONAL), 4: name, 6: i32(_UTF8), 10: logical})


def _describe_list(name: Value, kind: pa.DataType) -> list[Value]:
    item = {1: i32(_INT32), 3: i32(_OPTIONAL), 4: binary(b"element")}
    if kind == pa.int8():
        item |= {6: i32(_INT_8), 10: struct({_LOGICAL_INTEGER: struct({1: i8(8), 2: TRUE})})}
    return [
        struct({3: i32(_OPTIONAL), 4: name, 5: i32(1), 6: i32(_LIST), 10: struct({_LOGICAL_LIST: _EMPTY})}),
        struct({3: i32(_REPEATED), 4: binary(b"list"), 5: i32(1)}),
        struct(item),
    ]


_NO_GROUPS: Value = (array([_EMPTY])[0], bytes([_EMPTY[0]]))
