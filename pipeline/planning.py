"""What a job is to do, decided in the driver before anything runs: which files, cut into which splits, by how many processes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.pipeline.accounting import MaxRejects
from tokenmill.pipeline.fingerprints import Known, stamp_files
from tokenmill.pipeline.forked import ForkedWorkers
from tokenmill.pipeline.inputs import DEFAULT_SPLIT_BYTES, Inputs, list_inputs, plan_splits
from tokenmill.pipeline.listing import FileState, is_remote, look_at
from tokenmill.pipeline.progress import Reporter, count_things
from tokenmill.pipeline.recognition import (
    describe_left_out,
    describe_misnamed,
    describe_parts,
    describe_passed_over,
    recognise_files,
)
from tokenmill.transforms.encodings import name_encoding
from tokenmill.transforms.read_dataset import list_other_splits
from tokenmill.transforms.splits import WINDOW_BYTES, ReadOptions, SourceFile, Split
from tokenmill.unicode_text import show_printable

#: Below this much input one process is done before a second one has started.
SMALL_INPUT_BYTES = 48 << 20
#: A shard of less is mostly footer.
LEAST_SPLIT_BYTES = 1 << 10
#: A list in a shard counts its tokens in 31 bits, and a token may be a byte.
MOST_DOCUMENT_MB = 2047
#: The options of `Corpus` that say how the bytes of a file are read, as `list_inputs` takes them.
FILE_OPTIONS = ("encoding", "delimiter", "max_window")


def split_bytes_of(split_mb: float) -> int:
    """The option `--split-mb` in bytes."""
    if not math.isfinite(split_mb) or split_mb <= 0:
        raise UsageError(f"--split-mb {split_mb}: give a size in MB, such as 32")
    return max(LEAST_SPLIT_BYTES, int(split_mb * (1 << 20)))


def document_bytes_of(document_mb: float) -> int:
    """The option `--max-document-mb` in bytes."""
    if not 0 < document_mb <= MOST_DOCUMENT_MB:
        raise UsageError(f"--max-document-mb {document_mb}: give a size in MB, above 0 and up to {MOST_DOCUMENT_MB:,}")
    return max(1, int(document_mb * (1 << 20)))


@dataclass(frozen=True)
class Corpus:
    """What to read. `inputs` as on the command line; `limit`: the first so many documents in corpus order.

    `max_window` is in MB.
    """

    inputs: tuple[str, ...]
    format: str = "auto"
    read: ReadOptions = field(default_factory=ReadOptions)
    limit: int | None = None
    split_bytes: int = DEFAULT_SPLIT_BYTES
    max_rejects: MaxRejects = field(default_factory=MaxRejects)
    encoding: str = "utf-8"
    delimiter: str | None = None
    max_window: float = WINDOW_BYTES >> 20


@dataclass(frozen=True)
class Execution:
    """How to run it: processes (None: as many as pay), words for Beam, and who is told.

    `ready` is for the command line, which does its `jobs` and nothing else in its process: their workers may be forked from it.
    """

    reporter: Reporter
    workers: int | None = None
    beam_args: tuple[str, ...] = ()
    ready: ForkedWorkers | None = None
    jobs: int = 1


@dataclass(frozen=True)
class Plan:
    """Files and splits of a corpus.

    `states` are those of its local files, by path, as they were before any of them was opened; `stamps` say what each file holds,
    by name. `passed_over` are the paths of files that folders left out for their names.
    """

    corpus: Corpus
    files: list[SourceFile]
    splits: list[Split]
    states: dict[str, FileState]
    stamps: dict[str, str]
    passed_over: tuple[str, ...] = ()


def plan_corpus(corpus: Corpus, run: Execution, known: Known | None = None, files: list[SourceFile] | None = None) -> Plan:
    """Find the files and cut them; raises the errors of `pipeline/inputs.py`.

    Files in a `known` state are not read for their stamp. `files`: those of the corpus that are to be read, if found already.
    """
    with run.reporter.stage("plan", len(corpus.inputs), unit="inputs") as stage:
        found = list_corpus(corpus) if files is None else Inputs(files)
        states = _look_at_files(found.files)
        files = recognise_files(found.files, format=corpus.format)
        for note in describe_inputs(found, files):
            stage.message(note)
        splits = plan_splits(files, options=corpus.read, split_bytes=corpus.split_bytes, limit=corpus.limit)
        stage.message(f"{count_things(len(files), 'file')}, {count_things(len(splits), 'split')}")
        stage.update(len(corpus.inputs))
        used = {part.file.name for split in splits for part in split.ranges} if corpus.limit is not None else None
        files = [file for file in files if used is None or file.name in used]
        return Plan(corpus, files, splits, states, stamp_files(files, known), found.passed_over)


def list_corpus(corpus: Corpus) -> Inputs:
    """The files of a corpus by their names; none is opened."""
    chosen = {name: getattr(corpus, name) for name in FILE_OPTIONS}
    return list_inputs(corpus.inputs, format=corpus.format, document=corpus.read.document, **chosen)


def describe_inputs(found: Inputs, files: list[SourceFile]) -> Iterator[str]:
    """What is to be said of the files that were found: what was left out, and what is not as it seems."""
    if found.left_out:
        yield describe_left_out(found.left_out)
    if found.passed_over:
        yield describe_passed_over(found.passed_over)
    yield from filter(None, (describe_misnamed(found.files, files), describe_parts(files)))
    for file in files:
        if file.format == "dataset" and (splits := list_other_splits(file.path)):
            taken, others = splits
            named = ", ".join(map(show_printable, others))
            path = show_printable(file.path)
            yield f"{path}: its split {taken} is read, not {named}; for another one give {path}:{show_printable(others[0])}"


def describe_reading(corpus: Corpus) -> dict[str, Any]:
    """The manifest's entry on how documents were taken out of files: with it the source can be read again."""
    options = {field.name: getattr(corpus.read, field.name) for field in fields(corpus.read) if field.name != "batch_bytes"}
    options = {name: value for name, value in options.items() if name != "pair_column" or value is not None}
    defaults = {field.name: field.default for field in fields(corpus)}
    files = {name: value for name in FILE_OPTIONS if (value := getattr(corpus, name)) != defaults[name]}
    if name_encoding(corpus.encoding) == "":
        files.pop("encoding", None)
    return {"reading": {"format": corpus.format, **files, **options}}


def check_unchanged(plan: Plan) -> None:
    """A file that grew, shrank or was replaced while it was read would be published in part, or with wrong row numbers.

    Its size is also to be the one that it was listed with: by that it was cut, and its state was looked at a moment later.
    """
    now = _look_at_files(plan.files)
    then = {file.path: (file.size, plan.states[file.path][1]) for file in plan.files if file.path in now}
    if changed := [path for path, known in then.items() if now[path][:2] != known]:
        raise UnreadableFileError(f"{changed[0]}: changed while it was read; nothing is published; run again when it is at rest")


def choose_workers(plan: Plan, run: Execution) -> int:
    """The number asked for, or as many as pay. There are never more than splits; where several are asked for, two stay."""
    if run.workers is not None:
        return min(run.workers, max(2, len(plan.splits)))
    return count_paying_workers(sum(split.size for split in plan.splits), len(plan.splits))


def count_paying_workers(size: int, splits: int) -> int:
    """How many processes pay for `size` bytes in `splits`: one for small inputs, else one a core, never more than splits."""
    if size < SMALL_INPUT_BYTES:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, splits))


def fork_workers(plan: Plan, run: Execution, warm_up: Callable[[], Any]) -> None:
    """Have the workers of all jobs of a local run get ready meanwhile, where that may be."""
    workers = choose_workers(plan, run)
    if run.ready is not None and workers > 1 and not run.beam_args:
        run.ready.fork(workers * run.jobs, warm_up)


def _look_at_files(files: list[SourceFile]) -> dict[str, FileState]:
    """The states of the files that lie on this machine."""
    paths = [file.path for file in files if file.format != "dataset" and not is_remote(file.path)]
    return {path: look_at(path) for path in paths}
