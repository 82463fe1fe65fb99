"""The lock of a folder in a store of objects, where no system lets go of it when its holder dies: a lease.

The lock file is created by a write that succeeds only if there is none, and renewed every `RENEW_SECONDS` by writes that succeed
only on the version that was written last. A lock that has not been renewed for `LEASE_SECONDS` may be taken over, by a write on
the version that was seen; at once if its holder was a process of this machine that has ended. So of two runs exactly one gets it.
A run also renews its lock right before it publishes, and stops there if another run has taken it over.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator

from tokenmill.errors import LockedError, StoreError, TokenmillError
from tokenmill.pipeline.lock_holder import describe_holder, describe_this_process, is_gone, parse_holder
from tokenmill.pipeline.lock_objects import ConflictError, Found, LockObject, open_lock_object

LEASE_SECONDS = 60.0
RENEW_SECONDS = 15.0


class StoreLock:
    """A lock that is held, and renewed by a thread of its own."""

    def __init__(self, folder: str, path: str) -> None:
        self._folder, self._path = folder, path
        self._object: LockObject = open_lock_object(path)
        self._holder = describe_this_process()
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._lost: str | None = None
        self._version = self._take()
        self._thread = threading.Thread(target=self._keep, name="tokenmill-lock", daemon=True)
        self._thread.start()

    @property
    def warning(self) -> str | None:
        """What is to be said of a store that cannot keep two runs apart for certain."""
        if self._object.is_conditional:
            return None
        return f"warning: {self._folder} is on a file system without conditional writes: start one run at a time"

    def renew(self) -> None:
        """Raise LockedError if another run has taken the lock over; the thread renews it."""
        if self._lost is not None:
            raise LockedError(self._lost)

    def check(self) -> None:
        """Renew now: until the lease ends, nobody else can have the folder. Raises LockedError if another run has it."""
        self.renew()
        with self._mutex:
            self._write_again()
        self.renew()

    def release(self) -> None:
        """Delete the lock file, unless another run has its own there."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(ConflictError, StoreError):  # without an answer, the lease ends by itself
            if self._lost is None:
                self._object.delete(self._version)

    def _take(self) -> str:
        found = self._object.read()
        if found is not None and not is_free(found):
            raise _refuse(self._folder, found)
        try:
            return self._write(found.version if found else None)
        except ConflictError:
            raise _refuse(self._folder, self._object.read()) from None

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_SECONDS) and self._lost is None:
            with self._mutex, contextlib.suppress(TokenmillError):  # the next attempt may get an answer
                self._write_again()

    def _write_again(self) -> None:
        try:
            self._version = self._write(self._version)
        except ConflictError:
            found = self._object.read()
            who = describe_holder(parse_holder(found.content)) if found else "it is gone again"
            self._lost = f"{self._folder}: another run has taken the lock over: {who}; nothing is published; run again later"

    def _write(self, version: str | None) -> str:
        """Write the lock file; a write whose answer was lost, and that the library repeated, has succeeded."""
        content = json.dumps({**self._holder, "renewed": time.time()}).encode() + b"\n"
        try:
            return self._object.write(content, version)
        except ConflictError:
            found = self._object.read()
            if found is None or found.content != content:
                raise
            return found.version


def is_free(found: Found) -> bool:
    """Whether a lock file that is there keeps nobody out any more."""
    holder = parse_holder(found.content)
    if holder is None:  # cut short, or of others: nobody renews it
        return found.age is None or found.age >= LEASE_SECONDS
    return is_gone(holder) or _age(found) >= LEASE_SECONDS


def _age(found: Found) -> float:
    """Seconds since the lock was renewed, by the store's clock or by its holder's.

    A holder's clock that is far ahead counts as far behind: its lock must not keep others out for years.
    """
    if found.age is not None:
        return max(0.0, found.age)
    renewed = (parse_holder(found.content) or {}).get("renewed")
    return abs(time.time() - renewed) if isinstance(renewed, int | float) else LEASE_SECONDS


def _refuse(folder: str, found: Found | None) -> LockedError:
    if found is None:
        return LockedError(f"{folder}: another run was writing here at this moment; run again")
    who, left = describe_holder(parse_holder(found.content)), max(0.0, LEASE_SECONDS - _age(found))
    return LockedError(
        f"{folder}: another run is writing here: {who}; wait for it, or choose another folder; "
        f"if it was killed, its lock ends in {left:.0f} s"
    )


@contextlib.contextmanager
def hold_in_store(folder: str, path: str) -> Iterator[StoreLock]:
    """Keep other runs out of a folder; `LockedError` names the one that is in it."""
    lock = StoreLock(folder, path)
    try:
        yield lock
    finally:
        lock.release()


def find_holder_in_store(path: str) -> str | None:
    """Who holds the lock at this moment; None if nobody does. Changes nothing."""
    found = open_lock_object(path).read()
    return None if found is None or is_free(found) else describe_holder(parse_holder(found.content))
