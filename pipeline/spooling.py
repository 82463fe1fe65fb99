"""Standard input and named pipes as inputs: their bytes are kept in a temporary file, since a job reads a file more than once."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import glob
import os
import re
import shutil
import stat
import sys
import tempfile
from typing import IO

from tokenmill.errors import UnreadableFileError

_BLOCK_BYTES = 1 << 20
_PREFIX = "tokenmill-stdin-"
_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*"')


def is_pipe(text: str) -> bool:
    """Whether an input is standard input (`-`), or a pipe: `/dev/stdin`, a FIFO, what `<(command)` of a shell stands for."""
    if text == "-":
        return True
    try:
        return stat.S_ISFIFO(os.stat(text).st_mode)
    except (OSError, ValueError):
        return False


@functools.cache
def spool_pipe(text: str) -> str:
    """The path of a temporary file with all that comes out of a pipe, which can be read once only. It goes with the process.

    Raises `UnreadableFileError` where the pipe cannot be read, or the disk is full.
    """
    _remove_abandoned()
    folder = _make_folder()
    path = os.path.join(folder, "stdin")
    with open(path, "wb") as target:
        try:
            if text == "-":
                _copy(_standard_input(), target)
            else:
                with open(text, "rb", buffering=0) as source:
                    _copy(source, target)
        except OSError as error:
            raise UnreadableFileError(
                f"{text}: cannot be kept in {folder} behind {target.tell():,} bytes: {error.strerror}; "
                "name a folder with more room in TMPDIR, or give a file"
            ) from error
    return path


def begins_json(head: bytes) -> bool:
    """Whether a text begins with a JSON object, or an array of them. A pipe has no name that would tell this."""
    return _JSON.match(head) is not None


def _make_folder() -> str:
    """A temporary folder that is locked while this process, or a worker forked from it, lives."""
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(folder):  # another run may have removed it before it was locked
            _FOLDERS.append((folder, os.getpid()))
            return folder
        os.close(lock)


def _remove_abandoned() -> None:
    """Remove what runs that were killed have left: the system lets go of the lock on a folder when its holders die."""
    for folder in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), _PREFIX + "*")):
        with contextlib.suppress(OSError):  # of other users, or removed meanwhile
            _remove_unlocked(folder)


def _remove_unlocked(folder: str) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise UnreadableFileError("-: standard input is closed; give a file, or send text into the command")
    return sys.stdin.buffer


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while block := source.read(_BLOCK_BYTES):
        target.write(block)
    target.flush()


def remove_spooled() -> None:
    """Remove what this process kept; a forked worker, which ends earlier, removes nothing."""
    for folder, owner in _FOLDERS:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)


#: The temporary folders, each with the process that made it.
_FOLDERS: list[tuple[str, int]] = []
atexit.register(remove_spooled)
