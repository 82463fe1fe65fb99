"""A token shard as a Parquet file: magic bytes, row groups, footer. The schema is `schemas.TOKENS`; any reader reads it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import IO

import pyarrow as pa

from tokenmill import __version__, schemas
from transforms.parquet_columns import TokenColumn, write_strings
from transforms.thrift import Value, array, binary, i16, i32, i64, struct

_MAGIC = b"PAR1"
_FORMAT_VERSION = 2
_INT32, _BYTE_ARRAY = 1, 6
_OPTIONAL, _REPEATED = 1, 2
#: Converted types, and the fields of the union of logical types, have the same names but not the same numbers.
_UTF8, _LIST = 0, 3
_LOGICAL_STRING, _LOGICAL_LIST = 1, 3
_EMPTY = struct({})


class TokenFile:
    """Writes row groups to `output` as they are given; `close` writes the footer, with `metadata` in it."""

    def __init__(self, output: IO[bytes], metadata: Mapping[str, str]) -> None:
        self._output, self._metadata = output, metadata
        self._groups: list[Value] = []
        self._rows = 0
        self._offset = 0
        self._write(_MAGIC)

    def write_row_group(self, ids: pa.StringArray, tokens: TokenColumn) -> None:
        """A row group of one row or more."""
        start = self._offset
        chunks = [write_strings(ids, "doc_id"), tokens.write("input_ids")]
        columns = []
        for chunk in chunks:
            columns.append(chunk.describe(self._offset))
            for page in chunk.pages:
                self._write(page)
        fields = {
            1: array(columns),
            2: i64(sum(chunk.raw_size for chunk in chunks)),
            3: i64(len(ids)),
            5: i64(start),
            6: i64(self._offset - start),
            7: i16(len(self._groups)),
        }
        self._groups.append(struct(fields))
        self._rows += len(ids)

    def close(self) -> None:
        _, footer = struct(
            {
                1: i32(_FORMAT_VERSION),
                2: array(_describe_schema()),
                3: i64(self._rows),
                4: array(self._groups) if self._groups else _NO_GROUPS,
                5: array([struct({1: binary(key), 2: binary(value)}) for key, value in self._list_metadata()]),
                6: binary(f"tokenmill version {__version__}".encode()),
                7: array([struct({1: _EMPTY})] * 2),
            }
        )
        self._write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _list_metadata(self) -> list[tuple[bytes, bytes]]:
        """Ours, and Arrow's own note of the schema, by which it gives back exactly that one."""
        schema = base64.b64encode(schemas.TOKENS.with_metadata(dict(self._metadata)).serialize())
        return [(key.encode(), value.encode()) for key, value in self._metadata.items()] + [(b"ARROW:schema", schema)]

    def _write(self, content: bytes | pa.Buffer) -> None:
        self._offset += self._output.write(content)


def _describe_schema() -> list[Value]:
    """`SchemaElement`s of `doc_id: string, input_ids: list<int32>`, depth first."""
    names = [binary(name) for name in (b"schema", b"doc_id", b"input_ids", b"list", b"element")]
    string, a_list = struct({_LOGICAL_STRING: _EMPTY}), struct({_LOGICAL_LIST: _EMPTY})
    return [
        struct({4: names[0], 5: i32(2)}),
        struct({1: i32(_BYTE_ARRAY), 3: i32(_OPTIONAL), 4: names[1], 6: i32(_UTF8), 10: string}),
        struct({3: i32(_OPTIONAL), 4: names[2], 5: i32(1), 6: i32(_LIST), 10: a_list}),
        struct({3: i32(_REPEATED), 4: names[3], 5: i32(1)}),
        struct({1: i32(_INT32), 3: i32(_OPTIONAL), 4: names[4]}),
    ]


_NO_GROUPS: Value = (array([_EMPTY])[0], bytes([_EMPTY[0]]))
