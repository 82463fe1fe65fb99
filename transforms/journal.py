"""The journal of a run: one small JSON file per finished split.

Workers write it, the driver reads it: it is how progress is seen while `run()` blocks, and how every document is accounted for. A
record lies under its final name only when complete, and writing it again changes nothing, so a retried split is harmless.

    journal/split-00000.json   {"split": 0, "files": {"a.txt": {"documents": 3, "empty": 1, "rejected": 0}}, "tokens": 41, ...}
    journal/split-00001.json   ...

Each file has a sum of its own (`transforms/sums.py`): a power failure may leave a record whose bytes never reached the disk.

All paths may lie on any file system that Beam knows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tokenmill.errors import UnreadableFileError
from tokenmill.transforms.files import delete_files, file_exists, list_files, read_file, write_file_atomically
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.sums import SUM, add_sum, is_summed

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
        text = json.dumps(add_sum(record), sort_keys=True, separators=(",", ":"))
        write_file_atomically(self._path(index), text.encode("ascii") + b"\n")

    def records(self) -> dict[int, dict[str, Any]]:
        """All records by split, in the order of splits. Reads only files that it has not read before.

        Raises UnreadableFileError for a record that is not as it was written.
        """
        for path in list_files(self.folder, "split-*.json"):
            match = _RECORD_NAME.fullmatch(path.replace(os.sep, "/").rpartition("/")[2])
            if match and int(match[1]) not in self._read:
                self._read[int(match[1])] = _read_record(path)
        return {index: self._read[index] for index in sorted(self._read)}

    def drop_damaged(self) -> None:
        """Delete the records that are not as they were written: their splits are to be done again."""
        for path in list_files(self.folder, "split-*.json"):
            try:
                _read_record(path)
            except UnreadableFileError:
                delete_files([path])

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
        record = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(f"{path}: not a record of a finished split ({error}); delete it and run again") from None
    if not isinstance(record, dict) or not is_summed(record):
        what = "its sha256 is of another content" if isinstance(record, dict) else "no JSON object"
        raise UnreadableFileError(f"{path}: not a record of a finished split ({what}); delete it and run again")
    del record[SUM]
    return record
