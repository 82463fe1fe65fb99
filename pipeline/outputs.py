"""Output folders: what belongs to a dataset or to word counts, when a folder may be written to, and how it is published.

DIR/part-00000-of-00064.parquet ...   shards, each under its name only when it is whole
DIR/tokenizer.json, README.md         a dataset carries its tokenizer, and says how it is loaded
DIR/rejects/part-00000-of-00064.jsonl rejected records, where there are any
DIR/_work/                            journal and other things of a run that is not finished
DIR/manifest.json                     written last, by rename: a folder without it is not a dataset
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from tokenmill import schemas
from tokenmill.errors import OutputExistsError, UnreadableFileError, UsageError
from transforms.journal import list_files, write_file_atomically

DATASET_FORMAT, COUNTS_FORMAT = "tokenmill-dataset", "tokenmill-word-counts"
_OWN_FILES = (
    "part-*-of-*.parquet",
    "part-*-of-*.parquet.tmp-*",
    "manifest.json.tmp-*",
    "tokenizer.json",
    "tokenizer.json.tmp-*",
    "README.md",
    "README.md.tmp-*",
)


@dataclass(frozen=True)
class OutputFolder:
    """One output folder, on any file system that Beam knows."""

    path: str

    def join(self, *names: str) -> str:
        """A path inside the folder."""
        joined: str = FileSystems.join(self.path, *names)
        return joined

    @property
    def journal(self) -> str:
        return self.join("_work", "journal")

    @property
    def partitions(self) -> str:
        return self.join("_work", "partitions")

    @property
    def rejects(self) -> str:
        return self.join("rejects")

    def check_free(self, *, overwrite: bool) -> None:
        """Raise `OutputExistsError` where a run would replace what is not ours, or what is published (without `overwrite`)."""
        manifest = read_manifest(self.path)
        if manifest is not None:
            if manifest.get("format") not in (DATASET_FORMAT, COUNTS_FORMAT):
                raise OutputExistsError(f"{self.join(schemas.MANIFEST)} was not written by tokenmill; choose another folder")
            if not overwrite:
                what = "a finished dataset" if manifest["format"] == DATASET_FORMAT else "finished word counts"
                raise OutputExistsError(f"{self.path} holds {what}; give --overwrite to replace it, or another folder")
        elif not FileSystems.exists(self.journal):
            strangers = [path for pattern in _OWN_FILES for path in list_files(self.path, pattern)]
            if strangers:
                raise OutputExistsError(
                    f"{strangers[0]} is in the way, and no part of a dataset of tokenmill; choose another folder"
                )

    def begin(self) -> None:
        """Make the folder ready for a run: what an earlier one left goes, the manifest first. Files that are not ours stay."""
        self._delete([self.join(schemas.MANIFEST)])
        self.abandon()
        self._delete(list_files(self.rejects, "part-*-of-*.jsonl*"))
        try:
            for folder in (self.path, self.join("_work"), self.journal, self.partitions):
                if not FileSystems.exists(folder):
                    FileSystems.mkdirs(folder)
        except (OSError, BeamIOError) as error:
            raise UsageError(f"{self.path}: cannot be written to ({error}); choose another folder") from None

    def abandon(self) -> None:
        """After a run that publishes nothing: shards and working files go, rejects stay for whoever looks for the reason."""
        self._delete([path for pattern in _OWN_FILES for path in list_files(self.path, pattern)])
        self._delete([self.join("_work")])

    def publish(self, manifest: dict[str, Any], files: dict[str, bytes]) -> None:
        """Write the last files, the manifest behind all others; then the working files go, which say that the folder is ours."""
        for name, content in files.items():
            write_file_atomically(self.join(name), content)
        write_file_atomically(self.join(schemas.MANIFEST), render_manifest(manifest))
        self._delete([self.join("_work")])

    def _delete(self, paths: list[str]) -> None:
        existing = [path for path in paths if FileSystems.exists(path)]
        if existing:
            FileSystems.delete(existing)


def render_manifest(manifest: dict[str, Any]) -> bytes:
    """A manifest as its file: the same manifest gives the same bytes."""
    return json.dumps(manifest, ensure_ascii=False, indent=1).encode() + b"\n"


def read_manifest(folder: str) -> dict[str, Any] | None:
    """The manifest of a folder, None where it has none. `UnreadableFileError` for one that is damaged."""
    path = FileSystems.join(folder, schemas.MANIFEST)
    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        content = file.read()
    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise UnreadableFileError(f"{path}: not a manifest ({error}); build the dataset again") from None
    if not isinstance(manifest, dict):
        raise UnreadableFileError(f"{path}: not a manifest (no JSON object); build the dataset again")
    return manifest


def write_card(rows: int) -> bytes:
    """README.md of a dataset: the metadata by which `datasets.load_dataset(DIR)` finds the shards, and a word for people."""
    return f"""---
configs:
- config_name: default
  data_files: part-*.parquet
---

Token ids, written by tokenmill: one row a document, columns `doc_id` and `input_ids` (int32). `manifest.json` says what they were
made from, `tokenizer.json` is the tokenizer. An Embedding layer for them has {rows} rows.

    datasets.load_dataset("parquet", data_files="part-*.parquet")
""".encode()
