"""The driver: has the graphs run, trains, checks the books, publishes. One function for each command that makes something."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from tokenmill import kernels
from tokenmill.errors import NothingToTrainOnError, OutputExistsError, StoreError, TokenizerFileError, TokenmillError, UsageError
from tokenmill.pipeline import accounting, counts_folder
from tokenmill.pipeline.accounting import ANY_REJECTS, Books, describe_split
from tokenmill.pipeline.apart import check_apart, check_spared
from tokenmill.pipeline.dataset_manifest import fill_frame, frame_dataset, name_shards
from tokenmill.pipeline.fingerprints import describe_job, hash_bytes, key_splits
from tokenmill.pipeline.jobs import BuildGraph, count_graph, encode_graph
from tokenmill.pipeline.lock import Lock
from tokenmill.pipeline.outputs import OutputFolder, read_manifest, write_card
from tokenmill.pipeline.planning import Corpus, Execution, Plan, check_unchanged, choose_workers, fork_workers, plan_corpus
from tokenmill.pipeline.progress import Stage, count_things
from tokenmill.pipeline.runners import run_pipeline, use_beam_options
from tokenmill.pipeline.shaping import RowOptions, choose_packing, choose_shape
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merge_loop import MergeRules
from tokenmill.training.options import TrainingOptions, describe_shortage
from tokenmill.training.trainers import train_tokenizer
from tokenmill.transforms.count import CountOptions, warm_up_counting
from tokenmill.transforms.encode import EncodeOptions, keep_tokenizer, open_tokenizer
from tokenmill.transforms.files import delete_tree, is_local, read_file, write_file_atomically
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.parts import SHARD_SPLITS
from tokenmill.transforms.splits import Split
from tokenmill.transforms.stores import FileSystems

POLL_SECONDS = 0.5
#: Words beyond this are trained on, but hardly meant.
LONG_WORD_BYTES = 10_000

Records = dict[int, dict[str, Any]]


def count_corpus(
    corpus: Corpus,
    pretokenizer: PreTokenizer | str,
    output: str,
    run: Execution,
    *,
    normalizer: Normalizer | None = None,
    overwrite: bool = False,
    update: bool = False,
    plan: Plan | None = None,
) -> dict[str, Any]:
    """`tokenmill count`: word counts in the folder `output`; returns its manifest. `plan`: that of the corpus, if made.

    With `update` counts that are published are brought up to date: only splits that are new are counted, and the counts of each
    split are kept for the next time.
    """
    options = CountOptions(corpus.read, PreTokenizer.of(pretokenizer), normalizer or Normalizer())
    with _open_run("count", options, corpus, output, run, overwrite=overwrite, update=update, plan=plan) as job:
        folder, plan = job.folder, job.plan
        fork_workers(plan, run, lambda: warm_up_counting(options.pretokenizer, options.normalizer))
        options = replace(
            options,
            journal_folder=folder.journal,
            partitions_folder=folder.partitions,
            rejects_folder=folder.rejects,
            groups_folder=folder.groups,
        )
        records = _run_job("count", count_graph(plan.splits, options), plan.splits, job, run)
        words = sum(record["words"] for record in records.values())
        books = _close_books("count", plan, records, folder, run, words)
        cutting = options.pretokenizer, options.normalizer
        return counts_folder.write_counts(folder, *cutting, books, words, records, keep_groups=update)


def train_on_counts(
    path: str, options: TrainingOptions, output: str, run: Execution, *, is_ours: bool = False
) -> tuple[Tokenizer, MergeRules]:
    """`tokenmill train` on word counts: writes the tokenizer file `output`. `is_ours`: what is there may be replaced."""
    if not is_ours:
        check_tokenizer_output(output)
    counts = counts_folder.read_counts(path)
    longest = pc.max(pc.binary_length(counts["word"])).as_py() or 0
    with run.reporter.stage("merges", _count_merges(options), unit="merges") as stage:
        if longest > LONG_WORD_BYTES:
            stage.message(f"warning: the longest word has {longest:,} bytes; does {options.pretokenizer} suit this text?")

        def show(made: int, latest: list[tuple[str, str, int]]) -> None:
            stage.update(made, latest=latest[-3:])

        tokenizer, rules = train_tokenizer(counts, options, on_merges=show)
        stage.update(len(rules.pairs))
        if rules.exhausted:
            stage.message(describe_shortage(tokenizer.training, len(rules.pairs), len(tokenizer)))
    write_file_atomically(output, tokenizer.to_bytes())
    return tokenizer, rules


def train_on_corpus(
    corpus: Corpus, options: TrainingOptions, output: str, run: Execution
) -> tuple[Tokenizer, MergeRules, dict[str, Any]]:
    """`tokenmill train` on a corpus: counts into a folder beside `output` that goes afterwards.

    Also returns the counts' manifest.
    """
    check_tokenizer_output(output)
    parent, name = os.path.split(output)
    working = os.path.join(parent, f".{name}.counts-{uuid.uuid4().hex[:8]}")
    try:
        # The counts go, and their rejects with them: a message must not send anybody there.
        lenient = replace(corpus, max_rejects=ANY_REJECTS)
        plan = plan_corpus(lenient, run)
        check_spared(plan, [output])
        manifest = count_corpus(lenient, options.pretokenizer, working, run, normalizer=options.normalizer, plan=plan)
        totals = manifest["totals"]
        books = Books(manifest["files"], totals, manifest.get("reasons", []))
        accounting.check_rejects(books, corpus.max_rejects, "`tokenmill count` keeps a file that")
        if totals["rejected"] and not totals["distinct_words"]:
            read, rejected = totals["documents"], totals["rejected"]
            raise NothingToTrainOnError(
                f"nothing to train on: {rejected} of {read} records rejected; `tokenmill count` keeps them"
            )
        tokenizer, rules = train_on_counts(working, options, output, run)
    finally:
        delete_tree(working)
    return tokenizer, rules, manifest


def find_output_file(path: str, *, such_as: str) -> bool:
    """Whether what `--output` names is there already. Raises `UsageError` for what cannot be the name of a file."""
    if not path or (is_local(path) and os.path.exists(path) and not os.path.isfile(path)):  # a pipe would be waited for
        raise UsageError(f"--output {path!r} must be the name of a file, such as {such_as}")
    try:
        exists: bool = FileSystems.exists(path)
    except ValueError as error:
        raise UsageError(f"--output {path!r}: {error}") from None
    return exists


def check_tokenizer_output(path: str) -> None:
    """A tokenizer may replace a tokenizer, nothing else; found out before any work."""
    if find_output_file(path, such_as="tokenizer.json") and b'"merge_rules"' not in read_file(path):
        raise OutputExistsError(f"{path} exists and is no tokenizer; choose another name, or delete it")


def load_tokenizer(path: str) -> Tokenizer:
    """A tokenizer from any file system that Beam knows; errors as those of `Tokenizer.from_file`."""
    if is_local(path):
        return Tokenizer.from_file(path)
    try:
        return open_tokenizer(path)
    except (OSError, ValueError, TokenizerFileError) as error:
        raise TokenizerFileError(f"{path}: {error}") from None


def encode_corpus(
    corpus: Corpus,
    tokenizer_path: str,
    output: str,
    run: Execution,
    *,
    overwrite: bool = False,
    update: bool = False,
    plan: Plan | None = None,
    rows: RowOptions | None = None,
) -> dict[str, Any]:
    """`tokenmill encode`: token shards in the folder `output`; returns its manifest. `plan`: that of the corpus, if made.

    With `update` a dataset that is published is brought up to date: only splits that are new are encoded.
    """
    tokenizer = load_tokenizer(tokenizer_path)
    content = tokenizer.to_bytes()
    options = make_encode_options(corpus, tokenizer, rows or RowOptions(), sha256=hash_bytes(content))
    packing = options.packing
    with _open_run("encode", options, corpus, output, run, overwrite=overwrite, update=update, plan=plan) as job:
        folder, plan = job.folder, job.plan
        carried = folder.working("tokenizer.json")
        with keep_tokenizer(carried, tokenizer):
            fork_workers(plan, run, lambda: tokenizer.encode_batch([" "]))
            write_file_atomically(carried, content)
            options = replace(
                options,
                tokenizer_path=carried,
                shards_folder=folder.shards,
                journal_folder=folder.journal,
                rejects_folder=folder.rejects,
            )
            finished = folder.finished()
            splits = [split for split in plan.splits if split.index not in finished]
            records = _run_job("encode", encode_graph(splits, options, len(plan.splits)), splits, job, run)
        made = sum(record["tokens"] for record in records.values())
        books = _close_books("encode", plan, records, folder, run, made)
        entries = [entry for index in sorted(records) for entry in describe_split(records[index], folder.keys[index])]
        entries, names = name_shards(entries)
        card = write_card(tokenizer.embedding_rows, None if packing is None else packing.block)
        frame = frame_dataset(tokenizer, corpus, options) | {"readme": {"sha256": hash_bytes(card)}}
        manifest = fill_frame(frame, packing, books.files, entries)
        folder.publish(manifest, {"tokenizer.json": content, "README.md": card}, names)
    return manifest


def make_encode_options(corpus: Corpus, tokenizer: Tokenizer, rows: RowOptions, *, sha256: str | None = None) -> EncodeOptions:
    """All that the shards of a corpus depend on; what they go to is not said yet. `sha256`: the tokenizer's, if known."""
    shape = choose_shape(rows, tokenizer, pair=corpus.read.pair_column is not None)
    packing = choose_packing(rows, tokenizer, pair=corpus.read.pair_column is not None)
    how = EncodeOptions(corpus.read, "", sha256 or tokenizer.sha256, packing=packing, shape=shape, shuffle=rows.shuffle)
    return replace(how, shard_bytes=SHARD_SPLITS * corpus.split_bytes)


@dataclass(frozen=True)
class _Job:
    """What a run works with while it holds its folder. `kept`: splits that were done before."""

    folder: OutputFolder
    plan: Plan
    lock: Lock
    kept: int


@contextlib.contextmanager
def _open_run(
    name: str,
    options: CountOptions | EncodeOptions,
    corpus: Corpus,
    output: str,
    run: Execution,
    *,
    overwrite: bool,
    update: bool,
    plan: Plan | None,
) -> Iterator[_Job]:
    """A folder that is held for this run, and the plan. All that can be refused is refused before anything is written."""
    use_beam_options(run.beam_args, workers=run.workers or 1)
    folder = OutputFolder(output)
    check_apart(corpus, output)
    folder.check_free(overwrite=overwrite or update)
    plan = plan or plan_corpus(corpus, run)
    check_spared(plan, folder.list_replaced())
    keys = key_splits(plan.splits, plan.stamps, describe_job(name, options))
    folder = OutputFolder(output, keys, "group" if name == "count" else "shard")
    with folder.hold() as lock:
        folder = replace(folder, lock=lock)
        folder.check_free(overwrite=overwrite or update)  # once more: another run may have published while this one planned
        kept = folder.begin(folder.published_parts() if update and not overwrite else None)
        try:
            yield _Job(folder, plan, lock, kept)
        except TokenmillError:
            folder.abandon()
            raise


def _run_job(name: str, build: BuildGraph, splits: Sequence[Split], job: _Job, run: Execution) -> Records:
    """Run a graph as a stage that goes on from what is kept; returns the journal's records."""
    with run.reporter.stage(name, len(job.plan.splits)) as stage:
        if job.lock.warning:
            stage.message(job.lock.warning)
        if job.kept:
            stage.message(f"{job.kept:,} of {count_things(len(job.plan.splits), 'split')} are done already")
        ticker = Ticker(Journal(job.folder.journal), stage, job.lock)
        return run_graph(build if splits else None, job.plan, ticker, run)


def run_graph(build: BuildGraph | None, plan: Plan, ticker: Ticker, run: Execution) -> Records:
    """Run a graph, None where nothing is left to do, under the eyes of the reporter; returns the journal's records."""
    if build is not None:
        if not kernels.are_compiled():
            ticker.stage.message("compiling kernels: the first run after an installation takes about half a minute longer")
        workers = choose_workers(plan, run)
        run_pipeline(build, workers=workers, beam_args=run.beam_args, on_tick=ticker.tick, ready=run.ready)
    ticker.show()
    return ticker.journal.records()


class Ticker:
    """Shows what the journal says, twice a second at most, less often where looking takes long."""

    def __init__(self, journal: Journal, stage: Stage, lock: Lock | None = None) -> None:
        self.journal, self.stage, self._lock, self._next = journal, stage, lock, time.monotonic() + POLL_SECONDS

    def tick(self) -> None:
        if time.monotonic() < self._next:
            return
        started = time.monotonic()
        with contextlib.suppress(OSError, StoreError):  # a listing that fails once must not end a job of hours
            self.show()
            if self._lock is not None:
                self._lock.renew()
        self._next = time.monotonic() + max(POLL_SECONDS, 10 * (time.monotonic() - started))

    def show(self) -> None:
        totals = self.journal.finished()
        self.stage.update(totals.splits, documents=totals.documents, bytes=totals.bytes, words=totals.words, tokens=totals.tokens)


def _close_books(name: str, plan: Plan, records: Records, folder: OutputFolder, run: Execution, made: int) -> Books:
    """The accounts of a run that may be published. `made`: how many words or tokens there are."""
    check_unchanged(plan)
    books = accounting.close_books(plan.files, records, len(plan.splits))
    run.reporter.tell(name, books.describe())
    accounting.check_rejects(books, plan.corpus.max_rejects, folder.rejects)
    what = "word" if name == "count" else "token"
    accounting.check_made(books, made, what, read_manifest(folder.path), folder.path)
    return books


def _count_merges(options: TrainingOptions) -> int:
    """How many merges are asked for; for a character model, whose alphabet is not known yet, at most so many."""
    if options.merges is not None or not options.kind.has_merges:
        return options.merges or 0
    return max(0, (options.vocab_size or 0) - len(options.specials) - options.least_alphabet)
