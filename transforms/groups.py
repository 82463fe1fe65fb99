"""The word counts of one split on disk: what a run that goes on, and a build with new files, need not count again.

A group is a stream of Arrow batches in the order in which they were counted, each with the number of its hash partition;
`first_seen` is the word's number within the split, so that a group does not depend on the split's place in the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystem import CompressionTypes

from tokenmill import schemas
from tokenmill.training.word_counts import SPLIT_SHIFT, Partition
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.write import OutputFile

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class GroupWriter:
    """Writes the word counts of split `index` to `path`. A context manager; an exception leaves no file."""

    def __init__(self, path: str, index: int) -> None:
        self._output = OutputFile(path)
        self._base = index << SPLIT_SHIFT
        self._stream = pa.ipc.new_stream(self._output, schemas.WORD_COUNTS, options=_OPTIONS)

    def __enter__(self) -> GroupWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._stream.close()
        self._output.__exit__(kind, error, trace)

    def write(self, partition: int, table: pa.Table) -> None:
        """Add a table as `WordCounter` gives it."""
        for batch in _shift(table, -self._base).combine_chunks().to_batches():
            self._stream.write_batch(batch, custom_metadata={"partition": str(partition)})

    def describe(self) -> dict[str, Any]:
        """Size and hash of the finished file."""
        return {"bytes": self._output.size, "sha256": self._output.sha256}


def read_group(path: str, index: int) -> Iterator[Partition]:
    """`(partition, table)` as `WordCounter` gave them when the split, now number `index`, was counted."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file, pa.ipc.open_stream(file) as stream:
        while True:
            try:
                batch, metadata = stream.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            yield int(metadata[b"partition"]), _shift(pa.Table.from_batches([batch]), index << SPLIT_SHIFT)


def _shift(table: pa.Table, by: int) -> pa.Table:
    """The same with `first_seen` moved."""
    seen = pa.array(table["first_seen"].to_numpy() + np.int64(by))
    return table.set_column(2, schemas.WORD_COUNTS.field("first_seen"), seen)
