"""Files as the jobs make and find them, on any file system that Beam knows: whole or not there at all, listed in order."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable
from typing import Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes

from tokenmill.errors import OutputError
from tokenmill.transforms.stores import FileSystems, is_store

#: Manifests, ledgers, locks and states are read into memory: this is more than a million shards need.
MOST_JSON_BYTES = 1 << 30


def read_file(path: str, most_bytes: int | None = None) -> bytes:
    """The bytes of a file as they are stored, whatever its name says of compression. Raises what the file system raises.

    A local path that is no regular file, and a file of more than `most_bytes`, are an OSError: a pipe would be waited for, and
    `/dev/zero` never ends.
    """
    if is_local(path):
        return _read_regular(path, most_bytes)
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        content: bytes = file.read(-1 if most_bytes is None else most_bytes + 1)
    if most_bytes is not None and len(content) > most_bytes:
        raise _too_large(path, most_bytes)
    return content


def _read_regular(path: str, most_bytes: int | None) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if most_bytes is not None and found.st_size > most_bytes:
            raise _too_large(path, most_bytes)
        return file.readall()


def check_regular(path: str) -> None:
    """Raise OSError if a local path is not a regular file: opening a pipe would wait for its other end."""
    if is_local(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def _too_large(path: str, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {most_bytes:,} bytes", path)


def read_json(path: str) -> Any:
    """The content of a JSON file, None where it is none or not there."""
    if not file_exists(path):
        return None
    try:
        return json.loads(read_file(path, MOST_JSON_BYTES))
    except (ValueError, RecursionError, OSError, BeamIOError):
        return None


def write_file_atomically(path: str, content: bytes) -> None:
    """Write a whole file: under `path` there is never a part of it. The folder is made when missing; an old file is replaced.

    Raises OutputError where the file system takes no more, and leaves nothing.
    """
    temporary = f"{path}.tmp-{uuid.uuid4().hex}"
    try:
        with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            file.write(content)
        rename_file(temporary, path)
    except OSError as error:
        delete_files([temporary])
        raise OutputError(f"{path}: {error.strerror or error}; make room there, or choose another folder") from error


def rename_file(source: str, target: str) -> None:
    """Give a file its final name, in place of a file that has it already.

    Local files are replaced in one step. Elsewhere `rename` may refuse an existing target (HDFS) or copy over it (object
    stores): then the old one is deleted first, which is as good for targets that hold the same bytes anyway.
    """
    if is_local(source) and is_local(target):
        os.replace(source, target)
        return
    try:
        FileSystems.rename([source], [target])
    except BeamIOError:
        if not FileSystems.exists(target):
            raise
        FileSystems.delete([target])
        FileSystems.rename([source], [target])


def link_file(source: str, target: str) -> None:
    """Give a file, which nobody changes any more, a second name; where the file system has no links, a copy.

    A file that has the name already is replaced. The folder of `target` must be there.
    """
    if is_local(source) and is_local(target):
        temporary = f"{target}.tmp-{uuid.uuid4().hex}"
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
        os.replace(temporary, target)
        return
    if not is_store(target):  # which copies over what is there, in one step
        delete_files([target])
    FileSystems.copy([source], [target])


def file_exists(path: str) -> bool:
    """Whether there is a file of that name."""
    return os.path.exists(path) if is_local(path) else bool(FileSystems.exists(path))


def measure_file(path: str) -> int:
    """Size of a file in bytes, -1 where there is none; a local link is none."""
    if is_local(path):
        return os.path.getsize(path) if os.path.isfile(path) and not os.path.islink(path) else -1
    found = FileSystems.match([escape_glob(path)])[0].metadata_list
    return int(found[0].size_in_bytes) if found else -1


def list_files(folder: str, pattern: str) -> list[str]:
    """Paths of the files in `folder` whose names match, sorted; none where there is no folder. `folder` is taken literally."""
    if is_local(folder):
        return sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))
    found = FileSystems.match([FileSystems.join(escape_glob(folder), pattern)])[0].metadata_list
    return sorted(metadata.path for metadata in found)


def list_folders(folder: str) -> list[str]:
    """Paths of the folders in `folder`, sorted; on an object store those that have files in them."""
    if is_local(folder):
        found = sorted(glob.glob(os.path.join(glob.escape(folder), "*")))
        return [path for path in found if os.path.isdir(path)]
    names = {
        path.removeprefix(folder).strip("/").split("/")[0] for path in list_files(folder, "**") if "/" in path[len(folder) + 1 :]
    }
    return [FileSystems.join(folder, name) for name in sorted(names)]


def escape_glob(path: str) -> str:
    """A path whose `[`, `*` and `?` stand for themselves in a pattern of Beam's file systems."""
    # A bracket alone in a set would look to `re` like a set in a set; the NUL beside it is in no path.
    return re.sub(r"[*?[]", lambda found: "[\0[]" if found[0] == "[" else f"[{found[0]}]", path)


def delete_files(paths: Iterable[str]) -> None:
    """Delete files; those that are not there are passed over."""
    for path in paths:
        if is_local(path):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.remove(path)
        elif FileSystems.exists(path):
            FileSystems.delete([path if FileSystems.get_scheme(path) == "s3" else escape_glob(path)])  # Beam's S3 takes no globs


def delete_tree(folder: str) -> None:
    """Delete a folder with all that is in it. On an object store, where there are no folders: the files below it."""
    if is_local(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    delete_files(list_files(folder, "**"))


def make_folder(path: str) -> None:
    """Make a folder and those above it, where the file system has folders; one that is there is fine."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)
    elif not FileSystems.exists(path):
        FileSystems.mkdirs(path)


def is_local(path: str) -> bool:
    """Whether a path is one of the local file system: `out/a.json` is, `gs://bucket/a.json` is not."""
    return FileSystems.get_scheme(path) is None
