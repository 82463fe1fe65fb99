"""Writing one output file of a split: under a temporary name, hashed on the way, given its name when it is whole.

A row group closes behind the document with which it reaches `ROW_GROUP_TOKENS` (or `ROW_GROUP_DOCUMENTS`), whatever the batches
were: the bytes of a shard depend on its documents alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import IO, cast

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes

from tokenmill import schemas
from tokenmill.errors import DataError, OutputError, StoreError, TokenmillError
from tokenmill.parquet.shard import open_file
from tokenmill.transforms.files import delete_files, rename_file
from tokenmill.transforms.stores import FileSystems

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
        except TokenmillError:
            self.discard()
            raise

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data) -> int:  # type: ignore[no-untyped-def]
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
        with contextlib.suppress(OSError, StoreError):
            self._file.close()
        with contextlib.suppress(StoreError):  # the next run finds what stays by its name
            delete_files([self._temporary])

    @contextlib.contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"{self._path}: {error.strerror or error}; make room there, or choose another folder") from error


class ShardWriter:
    """Writes a token shard: rows of `schema`, which has the lists `input_ids` (and `doc_id`, unless rows are no documents).

    Columns are given by name, as arrays that can be cast to the types of the schema. A context manager; an exception leaves no
    file, and neither do no rows. `rows` are those written, `tokens` the ids in them. A row group closes at `row_group_tokens`.
    """

    def __init__(
        self, path: str, metadata: dict[str, str], schema: pa.Schema = schemas.TOKENS, *, row_group_tokens: int | None = None
    ) -> None:
        self._row_group_tokens = row_group_tokens or ROW_GROUP_TOKENS
        self._output = OutputFile(path)
        self._schema = schema
        self._file = open_file(cast(IO[bytes], self._output), schema, metadata)
        self._begin_row_group()
        self.rows = 0
        self.tokens = 0

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self._abandon()
            return
        if not self.rows:
            self._abandon()
            return
        try:
            with self._output:
                self._write_row_group()
                self._file.close()
        except BaseException:
            self._file.abandon()
            raise

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Add rows: an array for each column of the schema, by name, all of one length, lists without nulls."""
        offsets = _list_offsets(columns["input_ids"])
        start, rows = 0, offsets.size - 1
        while start < rows:
            full = np.searchsorted(offsets, offsets[start] + self._row_group_tokens - self._group_tokens, side="left")
            full = min(int(full), start + ROW_GROUP_DOCUMENTS - self._group_rows)
            stop = min(full, rows)
            self._check_lengths(columns, np.diff(offsets[start : stop + 1]), start)
            self._add_rows(columns, start, stop, int(offsets[stop] - offsets[start]))
            if stop == full:
                self._write_row_group()
            start = stop

    def describe(self) -> dict[str, int | str]:
        """What the manifest says of the finished shard."""
        return {"rows": self.rows, "tokens": self.tokens, "bytes": self._output.size, "sha256": self._output.sha256}

    def _abandon(self) -> None:
        self._file.abandon()
        self._output.discard()

    def _check_lengths(self, columns: Mapping[str, pa.Array], lengths: np.ndarray, start: int) -> None:
        if (longest := int(lengths.max())) > MOST_TOKENS:
            name = columns["doc_id"][start + int(lengths.argmax())] if "doc_id" in columns else start + int(lengths.argmax())
            raise DataError(f"document {name} has {longest} tokens; a list in a shard holds {MOST_TOKENS}")

    def _add_rows(self, columns: Mapping[str, pa.Array], start: int, stop: int, tokens: int) -> None:
        for name, parts in self._parts.items():
            parts.append(columns[name].slice(start, stop - start))
        self._group_rows += stop - start
        self._group_tokens += tokens
        self.rows += stop - start
        self.tokens += tokens

    def _write_row_group(self) -> None:
        if self._group_rows:
            self._file.write_row_group(self._parts)
        self._begin_row_group()

    def _begin_row_group(self) -> None:
        self._parts: dict[str, list[pa.Array]] = {name: [] for name in self._schema.names}
        self._group_rows = self._group_tokens = 0


def _list_offsets(lists: pa.Array) -> np.ndarray:
    """int64[d + 1]: where each list begins and ends, of lists of any kind."""
    if pa.types.is_fixed_size_list(lists.type):
        return np.arange(len(lists) + 1, dtype=np.int64) * lists.type.list_size
    offsets: np.ndarray = lists.offsets.to_numpy()
    return offsets
