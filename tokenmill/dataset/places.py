"""Where reading a dataset stands: its epoch and batch, known to the process that reads and to the workers of its loaders.

torch's `DataLoader` hands a dataset to worker processes and never tells the dataset about it: a new pass begins when each worker
asks its copy for an iterator. So place and passes are kept in memory that all of these processes map. The first worker of a pass
to arrive enters the pass there and takes its place; the others find the entry and get the same place.

    process reads            place (0, 0)
    worker 1 begins a pass   pass A at (0, 0); the next one begins at (1, 0)
    worker 0 joins pass A    (0, 0), whatever was set meanwhile
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

#: One place for each process that has loaders; processes that ended give theirs back.
_PLACES = 64
#: Passes that are remembered. A worker joins a pass before this many others have begun.
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
    """What a place says.

    `begun`: a loader has begun a pass here, so the next pass begins the next epoch. `unknown`: worker processes read that pass,
    and how far it was used is not known. `latest`: the epoch of the pass that was begun last.
    """

    epoch: int
    batch: int
    begun: bool = False
    unknown: bool = False
    latest: int = 0

    def next_start(self) -> tuple[int, int]:
        """Epoch and batch at which a pass begins that is begun now."""
        return (self.epoch + 1, 0) if self.begun else (self.epoch, self.batch)


class Worker(NamedTuple):
    """One worker of a loader: the process that the loader is in, the seed that all its workers share, and its number."""

    process: int
    seed: int
    workers: int
    worker: int


class Place:
    """The place of a dataset in one process, and after `share` in the workers of that process's loaders too.

    Pickled for a process that is being started, it stays shared; pickled otherwise, it is a copy of its own.
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
        """Let processes that are started from now on share this place."""
        if self._shared is None:
            shared, record = SharedMemory.create(), self._record
            record["process"] = os.getpid()
            shared.content["places"][0] = record
            self._shared, self._reader = shared, 0

    def standing(self) -> Standing:
        """What the place says now."""
        with self._open(os.getpid()) as record:
            return _read(record)

    def set(self, epoch: int, batch: int) -> None:
        """Have the next pass begin at a batch of an epoch."""
        with self._open(os.getpid()) as record:
            _write(record, Standing(epoch, batch, latest=epoch))

    def begin(self, *, loader: bool = False) -> Start:
        """Begin a pass in this process; the one after a loader's pass begins the next epoch."""
        with self._open(os.getpid()) as record:
            epoch, batch = _read(record).next_start()
            _write(record, Standing(epoch, batch, begun=loader, latest=epoch))
            return Start(epoch, batch, int(record["moves"]))

    def count(self, start: Start, batch: int) -> None:
        """The next batch of a pass is number `batch`."""
        with self._open(os.getpid()) as record:
            if record["moves"] == start.moves:
                record["batch"] = batch

    def finish(self, start: Start) -> None:
        """A pass has come to the end of its epoch."""
        with self._open(os.getpid()) as record:
            if record["moves"] == start.moves:
                _write(record, Standing(start.epoch + 1, 0, latest=start.epoch))

    def join(self, worker: Worker) -> Start:
        """Where the pass begins that a worker takes part in from now on."""
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
        """Have the pass that was just begun, in this process or by a worker, begin elsewhere."""
        with self._open(worker.process if worker else os.getpid()) as record:
            _write(record, Standing(epoch, batch, begun=True, unknown=worker is not None, latest=epoch))
            return Start(epoch, batch, int(record["moves"]))

    @contextlib.contextmanager
    def _open(self, process: int) -> Iterator[Any]:
        """The record of a process; while it is open, no other process changes it."""
        if self._shared is None:
            yield self._record
            return
        with self._shared.hold():
            if self._reader != process:
                self._record, self._reader = self._shared.find_place(process), process
            yield self._record


class SharedMemory:
    """Places and passes, in a file without a name that several processes map."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.content = np.frombuffer(mmap.mmap(file.fileno(), _SHARED.itemsize), _SHARED)[0]
        self._lock, self._lock_of = threading.Lock(), os.getpid()

    @classmethod
    def create(cls) -> SharedMemory:
        """All zeros. In memory where the system has such files, otherwise in the folder for temporary ones."""
        if hasattr(os, "memfd_create"):
            file: Any = os.fdopen(os.memfd_create("tokenmill-place"), "r+b", buffering=0)
        else:
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        file.truncate(_SHARED.itemsize)
        return cls(file)

    def send(self) -> Any:
        """What a process that is being started gets in place of the file."""
        return reduction.DupFd(self._file.fileno())

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other threads and processes out. The lock of a process that dies goes with it."""
        import fcntl  # not on every system; where it is missing, torch starts no workers that share memory by a file

        if self._lock_of != os.getpid():  # a fork, and a thread of the parent may have held the lock
            self._lock, self._lock_of = threading.Lock(), os.getpid()
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def find_place(self, process: int) -> Any:
        """The record of a process. A new one begins where the process that started it stands."""
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
        """A new entry; the oldest one goes."""
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
    """Passes that were begun before do not move the place from now on."""
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
