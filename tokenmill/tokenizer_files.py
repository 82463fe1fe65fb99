"""Reading and writing tokenizer files.

Files are untrusted: only regular files of a bounded size and with fixed names are read. Writing is atomic.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tokenmill.errors import TokenizerFileError

#: The limit leaves room: the largest published tokenizer files have about 35 MB.
MAX_FILE_BYTES = 1 << 28


def read_file(path: Path) -> bytes:
    """Read a tokenizer file. Raises `TokenizerFileError` if it is missing, not a regular file, or too large."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise TokenizerFileError("it is no regular file; give the path of a tokenizer.json")
        if found.st_size > MAX_FILE_BYTES:
            raise TokenizerFileError(f"{found.st_size:,} bytes; a tokenizer file has at most {MAX_FILE_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise TokenizerFileError(f"{error.strerror}; give the path of a tokenizer.json") from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it: readers see the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def read_folder(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Read the named files that exist in a folder. Raises `TokenizerFileError`, also for a link that leads out of the folder."""
    files = {}
    for name in names:
        path = folder / name
        if not path.exists():
            continue
        if not path.resolve().is_relative_to(folder.resolve()):
            raise TokenizerFileError(f"{name}: it is a link out of the folder; give the path of the file itself, or copy it")
        try:
            files[name] = read_file(path)
        except TokenizerFileError as error:
            raise TokenizerFileError(f"{name}: {error}") from None
    return files
