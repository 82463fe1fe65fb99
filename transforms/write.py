"""Writing one output file of a split: under a temporary name, hashed on the way, given its name when it is whole.

A row group closes behind the document with which it reaches `ROW_GROUP_TOKENS` (or `ROW_GROUP_DOCUMENTS`), whatever the batches
were: the bytes of a shard depend on its documents alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import uuid
from collections.abc import Iterator
from types import TracebackType

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from tokenmill.errors import DataError, OutputError
from transforms.journal import delete_files, rename_file
from transforms.parquet_columns import TokenColumn
from transforms.parquet_shard import TokenFile

ROW_GROUP_TOKENS = 1 << 20
ROW_GROUP_DOCUMENTS = 1 << 20
#: What the 32-bit offsets of `list<int32>` can count.
MOST_TOKENS = (1 << 31) - 1


class OutputFile(io.RawIOBase):
    """A binary file that appears under `path` when its context ends without an exception; with one it leaves nothing.

    `size` in bytes and `sha256` are those of what was written. Raises `OutputError` where the file system takes no more.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._temporary = path, f"{path}.tmp-{uuid.uuid4().hex}"
        self._digest = hashlib.sha256()
        self.size = 0
        with self._naming_the_file():
            self._file = FileSystems.create(self._temporary, compression_type=CompressionTypes.UNCOMPRESSED)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            with self._naming_the_file():
                self._file.close()
                rename_file(self._temporary, self._path)
        except OutputError:
            self.discard()
            raise

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data) -> int:  # type: ignore[no-untyped-def, override]
        view = memoryview(data).cast("B")
        self._digest.update(view)
        with self._naming_the_file():
            self._file.write(view)
        self.size += view.nbytes
        return view.nbytes

    @property
    def sha256(self) -> str:
        """Hex digest of what was written so far."""
        return self._digest.hexdigest()

    def discard(self) -> None:
        """Leave nothing."""
        with contextlib.suppress(OSError):
            self._file.close()
        delete_files([self._temporary])

    @contextlib.contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"{self._path}: {error.strerror or error}; make room there, or choose another folder") from error


class ShardWriter:
    """Writes a token shard (`schemas.TOKENS`). A context manager; an exception leaves no file."""

    def __init__(self, path: str, metadata: dict[str, str]) -> None:
        self._output = OutputFile(path)
        self._file = TokenFile(self._output, metadata)
        self._ids: list[pa.StringArray] = []
        self._column = TokenColumn()
        self._rows = 0
        self.documents = 0
        self.tokens = 0

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self._output.discard()
            return
        with self._output:
            self._write_row_group()
            self._file.close()

    def write(self, ids: pa.StringArray, encoded: pa.LargeListArray) -> None:
        """Add documents: their ids, and their token ids."""
        offsets = encoded.offsets.to_numpy()
        start = 0
        while start < len(encoded):
            full = np.searchsorted(offsets, offsets[start] + ROW_GROUP_TOKENS - self._column.tokens, side="left")
            full = min(int(full), start + ROW_GROUP_DOCUMENTS - self._rows)
            stop = min(full, len(encoded))
            self._add_rows(ids.slice(start, stop - start), encoded, offsets[start : stop + 1])
            if stop == full:
                self._write_row_group()
            start = stop

    def describe(self) -> dict[str, int | str]:
        """What the manifest says of the finished shard."""
        return {"documents": self.documents, "tokens": self.tokens, "bytes": self._output.size, "sha256": self._output.sha256}

    def _add_rows(self, ids: pa.StringArray, encoded: pa.LargeListArray, offsets: np.ndarray) -> None:
        lengths = np.diff(offsets)
        if (longest := int(lengths.max())) > MOST_TOKENS:
            doc_id = ids[int(lengths.argmax())]
            raise DataError(f"document {doc_id} has {longest} tokens; a list in a shard holds {MOST_TOKENS}")
        values = encoded.values.slice(offsets[0], offsets[-1] - offsets[0])
        self._ids.append(ids)
        self._column.add(values.to_numpy(), lengths)
        self._rows += len(ids)
        self.documents += len(ids)
        self.tokens += len(values)

    def _write_row_group(self) -> None:
        if self._rows:
            self._file.write_row_group(pa.concat_arrays(self._ids), self._column)
        self._ids, self._column, self._rows = [], TokenColumn(), 0
