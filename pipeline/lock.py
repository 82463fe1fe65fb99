"""One run at a time in a folder: who holds it, and when a lock is no longer valid.

    DIR/_lock.json    {"host": "mill-3", "pid": 4711, "since": "2026-05-04T03:00:00+00:00", "command": "tokenmill build", ...}

On this machine's file systems the lock is `flock` on the folder. The system releases it when its holder dies, so a file that a
killed run leaves behind stops nobody. The file names the holder, and is the lock between machines that share a folder: there
it is renewed while its run goes on, and no longer valid when that has not happened for `STALE_SECONDS`. In stores of objects the
file is the lock: see `pipeline/store_lock.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any, Protocol

from apache_beam.io.filesystem import BeamIOError

from tokenmill.errors import LockedError, UsageError
from tokenmill.pipeline import lock_holder
from tokenmill.pipeline.listing import is_remote
from tokenmill.pipeline.store_lock import find_holder_in_store, hold_in_store
from tokenmill.transforms.files import delete_files, make_folder, read_file, write_file_atomically
from tokenmill.transforms.stores import FileSystems

LOCK = "_lock.json"
STALE_SECONDS = 900.0
RENEW_SECONDS = 60.0
MOST_LOCK_BYTES = 1 << 16


class Lock(Protocol):
    """A lock that is held. All three raise LockedError once another run has taken it over.

    `warning` is what is to be said to people about it, `renew` is called from time to time, `check` right before publishing.
    """

    @property
    def warning(self) -> str | None: ...

    def renew(self) -> None: ...

    def check(self) -> None: ...


class FolderLock:
    """The lock of a local folder, beside `flock`."""

    warning = None

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, LOCK)
        self._holder = lock_holder.describe_this_process()
        self._renewed = 0.0
        self.renew()

    def renew(self) -> None:
        """A sign of life, at most one in `RENEW_SECONDS`."""
        if time.monotonic() - self._renewed < RENEW_SECONDS and self._renewed:
            return
        self._renewed = time.monotonic()
        write_file_atomically(self._path, json.dumps({**self._holder, "renewed": time.time()}).encode() + b"\n")

    def check(self) -> None:
        """Nothing to do: the system keeps others out as long as this process lives."""

    def release(self) -> None:
        """Delete the file, unless another machine has its own there."""
        holder = _read_holder(self._path)
        if holder is not None and (holder.get("host"), holder.get("pid")) == (self._holder["host"], self._holder["pid"]):
            delete_files([self._path])


@contextlib.contextmanager
def hold_folder(path: str) -> Iterator[Lock]:
    """Keep other runs out of a folder, which is made when missing; `LockedError` names the run that is in it.

    A folder that is new and has stayed empty is deleted again.
    """
    if is_remote(path):
        _make(path)
        with hold_in_store(path, FileSystems.join(path, LOCK)) as held:
            yield held
        return
    is_new = not os.path.exists(path)
    _make(path)
    with _flock(path):
        _refuse_other_machine(os.path.join(path, LOCK), path)
        lock = FolderLock(path)
        try:
            yield lock
        finally:
            lock.release()
            if is_new:
                with contextlib.suppress(OSError):  # it stays where something was written to it
                    os.rmdir(path)


def find_holder(path: str) -> str | None:
    """Who holds a folder at this moment, as `describe_holder` says it; None where nobody does. Changes nothing."""
    if is_remote(path):
        return find_holder_in_store(FileSystems.join(path, LOCK))
    if not os.path.isdir(path):
        return None
    try:
        with _flock(path):
            _refuse_other_machine(os.path.join(path, LOCK), path)
    except LockedError:
        return lock_holder.describe_holder(_read_holder(os.path.join(path, LOCK)))
    return None


@contextlib.contextmanager
def _flock(path: str) -> Iterator[None]:
    """The system's lock on a local folder. The folder may be replaced by its next version meanwhile: then it is that one's."""
    import fcntl  # not on every system; where it is missing there is no local folder to hold

    while True:
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            holder = lock_holder.describe_holder(_read_holder(os.path.join(path, LOCK)))
            raise LockedError(f"{path}: another run is writing here: {holder}; wait for it, or choose another folder") from None
        if _is_same_folder(handle, path):
            break
        os.close(handle)
    try:
        yield
    finally:
        os.close(handle)


def _is_same_folder(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)
        return False


def _refuse_other_machine(lock: str, path: str) -> None:
    """What holds on this machine `flock` has told already; another machine's run counts as alive while it renews its lock.

    Containers have names of their own, but share the system, and with it `flock`: they are told by when it was started.
    """
    holder = _read_holder(lock)
    here = (socket.gethostname(), lock_holder.boot_id())
    if holder is None or holder.get("host") == here[0] or (here[1] and holder.get("boot") == here[1]):
        return
    age = time.time() - _number(holder.get("renewed"))
    if abs(age) < STALE_SECONDS:  # a time far ahead is of a clock that was wrong: it must not lock the folder for years
        who = lock_holder.describe_holder(holder)
        raise LockedError(
            f"{path}: another run is writing here: {who}; its last sign of life is {max(0, age):.0f} s old; "
            f"wait for it; if it is gone, that is taken for granted in {STALE_SECONDS - age:.0f} s, or delete {lock}"
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _read_holder(path: str) -> dict[str, Any] | None:
    try:
        return lock_holder.parse_holder(read_file(path, MOST_LOCK_BYTES))
    except (OSError, BeamIOError):
        return None


def _make(folder: str) -> None:
    try:
        make_folder(folder)
    except (OSError, BeamIOError, ValueError) as error:
        raise UsageError(f"{folder}: cannot be written to ({error}); choose another folder") from None
