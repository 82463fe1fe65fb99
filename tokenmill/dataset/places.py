"""The reading position of a dataset (epoch and batch), shared by the process that reads and the workers of its loaders.

torch's `DataLoader` sends a dataset to worker processes without informing it: a pass begins when each worker requests an iterator
of its copy. So the place and the passes are kept in memory that all of these processes map. The first worker of a pass adds an
entry for the pass with its starting place; the other workers find the entry and use the same place.

    process reads            place (0, 0)
    worker 1 begins a pass   pass A at (0, 0); the next one begins at (1, 0)
    worker 0 joins pass A    (0, 0), even if the place was set since
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing import context, reduction
from typing import Any, NamedTuple

import numpy as np

from tokenmill.errors import UsageError

#: One place for each process with loaders. The places of processes that have ended are reused.
_PLACES = 64
#: The number of passes that are remembered. A worker must join a pass before this many others have begun.
_PASSES = 64
_MOST_WORKERS = 512

_STANDING = ("epoch", "batch", "begun", "unknown", "latest")
_PLACE = np.dtype([(name, np.int64) for name in ("process", "moves", *_STANDING)])
_KEY = ("process", "seed", "turn", "workers")
_PASS = np.dtype([*((name, np.int64) for name in (*_KEY, "epoch", "batch")), ("joined", np.uint8, (_MOST_WORKERS,))])
_SHARED = np.dtype([("places", _PLACE, (_PLACES,)), ("passes", _PASS, (_PASSES,)), ("entered", np.int64)])


class Start(NamedTuple):
    """Where a pass begins. `moves` identifies it: only the newest pass moves the place."""

    epoch: int
    batch: int
    moves: int = 0


class Standing(NamedTuple):
    """The contents of a place.

    `begun`: a loader has begun a pass here, so the next pass begins the next epoch. `unknown`: worker processes read that pass,
    and how many of its batches were used is not known. `latest`: the epoch of the pass that began last.
    """

    epoch: int
    batch: int
    begun: bool = False
    unknown: bool = False
    latest: int = 0

    def next_start(self) -> tuple[int, int]:
        """The epoch and batch at which the next pass begins."""
        return (self.epoch + 1, 0) if self.begun else (self.epoch, self.batch)


class Worker(NamedTuple):
    """One worker of a loader: the loader's process, the seed that its workers share, how many they are, and its number."""

    process: int
    seed: int
    workers: int
    worker: int


class Place:
    """The place of a dataset in one process and, after `share`, in the workers of that process's loaders.

    A place that is pickled to start a process stays shared. Otherwise pickling makes an independent copy.
    """

    def __init__(self, standing: Standing | None = None, shared: SharedMemory | None = None) -> None:
        self._shared = shared
        self._record = np.zeros(1, _PLACE)[0]
        self._reader = self._turns_of = self._turns = 0
        _write(self._record, standing or Standing(0, 0))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._shared is not None and context.get_spawning_popen() is not None:
            return _attach, (self._shared.send(),)
        return Place, (self.standing(),)

    def share(self) -> None:
        """Share this place with the processes that are started from now on."""
        if self._shared is None:
            shared, record = SharedMemory.create(), self._record
            record["process"] = os.getpid()
            shared.content["places"][0] = record
            self._shared, self._reader = shared, 0

    def standing(self) -> Standing:
        """The current contents of the place."""
        with self._open(os.getpid()) as record:
            return _read(record)

    def set(self, epoch: int, batch: int) -> None:
        """Make the next pass begin at a batch of an epoch."""
        with self._open(os.getpid()) as record:
            _write(record, Standing(epoch, batch, latest=epoch))

    def begin(self, *, loader: bool = False) -> Start:
        """Begin a pass in this process. The pass after a loader's pass begins the next epoch."""
        with self._open(os.getpid()) as record:
            epoch, batch = _read(record).next_start()
            _write(record, Standing(epoch, batch, begun=loader, latest=epoch))
            return Start(epoch, batch, int(record["moves"]))

    def count(self, start: Start, batch: int) -> None:
        """Record that the next batch of a pass is `batch`."""
        with self._open(os.getpid()) as record:
            if record["moves"] == start.moves:
                record["batch"] = batch

    def finish(self, start: Start) -> None:
        """Record that a pass has reached the end of its epoch."""
        with self._open(os.getpid()) as record:
            if record["moves"] == start.moves:
                _write(record, Standing(start.epoch + 1, 0, latest=start.epoch))

    def join(self, worker: Worker) -> Start:
        """Join a worker to its next pass, and return where the pass begins. Raises UsageError for too many workers."""
        if self._shared is None or worker.worker >= _MOST_WORKERS:
            raise UsageError(f"worker {worker.worker} cannot know the place; give a loader {_MOST_WORKERS} workers at most")
        if self._turns_of != os.getpid():
            self._turns_of, self._turns = os.getpid(), 0
        self._turns += 1
        with self._open(worker.process) as record:
            entry = self._shared.find_pass(worker, self._turns)
            if entry is None:
                epoch, batch = _read(record).next_start()
                entry = self._shared.enter_pass(worker, self._turns, epoch, batch)
                _write(record, Standing(epoch, batch, begun=True, unknown=True, latest=epoch))
            entry["joined"][worker.worker] = 1
            return Start(int(entry["epoch"]), int(entry["batch"]))

    def move(self, worker: Worker | None, epoch: int, batch: int) -> Start:
        """Make the pass that was just begun, in this process or by a worker, begin at another batch."""
        with self._open(worker.process if worker else os.getpid()) as record:
            _write(record, Standing(epoch, batch, begun=True, unknown=worker is not None, latest=epoch))
            return Start(epoch, batch, int(record["moves"]))

    @contextlib.contextmanager
    def _open(self, process: int) -> Iterator[Any]:
        """The record of a process. No other process can change it while it is open."""
        if self._shared is None:
            yield self._record
            return
        with self._shared.hold():
            if self._reader != process:
                self._record, self._reader = self._shared.find_place(process), process
            yield self._record


class SharedMemory:
    """Places and passes, in an anonymous file that several processes map."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.content = np.frombuffer(mmap.mmap(file.fileno(), _SHARED.itemsize), _SHARED)[0]
        self._lock, self._lock_of = threading.Lock(), os.getpid()

    @classmethod
    def create(cls) -> SharedMemory:
        """Create it with zeros: in memory if the system supports such files, otherwise in the folder for temporary files."""
        if hasattr(os, "memfd_create"):
            file: Any = os.fdopen(os.memfd_create("tokenmill-place"), "r+b", buffering=0)
        else:
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        file.truncate(_SHARED.itemsize)
        return cls(file)

    def send(self) -> Any:
        """The object that a process being started receives in place of the file."""
        return reduction.DupFd(self._file.fileno())

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other threads and processes out. The lock of a process that dies is released."""
        import fcntl  # Some systems do not have it; there, torch starts no workers that share memory through a file.

        if self._lock_of != os.getpid():  # After a fork, a thread of the parent may have held the lock.
            self._lock, self._lock_of = threading.Lock(), os.getpid()
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def find_place(self, process: int) -> Any:
        """The record of a process. A new process begins at the place of the process that started it."""
        places = self.content["places"]
        for record in places:
            if record["process"] == process:
                return record
        parent = multiprocessing.parent_process()
        known = [record for record in places if parent is not None and record["process"] == parent.pid]
        for record in places[1:]:
            if not record["process"] or not _is_alive(int(record["process"])):
                _write(record, _read((known or [places[0]])[0]))
                record["process"] = process
                return record
        raise UsageError(f"more than {_PLACES} processes read one dataset object; open a `TokenDataset` in each of them")

    def find_pass(self, worker: Worker, turn: int) -> Any:
        """The oldest pass of a worker's loader that the worker has not joined yet."""
        entered = int(self.content["entered"])
        key = (worker.process, worker.seed, turn, worker.workers)
        for number in range(max(0, entered - _PASSES), entered):
            entry = self.content["passes"][number % _PASSES]
            if tuple(int(entry[name]) for name in _KEY) == key and not entry["joined"][worker.worker]:
                return entry
        return None

    def enter_pass(self, worker: Worker, turn: int, epoch: int, batch: int) -> Any:
        """Add an entry, which overwrites the oldest one."""
        number = int(self.content["entered"]) % _PASSES
        self.content["entered"] += 1
        self.content["passes"][number] = (worker.process, worker.seed, turn, worker.workers, epoch, batch, 0)
        return self.content["passes"][number]


def _attach(file: Any) -> Place:
    return Place(shared=SharedMemory(os.fdopen(file.detach(), "r+b", buffering=0)))


def _read(record: Any) -> Standing:
    epoch, batch, begun, unknown, latest = (int(record[name]) for name in _STANDING)
    return Standing(epoch, batch, bool(begun), bool(unknown), latest)


def _write(record: Any, standing: Standing) -> None:
    """Write a record. Passes that began before no longer move the place."""
    record["moves"] += 1
    for name, value in standing._asdict().items():
        record[name] = value


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
