"""The order in which the rows of a dataset are read. It depends on seed and epoch, not on the reader or on where reading starts.

    row groups, shuffled        3 0 2 1
    windows of two of them      3 0 | 2 1
    rows of a window, shuffled  b a d c ...

Row groups are read whole, and only those of a window need to be in memory. Batches are cut from this order and dealt to ranks and
workers in turn, so the contents of batch i do not depend on ranks and workers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from tokenmill.dataset.packing import Ints, permute

#: The number of windows whose order is cached. Each lane is in one or two.
_KEPT_WINDOWS = 64


@dataclass(frozen=True)
class BatchPlan:
    """Maps the number of a batch to its places in the order: `rows` in total, `batch_size` in each batch.

    With several `lanes`, the order is cut into that many equal stretches, and batches are taken from them in turn. Readers that
    take every n-th batch then each read their own stretches. Rows left over from full rounds come last.
    """

    rows: int
    batch_size: int
    lanes: int = 1
    drop_last: bool = False

    @property
    def lane_batches(self) -> int:
        """The number of full batches of each lane."""
        return self.rows // (self.lanes * self.batch_size)

    def __len__(self) -> int:
        dealt = self.lanes * self.lane_batches
        rest = self.rows - dealt * self.batch_size
        return dealt + (rest // self.batch_size if self.drop_last else -(-rest // self.batch_size))

    def span(self, number: int) -> tuple[int, int]:
        """The start and stop of a batch; numbers past the end start again from batch 0.

        The batches of `BatchPlan(10, 2, lanes=2)` have the places [0 1] [4 5] [2 3] [6 7] [8 9].
        """
        number %= len(self)
        turn, lane = divmod(number, self.lanes)
        place = lane * self.lane_batches + turn if turn < self.lane_batches else number
        start = place * self.batch_size
        return start, min(start + self.batch_size, self.rows)


class RowOrder:
    """The order of the rows in an epoch, for row groups of `group_rows` (int64[g]). Without `seed`, rows keep their own order."""

    def __init__(self, group_rows: Ints, *, seed: int | None, epoch: int, window: int) -> None:
        self._seed, self._epoch = seed, epoch
        self.window = 1 if seed is None else window
        count = group_rows.size
        self._groups = np.arange(count) if seed is None else permute(count, seed, epoch, 0)
        ends = np.cumsum(group_rows[self._groups])
        self._ends: list[int] = ends.tolist()
        self._begins: list[int] = [0, *self._ends[:-1]]
        self._window_ends: list[int] = [*self._ends[self.window - 1 : count - 1 : self.window], *self._ends[-1:]]
        self._shuffled: OrderedDict[int, Ints] = OrderedDict()

    def windows(self, start: int, stop: int) -> range:
        """The windows that contain the places start to stop of the order."""
        return range(bisect_right(self._window_ends, start), bisect_right(self._window_ends, stop - 1) + 1)

    def groups(self, window: int) -> list[int]:
        """The row groups of a window."""
        found: list[int] = self._groups[window * self.window : (window + 1) * self.window].tolist()
        return found

    def locate(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """The places start to stop of the order as runs of rows: `(row group, first row, row after the last)`."""
        places = range(start, stop)
        if self._seed is not None:
            places = np.concatenate([self._shuffle(window, start, stop) for window in self.windows(start, stop)]).tolist()
        runs: list[tuple[int, int, int]] = []
        done = 0
        while done < len(places):
            turn = bisect_right(self._ends, places[done])
            row = places[done] - self._begins[turn]
            length = 1 if self._seed is not None else min(stop, self._ends[turn]) - places[done]
            runs.append((int(self._groups[turn]), row, row + length))
            done += length
        return runs

    def _shuffle(self, window: int, start: int, stop: int) -> Ints:
        """The places start to stop within the window, as places in the order where only row groups are shuffled."""
        begin, end = self._window_ends[window - 1] if window else 0, self._window_ends[window]
        if window not in self._shuffled:
            self._shuffled[window] = permute(end - begin, self._seed or 0, self._epoch, 1, window)
            if len(self._shuffled) > _KEPT_WINDOWS:
                self._shuffled.popitem(last=False)
        return begin + self._shuffled[window][max(start - begin, 0) : min(stop, end) - begin]
