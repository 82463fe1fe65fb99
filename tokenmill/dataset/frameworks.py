"""Adapters of `TokenDataset` for frameworks. A framework is imported only when its adapter is used."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tokenmill.dataset.places import Worker
from tokenmill.errors import UsageError

if TYPE_CHECKING:
    from tokenmill.dataset.token_dataset import TokenDataset

#: The label that torch's `cross_entropy` ignores by default.
_IGNORED_LABEL = -100
_DTYPES = ("uint8", "int8", "int16", "int32", "int64")


def _import_framework(name: str) -> Any:
    """Import a framework. Raises `UsageError` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed; pip install 'tokenmill[{name}]', or take NumPy arrays") from None


class LoaderPass:
    """One pass of one reader of a loader over its batches: an iterator with a state.

    `worker` is None in the loader's own process. torchdata's `StatefulDataLoader` takes a state from each worker with each batch.
    """

    def __init__(self, dataset: TokenDataset, worker: Worker | None, columns: tuple[str, ...], convert: Callable[[Any], Any]):
        self._dataset, self._worker, self._columns, self._convert = dataset, worker, columns, convert
        self._start = dataset.place.begin(loader=True) if worker is None else dataset.place.join(worker)
        self._taken = 0
        self._batches: Iterator[Any] | None = None

    def __iter__(self) -> LoaderPass:
        return self

    def __next__(self) -> Any:
        dataset, start = self._dataset, self._start
        if self._batches is None:
            numbers = dataset.share(start.batch, *self._reader(), self._taken)
            self._batches = dataset.read_batches(start.epoch, numbers, self._columns)
        batch = next(self._batches, None)
        if batch is None:
            if self._worker is None:
                dataset.place.finish(start)
            raise StopIteration
        self._taken += 1
        if self._worker is None:
            dataset.place.count(start, start.batch + self._taken * dataset.world)
        return self._convert(batch)

    def state_dict(self) -> dict[str, Any]:
        """The start of the pass, the reader, and the number of batches that it has taken."""
        (worker, workers), start = self._reader(), self._start
        own = {"taken": self._taken, "worker": worker, "workers": workers}
        place = self._dataset.describe_place(start.epoch, start.batch)
        return {**place, **own, "rank": self._dataset.rank, "world": self._dataset.world}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of the same worker of a loader with as many workers. The next pass begins the next epoch."""
        self.begin_at(*self._dataset.check_state(state))
        reader = dict(zip(("worker", "workers"), self._reader(), strict=True))
        for name, value in {**reader, "rank": self._dataset.rank, "world": self._dataset.world}.items():
            if state.get(name) != value:
                raise UsageError(f"this state was taken with {name}={state.get(name)}, here it is {value}; use the same")
        self._taken = int(state.get("taken", 0))

    def begin_at(self, epoch: int, batch: int) -> None:
        """Make the whole pass begin at another batch."""
        self._start, self._batches = self._dataset.place.move(self._worker, epoch, batch), None

    def _reader(self) -> tuple[int, int]:
        return (0, 1) if self._worker is None else (self._worker.worker, self._worker.workers)


def find_worker() -> Worker | None:
    """The `DataLoader` worker that this process is, or None."""
    from torch.utils.data import get_worker_info

    if (info := get_worker_info()) is None:
        return None
    parent = multiprocessing.parent_process()
    return Worker(0 if parent is None else parent.pid or 0, info.seed - info.id, info.num_workers, info.id)


def torch_dataset(dataset: TokenDataset, dtype: Any = None, labels: bool = False) -> Any:
    """Make an IterableDataset of batches as tensors. Each of n DataLoader workers takes every n-th batch of this rank."""
    torch = _import_framework("torch")
    from torch.utils.data import IterableDataset

    kind = _find_dtype(torch, dtype)
    with_mask = labels and dataset.has_column("attention_mask") and "attention_mask" not in dataset.columns
    columns = (*dataset.columns, "attention_mask") if with_mask else dataset.columns
    dataset.place.share()

    def convert(batch: Mapping[str, Any]) -> dict[str, Any]:
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        found = {name: tensors[name] if kind is None else tensors[name].to(kind) for name in dataset.columns}
        return {**found, "labels": _make_labels(tensors)} if labels else found

    class TorchBatches(IterableDataset):
        """The batches of a `TokenDataset`. `set_epoch`, `state_dict` and `load_state_dict` are those of the dataset.

        In a worker, `set_epoch` and `load_state_dict` affect only the worker's next pass. `state_dict` is empty there, because
        the iterators have the state.
        """

        def __init__(self) -> None:
            self.dataset = dataset
            self._begin: tuple[int, int] | None = None

        def __len__(self) -> int:
            return len(self.dataset)

        def __iter__(self) -> Iterator[dict[str, Any]]:
            batches = LoaderPass(self.dataset, find_worker(), columns, convert)
            if self._begin is not None:
                batches.begin_at(*self._begin)
                self._begin = None
            return batches

        def state_dict(self, batches: int | None = None, *, epoch: int | None = None) -> dict[str, Any]:
            return {} if find_worker() is not None else self.dataset.state_dict(batches, epoch=epoch)

        def load_state_dict(self, state: dict[str, Any]) -> None:
            if find_worker() is None:
                self.dataset.load_state_dict(state)
            elif state:
                self._begin = self.dataset.check_state(state)

        def set_epoch(self, epoch: int) -> None:
            if find_worker() is None:
                self.dataset.set_epoch(epoch)
            else:
                self._begin = (epoch, 0)

        def __reduce__(self) -> tuple[Any, ...]:
            return torch_dataset, (self.dataset, dtype, labels)

    return TorchBatches()


def _find_dtype(torch: Any, dtype: Any) -> Any:
    """Find an integer type of torch by name or value. Raises UsageError for any other."""
    kind = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if (kind is not None and kind in [getattr(torch, name) for name in _DTYPES]) or dtype is None:
        return kind
    raise UsageError(f"dtype is {dtype!r}; give an integer type of torch, such as torch.int64 or 'int64'")


def _make_labels(tensors: Mapping[str, Any]) -> Any:
    """The ids as int64, with -100 for padding."""
    import torch

    ids, mask = tensors["input_ids"], tensors.get("attention_mask")
    found = ids.to(torch.int64, copy=True)
    return found if mask is None else found.masked_fill_(mask == 0, _IGNORED_LABEL)


def put_on_device(dataset: TokenDataset, device: Any) -> Iterator[dict[str, Any]]:
    """Yield batches as JAX arrays. `device_put` does not wait for the copy, so the next batch is copied while one is in use."""
    jax = _import_framework("jax")
    return dataset.take(lambda batches: _stay_ahead(jax.device_put(batch, device) for batch in batches))


def _stay_ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the same batches, but request the next batch before yielding one."""
    waiting = next(batches, None)
    while waiting is not None:
        coming = next(batches, None)
        yield waiting
        waiting = coming


class Rows:
    """The rows of a dataset as a sequence: `len(rows)`, `rows[17]`. A data source for grain, a map-style dataset for torch."""

    def __init__(self, dataset: TokenDataset, columns: tuple[str, ...] | None = None) -> None:
        self._dataset, self._columns = dataset, columns

    def __len__(self) -> int:
        return self._dataset.rows

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self._dataset.row(int(number), self._columns)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        return f"Rows({self._dataset!r})"
