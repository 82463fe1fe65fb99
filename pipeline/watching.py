"""`tokenmill encode --watch`: what comes into a folder becomes shards while the command runs.

Every few seconds the inputs are looked at. Files that are as they were at the look before are at rest; when there are new ones
among them, the dataset is brought up to date by the same bounded job as ever, which encodes the splits that are new. What is
published after any round is what one `encode` of the files at rest would have written, byte for byte; a command that was ended
goes on there.

SIGTERM ends it after the round that is under way, which is published.

These are micro-batches because the in-process runner cannot drive a source without an end. The graph for runners that can is
`jobs.watch_graph`; no command starts it yet.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokenmill.errors import DataError, UnreadableFileError, UsageError
from tokenmill.pipeline.accounting import describe_reasons
from tokenmill.pipeline.driver import encode_corpus
from tokenmill.pipeline.listing import FileState, is_remote, look_at
from tokenmill.pipeline.outputs import read_manifest
from tokenmill.pipeline.planning import Corpus, Execution, list_corpus, plan_corpus
from tokenmill.pipeline.progress import count_things
from tokenmill.pipeline.runners import runs_here
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.transforms.splits import SourceFile

States = dict[str, FileState]

#: How often files are listed when that fails, and the pause in between.
LISTINGS = 5
LISTING_SECONDS = 0.02


def watch_corpus(
    corpus: Corpus,
    tokenizer_path: str,
    output: str,
    run: Execution,
    *,
    seconds: float,
    rows: RowOptions,
    rounds: int | None = None,
) -> None:
    """Look every so many seconds, until SIGTERM, or for so many rounds.

    Raises DataError for a file that was published and has gone: without it the dataset would shrink.
    """
    if any(is_remote(path) or path.startswith(("hf:", "disk:")) for path in corpus.inputs):
        raise UsageError("--watch is for files and folders of this machine; copy to a local folder, or run encode again")
    if not runs_here(run.beam_args):
        raise UsageError(
            "--watch runs on this machine; leave --runner out, or have `tokenmill build` do what is new every so often"
        )
    run = replace(run, ready=None)  # workers that are forked beforehand are for one job
    before: States = {}
    done: States = {}
    with stop_on_signal() as stop:
        while rounds != 0 and not stop.is_set():
            files = find_files(corpus, is_begun=read_manifest(output) is not None)
            states = {file.path: look_at(file.path) for file in files}
            resting = [file for file in files if states[file.path] == before.get(file.path) and states[file.path][0]]
            fresh = {file.path: states[file.path] for file in resting}
            if fresh != done and is_complete(output, files, resting):
                done = encode_round(corpus, resting, tokenizer_path, output, run, rows, fresh) or done
            before, rounds = states, None if rounds is None else rounds - 1
            if rounds != 0:
                pause(stop, seconds)


def pause(stop: threading.Event, seconds: float) -> None:
    """Wait for the next look, or for the end."""
    stop.wait(seconds)


@contextlib.contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM sets; nothing is cut short by it. Outside of the main thread there are no signals."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    old = signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, old)


def find_files(corpus: Corpus, *, is_begun: bool) -> list[SourceFile]:
    """The files that are there now. When one goes while they are listed, they are listed again.

    None at all are an empty list; when the dataset is begun, they are an `UnreadableFileError`, as is what cannot be listed.
    """
    for _ in range(LISTINGS):
        try:
            return list_corpus(corpus).files
        except UnreadableFileError as error:
            failure = error
        time.sleep(LISTING_SECONDS)
    if is_begun:
        raise failure
    return []


def is_complete(output: str, files: Sequence[SourceFile], resting: Sequence[SourceFile]) -> bool:
    """Whether all that is published is among the files at rest: while one of them is written to, nothing is published anew."""
    published = {file["name"] for file in (read_manifest(output) or {}).get("files", [])}
    if gone := sorted(published - {file.name for file in files}):
        raise DataError(f"{gone[0]} is published and has gone; put it back, or encode what is left with --overwrite")
    return published <= {file.name for file in resting}


def encode_round(
    corpus: Corpus,
    files: list[SourceFile],
    tokenizer_path: str,
    output: str,
    run: Execution,
    rows: RowOptions,
    states: States,
) -> States | None:
    """Bring the dataset up to date with these files; returns their states, None where one changed or went meanwhile."""
    try:
        plan = plan_corpus(corpus, run, files=files)
        before = count_rejected(read_manifest(output))
        manifest = encode_corpus(corpus, tokenizer_path, output, run, update=True, plan=plan, rows=rows)
        if count_rejected(manifest) > before:
            tell_rejects(manifest, output, run)
    except UnreadableFileError as error:
        with run.reporter.stage("watch", 1, unit="rounds") as stage:
            stage.message(f"nothing published this time: {error}")
        return None
    return states


def count_rejected(manifest: Mapping[str, Any] | None) -> int:
    """How many records a dataset has rejected; 0 where there is none yet."""
    return 0 if manifest is None else int(manifest["totals"]["rejected"])


def tell_rejects(manifest: Mapping[str, Any], output: str, run: Execution) -> None:
    """Say which records were rejected so far, and why: a command that watches has no summary at its end."""
    with run.reporter.stage("watch", 1, unit="rounds") as stage:
        records = count_things(count_rejected(manifest), "record")
        stage.message(f"{records} rejected so far: {output}/rejects says which and why")
        for reason in describe_reasons(manifest.get("reasons", [])):
            stage.message(reason)
        stage.update(1)
