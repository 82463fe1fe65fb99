"""The journal of a run: one small JSON file per finished split.

Workers write it, the driver reads it: it is how progress is seen while `run()` blocks, and how every document is accounted for. A
record lies under its final name only when complete, and writing it again changes nothing, so a retried split is harmless.

    journal/split-00000.json   {"split": 0, "files": {"a.txt": {"documents": 3, "empty": 1, "rejected": 0}}, "tokens": 41, ...}
    journal/split-00001.json   ...

All paths may lie on any file system that Beam knows.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from tokenmill.errors import OutputError, UnreadableFileError

_RECORD_NAME = re.compile(r"split-(\d{5,})\.json")


@dataclass(frozen=True)
class Totals:
    """What the finished splits hold together. `bytes` is input text read, as the records state it; `failed` counts splits."""

    splits: int = 0
    documents: int = 0
    empty: int = 0
    rejected: int = 0
    words: int = 0
    tokens: int = 0
    bytes: int = 0
    failed: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(**{name.name: getattr(self, name.name) + getattr(other, name.name) for name in fields(Totals)})


@dataclass(frozen=True)
class Journal:
    """The records of a run in `folder`. Cheap to send to workers: it is its path, plus what this process has already read."""

    folder: str
    _read: dict[int, dict[str, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def finish(self, index: int, record: Mapping[str, Any]) -> None:
        """Record that split `index` is done: `finish(7, {"split": 7, ...})` writes `split-00007.json`, sorted keys, ASCII."""
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        write_file_atomically(self._path(index), text.encode("ascii") + b"\n")

    def records(self) -> dict[int, dict[str, Any]]:
        """All records by split, in the order of splits. Reads only files that it has not read before.

        Raises UnreadableFileError for a record that is not a JSON object.
        """
        for path in list_files(self.folder, "split-*.json"):
            match = _RECORD_NAME.fullmatch(path.replace(os.sep, "/").rpartition("/")[2])
            if match and int(match[1]) not in self._read:
                self._read[int(match[1])] = _read_record(path)
        return {index: self._read[index] for index in sorted(self._read)}

    def has(self, index: int) -> bool:
        """Whether split `index` is recorded."""
        return index in self._read or file_exists(self._path(index))

    def forget(self, index: int) -> None:
        """Take a record back: its split is to be done again."""
        self._read.pop(index, None)
        delete_files([self._path(index)])

    def _path(self, index: int) -> str:
        path: str = FileSystems.join(self.folder, f"split-{index:05d}.json")
        return path

    def finished(self) -> Totals:
        """Totals over the splits recorded so far: one listing and the new records, so it can be asked twice a second."""
        return sum(map(total_record, self.records().values()), Totals())


def total_record(record: Mapping[str, Any]) -> Totals:
    """One record's share of the totals; numbers that it does not give count as 0."""
    files: Iterable[Mapping[str, int]] = record.get("files", {}).values()
    counts = {name: sum(file.get(name, 0) for file in files) for name in ("documents", "empty", "rejected")}
    sizes = {name: record.get(name, 0) for name in ("words", "tokens", "bytes")}
    return Totals(splits=1, failed=int(record.get("failure") is not None), **counts, **sizes)


def _read_record(path: str) -> dict[str, Any]:
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            record = json.loads(file.read())
    except ValueError as error:
        raise UnreadableFileError(f"{path}: not a record of a finished split ({error}); delete it and run again") from None
    if not isinstance(record, dict):
        raise UnreadableFileError(f"{path}: not a record of a finished split (no JSON object); delete it and run again")
    return record


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
    delete_files([target])
    FileSystems.copy([source], [target])


def file_exists(path: str) -> bool:
    """Whether there is a file of that name."""
    return os.path.exists(path) if is_local(path) else bool(FileSystems.exists(path))


def measure_file(path: str) -> int:
    """Size of a file in bytes, -1 where there is none."""
    if is_local(path):
        return os.path.getsize(path) if os.path.isfile(path) else -1
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
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        elif FileSystems.exists(path):
            FileSystems.delete([escape_glob(path)])


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
