"""A small dataset of blocks for the tests of loaders, what must come out of it, and loaders whose workers are no processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Iterator
from multiprocessing import context
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import make_texts, write_jsonl
from tokenmill import TokenDataset
from tokenmill.dataset import frameworks
from tokenmill.dataset.places import Worker
from tokenmill.pipeline import driver
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms import pack

RUN = Execution(reporter(quiet=True), workers=1)
BLOCK = 16
Batches = list[list[list[int]]]


def write_blocks(folder: Path, texts: list[str] | None = None, *, overwrite: bool = False) -> Path:
    """Documents in blocks of 16, in row groups of 8 blocks, padded at the end, as `folder/blocks`."""
    corpus = Corpus((str(write_jsonl(folder / "corpus.jsonl", texts or make_texts(90))),), split_bytes=4_000)
    tokenizer = folder / "tokenizer.json"
    options = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=400, special_tokens=("<eos>", "<pad>"))
    driver.train_on_corpus(corpus, options, str(tokenizer), RUN)
    rows = RowOptions(block=BLOCK, pack="best-fit", pad="<pad>")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "ROW_GROUP_TOKENS", 8 * BLOCK)
        driver.encode_corpus(corpus, str(tokenizer), str(folder / "blocks"), RUN, rows=rows, overwrite=overwrite)
    return folder / "blocks"


def ids(batch: Any) -> list[list[int]]:
    found: list[list[int]] = batch["input_ids"].tolist()
    return found


class Expected:
    """The batches of every epoch, each read alone, without reading ahead, and cut by plain list indices."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._folder, self._options = folder, options
        self._epochs: dict[int, Batches] = {}

    def open(self, **options: Any) -> TokenDataset:
        return TokenDataset(str(self._folder), **{**self._options, **options})

    def epoch(self, number: int) -> Batches:
        if number not in self._epochs:
            alone = self.open(read_ahead=0)
            alone.set_epoch(number)
            self._epochs[number] = [ids(batch) for batch in alone]
        return self._epochs[number]

    def rest(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Batches:
        """From batch `start` on, the batches of a rank: as many for each, the first ones of the epoch again at the end."""
        batches = self.epoch(number)
        each = -(-max(0, len(batches) - start) // world)
        return [batches[place % len(batches)] for place in range(start + rank, start + each * world, world)]


class _Starting:
    """Stands for a process that is being started, so that a place is sent as it is then."""

    def duplicate_for_child(self, file: int) -> int:
        return os.dup(file)

    class DupFd:
        def __init__(self, file: int) -> None:
            self._file = file

        def detach(self) -> int:
            return self._file


class SameProcessLoader:
    """Does what torch's DataLoader does with an iterable dataset and workers, in one process: copies, passes, prefetching.

    Each worker holds a copy that shares the place, as a process that was just started does. Persistent copies live on.
    """

    def __init__(self, dataset: Any, workers: int, *, persistent: bool, prefetch: int, seed: int) -> None:
        self._dataset, self._workers, self._persistent, self._prefetch, self._seed = dataset, workers, persistent, prefetch, seed
        self._copies: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        if not self._copies or not self._persistent:
            self._copies = [self._copy() for _ in range(self._workers)]
            self._seed += 1
        order = [*range(self._workers)]
        order.reverse()  # workers arrive in any order
        passes = dict(zip(order, [self._as_worker(worker, iter, self._copies[worker]) for worker in order], strict=True))
        waiting: list[Any] = []
        turn = 0
        while True:
            while len(waiting) <= self._prefetch * self._workers:
                worker = turn % self._workers
                waiting.append(self._as_worker(worker, next, passes[worker], None))
                turn += 1
            batch = waiting.pop(0)
            if batch is not None:
                yield batch
            elif all(rest is None for rest in waiting):
                return

    def _copy(self) -> Any:
        context.set_spawning_popen(_Starting())
        try:
            content = pickle.dumps(self._dataset)
        finally:
            context.set_spawning_popen(None)
        return pickle.loads(content)

    def _as_worker(self, worker: int, function: Any, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(frameworks, "find_worker", lambda: Worker(os.getpid(), self._seed, self._workers, worker))
            return function(*arguments)


def start_methods() -> list[str]:
    return [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]
