"""`TokenDataset` for frameworks. Each is imported where it is used, and by nobody else."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tokenmill.errors import UsageError

if TYPE_CHECKING:
    from tokenmill.dataset import TokenDataset


def _import_framework(name: str) -> Any:
    """Raises `UsageError` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed; pip install 'tokenmill[{name}]', or take NumPy arrays") from None


def torch_dataset(dataset: TokenDataset) -> Any:
    """An IterableDataset of batches as tensors; each of a DataLoader's workers takes every n-th batch of this rank."""
    torch = _import_framework("torch")
    from torch.utils.data import IterableDataset, get_worker_info

    class TorchBatches(IterableDataset):
        """Batches of a `TokenDataset`. `state_dict` and `load_state_dict` are those of the dataset."""

        def __init__(self) -> None:
            self.dataset = dataset

        def __len__(self) -> int:
            return len(self.dataset)

        def __iter__(self) -> Iterator[dict[str, Any]]:
            worker = get_worker_info()
            if worker is None:
                batches = iter(self.dataset)
            else:
                first, step = self.dataset.turn(worker.id, worker.num_workers)
                batches = self.dataset.iterate(first, step)
            for batch in batches:
                yield {name: torch.from_numpy(array) for name, array in batch.items()}

        def state_dict(self, batches: int | None = None) -> dict[str, Any]:
            return self.dataset.state_dict(batches)

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.dataset.load_state_dict(state)

        def set_epoch(self, epoch: int) -> None:
            self.dataset.set_epoch(epoch)

        def __reduce__(self) -> tuple[Any, ...]:
            return torch_dataset, (self.dataset,)

    return TorchBatches()


def put_on_device(dataset: TokenDataset, device: Any) -> Iterator[dict[str, Any]]:
    """Batches as JAX arrays. `device_put` does not wait for the copy: the next batch is on its way while one is used."""
    jax = _import_framework("jax")
    waiting = None
    for batch in dataset:
        coming = jax.device_put(batch, device)
        if waiting is not None:
            yield waiting
        waiting = coming
    if waiting is not None:
        yield waiting


class Rows:
    """The rows of a dataset as a sequence: `len(rows)`, `rows[17]`. A data source for grain, a map-style dataset for torch."""

    def __init__(self, dataset: TokenDataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return self._dataset.rows

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self._dataset.row(int(number))

    def __repr__(self) -> str:
        return f"Rows({self._dataset!r})"
