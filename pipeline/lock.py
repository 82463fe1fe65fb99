"""One run at a time in a folder: who holds it, and when a lock is a dead one.

    DIR/_lock.json    {"host": "mill-3", "pid": 4711, "since": "2026-05-04T03:00:00+00:00", "command": "tokenmill build", ...}

On this machine's file systems the lock is `flock` on the folder: the system lets go of it when its holder dies, however that
comes about, so a file that is left behind by a killed run stops nobody. The file names the holder, and is the lock where `flock`
is none: on object stores, and between machines that share a folder. There it is renewed while its run goes on, and stale when
that has not happened for `STALE_SECONDS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from tokenmill.errors import LockedError, UsageError
from tokenmill.pipeline.listing import is_remote
from tokenmill.transforms.files import delete_files, make_folder, read_file, write_file_atomically

LOCK = "_lock.json"
STALE_SECONDS = 900.0
RENEW_SECONDS = 60.0
MOST_LOCK_BYTES = 1 << 16


class Lock:
    """A lock that is held; `renew` it from time to time."""

    def __init__(self, folder: str) -> None:
        self._path = FileSystems.join(folder, LOCK)
        self._holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": _now(), "command": _describe_command()}
        self._holder["boot"] = _boot_id()
        self._renewed = 0.0
        self.renew()

    def renew(self) -> None:
        """A sign of life, at most one in `RENEW_SECONDS`."""
        if time.monotonic() - self._renewed < RENEW_SECONDS and self._renewed:
            return
        self._renewed = time.monotonic()
        write_file_atomically(self._path, json.dumps({**self._holder, "renewed": time.time()}).encode() + b"\n")

    def release(self) -> None:
        """Take the file away, unless another run has taken the lock for dead and has its own there."""
        holder = _read_holder(self._path)
        if holder is not None and (holder.get("host"), holder.get("pid")) == (self._holder["host"], self._holder["pid"]):
            delete_files([self._path])


@contextlib.contextmanager
def hold_folder(path: str) -> Iterator[Lock]:
    """Keep other runs out of a folder, which is made when missing; `LockedError` names the run that is in it.

    A folder that is new and has stayed empty goes again.
    """
    is_new = not is_remote(path) and not os.path.exists(path)
    _make(path)
    with _flock(path):
        _refuse_other_machine(FileSystems.join(path, LOCK), path)
        lock = Lock(path)
        try:
            yield lock
        finally:
            lock.release()
            if is_new:
                with contextlib.suppress(OSError):  # it stays where something was written to it
                    os.rmdir(path)


def describe_holder(path: str) -> str:
    """`process 4711 on mill-3 since 2026-05-04T03:00:00+00:00 (tokenmill build my.yaml)`; what is known of it."""
    holder = _read_holder(path)
    if holder is None:
        return "it has not said yet who it is"
    command = f" ({holder['command']})" if holder.get("command") else ""
    return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}{command}"


def find_holder(path: str) -> str | None:
    """Who holds a folder at this moment, as `describe_holder` says it; None where nobody does. Changes nothing."""
    try:
        if is_remote(path):
            _refuse_other_machine(FileSystems.join(path, LOCK), path)
            return None
        if not os.path.isdir(path):
            return None
        with _flock(path):
            _refuse_other_machine(FileSystems.join(path, LOCK), path)
    except LockedError:
        return describe_holder(FileSystems.join(path, LOCK))
    return None


@contextlib.contextmanager
def _flock(path: str) -> Iterator[None]:
    """The system's lock on a local folder. The folder may be replaced by its next version meanwhile: then it is that one's."""
    if is_remote(path):
        yield
        return
    import fcntl  # not on every system; where it is missing there is no local folder to hold

    while True:
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            holder = describe_holder(os.path.join(path, LOCK))
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
    here = (socket.gethostname(), _boot_id())
    if holder is None or (not is_remote(path) and (holder.get("host") == here[0] or (here[1] and holder.get("boot") == here[1]))):
        return
    age = time.time() - _number(holder.get("renewed"))
    if abs(age) < STALE_SECONDS:  # a time far ahead is of a clock that was wrong: it must not lock the folder for years
        raise LockedError(
            f"{path}: another run is writing here: {describe_holder(lock)}; its last sign of life is {max(0, age):.0f} s old; "
            f"wait for it; if it is gone, that is taken for granted in {STALE_SECONDS - age:.0f} s, or delete {lock}"
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _read_holder(path: str) -> dict[str, Any] | None:
    try:
        holder = json.loads(read_file(path, MOST_LOCK_BYTES))
    except (OSError, BeamIOError, ValueError, RecursionError):
        return None
    return holder if isinstance(holder, dict) else None


def _make(folder: str) -> None:
    try:
        make_folder(folder)
    except (OSError, BeamIOError, ValueError) as error:
        raise UsageError(f"{folder}: cannot be written to ({error}); choose another folder") from None


def _boot_id() -> str:
    """What tells this start of this system from all others; empty where it does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _describe_command() -> str:
    return " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]])[:200]
