"""Tokenizer files: reading those that nobody has vouched for (regular files of a bounded size, under names that are fixed here),
and writing them whole or not at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tokenmill.errors import TokenizerFileError

#: The largest published tokenizer files have some 35 MB.
MAX_FILE_BYTES = 1 << 28


def read_file(path: Path) -> bytes:
    """The bytes of a tokenizer file. Raises `TokenizerFileError`: missing, not a file, too large."""
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
    """Write a file by temporary name and rename: readers see the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def read_folder(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the named files that lie in a folder. Raises `TokenizerFileError`, also where a link leads out of the folder."""
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
