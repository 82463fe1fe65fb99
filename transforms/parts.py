"""Parts of a split: each becomes a shard, and none holds more text than a shard may.

A split that cannot be cut while it is planned (compressed text, one large row group) is cut while it is read. A part ends before
the document that would take its texts above the limit, so where it ends depends on the documents alone. Splits of the usual
size have one part: the limit is twice the size that they are cut to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tokenmill.arrow import text_buffers
from tokenmill.transforms.read_batches import DocumentBatch

#: A shard holds at most so many times the text that a split is planned to hold, unless a single document is longer.
SHARD_SPLITS = 2
_NO_ROW = np.iinfo(np.int64).max


class PartReader:
    """Deals the batches of a split out to its parts. `most`: bytes of text in a part; None: there is one part."""

    def __init__(self, batches: Iterable[DocumentBatch], most: int | None) -> None:
        self._batches, self._most = iter(batches), most
        self._waiting: DocumentBatch | None = None
        self.is_done = False

    def part(self) -> Iterator[DocumentBatch]:
        """The batches of the next part. To be read to its end; after the last part `is_done` is true."""
        held = 0
        while (batch := self._waiting or next(self._batches, None)) is not None:
            self._waiting = None
            row = None if self._most is None else _find_end(batch, held, self._most)
            if row is not None:
                self._waiting = batch.between(row, _NO_ROW)
                batch = batch.between(batch.first_row, row)
            if batch.documents.num_rows or batch.rejects:
                yield batch
            if row is not None:
                return
            held += sum(text_buffers(text)[0].size for text in batch.texts)
        self.is_done = True


def _find_end(batch: DocumentBatch, held: int, most: int) -> int | None:
    """The row of the document in front of which a part ends that holds so many bytes already; None where it goes on."""
    buffers = [text_buffers(text) for text in batch.texts]
    if held + sum(text.size for text, _ in buffers) <= most:
        return None
    ends = held + np.sum([ends for _, ends in buffers], axis=0)
    begins = np.concatenate([[held], ends[:-1]])
    places = np.flatnonzero((ends > most) & (begins > 0))
    return int(batch.rows[places[0]]) if places.size else None


class RowsHeld:
    """Which rows of which files a part holds."""

    def __init__(self) -> None:
        self._files: dict[str, list[int]] = {}

    def add(self, batch: DocumentBatch) -> None:
        rows = [*batch.rows[[0, -1]].tolist()] if batch.rows.size else []
        rows += [batch.rejects[place].row for place in ((0, -1) if batch.rejects else ())]
        held = self._files.setdefault(batch.file, [min(rows), 0])
        held[1] = max(rows) + 1

    def describe(self) -> list[dict[str, int | str]]:
        """For the manifest, in the order of the corpus: `[{"file": "a.gz", "from_row": 0, "to_row": 812}]`."""
        return [{"file": file, "from_row": first, "to_row": last} for file, (first, last) in self._files.items()]
