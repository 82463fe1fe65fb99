"""The driver: plans splits, has the graphs run, trains, checks the books, publishes.

One function for each command that makes something.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
from apache_beam.io.filesystems import FileSystems

from pipeline import accounting, counts_folder
from pipeline.accounting import MaxRejects
from pipeline.inputs import DEFAULT_SPLIT_BYTES, plan_splits, resolve_inputs
from pipeline.jobs import BuildGraph, count_graph, encode_graph
from pipeline.outputs import DATASET_FORMAT, OutputFolder, write_card
from pipeline.progress import Reporter, Stage
from pipeline.runners import parse_options, run_pipeline
from tokenmill import kernels, schemas
from tokenmill.errors import TokenmillError, UsageError
from tokenmill.merge_loop import MergeRules
from tokenmill.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.trainers import TrainingOptions, train_tokenizer
from transforms.count import CountOptions
from transforms.encode import EncodeOptions
from transforms.journal import Journal, write_file_atomically
from transforms.splits import ReadOptions, SourceFile, Split

#: Below this much input one process is done before a second one has started.
SMALL_INPUT_BYTES = 48 << 20
POLL_SECONDS = 0.5
#: Words beyond this are trained on, but hardly meant.
LONG_WORD_BYTES = 10_000


@dataclass(frozen=True)
class Corpus:
    """What to read. `inputs` as on the command line; `limit`: the first so many documents in corpus order."""

    inputs: tuple[str, ...]
    format: str = "auto"
    read: ReadOptions = field(default_factory=ReadOptions)
    limit: int | None = None
    split_bytes: int = DEFAULT_SPLIT_BYTES
    max_rejects: MaxRejects = field(default_factory=MaxRejects)


@dataclass(frozen=True)
class Execution:
    """How to run it: processes (None: as many as pay), words for Beam, and who is told."""

    reporter: Reporter
    workers: int | None = None
    beam_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Files and splits of a corpus."""

    files: list[SourceFile]
    splits: list[Split]

    @property
    def size(self) -> int:
        """Bytes of the files as stored."""
        return sum(file.size for file in self.files)


def plan_corpus(corpus: Corpus) -> Plan:
    """Find the files and cut them; raises the errors of `pipeline.inputs`."""
    files = resolve_inputs(corpus.inputs, format=corpus.format, document=corpus.read.document)
    splits = plan_splits(files, options=corpus.read, split_bytes=corpus.split_bytes, limit=corpus.limit)
    used = {part.file.name for split in splits for part in split.ranges} if corpus.limit is not None else None
    return Plan([file for file in files if used is None or file.name in used], splits)


def count_corpus(corpus: Corpus, pretokenizer: str, output: str, run: Execution, *, overwrite: bool = False) -> dict[str, Any]:
    """`tokenmill count`: word counts in the folder `output`; returns its manifest."""
    PreTokenizer(pretokenizer)
    folder, plan = _begin(corpus, output, run, overwrite)
    options = CountOptions(corpus.read, pretokenizer, folder.journal, folder.partitions, folder.rejects)
    try:
        records = _run_job("count", count_graph(plan.splits, options), plan, folder, run)
        files, totals = _close_books(corpus, plan, records, folder)
        manifest = counts_folder.write_counts(
            folder, pretokenizer, files, totals, sum(record["words"] for record in records.values())
        )
    except TokenmillError:
        folder.abandon()
        raise
    return manifest


def train_on_counts(path: str, options: TrainingOptions, output: str, run: Execution) -> tuple[Tokenizer, MergeRules]:
    """`tokenmill train` on word counts: writes the tokenizer file `output`."""
    counts = counts_folder.read_counts(path)
    target = options.merges if options.merges is not None else options.vocab_size or 0
    longest = pc.max(pc.binary_length(counts["word"])).as_py() or 0
    with run.reporter.stage("merges", target, unit="merges" if options.merges is not None else "tokens") as stage:
        if longest > LONG_WORD_BYTES:
            stage.message(f"warning: the longest word has {longest:,} bytes; does {options.pretokenizer!r} suit this text?")

        def show(made: int, latest: list[tuple[str, str, int]]) -> None:
            stage.update(made, latest=latest[-3:])

        tokenizer, rules = train_tokenizer(counts, options, on_merges=show)
        reached = len(rules.pairs) if options.merges is not None else len(tokenizer)
        stage.update(reached)
        if rules.exhausted:
            stage.message(f"no pair is left: {len(rules.pairs)} merges, vocabulary {len(tokenizer)}, fewer than asked for")
    write_file_atomically(output, tokenizer.to_bytes())
    return tokenizer, rules


def train_on_corpus(
    corpus: Corpus, options: TrainingOptions, output: str, run: Execution
) -> tuple[Tokenizer, MergeRules, dict[str, Any]]:
    """`tokenmill train` on a corpus: counts into a folder beside `output` that goes afterwards.

    Also returns the counts' manifest.
    """
    parent, name = os.path.split(output)
    working = FileSystems.join(parent, f".{name}.counts") if parent else f".{name}.counts"
    try:
        manifest = count_corpus(corpus, options.pretokenizer, working, run, overwrite=True)
        tokenizer, rules = train_on_counts(working, options, output, run)
    finally:
        if FileSystems.exists(working):
            FileSystems.delete([working])
    return tokenizer, rules, manifest


def encode_corpus(corpus: Corpus, tokenizer_path: str, output: str, run: Execution, *, overwrite: bool = False) -> dict[str, Any]:
    """`tokenmill encode`: token shards in the folder `output`; returns its manifest."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    folder, plan = _begin(corpus, output, run, overwrite)
    write_file_atomically(folder.join("_work", "tokenizer.json"), tokenizer.to_bytes())
    options = EncodeOptions(corpus.read, folder.join("_work", "tokenizer.json"), folder.path, folder.journal, folder.rejects)
    try:
        records = _run_job("encode", encode_graph(plan.splits, options), plan, folder, run)
        files, totals = _close_books(corpus, plan, records, folder)
        manifest = _describe_dataset(tokenizer, files, totals, [records[index]["shard"] for index in sorted(records)])
    except TokenmillError:
        folder.abandon()
        raise
    folder.publish(manifest, {"tokenizer.json": tokenizer.to_bytes(), "README.md": write_card(tokenizer.embedding_rows)})
    return manifest


def _begin(corpus: Corpus, output: str, run: Execution, overwrite: bool) -> tuple[OutputFolder, Plan]:
    """Everything that can be refused is refused before the output folder changes."""
    folder = OutputFolder(output)
    _check_apart(corpus, output)
    folder.check_free(overwrite=overwrite)
    parse_options(run.beam_args, workers=run.workers or 1)
    plan = plan_corpus(corpus)
    folder.begin()
    return folder, plan


def _check_apart(corpus: Corpus, output: str) -> None:
    """An output inside an input folder would be read as input the next time."""
    target = os.path.realpath(output)
    for path in corpus.inputs:
        if os.path.isdir(path) and f"{target}/".startswith(f"{os.path.realpath(path).rstrip('/')}/"):
            raise UsageError(f"the output {output} lies in the input folder {path}; choose a folder outside of it")


def _describe_dataset(
    tokenizer: Tokenizer, files: list[dict[str, Any]], totals: dict[str, int], shards: list[dict[str, Any]]
) -> dict[str, Any]:
    tokens = sum(shard["tokens"] for shard in shards)
    return {
        "format": DATASET_FORMAT,
        "version": schemas.DATASET_VERSION,
        "tokenizer": {
            "file": "tokenizer.json",
            "sha256": tokenizer.sha256,
            "vocab_size": len(tokenizer),
            "embedding_rows": tokenizer.embedding_rows,
        },
        "totals": {**totals, "tokens": tokens, "shards": len(shards)},
        "files": files,
        "shards": shards,
    }


def _run_job(name: str, build: BuildGraph, plan: Plan, folder: OutputFolder, run: Execution) -> dict[int, dict[str, Any]]:
    """Run a graph under the eyes of the reporter; returns the journal's records."""
    journal = Journal(folder.journal)
    with run.reporter.stage(name, len(plan.splits)) as stage:
        if not kernels.are_compiled():
            stage.message("compiling kernels: the first run after an installation takes about half a minute longer")
        if plan.splits:
            ticker = _Ticker(journal, stage)
            run_pipeline(build, workers=choose_workers(plan, run), beam_args=run.beam_args, on_tick=ticker.tick)
            ticker.show()
        return journal.records()


class _Ticker:
    """Shows what the journal says, twice a second at most."""

    def __init__(self, journal: Journal, stage: Stage) -> None:
        self._journal, self._stage, self._last = journal, stage, time.monotonic()

    def tick(self) -> None:
        if time.monotonic() - self._last >= POLL_SECONDS:
            self.show()

    def show(self) -> None:
        totals = self._journal.finished()
        self._stage.update(
            totals.splits, documents=totals.documents, bytes=totals.bytes, words=totals.words, tokens=totals.tokens
        )
        self._last = time.monotonic()


def choose_workers(plan: Plan, run: Execution) -> int:
    """The number asked for, or as many as pay: one for small inputs, else one a core, never more than splits."""
    if run.workers is not None:
        return run.workers
    if plan.size < SMALL_INPUT_BYTES:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), len(plan.splits)))


def _close_books(
    corpus: Corpus, plan: Plan, records: dict[int, dict[str, Any]], folder: OutputFolder
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Per-file accounts and totals of a run that may be published."""
    accounting.check_failures(records)
    files = accounting.add_up_files(plan.files, records, len(plan.splits))
    totals = accounting.total_files(files)
    accounting.check_rejects(totals, corpus.max_rejects, folder.rejects)
    return files, totals
