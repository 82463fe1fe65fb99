"""Running a Beam graph: the only module that knows what a runner is.

    run_pipeline(build, workers=1)                   in this process
    run_pipeline(build, workers=4)                   4 worker processes on this machine
    run_pipeline(build, beam_args=["--runner=..."])  wherever that runner runs; the graph stays the same

Local runs build `FnApiRunner` directly: `DirectRunner` would first try to download another runner. Their worker processes are
those of `pipeline/workers.py`.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.worker_handlers import WorkerHandler
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner, PipelineState, create_runner
from apache_beam.transforms import environments

from tokenmill import errors
from tokenmill.pipeline.forked import ForkedWorkers
from tokenmill.pipeline.workers import GRACE_SECONDS, WORKERS_URN, LocalJob, ProcessEnvironment, ProcessHandler, WorkerProcesses
from tokenmill.transforms.stores import use_options

TICK_SECONDS = 0.2
LISTENER_SECONDS = 1.0

_LOCAL_RUNNERS = ("directrunner", "direct", "fnapirunner")
#: What `--workers` stands for.
_OURS = ("--direct_num_workers", "--direct_running_mode")


def run_pipeline(
    build: Callable[[beam.Pipeline], Any],
    *,
    workers: int = 1,
    beam_args: Sequence[str] = (),
    on_tick: Callable[[], None] | None = None,
    ready: ForkedWorkers | None = None,
) -> None:
    """Build a graph, run it to its end, and call `on_tick` about five times a second meanwhile, from the calling thread.

    `workers` processes share the work when the run is local, those that are `ready` before others; 1 means in this process. With
    `--runner=NAME` in `beam_args` that runner gets the graph, and decides about workers. An exception of `on_tick`,
    KeyboardInterrupt included, ends the run: worker processes are killed, a remote job is cancelled. (A run in this process
    cannot be stopped from outside: its thread goes on in the background until this process ends.)

    Raises WorkerError when a worker process dies or a remote job does not finish; the error itself when a step raised one of
    `tokenmill.errors`; TokenmillError, with the trimmed traceback, when a step raised anything else; UsageError for options that
    cannot be used.
    """
    options = use_options(parse_options(beam_args, workers=workers))
    processes = WorkerProcesses(ready)
    with _quiet_loggers(beam_args):
        runner = _local_runner(options, processes, workers) if _is_local(options) else _other_runner(options)
        run = _Run(build, runner, options)
        try:
            run.watch(processes, on_tick)
        except BaseException:
            run.cancel()
            processes.kill()
            _await_listeners()
            raise
        finally:
            run.thread.join(GRACE_SECONDS if processes.started else 0)
            processes.wait()


def parse_options(beam_args: Sequence[str], *, workers: int) -> PipelineOptions:
    """Beam's options from the words behind `--` on the command line.

    Raises UsageError where Beam would end the process or look away: a value it cannot parse, an option no local run knows, an
    option that `--workers` stands for.
    """
    if workers < 1:
        raise errors.UsageError(f"--workers is {workers}: give 1 or more")
    for argument in beam_args:
        if argument.partition("=")[0] in _OURS:
            raise errors.UsageError(f"Beam option {argument}: local workers are set with --workers; leave it out")
    options = _parse_or_raise(beam_args)
    unknown = sorted(set(options.get_all_options(retain_unknown_options=True)) - set(options.get_all_options()))
    if unknown and _is_local(options):
        raise errors.UsageError(f"Beam option --{unknown[0]}: a local run has none; check the spelling, or give --runner")
    return options


def use_beam_options(beam_args: Sequence[str], *, workers: int = 1) -> None:
    """Let the file systems of this process have the options of these words from now on, also before a job and without one.

    Raises the UsageError of `parse_options`. Without words, what was set before stays.
    """
    options = parse_options(beam_args, workers=workers)
    if beam_args:
        use_options(options)


def _parse_or_raise(beam_args: Sequence[str]) -> PipelineOptions:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(list(beam_args))
            options.get_all_options()  # only this parses the options of all parts of Beam
            return options
    except SystemExit:
        last = (complaint.getvalue().strip().splitlines() or [""])[-1].rpartition("error: ")[2]
        raise errors.UsageError(f"Beam options {' '.join(beam_args)}: {last}; give NAME=VALUE as Beam documents it") from None


def runs_here(beam_args: Sequence[str]) -> bool:
    """Whether a job with these words for Beam runs on this machine, in process or with our workers."""
    return _is_local(parse_options(beam_args, workers=1))


def _is_local(options: PipelineOptions) -> bool:
    return (options.view_as(StandardOptions).runner or "direct").lower() in _LOCAL_RUNNERS


@contextlib.contextmanager
def _quiet_loggers(beam_args: Sequence[str]) -> Iterator[None]:
    """Silence Beam and gRPC while a run lasts, unless logs are asked for: what matters is in the exception that ends it."""
    if any(argument.startswith("--default_sdk_harness_log_level") for argument in beam_args):
        yield
        return
    loggers = [logging.getLogger(name) for name in ("apache_beam", "grpc")]
    levels = [logger.level for logger in loggers]
    hook = threading.excepthook
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    threading.excepthook = lambda failure: None if _listens_to_worker(failure.thread) else hook(failure)
    try:
        yield
    finally:
        threading.excepthook = hook
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _listens_to_worker(thread: threading.Thread | None) -> bool:
    """Whether it is one of Beam's threads that end with an exception when the worker they listen to dies."""
    return thread is not None and thread.name in ("beam_control_read", "read_grpc_client_inputs")


def _await_listeners() -> None:
    """Let those threads end while their exceptions are silenced."""
    deadline = time.monotonic() + LISTENER_SECONDS
    for thread in threading.enumerate():
        if _listens_to_worker(thread):
            thread.join(max(0.0, deadline - time.monotonic()))


def _local_runner(options: PipelineOptions, processes: WorkerProcesses, workers: int) -> FnApiRunner:
    """An `FnApiRunner` that hands the options on to its workers; with our processes for these when there are several."""
    all_options = options.get_all_options()
    all_options["default_sdk_harness_log_level"] = all_options.get("default_sdk_harness_log_level") or "CRITICAL"
    encoded = JobServiceHandle.encode_pipeline_options(all_options)
    job = LocalJob(beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded), processes)
    if workers == 1:
        return FnApiRunner(provision_info=job)
    direct = options.view_as(DirectOptions)
    direct.direct_num_workers = workers
    direct.direct_running_mode = None  # any of Beam's own modes would replace the environment below
    WorkerHandler.register_environment(WORKERS_URN, bytes)(ProcessHandler)
    return FnApiRunner(default_environment=ProcessEnvironment(environments.python_sdk_capabilities()), provision_info=job)


def _other_runner(options: PipelineOptions) -> PipelineRunner:
    name = options.view_as(StandardOptions).runner
    try:
        return create_runner(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise errors.UsageError(f"--runner={name}: {error}; leave it out to run on this machine") from None


class _Run:
    """One run in a thread of its own, so that the caller's thread can look after it."""

    def __init__(self, build: Callable[[beam.Pipeline], Any], runner: PipelineRunner, options: PipelineOptions) -> None:
        self._build, self._runner, self._options = build, runner, options
        self._result: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._work, name="tokenmill-run", daemon=True)

    def watch(self, processes: WorkerProcesses, on_tick: Callable[[], None] | None) -> None:
        self.thread.start()
        while self.thread.is_alive() and processes.death is None:
            self.thread.join(TICK_SECONDS)
            if on_tick is not None:
                on_tick()
        self.thread.join(GRACE_SECONDS)
        if processes.death is not None and (self._error is not None or self.thread.is_alive()):
            raise errors.WorkerError(processes.death) from self._error
        if self._error is not None:
            raise explain_failure(self._error) from self._error

    def cancel(self) -> None:
        """Give up a job that runs elsewhere (a local result only exists when the job is over)."""
        if self._result is not None and self.thread.is_alive():
            with contextlib.suppress(Exception):
                self._result.cancel()

    def _work(self) -> None:
        try:
            pipeline = beam.Pipeline(runner=self._runner, options=self._options)
            self._build(pipeline)
            self._result = pipeline.run()
            state = self._result.wait_until_finish() or self._result.state
            if state != PipelineState.DONE:
                raise errors.WorkerError(f"the runner ended the job in state {state}: look into its own logs")
        except BaseException as error:
            self._error = error


_CHAINED = re.compile(r"\n\n(?:During handling of the above|The above exception was)[^\n]*\n\n")
_STEP = re.compile(r" \[while running '(.*?)'\]")


def explain_failure(error: BaseException) -> BaseException:
    """What a failed run should raise, given what Beam raised.

    A step's exception comes back as the text of a traceback, mostly of Beam's own frames. One of `tokenmill.errors` is built anew
    from it, with its message alone; of any other the frames outside Beam are kept. Errors that are no such text are returned as
    they are.
    """
    if isinstance(error, errors.TokenmillError):
        return type(error)(_STEP.sub("", str(error)))
    text = str(error)
    if "Traceback (most recent call last)" not in text:  # raised in this process
        text = "".join(traceback.format_exception(error))
    frames, message = _split_traceback(_CHAINED.split(text)[-1])
    step = _STEP.search(message)
    name, _, words = _STEP.sub("", message).partition(": ")
    module, _, class_name = name.rpartition(".")
    known = getattr(errors, class_name, None) if module == errors.__name__ else None
    if isinstance(known, type) and issubclass(known, errors.TokenmillError):
        return known(words)
    where = f" in step {step[1]!r}" if step else ""
    if name.endswith("MemoryError"):
        return errors.WorkerError(f"out of memory{where}; give fewer --workers, a smaller --split-mb, or shorter documents")
    return errors.TokenmillError(f"unexpected failure{where}: {_STEP.sub('', message)}\n{''.join(frames)}".rstrip())


def _split_traceback(text: str) -> tuple[list[str], str]:
    """Frames (without Beam's) and message of one traceback: `File "a.py", line 1, in f` ... -> ([...], "ValueError: no")."""
    frames: list[str] = []
    rest = text.strip().partition("Traceback (most recent call last):\n")[2].splitlines(keepends=True)
    while rest and rest[0].startswith(" "):
        line = rest.pop(0)
        if line.startswith("  File "):
            frames.append(line)
        elif frames:
            frames[-1] += line
    ours = [frame for frame in frames if "apache_beam" not in frame.partition("\n")[0] and __file__ not in frame]
    return ours, "".join(rest) or text
