"""Standard input and named pipes as inputs: their bytes are kept in a temporary file, since a job reads a file more than once."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import stat
import sys
import tempfile
from typing import IO

from tokenmill.errors import UnreadableFileError

_BLOCK_BYTES = 1 << 20
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
    folder = tempfile.mkdtemp(prefix="tokenmill-stdin-")
    _FOLDERS.append((folder, os.getpid()))
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
    return _name_by_contents(path)


def _name_by_contents(path: str) -> str:
    """A pipe has no ending that would tell JSON lines from text, so the first bytes do; `--format text` overrides that."""
    with open(path, "rb") as file:
        head = file.read(_BLOCK_BYTES)
    if not _JSON.match(head):
        return path
    os.rename(path, f"{path}.jsonl")
    return f"{path}.jsonl"


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
