"""`TokenDataset`: reads batches, blocks and documents of a dataset written by `tokenmill encode`, from any file system.

    dataset = TokenDataset("blocks", batch_size=8, shuffle=True, seed=1)
    for batch in dataset:                     # one epoch
        batch["input_ids"]                    # int32[8, 2048]
    dataset.state_dict()                      # load_state_dict continues at exactly this batch
    dataset.document("part1.jsonl.gz:17")     # int32[n]

The contents of batch i of an epoch depend only on the dataset, `batch_size`, `seed`, `window` and `lanes`. Ranks and workers each
take every n-th batch; together they return the same batches as a single reader.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tokenmill.dataset.block_order import BatchPlan, RowOrder
from tokenmill.dataset.block_rows import PART_COLUMNS, join_parts, list_parts
from tokenmill.dataset.packing import Ints
from tokenmill.dataset.places import Place, Start
from tokenmill.dataset.read_ahead import GroupReader
from tokenmill.dataset.shard_files import ShardFiles
from tokenmill.errors import DataError, UsageError
from tokenmill.schemas import count_rows

if TYPE_CHECKING:
    from tokenmill.tokenizer import Tokenizer

Batch = dict[str, npt.NDArray[np.integer]]

#: The columns with a number for each token, in the order of the columns of a batch.
BATCH_COLUMNS = ("input_ids", "attention_mask", "segment_ids", "position_ids")
_STATE_VERSION = 1
#: The settings that must be the same for a dataset to continue from a state.
_SETTINGS = ("batch_size", "shuffle", "seed", "window", "lanes", "drop_last")
#: What to do with the remaining batches if they cannot be divided evenly among the ranks.
_REMAINDERS = ("repeat", "drop", "keep")


class TokenDataset:
    """A finished dataset, read-only.

    `folder` is a path or a URI (`s3://...`); `filesystem` is a file system of pyarrow or fsspec, for URIs that need one.
    Iterating returns batches of packed blocks, from the place where it last stopped to the end of the epoch. The next iteration
    returns the batches of the next epoch.

    - `batch_size`: the blocks in a batch. The last batch of an epoch may have fewer; `drop_last` omits it.
    - `columns`: some of `BATCH_COLUMNS`, by default those that the dataset has.
    - `shuffle`: shuffles the row groups by `seed` and epoch, and the blocks within each `window` of row groups.
    - `rank`, `world`: each rank takes every `world`-th batch.
    - `lanes`: if this is a multiple of the number of workers of all ranks together, each worker reads row groups of its own. The
      order of the batches depends on it.
    - `remainder`: by default, every rank gets the same number of batches. If the batches do not divide by `world`, `repeat`
      repeats the first batches of the epoch (the default), `drop` omits the last ones (the default with `drop_last`), and `keep`
      gives some ranks one batch more than others.
    - `read_ahead`: how many windows (without `shuffle`, row groups) threads read in advance; 0 reads them when they are needed.

    You may keep the arrays but not write to them: they may be views of a row group. Raises DataError if the folder is not a
    finished dataset, and UsageError for options that do not fit the dataset.
    """

    def __init__(
        self,
        folder: str,
        *,
        batch_size: int = 8,
        columns: tuple[str, ...] | None = None,
        shuffle: bool = False,
        seed: int = 0,
        window: int = 16,
        lanes: int = 1,
        rank: int = 0,
        world: int = 1,
        drop_last: bool = False,
        remainder: str | None = None,
        read_ahead: int = 2,
        filesystem: Any = None,
    ) -> None:
        self._files = ShardFiles(folder, filesystem)
        self.folder, self.manifest = folder, self._files.manifest
        for name, value in {"batch_size": batch_size, "window": window, "lanes": lanes, "world": world}.items():
            if value < 1:
                raise UsageError(f"{name} is {value}; give 1 or more")
        if not 0 <= rank < world:
            raise UsageError(f"rank is {rank}; with a world of {world}, ranks are 0 to {world - 1}")
        self.remainder = remainder or ("drop" if drop_last else "repeat")
        if self.remainder not in _REMAINDERS:
            raise UsageError(f"remainder is {remainder!r}; give {', '.join(map(repr, _REMAINDERS))}")
        self.batch_size, self.shuffle, self.seed, self.window, self.lanes = batch_size, shuffle, seed, window, lanes
        self.rank, self.world, self.drop_last, self._read_ahead = rank, world, drop_last, read_ahead
        self.block: int | None = self.manifest.get("packing", {}).get("block")
        self.columns = self._choose_columns(columns)
        self._place = Place()
        self._under_way: Start | None = None
        self._places: list[tuple[int, int]] | None = None
        self._sizes = np.empty(0, np.int64)

    def __repr__(self) -> str:
        rows = f"blocks of {self.block}" if self.block else "documents"
        return f"TokenDataset({self.folder!r}: {self.rows:,} {rows}, {self.manifest['totals']['tokens']:,} tokens)"

    # --- description

    @property
    def rows(self) -> int:
        """The number of rows: blocks or, in a dataset that is not packed, rows of documents."""
        return sum(count_rows(shard) for shard in self._files.shards)

    @property
    def embedding_rows(self) -> int:
        """The number of rows that an embedding layer needs for all ids."""
        return int(self.manifest["tokenizer"]["embedding_rows"])

    def tokenizer(self) -> Tokenizer:
        """Load the tokenizer that made the ids, which is stored in the folder."""
        from tokenmill.formats import recognition

        return recognition.loads(self._files.read_file("tokenizer.json"))

    # --- single rows and documents

    def row(self, number: int, columns: tuple[str, ...] | None = None) -> dict[str, Any]:
        """Read a row by its number: a block as its columns (arrays, `doc_ids` a list), a document as `doc_id` and `input_ids`.

        Reads one row group, or only `columns` of it. `dataset.row(0)["input_ids"]` is int32[block].
        """
        if not 0 <= number < self.rows:
            raise UsageError(f"row {number} is none; there are rows 0 to {self.rows - 1}")
        shard, within = self._find_shard(number)
        group, within = _find_group(self._files.footer(shard).rows, within)
        names = list(self._files.footer(shard).chunks[group])
        for name in columns or ():
            if name not in names:
                raise UsageError(f"column {name!r}: rows of this dataset have {', '.join(names)}")
        names = names if columns is None else list(columns)
        (row,) = self._files.read_table(shard, group, names).slice(within, 1).to_pylist()
        texts = ("doc_id", "doc_ids")
        return {name: value if name in texts else _to_array(name, value) for name, value in row.items()}

    def document(self, doc_id: str) -> npt.NDArray[np.int32]:
        """Read the tokens of a document, without EOS: int32[n]. Reads the ids, and the tokens of row groups with the document.

        The special tokens of the tokenizer's template are included. If several documents have the id, returns the first. Raises
        DataError if there is none.
        """
        for shard in range(len(self._files.shards)):
            parts = []
            footer = self._files.footer(shard)
            for group, id_range in enumerate(footer.id_ranges):
                if id_range is not None and not id_range[0] <= doc_id <= id_range[1]:
                    continue
                if self.block is None:
                    found = self._find_document(shard, group, doc_id)
                    if found is not None:
                        return found
                elif doc_id in self._files.read_table(shard, group, ["doc_ids"])["doc_ids"].combine_chunks().values.to_pylist():
                    blocks = self._files.read_table(shard, group, list(PART_COLUMNS))
                    parts += [part for part in list_parts(blocks) if part.doc_id == doc_id]
            for _, tokens in join_parts(parts):
                return tokens
        hidden = "; documents without a token are in no block" if "empty_documents" in self.manifest["totals"] else ""
        raise DataError(f"{self.folder}: no document is called {doc_id!r}; ids are those of the column doc_id or doc_ids{hidden}")

    # --- batches

    def __len__(self) -> int:
        """The number of batches of this rank in the current pass or, between passes, in the next one.

        After `load_state_dict`, the first pass is the rest of an epoch; later passes are whole epochs.
        """
        _, batch = self._place.standing().next_start()
        return len(self.share(batch if self._under_way is None else self._under_way.batch))

    def __iter__(self) -> Iterator[Batch]:
        yield from self.take(lambda batches: batches)

    def take(self, convert: Callable[[Iterator[Batch]], Iterable[Any]]) -> Iterator[Any]:
        """Yield the rest of the epoch, converted by `convert`. It may read ahead: a batch counts only once it is yielded."""
        start = self._place.begin()
        self._under_way = start
        try:
            for taken, batch in enumerate(convert(self.read_batches(start.epoch, self.share(start.batch))), 1):
                self._place.count(start, start.batch + taken * self.world)
                yield batch
            self._place.finish(start)
        finally:
            if self._under_way is start:
                self._under_way = None

    def turn(self, worker: int, workers: int) -> tuple[int, int]:
        """The first batch and the step of one of this rank's workers, for `iterate`."""
        _, batch = self._place.standing().next_start()
        return batch + self.rank + self.world * worker, self.world * workers

    def iterate(self, first: int, step: int) -> Iterator[Batch]:
        """Yield the batches `first`, `first + step`, ... of the epoch. Does not move the dataset's place."""
        epoch, batch = self._place.standing().next_start()
        yield from self.read_batches(epoch, range(first, self._end(batch), step))

    def share(self, start: int, worker: int = 0, workers: int = 1, taken: int = 0) -> range:
        """The remaining batches of one of this rank's workers, which has `taken` some, in a pass that begins at batch `start`.

        With `repeat`, numbers past the end of the epoch stand for its first batches.
        """
        first = start + self.rank + self.world * (worker + workers * taken)
        return range(first, self._end(start), self.world * workers)

    def read_batches(self, epoch: int, numbers: range, columns: tuple[str, ...] | None = None) -> Iterator[Batch]:
        """Yield the batches `numbers` of an epoch. Does not move the dataset's place."""
        plan = self._plan()
        order = RowOrder(self._group_rows(), seed=self.seed if self.shuffle else None, epoch=epoch, window=self.window)
        read = partial(self._read_group, columns=self.columns if columns is None else columns)
        with GroupReader(read, order, plan, numbers, self._read_ahead) as reader:
            yield from reader.batches()

    @property
    def place(self) -> Place:
        """The current reading position, for loaders."""
        return self._place

    @property
    def epoch(self) -> int:
        """The number of the epoch. With `shuffle`, each epoch has its own order.

        If the workers of a `DataLoader` read, this is the epoch of the pass that began last.
        """
        return self._place.standing().epoch

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass start at the beginning of an epoch."""
        self._place.set(_check_number("epoch", epoch), 0)

    def state_dict(self, batches: int | None = None, *, epoch: int | None = None) -> dict[str, Any]:
        """The position of iteration, as plain numbers and strings. It is the same on every rank.

        The workers of torch's DataLoader read ahead, and the dataset does not learn how many batches were used. In this case pass
        the number of `batches` that this rank has used of `epoch`, by default the epoch of the pass that began last. Raises
        UsageError if the number is needed and missing.
        """
        standing = self._place.standing()
        if batches is None and standing.unknown:
            raise UsageError(
                f"workers of a DataLoader read epoch {standing.latest} of {self.folder}, so how many batches were used is not"
                " known here; give state_dict(batches=N), or use torchdata's StatefulDataLoader and its state_dict()"
            )
        if batches is None:
            return self.describe_place(standing.epoch, standing.batch)
        found = standing.latest if epoch is None else _check_number("epoch", epoch)
        return self.describe_place(found, _check_number("batches", batches) * self.world)

    def describe_place(self, epoch: int, batch: int) -> dict[str, Any]:
        """The state for a position."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        return {"version": _STATE_VERSION, "epoch": epoch, "batch": batch, "dataset": self._identity, **settings}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state: the next batch is the one that would have come next there, for any number of ranks.

        The next pass returns the rest of that epoch (no batch if it was at its end), and later passes return whole epochs. Raises
        UsageError for the state of another dataset or of other settings.
        """
        self._place.set(*self.check_state(state))

    def check_state(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """The epoch and batch of a state. Raises UsageError as `load_state_dict` does."""
        if not isinstance(state, Mapping) or state.get("version") != _STATE_VERSION or state.get("dataset") != self._identity:
            raise UsageError(f"this state is of another dataset than {self.folder}; load it into the one it was taken from")
        for name in _SETTINGS:
            if state.get(name) != getattr(self, name):
                raise UsageError(
                    f"this state was taken with {name}={state.get(name)}, here it is {getattr(self, name)}; use the same"
                )
        return _check_number("epoch", state.get("epoch")), _check_number("batch", state.get("batch"))

    # --- frameworks

    def to_torch(self, *, dtype: Any = None, labels: bool = False) -> Any:
        """Make a `torch.utils.data.IterableDataset` of batches (dicts of int tensors) for `DataLoader(..., batch_size=None)`.

        The batches and their order are the same for any number of workers. Each new pass of a loader begins the next epoch, even
        if the pass before was not read to its end. `dtype` is an integer type of torch or its name (`"int64"`) for all columns.
        `labels` adds the column `labels`: int64, the ids with -100 for padding, which `cross_entropy` ignores.
        """
        from tokenmill.dataset.frameworks import torch_dataset

        return torch_dataset(self, dtype, labels)

    def to_jax(self, device: Any = None) -> Iterator[dict[str, Any]]:
        """Yield batches on a JAX device (or sharding). The next batch is copied while one is in use."""
        from tokenmill.dataset.frameworks import put_on_device

        return put_on_device(self, device)

    def to_rows(self, columns: tuple[str, ...] | None = None) -> Any:
        """The rows as a sequence with `len` and `[]`: a data source for grain, a map-style dataset for torch.

        `columns` selects columns. `DataLoader` can collate rows only if each column has the same size in all rows.
        """
        from tokenmill.dataset.frameworks import Rows

        return Rows(self, columns)

    # --- inside

    def has_column(self, name: str) -> bool:
        """Whether batches can have a column."""
        return name in BATCH_COLUMNS and name in self.manifest.get("packing", {}).get("columns", ())

    def _choose_columns(self, columns: tuple[str, ...] | None) -> tuple[str, ...]:
        there = tuple(filter(self.has_column, BATCH_COLUMNS))
        for name in columns or ():
            if name not in there:
                raise UsageError(
                    f"column {name!r}: this dataset has {', '.join(there) or 'documents of any length, and no batches'}"
                )
        return there if columns is None else tuple(columns)

    def _plan(self) -> BatchPlan:
        if self.block is None:
            raise UsageError(f"{self.folder} holds documents of any length; batches need blocks: encode with --block N")
        return BatchPlan(self.rows, self.batch_size, self.lanes, self.drop_last)

    def _end(self, start: int) -> int:
        """The end of a pass that begins at batch `start`."""
        count = len(self._plan())
        left, uneven = max(0, count - start), max(0, count - start) % self.world
        if self.remainder == "keep" or not uneven:
            return start + left
        return start + left - uneven + (self.world if self.remainder == "repeat" else 0)

    def _group_rows(self) -> Ints:
        """The number of rows of each row group, computed from the manifest."""
        size = int(self.manifest["packing"]["row_group_blocks"])
        if self._places is None:
            counts = [count_rows(shard) for shard in self._files.shards]
            self._places = [(shard, group) for shard, rows in enumerate(counts) for group in range(-(-rows // size))]
            self._sizes = np.array([min(size, counts[shard] - group * size) for shard, group in self._places], np.int64)
        return self._sizes

    def _read_group(self, number: int, columns: tuple[str, ...]) -> Batch:
        """Read the arrays of a row group: rows x block for each column."""
        shard, group = (self._places or [])[number]
        pad = self.manifest["packing"]["pad"]
        fill = {"input_ids": pad["id"] if pad else 0}
        rows, block = int(self._sizes[number]), self.block or 0
        return {name: self._files.read_matrix(shard, group, name, (rows, block), fill.get(name, 0)) for name in columns}

    def _find_shard(self, row: int) -> tuple[int, int]:
        for number, shard in enumerate(self._files.shards):
            if row < count_rows(shard):
                return number, row
            row -= count_rows(shard)
        raise AssertionError(row)

    def _find_document(self, shard: int, group: int, doc_id: str) -> npt.NDArray[np.int32] | None:
        ids = self._files.read_table(shard, group, ["doc_id"])["doc_id"].to_pylist()
        if doc_id not in ids:
            return None
        lists = self._files.read_table(shard, group, ["input_ids"])["input_ids"]
        return np.array(lists[ids.index(doc_id)].as_py(), np.int32)

    @cached_property
    def _identity(self) -> str:
        """A hash of all shards, by which a state identifies its dataset."""
        return hashlib.sha256(json.dumps([shard["sha256"] for shard in self._files.shards]).encode()).hexdigest()[:32]


def _check_number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= int(value) < 1 << 62:
        raise UsageError(f"{name} is {value!r}; give a whole number, 0 or more")
    return int(value)


def _find_group(rows: list[int], row: int) -> tuple[int, int]:
    ends = np.cumsum(rows)
    group = int(np.searchsorted(ends, row, side="right"))
    return group, row - int(ends[group]) + rows[group]


def _to_array(name: str, value: Any) -> Any:
    kind = {"attention_mask": np.int8, "doc_starts": np.int64}.get(name, np.int32)
    return np.array(value, kind) if isinstance(value, list) else value
