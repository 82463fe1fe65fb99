"""Output folders: what belongs to a dataset or to word counts, when a folder may be written to, and how it is published.

    DIR/part-00000-of-00064.parquet ...     shards
    DIR/tokenizer.json, README.md           a dataset carries its tokenizer, and says how it is loaded
    DIR/rejects/part-00000-of-00064.jsonl   rejected records, where there are any
    DIR/groups/...                          word counts of each split, where they are kept for the next build
    DIR/manifest.json                       a folder without it is not a dataset
    DIR/_work/RUN/...                       all that a run writes before it is published
    DIR/_lock.json                          who is writing here

A run touches nothing that is published until all its work is done and the books are closed; `pipeline/publishing.py` says how the
new content then takes the place of the old one. A run that ends before, however it does, leaves its folder under `_work`. It is
called by what the run does: the same command finds it and goes on from there, any other takes from it what it can use.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from apache_beam.io.filesystem import BeamIOError

from tokenmill import schemas
from tokenmill.errors import LockedError, OutputExistsError, UnreadableFileError, UsageError
from tokenmill.pipeline import publishing
from tokenmill.pipeline.fingerprints import name_run
from tokenmill.pipeline.kept import Parts, forget_unfinished, read_records, read_run, take_over, write_keys
from tokenmill.pipeline.lock import LOCK, Lock, hold_folder
from tokenmill.pipeline.ours import (
    OWNER,
    PUBLISHED,
    VERSION,
    WORK,
    delete_inside,
    delete_ours,
    find_entry,
    is_begun,
    is_ours,
    refuse_folders,
    refuse_links,
    walk_names,
)
from tokenmill.transforms.accounts import join_records
from tokenmill.transforms.files import is_local, list_files, list_folders, make_folder, read_json
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.sums import SUM, add_sum, is_summed

_PUBLISHED = ("part-*-of-*.parquet", "tokenizer.json", "README.md")
_PUBLISHING = "publishing.json"
#: Files that were not finished; `write_file_atomically` and `OutputFile` call them so.
_ORPHANS = "*.tmp-" + "[0-9a-f]" * 32
_WORK_NAME = re.compile(r"[0-9a-f]{32}")
LEDGER = "groups/ledger.json"


@dataclass(frozen=True)
class OutputFolder:
    """One output folder, on any file system that Beam knows.

    `keys` are those of the splits of this run, `kind` is what comes out of one: a `shard`, or a `group` of word counts. `lock` is
    the one that is held while the run goes on.
    """

    path: str
    keys: Sequence[str] = ()
    kind: str = "shard"
    lock: Lock | None = None

    def join(self, *names: str) -> str:
        """A path inside the folder."""
        joined: str = FileSystems.join(self.path, *names)
        return joined

    def working(self, *names: str) -> str:
        """A path inside the run's own part of the folder."""
        return self.join("_work", self.run, *names)

    @property
    def run(self) -> str:
        """The name of this run's part of the folder."""
        return name_run(self.keys)

    @property
    def parts(self) -> str:
        """Where this run's parts are written."""
        return self.shards if self.kind == "shard" else self.groups

    @property
    def groups(self) -> str:
        return self.working("groups")

    @property
    def shards(self) -> str:
        return self.working("shards")

    @property
    def journal(self) -> str:
        return self.working("journal")

    @property
    def partitions(self) -> str:
        return self.working("partitions")

    @property
    def rejects(self) -> str:
        return self.working("rejects")

    def check_free(self, *, overwrite: bool) -> None:
        """Raise where a run would replace what is not ours, or what is published (without `overwrite`). Changes nothing.

        `OutputExistsError` for what is in the way, `UsageError` for a folder on a file system that there is not.
        """
        try:
            manifest = read_manifest(self.path)
        except ValueError as error:
            raise UsageError(f"{self.path}: {error}") from None
        if manifest is not None:
            if manifest.get("format") not in (schemas.DATASET_FORMAT, schemas.WORD_COUNTS_FORMAT):
                raise OutputExistsError(f"{self.join(schemas.MANIFEST)} was not written by tokenmill; choose another folder")
            self._check_folders()
            if not overwrite:
                what = "a finished dataset" if manifest["format"] == schemas.DATASET_FORMAT else "finished word counts"
                raise OutputExistsError(f"{self.path} holds {what}; give --overwrite to replace it, or another folder")
            return
        strangers = [path for pattern in _PUBLISHED for path in list_files(self.path, pattern)]
        if strangers and not self._is_begun():
            raise OutputExistsError(f"{strangers[0]} is in the way, and no part of a dataset of tokenmill; choose another folder")
        if list_files(self.path, "_work") and not self._is_begun():
            raise OutputExistsError(f"{self.join('_work')} is in the way, and not of tokenmill; choose another folder")
        self._check_folders()

    def _check_folders(self) -> None:
        refuse_links(self.path, "_work", "rejects", "groups")
        refuse_folders(self.path)

    @contextlib.contextmanager
    def hold(self) -> Iterator[Lock]:
        """Keep other runs out of the folder; `LockedError` names the one that is in it."""
        with hold_folder(self.path) as lock:
            publishing.sweep_versions(self.path)
            yield lock

    def begin(self, published: Parts | None = None) -> int:
        """Make the run's own part of the folder, with what there is of it already; returns how many splits that are.

        That is: what the same run did before it was cut short, what other runs have left, and of `published`, if given.
        """
        self._make("_work")
        publishing.clear_replacement(self.path, self.join("_work", _PUBLISHING))
        self._sweep_orphans()
        publishing.mark_work(self.path)
        own = ("groups" if self.kind == "group" else "shards", "shards", "journal", "rejects", "partitions")
        for name in ("", *own):
            self._make(posixpath.join("_work", self.run, name).rstrip("/"))
        delete_inside(self.path, (self._name(path) for path in list_files(self.partitions, "*")), VERSION)
        write_keys(self.working(), self.keys)
        forget_unfinished(self._own_parts(), Journal(self.journal))
        for left in self._list_runs():
            if posixpath.basename(left) != self.run:
                if (old := read_run(left, posixpath.basename(self.parts))) is not None:
                    take_over(old, self._own_parts(), Journal(self.journal))
                self._delete_run(left)
        if published is not None:
            take_over(published, self._own_parts(), Journal(self.journal))
        return len(Journal(self.journal).records())

    def finished(self) -> set[int]:
        """The splits that need not be done any more."""
        return set(Journal(self.journal).records())

    def abandon(self) -> None:
        """After a run that publishes nothing: what it has finished stays for the next one, and so do rejects; else nothing."""
        if not list_files(self.rejects, "*") and not any(map(self._own_parts().is_whole, self.finished())):
            self._delete_work()

    def publish(self, manifest: dict[str, Any], files: Mapping[str, bytes], names: Mapping[str, str] | None = None) -> None:
        """Replace what the folder holds by what the run wrote.

        `names` are the names that shards and rejects have in the run, by those that they get; None: all keep their names.
        """
        if names is None:
            links = {posixpath.basename(path): path for path in list_files(self.shards, "part-*-of-*.parquet")}
            links |= {f"rejects/{posixpath.basename(path)}": path for path in list_files(self.rejects, "part-*-of-*.jsonl")}
        else:
            links = {name: self._find_written(written) for name, written in names.items()}
        if LEDGER in files:
            links |= {f"groups/{posixpath.basename(path)}": path for path in list_files(self.groups, "group-*-of-*.arrow")}
        contents = {**files, schemas.MANIFEST: render_manifest(manifest)}
        if self.lock is not None:
            self.lock.check()
        published = self._list_published()
        if is_local(self.path) and self._is_ours(published) and publishing.switch_folder(self.path, links, contents, self.run):
            return
        log, check = self.join("_work", _PUBLISHING), self.lock.check if self.lock else None
        if is_local(self.path):
            publishing.replace_files(self.path, links, contents, published, log)
        else:
            if schemas.MANIFEST in map(posixpath.basename, list_files(self.path, schemas.MANIFEST)):
                links = {publishing.mark_name(name, self.run): path for name, path in links.items()}
                contents[schemas.MANIFEST] = render_manifest(publishing.mark_names(manifest, self.run))
            publishing.add_version(self.path, links, contents, published, log, check)
        self._delete_work()

    def _find_written(self, name: str) -> str:
        """Where the run wrote a shard, or `rejects/NAME`."""
        folder, base = posixpath.split(name)
        path: str = FileSystems.join(self.rejects if folder else self.shards, base)
        return path

    def published_parts(self) -> Parts | None:
        """The parts of what is published, for a run to take over; None where the folder does not say which splits they are of."""
        rejects = self.join("rejects")
        if self.kind == "group":
            ledger = read_json(self.join(*LEDGER.split("/")))
            if not is_summed(ledger) or not is_summed(read_manifest(self.path)):
                return None
            return Parts(ledger["keys"], dict(enumerate(ledger["records"])), self.join("groups"), rejects, are_published=True)
        manifest = read_manifest(self.path)
        if manifest is not None and not is_summed(manifest):
            return None
        entries = schemas.list_entries({"shards": [], **(manifest or {})})
        if not all("key" in entry and "files" in entry for entry in entries):
            return None
        splits = [list(parts) for _, parts in itertools.groupby(entries, key=itemgetter("key"))]
        keys, records = [split[0]["key"] for split in splits], dict(enumerate(map(_read_record, splits)))
        return Parts(keys, records, self.path, rejects, are_published=True)

    def unfinished_keys(self) -> set[str]:
        """The keys of the splits that were done by runs which have published nothing, and which `begin` takes over."""
        runs = [read_run(left, posixpath.basename(self.parts), repair=False) for left in self._list_runs()]
        return {key for run in runs if run is not None for key in run.whole_keys()}

    def list_replaced(self) -> list[str]:
        """Paths of the files that are published here: the next run replaces them."""
        return [self.join(*name.split("/")) for name in [*self._list_published(), schemas.MANIFEST]]

    def _own_parts(self) -> Parts:
        return Parts(self.keys, read_records(self.journal), self.parts, self.rejects)

    def _list_published(self) -> list[str]:
        """Names of the files of the dataset or the word counts that the folder holds, as its manifest lists them."""
        manifest = read_manifest(self.path) or {}
        parts = [posixpath.basename(str(part["path"])) for part in schemas.list_published(manifest)]
        extras = ["tokenizer.json", "README.md"] if manifest.get("format") == schemas.DATASET_FORMAT else []
        listed = [("rejects", "part-*.jsonl"), ("groups", "group-*-of-*.arrow"), ("groups", "ledger.json")]
        more = [f"{folder}/{posixpath.basename(path)}" for folder, name in listed for path in list_files(self.join(folder), name)]
        return [name for name in [*parts, *extras, *(more if manifest else [])] if is_ours(PUBLISHED, name)]

    def _is_ours(self, published: Sequence[str]) -> bool:
        """Whether a local folder holds nothing else than what it is published to hold, and what runs write there."""
        ours = {*published, schemas.MANIFEST, LOCK}
        folders = {posixpath.dirname(name) for name in published} | {"_work"}
        for name, is_file in walk_names(self.path):
            if name.startswith("_work/"):
                if is_file and not is_ours(VERSION, name):
                    return False
            elif name not in (ours if is_file else folders):
                return False
        return True

    def sweep(self) -> None:
        """Delete all that runs which were killed have left: there is no work left that could need it."""
        publishing.sweep_versions(self.path)
        self._delete_orphans(self.path)
        if self._is_begun():
            publishing.clear_replacement(self.path, self.join("_work", _PUBLISHING))
            self._delete_work()
        if list_files(self.path, LOCK):
            with contextlib.suppress(LockedError), hold_folder(self.path):
                pass  # a lock that a killed run has left goes with the one that is taken here

    def _delete_work(self) -> None:
        """Delete what is ours in `_work`, and what says whose it is last of all: where something stays, that does too."""
        delete_ours(self.join("_work"), WORK)

    def _list_runs(self) -> list[str]:
        """The folders of runs in `_work`."""
        if not self._is_begun():
            return []
        found = [path.rstrip("/") for path in list_folders(self.join("_work")) if not os.path.islink(path)]
        return [path for path in found if _WORK_NAME.fullmatch(posixpath.basename(path.replace(os.sep, "/")))]

    def _delete_run(self, path: str) -> None:
        _, run = find_entry(WORK, posixpath.basename(path))
        delete_ours(path, run or {})

    def _sweep_orphans(self) -> None:
        """Delete temporary files of runs that were killed: of this run's own part, and beside what is published."""
        for folder in (self.path, self.parts, self.shards, self.journal, self.rejects, self.working(), self.join("_work")):
            self._delete_orphans(folder)

    def _delete_orphans(self, folder: str) -> None:
        names = [self._name(path) for path in list_files(folder, _ORPHANS)]
        delete_inside(self.path, names, VERSION)

    def _name(self, path: str) -> str:
        """The name of a file relative to the folder."""
        return path.replace(os.sep, "/").removeprefix(self.path.replace(os.sep, "/").rstrip("/") + "/")

    def _is_begun(self) -> bool:
        """Whether `_work` is ours: it says so, or a run that was killed had only just made it, or all but deleted it."""
        if is_local(self.path):
            return is_begun(self.join("_work"))
        names = [posixpath.basename(path) for path in list_files(self.join("_work"), "*")]
        if not names:
            return bool(list_files(self.path, "_work"))
        return OWNER in names or all(name.startswith(f"{OWNER}.tmp-") for name in names)

    def _make(self, name: str) -> None:
        """Make a folder of the run inside the output folder; `OutputExistsError` where a link stands in its place."""
        try:
            make_folder(self.join(*name.split("/")))
        except (OSError, BeamIOError, ValueError) as error:
            refuse_links(self.path, name)
            raise UsageError(f"{self.path}: cannot be written to ({error}); choose another folder") from None
        refuse_links(self.path, name)


def _read_record(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The record of a split, as its journal had it, from its entries in the manifest."""
    shards = [{**_strip_entry(part), "files": {file["name"]: _open_account(file) for file in part["files"]}} for part in parts]
    texts = [{"split": 0, "files": shard["files"], "failure": None, "bytes": _sum_bytes(shard)} for shard in shards]
    return join_records(texts, tokens=sum(part["tokens"] for part in parts), shards=shards)


def _strip_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in ("key", "files", "shards_before")}


def _open_account(file: Mapping[str, Any]) -> dict[str, Any]:
    halves = [int(file["fingerprint"][16:], 16), int(file["fingerprint"][:16], 16)]
    return {name: value for name, value in file.items() if name != "name"} | {"fingerprint": halves}


def _sum_bytes(shard: Mapping[str, Any]) -> int:
    return sum(account["bytes"] for account in shard["files"].values())


def render_manifest(manifest: dict[str, Any]) -> bytes:
    """A manifest as its file, with the sum over its content, if it has none yet: the same manifest gives the same bytes."""
    summed = manifest if SUM in manifest else add_sum(manifest)
    return json.dumps(summed, ensure_ascii=False, indent=1).encode() + b"\n"


def read_manifest(folder: str) -> dict[str, Any] | None:
    """The manifest of a folder, None where it has none. `UnreadableFileError` for one that is damaged."""
    path = FileSystems.join(folder, schemas.MANIFEST)
    if not FileSystems.exists(path):
        return None
    manifest = read_json(path)
    if not isinstance(manifest, dict):
        raise UnreadableFileError(f"{path}: not a manifest of tokenmill; delete it if nobody needs it, or choose another folder")
    return manifest


def write_card(rows: int, block: int | None = None) -> bytes:
    """README.md of a dataset: the metadata by which `datasets.load_dataset(DIR)` finds the shards, and a word for people.

    `rows` is for the Embedding layer; `block` is the length of packed blocks, None where rows are documents.
    """
    what = "one row a document, columns `doc_id` and `input_ids` (int32)"
    if block is not None:
        what = f"one row a block of {block} tokens, `input_ids` (int32) and which documents they are of"
    return f"""---
configs:
- config_name: default
  data_files: part-*.parquet
---

Token ids, written by tokenmill: {what}. `manifest.json` says what they were
made from, `tokenizer.json` is the tokenizer. An Embedding layer for them has {rows} rows.

    datasets.load_dataset("parquet", data_files="part-*.parquet")
""".encode()
