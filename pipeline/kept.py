"""Taking over what earlier runs have made: of the same work, of one that was cut short, of the dataset that is published.

A run takes over what was made of a split: its shards, or its word counts, with its rejects and its record in the journal. It
does so when the split has the same key (`pipeline/fingerprints.py`), the record tells of no failure, and each file has the size
and the sha256 that the record says. The files get second names in the run's own folder and are no longer told from what the run
has made itself. What a later build trusts, and what checks it:

    word-counts/groups/*, rejects      sha256 in the ledger, at each use         ledger, manifests   a sum of their own
    tokens/part-*                      size at each use; sha256 by `verify`      _state.json         a sum of its own
    _work/RUN/shards, groups, rejects  sha256 in the journal, when taken over    journal records     a sum of their own
    _work/RUN/keys.json                the name of the run is their hash         tokenizer.json      sha256 in _state.json
    word-counts/part-*                 sha256 in the manifest, when trained on   report.html, .json  sha256 in _state.json
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import posixpath
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystem import BeamIOError

from tokenmill import schemas
from tokenmill.errors import UnreadableFileError
from tokenmill.pipeline.fingerprints import hash_bytes, name_run
from tokenmill.pipeline.listing import FileState, look_at
from tokenmill.transforms.files import (
    file_exists,
    is_local,
    link_file,
    measure_file,
    read_file,
    read_json,
    write_file_atomically,
)
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.stores import FileSystems

KEYS = "keys.json"
_THREADS = 4


@dataclass(frozen=True)
class Parts:
    """The parts of a run or of a folder: keys and records by split, and the folders of the parts' and the rejects' files.

    Shards that are published are known by their sizes: a build does not read a whole dataset for one new file.
    """

    keys: Sequence[str]
    records: Mapping[int, dict[str, Any]]
    folder: str
    rejects: str
    are_published: bool = False

    def is_whole(self, index: int) -> bool:
        """Whether the split is done, and what was made of it is there."""
        record = self.records.get(index)
        if record is None or record.get("failure") is not None or (files := list_parts(record)) is None:
            return False
        if not all(has_sum(FileSystems.join(self.rejects, name), sha256) for name, sha256 in self.list_rejects(index).items()):
            return False
        paths = [FileSystems.join(self.folder, posixpath.basename(str(file["path"]))) for file in files]
        if any(measure_file(path) != file["bytes"] for path, file in zip(paths, files, strict=True)):
            return False
        if "shards" in record and (self.are_published or not is_local(self.folder)):  # stores have sums of their own
            return True
        return all(has_sum(path, file["sha256"]) for path, file in zip(paths, files, strict=True))

    def list_whole(self) -> list[bool]:
        """Of each split whether it is done."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(self.is_whole, range(len(self.keys))))

    def whole_keys(self) -> set[str]:
        """The keys of the splits that are done."""
        return set(itertools.compress(self.keys, self.list_whole()))

    def list_rejects(self, index: int) -> dict[str, str | None]:
        """The files of a split's rejects, one for each of its shards, and their sha256, None where the record has none.

        The shards tell their names: a stream has others.
        """
        record = self.records[index]
        if "shards" not in record:
            return {schemas.reject_name(index, len(self.keys)): record.get("rejects_sha256")} if has_rejects(record) else {}
        return {schemas.rejects_of(shard): shard.get("rejects_sha256") for shard in record["shards"] if has_rejects(shard)}


def has_sum(path: str, sha256: str | None) -> bool:
    """Whether a file still holds what it was written with; where no sum is known, whether it is there."""
    return file_exists(path) if sha256 is None else _hash_file(path, look_at(path)) == sha256


@functools.lru_cache(maxsize=1 << 16)
def _hash_file(path: str, state: FileState) -> str | None:
    """sha256 of a file in this state; a build asks several times for it."""
    try:
        return hash_bytes(read_file(path))
    except (OSError, BeamIOError):
        return None


def list_parts(record: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """What a record says of the files that were made of its split: shards or word counts; None where it does not say."""
    if isinstance(record.get("group"), dict):
        return [record["group"]]
    shards = record.get("shards")
    return [shard for shard in shards if "path" in shard] if isinstance(shards, list) else None


def has_rejects(record: Mapping[str, Any]) -> bool:
    """Whether records of a split, or of a part of it, were rejected."""
    return any(account["rejected"] for account in record["files"].values())


def take_over(old: Parts, new: Parts, journal: Journal) -> list[int]:
    """Take over the parts of `old` that `new` needs and has not; returns the splits that they are now of."""
    places = {key: index for index, key in enumerate(new.keys)}
    taken = []
    for index, key in enumerate(old.keys):
        target = places.get(key)
        if target is None or journal.has(target) or not old.is_whole(index):
            continue
        _take_parts(old, index, new, target, journal)
        taken.append(target)
    return taken


def _take_parts(old: Parts, index: int, new: Parts, target: int, journal: Journal) -> None:
    record = old.records[index]
    if "shards" in record:
        shards = [_take_shard(old, shard, new, target, number) for number, shard in enumerate(record["shards"])]
        journal.finish(target, {**record, "split": target, "shards": shards})
        return
    name = schemas.group_name(target, len(new.keys))
    link_file(FileSystems.join(old.folder, record["group"]["path"]), FileSystems.join(new.folder, name))
    for rejects in old.list_rejects(index):
        _link_rejects(old, rejects, new, schemas.reject_name(target, len(new.keys)))
    journal.finish(target, {**record, "split": target, "group": {**record["group"], "path": name}})


def _take_shard(old: Parts, shard: Mapping[str, Any], new: Parts, target: int, number: int) -> dict[str, Any]:
    """One shard of a split, or a part that has none, under its names in the new run."""
    name = schemas.split_shard_name(target, len(new.keys), number)
    rejects = schemas.reject_name_of(name)
    if "path" in shard:
        link_file(FileSystems.join(old.folder, shard["path"]), FileSystems.join(new.folder, name))
    if has_rejects(shard):
        _link_rejects(old, schemas.rejects_of(shard), new, rejects)
    renamed = {"path": name} if "path" in shard else {"rejects": rejects} if "rejects" in shard else {}
    return {**shard, **renamed}


def _link_rejects(old: Parts, name: str, new: Parts, target: str) -> None:
    link_file(FileSystems.join(old.rejects, name), FileSystems.join(new.rejects, target))


def forget_unfinished(parts: Parts, journal: Journal) -> None:
    """Take back the records whose split failed, or whose files are not as they say."""
    whole = parts.list_whole()
    for index in parts.records:
        if index >= len(parts.keys) or not whole[index]:
            journal.forget(index)


def write_keys(folder: str, keys: Sequence[str]) -> None:
    """Say of a run's folder which splits it is made of."""
    write_file_atomically(FileSystems.join(folder, KEYS), json.dumps(list(keys)).encode())


def read_run(folder: str, parts: str, *, repair: bool = True) -> Parts | None:
    """The parts in the folder of an earlier run, of the kind that lies in `parts`; None where it does not say.

    Records that are damaged are deleted, or without `repair` the run is passed over.
    """
    keys = read_json(FileSystems.join(folder, KEYS))
    if not isinstance(keys, list) or name_run(keys) != posixpath.basename(folder.replace(os.sep, "/").rstrip("/")):
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
        Journal(folder).drop_damaged()
        return Journal(folder).records()
