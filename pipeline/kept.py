"""Taking over what earlier runs have made: of the same work, of one that was cut short, of the dataset that is published.

What is taken over is a *part*: the shard of a split, or its word counts, with its rejects and its record in the journal. That is
done when its split has the same key (`pipeline.fingerprints`), the record tells of no failure, and the file has the size that the
record says. It gets a second name in the run's own folder and is no longer told from what the run has made itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from tokenmill import schemas
from tokenmill.errors import UnreadableFileError
from transforms.files import file_exists, link_file, list_files, measure_file, read_file, write_file_atomically
from transforms.journal import Journal

KEYS = "keys.json"

#: How a part of each kind is called, by the number of its split and of all splits, and the entry of the record that describes it.
NAMES = {"shard": schemas.shard_name, "group": schemas.group_name}


@dataclass(frozen=True)
class Parts:
    """The parts of a run or of a folder: keys and records by split, and the folders of the parts' and the rejects' files."""

    keys: Sequence[str]
    records: Mapping[int, dict[str, Any]]
    folder: str
    rejects: str

    def is_whole(self, index: int) -> bool:
        """Whether the split is done, and what was made of it is there."""
        record = self.records.get(index)
        if record is None or record.get("failure") is not None or (found := describe_part(record)) is None:
            return False
        if record_rejects(record) and not file_exists(self.reject(index)):
            return False
        return measure_file(FileSystems.join(self.folder, found[1]["path"])) == found[1]["bytes"]

    def whole_keys(self) -> set[str]:
        """The keys of the splits that are done."""
        return {key for index, key in enumerate(self.keys) if self.is_whole(index)}

    def reject(self, index: int) -> str:
        """The file of a split's rejects. A shard that was published tells its name, for it may be one of a stream's."""
        shard = self.records[index].get("shard") if index in self.records else None
        name = schemas.reject_name_of(shard["path"]) if shard else schemas.reject_name(index, len(self.keys))
        path: str = FileSystems.join(self.rejects, name)
        return path


def describe_part(record: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Kind and description of the part that a record tells of."""
    return next(((kind, record[kind]) for kind in NAMES if isinstance(record.get(kind), dict)), None)


def record_rejects(record: Mapping[str, Any]) -> int:
    """How many records of a split were rejected."""
    return sum(account["rejected"] for account in record["files"].values())


def take_over(old: Parts, new: Parts, journal: Journal) -> list[int]:
    """Take over the parts of `old` that `new` needs and has not; returns the splits that they are now of."""
    places = {key: index for index, key in enumerate(new.keys)}
    taken = []
    for index, key in enumerate(old.keys):
        target = places.get(key)
        if target is None or journal.has(target) or not old.is_whole(index):
            continue
        _take_part(old, index, new, target, journal)
        taken.append(target)
    return taken


def _take_part(old: Parts, index: int, new: Parts, target: int, journal: Journal) -> None:
    record = old.records[index]
    kind, part = describe_part(record) or ("", {})
    name = NAMES[kind](target, len(new.keys))
    link_file(FileSystems.join(old.folder, part["path"]), FileSystems.join(new.folder, name))
    if record_rejects(record):
        link_file(old.reject(index), new.reject(target))
    journal.finish(target, {**record, "split": target, kind: {**part, "path": name}})


def forget_unfinished(parts: Parts, journal: Journal) -> None:
    """Take back the records whose split failed, or whose files are not as they say."""
    for index in parts.records:
        if index >= len(parts.keys) or not parts.is_whole(index):
            journal.forget(index)


def write_keys(folder: str, keys: Sequence[str]) -> None:
    """Say of a run's folder which splits it is made of."""
    write_file_atomically(FileSystems.join(folder, KEYS), json.dumps(list(keys)).encode())


def read_run(folder: str, parts: str, *, repair: bool = True) -> Parts | None:
    """The parts in the folder of an earlier run, of the kind that lies in `parts`; None where it does not say.

    Records that are damaged are deleted, or without `repair` the run is passed over.
    """
    keys = read_json(FileSystems.join(folder, KEYS))
    if not isinstance(keys, list):
        return None
    try:
        records = read_records(FileSystems.join(folder, "journal"), repair=repair)
    except UnreadableFileError:
        return None
    return Parts(keys, records, FileSystems.join(folder, parts), FileSystems.join(folder, "rejects"))


def read_records(folder: str, *, repair: bool = True) -> dict[int, dict[str, Any]]:
    """The records of a journal; those that are damaged are deleted, and their splits done again (or raise, without `repair`)."""
    try:
        return Journal(folder).records()
    except UnreadableFileError:
        if not repair:
            raise
        for path in list_files(folder, "split-*.json"):
            if not isinstance(read_json(path), dict):
                FileSystems.delete([path])
        return Journal(folder).records()


def read_json(path: str) -> Any:
    """The content of a JSON file, None where it is none or not there."""
    if not file_exists(path):
        return None
    try:
        return json.loads(read_file(path))
    except (ValueError, RecursionError, OSError, BeamIOError):
        return None
