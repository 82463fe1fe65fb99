"""What a stream of files needs beside the steps of the bounded job: planning each file by itself, and adding it to the dataset.

    file -> plan: its splits, numbered by what they are -> (EncodeDocuments) -> records -> publish whole files

A shard is called by the key of its split, a hash of options and of what the split holds: `part-04321...-of-00000.parquet`.
So names never meet, never change, and are the same whatever came first; a split that a runner does twice gives the same bytes
under the same name. The manifest lists files and shards in the order of the bounded job: after any window it is a function of the
files that are published.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
from apache_beam.coders import PickleCoder
from apache_beam.io.filesystem import FileMetadata
from apache_beam.transforms.userstate import BagStateSpec

from tokenmill import schemas
from tokenmill.errors import DataError
from tokenmill.pipeline.accounting import (
    Books,
    MaxRejects,
    add_up_files,
    add_up_reasons,
    check_failures,
    check_rejects,
    describe_split,
    total_files,
)
from tokenmill.pipeline.dataset_manifest import fill_frame
from tokenmill.pipeline.fingerprints import describe_job, key_splits, stamp_file
from tokenmill.pipeline.inputs import describe_file, plan_splits
from tokenmill.pipeline.listing import is_hidden, is_unfinished
from tokenmill.pipeline.outputs import read_manifest, render_manifest
from tokenmill.pipeline.recognition import recognise_file
from tokenmill.transforms.encode import EncodeOptions
from tokenmill.transforms.files import file_exists, make_folder, rename_file, write_file_atomically
from tokenmill.transforms.splits import SourceFile, Split
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.sums import is_summed

#: How many shards there will be: a stream does not know, and says 0.
OPEN_END = 0
_NUMBER_DIGITS = 16

Record = dict[str, Any]


@dataclass(frozen=True)
class StreamOptions:
    """What a stream needs to know: the job's options, where files are found, and where the dataset is.

    `root` is what names are relative to; `frame` the manifest but for what it sums up; `published` the keys of the splits that
    the dataset had when the stream began: what is in it is not encoded again.
    """

    encode: EncodeOptions
    root: str
    output: str
    frame: dict[str, Any]
    format: str = "auto"
    split_bytes: int = 32 << 20
    max_rejects: MaxRejects = field(default_factory=MaxRejects)
    published: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FilePlan:
    """A file and its splits, with their keys: what has to be there before the file is published."""

    file: SourceFile
    splits: tuple[Split, ...]
    keys: tuple[str, ...]


@beam.typehints.with_output_types(FilePlan)
class PlanFile(beam.DoFn):
    """File metadata -> the plan of the file; none for hidden files, and for those that are published already."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options

    def process(self, found: FileMetadata) -> Iterator[FilePlan]:
        name = posixpath.relpath(found.path, self._options.root)
        if is_hidden(name) or is_unfinished(name):
            return
        plan = plan_file(name, found.size_in_bytes, self._options)
        if not plan.keys or not self._options.published.issuperset(plan.keys):
            yield plan


def plan_file(name: str, size: int, options: StreamOptions) -> FilePlan:
    """Cut a file into splits, as the bounded job does with a file that shares none; each is numbered by its key.

    Raises `UnreadableFileError`, and `MissingColumnError` where the format has a schema.
    """
    read = options.encode.read
    file = describe_file(options.root, name=name, size=size, format=options.format, document=read.document)
    file = recognise_file(file, format=options.format)
    splits = plan_splits([file], options=read, split_bytes=options.split_bytes)
    keys = key_splits(splits, {name: stamp_file(file)}, describe_job("encode", options.encode))
    numbered = (replace(split, index=number_key(key)) for split, key in zip(splits, keys, strict=True))
    return FilePlan(file, tuple(numbered), tuple(keys))


def number_key(key: str) -> int:
    """The first 64 bits of a key as a number, which shards are called by."""
    return int(key[:_NUMBER_DIGITS], 16)


class PublishFiles(beam.DoFn):
    """Plans and records of a pane -> what was published of them, one description a time.

    Files of which a split is still missing wait for a later pane. State is kept by key, and there is one key: so no two of these
    write the manifest at once.
    """

    WAITING = beam.DoFn.StateParam(BagStateSpec("waiting", PickleCoder()))

    def __init__(self, options: StreamOptions) -> None:
        self._options = options

    def process(self, element: tuple[str, Iterable[Any]], waiting: Any = WAITING) -> Iterator[Record]:
        plans, records, rest = take_whole_files([*waiting.read(), *element[1]])
        waiting.clear()
        for entry in rest:
            waiting.add(entry)
        if plans:
            yield publish_files(plans, records, self._options)


def take_whole_files(entries: Sequence[FilePlan | Record]) -> tuple[list[FilePlan], dict[int, Record], list[FilePlan | Record]]:
    """Plans whose records are all there, these records by number, and what has to wait; whatever the order of `entries`.

    `take_whole_files([plan of a: splits 1 2, plan of b: split 3, record 1, record 3])` gives the plan of b and record 3.
    """
    plans = {entry.file.name: entry for entry in entries if isinstance(entry, FilePlan)}
    records = {entry["split"]: entry for entry in entries if not isinstance(entry, FilePlan)}
    whole = [plans[name] for name in sorted(plans) if all(split.index in records for split in plans[name].splits)]
    taken = {split.index: records.pop(split.index) for plan in whole for split in plan.splits}
    return whole, taken, [*(plan for name, plan in plans.items() if plan not in whole), *records.values()]


def publish_files(plans: Sequence[FilePlan], records: Mapping[int, Record], options: StreamOptions) -> Record:
    """Give the shards of whole files their place, then name them in the manifest; returns names and totals of what is new, and
    the totals of the dataset.

    Doing it twice changes nothing. Raises the `DataError` of a split that could not be read, for a file that is published with
    other contents, and for more rejects than there may be; the manifest then stays as it was.
    """
    manifest = read_manifest(options.output)
    if manifest is not None and not is_summed(manifest):
        raise DataError(f"{options.output}/{schemas.MANIFEST}: damaged, its sha256 is of another content; encode the corpus anew")
    manifest = manifest or fill_frame(options.frame, options.encode.packing, [], [])
    fresh = [plan for plan in plans if not is_published(plan, manifest)]
    numbers = [(split.index, key) for plan in fresh for split, key in zip(plan.splits, plan.keys, strict=True)]
    found = {place: records[number] for place, (number, _) in enumerate(numbers)}
    check_failures(found)
    files = add_up_files([plan.file for plan in fresh], found, len(found))
    entries = [entry for number, key in numbers for entry in describe_split(records[number], key)]
    all_files = sorted([*manifest["files"], *files], key=lambda file: file["name"])
    all_entries = sorted([*map(dict, schemas.list_entries(manifest)), *entries], key=_place_entry)
    books = Books(all_files, total_files(all_files), add_up_reasons(all_entries))
    check_rejects(books, options.max_rejects, options.encode.rejects_folder)
    for entry in entries:
        _put_in_place(entry, options)
    if fresh:
        manifest = fill_frame(options.frame, options.encode.packing, all_files, all_entries)
        write_file_atomically(FileSystems.join(options.output, schemas.MANIFEST), render_manifest(manifest))
    new = {"files": [plan.file.name for plan in fresh], "shards": [entry["path"] for entry in entries if "path" in entry]}
    return {**new, **total_files(files), "dataset": manifest["totals"]}


def is_published(plan: FilePlan, manifest: Mapping[str, Any]) -> bool:
    """Whether the dataset has the file. `DataError` where it has one of that name with other contents."""
    if plan.file.name not in {file["name"] for file in manifest["files"]}:
        return False
    if not {entry["key"] for entry in schemas.list_entries(manifest)}.issuperset(plan.keys):
        raise DataError(f"{plan.file.name} is published and has changed; give new contents a new name, or encode anew")
    return True


def _place_entry(entry: Mapping[str, Any]) -> tuple[str, int, int, int]:
    """Where a part of a split stands in the corpus."""
    first = entry["source"][0]
    return first["file"], first["start"], first["first_row"], entry.get("part", 0)


def _put_in_place(entry: Mapping[str, Any], options: StreamOptions) -> None:
    """Move a shard and its rejects to where readers look. What is not there any more was moved before."""
    for source, folder, name in (
        (options.encode.rejects_folder, FileSystems.join(options.output, "rejects"), schemas.rejects_of(entry)),
        (options.encode.shards_folder, options.output, entry.get("path", "")),
    ):
        if name and file_exists(source := FileSystems.join(source, name)):
            make_folder(folder)
            rename_file(source, FileSystems.join(folder, name))
