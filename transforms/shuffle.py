"""Windows of documents, and shards whose documents are shuffled inside each window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType

import numpy as np
import pyarrow as pa

from tokenmill.dataset.packing import permute
from tokenmill.transforms.write import ShardWriter

#: Tokens of the documents that are shuffled or packed together: more than the split of a common size has.
WINDOW_TOKENS = 1 << 24

Columns = dict[str, pa.Array]


class WindowCutter:
    """Collects documents until a window of them is full: it closes behind the document that reaches `WINDOW_TOKENS`.

    Which documents make a window depends on them alone, not on the batches they came in.
    """

    def __init__(self) -> None:
        self._parts: list[Columns] = []
        self._tokens = 0

    def cut(self, columns: Mapping[str, pa.Array]) -> Iterator[Columns]:
        """Take documents (columns of one length, `input_ids` a list among them), and give the windows that are full now."""
        offsets = columns["input_ids"].offsets.to_numpy()
        start, count = 0, offsets.size - 1
        while start < count:
            full = int(np.searchsorted(offsets, offsets[start] + WINDOW_TOKENS - self._tokens, side="left"))
            stop = min(full, count)
            self._parts.append({name: column.slice(start, stop - start) for name, column in columns.items()})
            self._tokens += int(offsets[stop] - offsets[start])
            if stop == full:
                yield from self.rest()
            start = stop

    def rest(self) -> Iterator[Columns]:
        """The window that is not full, if anything is in it; it is empty afterwards."""
        parts, self._parts, self._tokens = self._parts, [], 0
        if parts:
            yield {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}


class ShuffledWriter:
    """Writes documents to a shard, those of a window in an order that the seed decides. A context manager like `ShardWriter`."""

    def __init__(self, shard: ShardWriter, seed: tuple[int, ...]) -> None:
        self._shard, self._seed = shard, seed
        self._cutter = WindowCutter()
        self._windows = 0

    def __enter__(self) -> ShuffledWriter:
        self._shard.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._shard:
            if error is not None:
                raise error
            self._write_windows(self._cutter.rest())

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Add documents."""
        self._write_windows(self._cutter.cut(columns))

    def describe(self) -> dict[str, int | str]:
        """What the manifest says of the finished shard."""
        return self._shard.describe()

    def _write_windows(self, windows: Iterator[Columns]) -> None:
        for window in windows:
            order = pa.array(permute(len(window["input_ids"]), *self._seed, self._windows, 0))
            self._shard.write({name: column.take(order) for name, column in window.items()})
            self._windows += 1
