"""Arrow IPC: files (also known as Feather) are cut between record batches, streams are read whole; their first bytes tell which.

A record batch is the unit that Arrow reads: it has to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from tokenmill.errors import UnreadableFileError
from transforms.decompress import open_seekable
from transforms.read_batches import DocumentBatch
from transforms.read_columns import check_columns, group_parts, read_columns, take_rows, wanted_columns
from transforms.read_lines import LineCount
from transforms.splits import Range, ReadOptions, SizedRange, SourceFile

_FILE_MAGIC = b"ARROW1"


def cut_arrow(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a file between record batches, a stream not at all.

    Raises `UnreadableFileError` and `MissingColumnError`.
    """
    with open_seekable(file) as stream:
        if not _is_file(stream):
            check_columns(_open_stream(stream).schema, file, options)
            return [SizedRange(Range(file, 0, file.size), None, file.size)]
        schema = _open_file(stream, None).schema
        check_columns(schema, file, options)
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


#: The types of bytes that are laid out as those of text.
_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}


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
        batches = _read_file_batches(stream, part, options) if _is_file(stream) else _read_stream_batches(stream, part.file)
        checked = (check_batch(batch, options) for batch in batches)
        yield from read_columns(take_rows(checked, part.rows), part.file, options, first_row=part.first_row)


def check_batch(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
    """A batch whose offsets stay within its buffers: Arrow takes them from a file as they are. Raises `pa.ArrowInvalid`.

    Text is looked at as bytes: whether it is UTF-8 is the policy's business.
    """
    for name in wanted_columns(options):
        column = batch.column(batch.schema.get_field_index(name))
        as_bytes = _BYTES.get(column.type)
        (column if as_bytes is None else column.view(as_bytes)).validate(full=True)
    return batch


def _read_file_batches(stream: IO[bytes], part: Range, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    schema = _open_file(stream, None).schema
    reader = _open_file(stream, [schema.get_field_index(column) for column in wanted_columns(options)])
    for position in range(part.start, part.end):
        yield reader.get_batch(position)


def _read_stream_batches(stream: IO[bytes], file: SourceFile) -> Iterator[pa.RecordBatch]:
    """All batches; bytes behind the stream's end would be a second stream, which Arrow passes over without a word."""
    yield from _open_stream(stream)
    if stream.read(1):
        raise UnreadableFileError(f"{file.path}: other bytes follow the Arrow stream's end; write each stream to its own file")
