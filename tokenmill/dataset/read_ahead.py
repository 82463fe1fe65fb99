"""Reads row groups ahead of time, keeps them while they are needed, and assembles batches from them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tokenmill.dataset.block_order import BatchPlan, RowOrder

Arrays = dict[str, npt.NDArray[np.integer]]

#: More threads do not read faster.
_MOST_THREADS = 4


class GroupReader:
    """Yields the batches `numbers` of a plan over an order of rows.

    `read` reads a row group by its number. Threads read the row groups of `ahead` windows of the order in advance. The row groups
    of each lane's current and previous window are kept.
    """

    def __init__(self, read: Callable[[int], Arrays], order: RowOrder, plan: BatchPlan, numbers: range, ahead: int) -> None:
        self._read, self._order, self._plan, self._numbers = read, order, plan, numbers
        self._ahead = ahead * order.window
        self._coming = self._list_groups()
        self._pending: dict[int, Future[Arrays]] = {}
        self._held: OrderedDict[int, Arrays] = OrderedDict()
        self._latest: range | None = None
        self._pool = ThreadPoolExecutor(min(ahead, _MOST_THREADS)) if ahead else None

    def __enter__(self) -> GroupReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def batches(self) -> Iterator[Arrays]:
        """Yield all batches. If the rows of a batch are adjacent in a row group, it is a view; otherwise the rows are copied."""
        for start, stop in map(self._plan.span, self._numbers):
            windows = self._order.windows(start, stop)
            if windows != self._latest:
                self._hold(windows)
                self._latest = windows
            runs = self._order.locate(start, stop)
            parts = [{name: array[begin:end] for name, array in self._held[group].items()} for group, begin, end in runs]
            yield parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _hold(self, windows: range) -> None:
        """Load the row groups of these windows, and start reading the next ones."""
        needed = [group for window in windows for group in self._order.groups(window)]
        absent = [group for group in needed if group not in self._held]
        for group in absent:
            self._begin(group)
        while len(self._pending) - len(absent) < self._ahead and (group := next(self._coming, -1)) >= 0:
            if group not in self._held:
                self._begin(group)
        for group in needed:
            self._held[group] = self._held[group] if group in self._held else self._finish(group)
            self._held.move_to_end(group)
        while len(self._held) > 2 * len(needed) * self._plan.lanes:
            self._held.popitem(last=False)

    def _begin(self, group: int) -> None:
        if self._pool is not None and group not in self._pending:
            self._pending[group] = self._pool.submit(self._read, group)

    def _finish(self, group: int) -> Arrays:
        return self._pending.pop(group).result() if group in self._pending else self._read(group)

    def _list_groups(self) -> Iterator[int]:
        """The row groups in the order in which they are needed. A group is repeated if it is needed again much later."""
        latest: OrderedDict[int, None] = OrderedDict()
        for start, stop in map(self._plan.span, self._numbers):
            for window in self._order.windows(start, stop):
                if window not in latest:
                    yield from self._order.groups(window)
                latest[window] = None
                latest.move_to_end(window)
                if len(latest) > 2 * self._plan.lanes:
                    latest.popitem(last=False)
