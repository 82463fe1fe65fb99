"""Output folders: what belongs to a dataset or to word counts, when a folder may be written to, and how it is published.

    DIR/part-00000-of-00064.parquet ...     shards
    DIR/tokenizer.json, README.md           a dataset carries its tokenizer, and says how it is loaded
    DIR/rejects/part-00000-of-00064.jsonl   rejected records, where there are any
    DIR/manifest.json                       written last, by rename: a folder without it is not a dataset
    DIR/_work/RUN/...                       all that a run writes before it is published

A run touches nothing that is published until all its work is done and the books are closed. Then the old manifest goes, the old
files that it lists, the new files move to their places, and the new manifest is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from tokenmill import schemas
from tokenmill.errors import LockedError, OutputExistsError, UnreadableFileError, UsageError
from transforms.journal import (
    delete_files,
    delete_tree,
    is_local,
    list_files,
    make_folder,
    rename_file,
    write_file_atomically,
)

_PUBLISHED = ("part-*-of-*.parquet", "tokenizer.json", "README.md")
_OWNER = "written by tokenmill: a run that is not finished; it goes with the next one\n"


@dataclass(frozen=True)
class OutputFolder:
    """One output folder, on any file system that Beam knows; `run` names what this run writes until it is published."""

    path: str
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    def join(self, *names: str) -> str:
        """A path inside the folder."""
        joined: str = FileSystems.join(self.path, *names)
        return joined

    def working(self, *names: str) -> str:
        """A path inside the run's own part of the folder."""
        return self.join("_work", self.run, *names)

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
            if not overwrite:
                what = "a finished dataset" if manifest["format"] == schemas.DATASET_FORMAT else "finished word counts"
                raise OutputExistsError(f"{self.path} holds {what}; give --overwrite to replace it, or another folder")
            return
        strangers = [path for pattern in _PUBLISHED for path in list_files(self.path, pattern)]
        if strangers and not self._is_begun():
            raise OutputExistsError(f"{strangers[0]} is in the way, and no part of a dataset of tokenmill; choose another folder")
        if list_files(self.path, "_work") and not self._is_begun():
            raise OutputExistsError(f"{self.join('_work')} is in the way, and not of tokenmill; choose another folder")

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other runs of this machine out of the folder; `LockedError` where one is in it. A killed run holds nothing."""
        if not is_local(self.path):
            self._make(self.path)
            yield
            return
        is_new = not os.path.exists(self.path)
        self._make(self.path)
        import fcntl  # not on every system; where it is missing there is no local folder to hold

        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise LockedError(f"{self.path}: another run is writing here; wait for it, or choose another folder") from None
        try:
            yield
        finally:
            os.close(handle)
            if is_new:
                with contextlib.suppress(OSError):  # it stays where something was written to it
                    os.rmdir(self.path)

    def begin(self) -> None:
        """Make the run's own part of the folder, and clear away those of runs that never ended."""
        for path in list_files(self.join("_work"), "publishing-*.json"):
            delete_files(self.join(name) for name in _read_json(path) or [])
        delete_tree(self.join("_work"))
        for folder in (self.shards, self.journal, self.partitions, self.rejects):
            self._make(folder)
        write_file_atomically(self.join("_work", "OWNER"), _OWNER.encode())

    def abandon(self) -> None:
        """After a run that publishes nothing: rejects stay for whoever looks for the reason, all else that it wrote goes."""
        if not list_files(self.rejects, "*"):
            delete_tree(self.join("_work"))
            return
        for folder in (self.shards, self.journal, self.partitions):
            delete_tree(folder)

    def publish(self, manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        """Replace what the folder holds by what the run wrote; the manifest comes behind all other files."""
        moves = {path: posixpath.basename(path) for path in list_files(self.shards, "part-*-of-*.parquet")}
        moves |= {path: f"rejects/{posixpath.basename(path)}" for path in list_files(self.rejects, "part-*-of-*.jsonl")}
        replaced = sorted({*self._list_published(), *moves.values(), *files})
        write_file_atomically(self.join("_work", f"publishing-{self.run}.json"), json.dumps(replaced).encode())
        delete_files([self.join(schemas.MANIFEST), *(self.join(name) for name in replaced)])
        if any(name.startswith("rejects/") for name in moves.values()):
            self._make(self.join("rejects"))
        for path, name in moves.items():
            rename_file(path, self.join(name))
        for name, content in files.items():
            write_file_atomically(self.join(name), content)
        write_file_atomically(self.join(schemas.MANIFEST), render_manifest(manifest))
        delete_tree(self.join("_work"))

    def _list_published(self) -> list[str]:
        """Names of the files of the dataset or the word counts that the folder holds, as its manifest lists them."""
        manifest = read_manifest(self.path) or {}
        parts = [posixpath.basename(part["path"]) for part in [*manifest.get("shards", []), *manifest.get("parts", [])]]
        rejects = [f"rejects/{posixpath.basename(path)}" for path in list_files(self.join("rejects"), "part-*-of-*.jsonl")]
        extras = ["tokenizer.json", "README.md"] if manifest.get("format") == schemas.DATASET_FORMAT else []
        return [*parts, *extras, *(rejects if manifest else [])]

    def _is_begun(self) -> bool:
        return bool(list_files(self.join("_work"), "OWNER"))

    def _make(self, folder: str) -> None:
        try:
            make_folder(folder)
        except (OSError, BeamIOError, ValueError) as error:
            raise UsageError(f"{self.path}: cannot be written to ({error}); choose another folder") from None


def _read_json(path: str) -> Any:
    """The content of a JSON file, None where it is none."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        try:
            return json.loads(file.read())
        except (ValueError, RecursionError):
            return None


def render_manifest(manifest: dict[str, Any]) -> bytes:
    """A manifest as its file: the same manifest gives the same bytes."""
    return json.dumps(manifest, ensure_ascii=False, indent=1).encode() + b"\n"


def read_manifest(folder: str) -> dict[str, Any] | None:
    """The manifest of a folder, None where it has none. `UnreadableFileError` for one that is damaged."""
    path = FileSystems.join(folder, schemas.MANIFEST)
    if not FileSystems.exists(path):
        return None
    manifest = _read_json(path)
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
