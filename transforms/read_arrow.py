"""Arrow IPC: files (also known as Feather) are cut between record batches, streams are read whole; their first bytes tell which.

A record batch is the unit that Arrow reads: it has to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from tokenmill.errors import UnreadableFileError
from tokenmill.transforms.decompress import open_seekable
from tokenmill.transforms.read_batches import DocumentBatch
from tokenmill.transforms.read_columns import Columns, find_columns, group_parts, read_columns, take_rows
from tokenmill.transforms.read_lines import LineCount
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile

_FILE_MAGIC = b"ARROW1"


def cut_arrow(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file between record batches, a stream not at all.

    Raises `UnreadableFileError` and `MissingColumnError`.
    """
    with open_seekable(file) as stream:
        if not _is_file(stream):
            find_columns(_open_stream(stream).schema, file, options)
            return [SizedRange(Range(file, 0, file.size), None, file.size)]
        schema = _open_file(stream, None).schema
        find_columns(schema, file, options)
        rows = _count_batch_rows(stream, schema)
    sizes = [file.size * count // max(1, sum(rows)) for count in rows]
    parts = list(zip(rows, sizes, strict=True))
    return group_parts(file, parts, split_bytes=split_bytes, least=len(rows) if file.compression else 1)


def _is_file(stream: IO[bytes]) -> bool:
    head = stream.read(len(_FILE_MAGIC))
    stream.seek(0)
    return head == _FILE_MAGIC


def _open_file(stream: IO[bytes], columns: list[int] | None) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(pa.PythonFile(stream, mode="r"), options=pa.ipc.IpcReadOptions(included_fields=columns or []))


def _open_stream(stream: IO[bytes]) -> pa.ipc.RecordBatchStreamReader:
    return pa.ipc.open_stream(pa.PythonFile(stream, mode="r"))


def _count_batch_rows(stream: IO[bytes], schema: pa.Schema) -> list[int]:
    """Rows of each record batch. Arrow reads no batch without a column, so a narrow one is chosen where there is one."""
    narrow = [position for position, field in enumerate(schema) if pa.types.is_primitive(field.type)]
    reader = _open_file(stream, narrow[:1] or [0])
    return [reader.get_batch(position).num_rows for position in range(reader.num_record_batches)]


def count_stream_rows(part: Range, limit: int | None = None) -> LineCount:
    """Rows of a stream, counted no further than the batch in which row number `limit` stands. Raises `UnreadableFileError`."""
    rows = 0
    with open_seekable(part.file) as stream:
        for batch in _open_stream(stream):
            rows += batch.num_rows
            if limit is not None and rows >= limit:
                break
    return LineCount(rows, rows)


def read_arrow(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the record batches of a range. Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`."""
    with open_seekable(part.file) as stream:
        schema = _open_file(stream, None).schema if (is_file := _is_file(stream)) else _open_stream(stream).schema
        columns = find_columns(schema, part.file, options)
        stream.seek(0)
        batches = _read_file_batches(stream, part, schema, columns) if is_file else _read_stream_batches(stream, part.file)
        checked = (check_batch(batch, columns) for batch in batches)
        yield from read_columns(take_rows(checked, part.rows), columns, part.file, options, first_row=part.first_row)


def check_batch(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """A batch whose offsets stay within its buffers: Arrow takes them from a file as they are. Raises `pa.ArrowInvalid`.

    Text is looked at as bytes: whether it is UTF-8 is the policy's business.
    """
    for name in columns.roots:
        column = batch.column(batch.schema.get_field_index(name))
        as_bytes = _with_bytes(column.type)
        (column if as_bytes == column.type else column.view(as_bytes)).validate(full=True)
    return batch


#: The types of bytes that are laid out as those of text.
_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
_LISTS = {
    pa.ListType: pa.list_,
    pa.LargeListType: pa.large_list,
    pa.ListViewType: pa.list_view,
    pa.LargeListViewType: pa.large_list_view,
}


def _with_bytes(kind: pa.DataType) -> pa.DataType:
    """A type with bytes in place of strings, at any depth."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _with_bytes(kind.value_type), kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, _with_bytes(kind.value_type))
    if pa.types.is_struct(kind):
        fields = (kind.field(position) for position in range(kind.num_fields))
        return pa.struct([field.with_type(_with_bytes(field.type)) for field in fields])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_with_bytes(kind.value_type)), kind.list_size)
    if (make := _LISTS.get(type(kind))) is not None:
        return make(kind.value_field.with_type(_with_bytes(kind.value_type)))
    return _BYTES.get(kind, kind)


def _read_file_batches(stream: IO[bytes], part: Range, schema: pa.Schema, columns: Columns) -> Iterator[pa.RecordBatch]:
    reader = _open_file(stream, [schema.get_field_index(name) for name in columns.roots])
    for position in range(part.start, part.end):
        yield reader.get_batch(position)


def _read_stream_batches(stream: IO[bytes], file: SourceFile) -> Iterator[pa.RecordBatch]:
    """All batches; bytes behind the stream's end would be a second stream, which Arrow passes over without a word."""
    yield from _open_stream(stream)
    if stream.read(1):
        raise UnreadableFileError(f"{file.path}: other bytes follow the Arrow stream's end; write each stream to its own file")
