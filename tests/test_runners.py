"""Running graphs on this machine and elsewhere, and what happens when something dies, fails or is interrupted.

What starts worker processes takes some seconds a test and is marked slow, but for one of each kind.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import psutil
import pyarrow as pa
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import S3Options
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from tokenmill.errors import TokenmillError, UnreadableFileError, UsageError, WorkerError
from tokenmill.pipeline import workers
from tokenmill.pipeline.runners import explain_failure, run_pipeline
from tokenmill.pipeline.workers import describe_death
from tokenmill.transforms.coders import register_coders

PATIENCE = 60.0
BOTH = [pytest.param(1), pytest.param(2, marks=pytest.mark.slow)]


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def worker_processes() -> list[psutil.Process]:
    """Those of this process; other tests may have servers of theirs running."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if any("run_worker" in word for word in command_of(child))]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@beam.typehints.with_output_types(tuple[int, pa.Table])
class Meet(beam.DoFn):
    """Notes its process in a folder, waits there for as many processes as are expected, and tells what it sees."""

    def __init__(self, folder: str, processes: int) -> None:
        self.folder, self.processes = folder, processes

    def process(self, number: int) -> Iterator[tuple[int, pa.Table]]:
        (Path(self.folder) / f"process-{os.getpid()}").touch()
        wait_until(lambda: len(list(Path(self.folder).glob("process-*"))) == self.processes)
        endpoint = FileSystems._pipeline_options.view_as(S3Options).s3_endpoint_url
        row = pa.table({"number": [number], "endpoint": [endpoint]})
        yield number % 3, pa.concat_tables([row.slice(0, 0), row])


class WriteGroup(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, group: tuple[int, Iterable[pa.Table]]) -> None:
        tables = list(group[1])
        assert {table["number"].num_chunks for table in tables} == {1}, "tables came pickled: our coder joins their batches"
        rows = pa.concat_tables(tables).sort_by("number").to_pylist()
        (Path(self.folder) / f"group-{group[0]}").write_text(repr([tuple(row.values()) for row in rows]))


class Fail(beam.DoFn):
    """Goes wrong at number 3, in the way that is asked for."""

    def __init__(self, how: str) -> None:
        self.how = how

    def process(self, number: int) -> Iterator[int]:
        if number == 3:
            self.fail(number)
        yield number

    def fail(self, number: int) -> None:
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "exit":
            os._exit(0)
        if self.how == "bug":
            raise ZeroDivisionError(f"no way to divide {number}")
        raise UnreadableFileError("a.gz: cut off at byte 7: fetch it again\nsecond line")


class Sleep(beam.DoFn):
    """Says that it runs, then takes far longer than any test."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, number: int) -> Iterator[int]:
        (Path(self.folder) / f"sleeps-{number}-{os.getpid()}").touch()
        time.sleep(600)
        yield number


def numbers(pipeline: beam.Pipeline) -> Any:
    return pipeline | beam.Create(list(range(8))) | beam.Reshuffle()


def group_in(folder: Path, processes: int) -> Callable[[beam.Pipeline], Any]:
    register_coders()
    grouped = beam.ParDo(Meet(str(folder), processes)) | beam.GroupByKey() | beam.ParDo(WriteGroup(str(folder)))
    return lambda pipeline: numbers(pipeline) | grouped


def fail_by(how: str) -> Callable[[beam.Pipeline], Any]:
    return lambda pipeline: numbers(pipeline) | "Divide" >> beam.ParDo(Fail(how))


def sleep_in(folder: Path) -> Callable[[beam.Pipeline], Any]:
    return lambda pipeline: numbers(pipeline) | beam.ParDo(Sleep(str(folder)))


@pytest.mark.parametrize("workers", [1, 2])
def test_work_is_done_by_all_workers_at_once_and_in_silence(
    tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ticks: list[int] = []
    build = group_in(tmp_path, workers)
    arguments = ["--s3_endpoint_url=http://nowhere"]
    run_pipeline(build, workers=workers, beam_args=arguments, on_tick=lambda: ticks.append(len(worker_processes())))
    groups = {path.name: path.read_text() for path in tmp_path.glob("group-*")}
    assert groups == {f"group-{key}": repr([(number, "http://nowhere") for number in range(key, 8, 3)]) for key in range(3)}
    assert len(list(tmp_path.glob("process-*"))) == workers
    assert max(ticks) == (0 if workers == 1 else workers)
    assert worker_processes() == []
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_is_killed_ends_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorkerError) as caught:
        run_pipeline(fail_by("kill"), workers=2)
    assert re.fullmatch(
        r"worker process \d+ was killed by signal 9 \(SIGKILL\) in the middle of the job; if memory ran out, give fewer "
        r"--workers or a smaller --split-mb, then run the same command again",
        str(caught.value),
    )
    assert worker_processes() == []
    assert "tokenmill-run" not in [thread.name for thread in threading.enumerate()], "Beam still waits for the dead worker"
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_worker_that_leaves_early_ends_the_run() -> None:
    with pytest.raises(WorkerError, match=r"process \d+ ended with exit code 0 in the middle of the job; see what it wrote"):
        run_pipeline(fail_by("exit"), workers=2)
    assert worker_processes() == []


def test_an_ended_run_starts_no_more_workers() -> None:
    processes = workers.WorkerProcesses()
    processes.kill()
    with pytest.raises(WorkerError, match=r"^the run has ended: no worker is started any more$"):
        processes.start({})


@pytest.mark.slow
def test_workers_take_no_module_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed command does not see the folder it is run in: its workers must not either."""
    monkeypatch.setattr(sys, "path", [os.path.abspath(entry) for entry in sys.path])
    monkeypatch.chdir(tmp_path)
    for name in ("pipeline.py", "random.py"):
        (tmp_path / name).write_text("raise SystemExit('a file of the user')")
    with pytest.raises(UnreadableFileError):
        run_pipeline(fail_by("ours"), workers=2)


@pytest.mark.slow
def test_a_worker_that_does_not_start_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_WORKER_CODE", "run_worker = exit('no room\\nWARNING:root:noise')")
    with pytest.raises(WorkerError, match=r"ended with exit code 1 in the middle of the job; it last wrote: no room; see"):
        run_pipeline(fail_by("bug"), workers=2)


@pytest.mark.parametrize("workers", BOTH)
def test_a_bug_is_shown_with_step_and_place_but_without_beam(workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TokenmillError) as caught:
        run_pipeline(fail_by("bug"), workers=workers)
    lines = str(caught.value).splitlines()
    assert type(caught.value) is TokenmillError
    assert lines[0] == "unexpected failure in step 'Divide': ZeroDivisionError: no way to divide 3"
    assert lines[1].startswith(f'  File "{__file__}", line ') and "apache_beam" not in str(caught.value)
    assert [line for line in lines if line.startswith("  File")][-1].endswith("in fail")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("workers", BOTH)
def test_an_error_of_ours_comes_back_as_it_was_raised(workers: int) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        run_pipeline(fail_by("ours"), workers=workers)
    assert str(caught.value) == "a.gz: cut off at byte 7: fetch it again\nsecond line"


@pytest.mark.parametrize("workers", BOTH)
def test_a_tick_that_raises_ends_the_run(tmp_path: Path, workers: int) -> None:
    """Also how Ctrl-C looks from inside: KeyboardInterrupt reaches the thread that ticks."""

    def interrupt() -> None:
        if len(list(tmp_path.glob("sleeps-*"))) == workers:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(sleep_in(tmp_path), workers=workers, on_tick=interrupt)
    assert worker_processes() == []


DRIVER = """
import sys
from pathlib import Path
from tokenmill.pipeline.runners import run_pipeline
from test_runners import sleep_in
try:
    run_pipeline(sleep_in(Path(sys.argv[1])), workers=int(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    sys.exit(130)
"""


def start_driver(folder: Path, workers: int) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A driver in a process group of its own, as a shell starts it, and the processes that do its work."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    command = [sys.executable, "-c", DRIVER, str(folder), str(workers)]
    driver = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: len(list(folder.glob("sleeps-*"))) == workers)
    return driver, psutil.Process(driver.pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    for process in alive:
        process.kill()
    assert alive == []


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_driver_and_workers(tmp_path: Path, workers: int) -> None:
    driver, children = start_driver(tmp_path, workers)
    os.killpg(driver.pid, signal.SIGINT)
    _, written = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130
    assert written.splitlines()[-1] == "interrupted" and "Traceback" not in written
    assert len(children) == (0 if workers == 1 else workers)
    assert_gone(children)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_their_driver(tmp_path: Path, number: signal.Signals) -> None:
    driver, children = start_driver(tmp_path, 2)
    driver.send_signal(number)
    driver.communicate(timeout=PATIENCE)
    assert len(children) == 2
    assert_gone(children)


@pytest.mark.slow
def test_a_worker_that_still_starts_leaves_with_its_driver() -> None:
    """Beam's own worker would wait a minute for a driver to connect to, and end with a traceback."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    environment |= {"WORKER_ID": "1", "CONTROL_API_SERVICE_DESCRIPTOR": 'url: "localhost:9"', "PIPELINE_OPTIONS": "{}"}
    command = [sys.executable, "-c", "from tokenmill.pipeline.worker_process import run_worker; run_worker()"]
    worker = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    written, _ = worker.communicate(timeout=PATIENCE)  # closes its standard input, as the end of a driver does
    assert worker.returncode == 1
    assert b"Traceback" not in written


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--direct_num_workers=4"], "Beam option --direct_num_workers=4: local workers are set with --workers; leave it out"),
        (
            ["--direct_running_mode", "multi_threading"],
            "Beam option --direct_running_mode: local workers are set with --workers; leave it out",
        ),
        (["--runer=Flink"], "Beam option --runer: a local run has none; check the spelling, or give --runner"),
        (
            ["--max_cache_memory_usage_mb=many"],
            "Beam options --max_cache_memory_usage_mb=many: argument --max_cache_memory_usage_mb: invalid int value: 'many'; "
            "give NAME=VALUE as Beam documents it",
        ),
        (["--runner=no.such.Runner"], "--runner=no.such.Runner: No module named 'no'; leave it out to run on this machine"),
    ],
)
def test_options_that_cannot_be_used_are_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_pipeline(numbers, beam_args=arguments)
    assert str(caught.value) == words


def test_an_unknown_runner_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--runner=Nonsense: Unexpected pipeline runner: Nonsense\. Valid values are "):
        run_pipeline(numbers, beam_args=["--runner", "Nonsense"])


def test_no_workers_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^--workers is 0: give 1 or more$"):
        run_pipeline(numbers, workers=0)


@pytest.mark.parametrize("name", ["DirectRunner", "direct", "FnApiRunner"])
def test_the_names_of_local_runners_mean_local(name: str, tmp_path: Path) -> None:
    build = group_in(tmp_path, 1)
    run_pipeline(build, beam_args=[f"--runner={name}", "--s3_endpoint_url=a"])
    assert len(list(tmp_path.glob("group-*"))) == 3


class FarAway(PipelineRunner):
    """A cluster of which the test says how the job ends; `None` means not before it is cancelled."""

    state: ClassVar[str | None] = PipelineState.DONE
    seen: ClassVar[list[str]] = []

    def run_pipeline(self, pipeline: beam.Pipeline, options: Any) -> FarAwayResult:
        steps = len(pipeline.to_runner_api().components.transforms)
        self.seen.append(f"{steps > 3} {options.view_as(S3Options).s3_endpoint_url}")
        return FarAwayResult(self.state)


class FarAwayResult(PipelineResult):
    def __init__(self, state: str | None) -> None:
        super().__init__(state)
        self.cancelled = False

    def wait_until_finish(self, duration: int | None = None) -> str | None:
        if self.state is None:
            wait_until(lambda: self.cancelled)
        return self.state

    def cancel(self) -> None:
        self.cancelled = True
        FarAway.seen.append("cancelled")


@pytest.fixture
def far_away() -> Iterator[type[FarAway]]:
    FarAway.seen.clear()
    yield FarAway
    FarAway.state = PipelineState.DONE


REMOTE = [f"--runner={__name__}.FarAway", "--s3_endpoint_url=there", "--option_of_its_own=7"]


def test_another_runner_gets_the_whole_graph_and_the_options(far_away: type[FarAway]) -> None:
    run_pipeline(numbers, workers=8, beam_args=REMOTE)
    assert far_away.seen == ["True there"] and worker_processes() == []


def test_a_job_elsewhere_that_does_not_finish_is_an_error(far_away: type[FarAway]) -> None:
    far_away.state = PipelineState.FAILED
    with pytest.raises(WorkerError, match=r"^the runner ended the job in state FAILED: look into its own logs$"):
        run_pipeline(numbers, beam_args=REMOTE)


def test_a_job_elsewhere_is_cancelled_on_an_interrupt(far_away: type[FarAway]) -> None:
    far_away.state = None

    def interrupt() -> None:
        if far_away.seen:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(numbers, beam_args=REMOTE, on_tick=interrupt)
    assert far_away.seen == ["True there", "cancelled"]


def test_a_graph_that_cannot_be_built_is_a_bug() -> None:
    def build(pipeline: beam.Pipeline) -> None:
        raise LookupError("nothing there")

    with pytest.raises(TokenmillError) as caught:
        run_pipeline(build)
    assert str(caught.value).startswith(f'unexpected failure: LookupError: nothing there\n  File "{__file__}", line ')


def test_loggers_and_hooks_are_as_before() -> None:
    import logging

    before = (logging.getLogger("apache_beam").level, logging.getLogger("grpc").level, threading.excepthook)
    with pytest.raises(TokenmillError):
        run_pipeline(lambda pipeline: 1 / 0)
    assert (logging.getLogger("apache_beam").level, logging.getLogger("grpc").level, threading.excepthook) == before


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "worker process 17 ended with exit code 3 in the middle of the job; it last wrote: oops; see what it "),
        (-11, "worker process 17 was killed by signal 11 (SIGSEGV) in the middle of the job; it last wrote: oops; see what it "),
        (-99, "worker process 17 was killed by signal 99 (unknown) in the middle of the job; it last wrote: oops; see what it "),
    ],
)
def test_a_death_is_described(code: int, words: str) -> None:
    assert describe_death(17, code, "oops").startswith(words)


def test_of_chained_tracebacks_the_last_one_counts() -> None:
    text = """Traceback (most recent call last):
  File "/x/apache_beam/a.py", line 1, in f
    g()
  File "/ours.py", line 2, in g
    h()
    ^^^
KeyError: 'k'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/apache_beam/a.py", line 3, in f
    raise
  File "/ours.py", line 4, in g
    h(2)
ValueError: two
lines [while running 'Read/Split']
"""
    explained = explain_failure(RuntimeError(text))
    assert str(explained) == (
        "unexpected failure in step 'Read/Split': ValueError: two\nlines\n  File \"/ours.py\", line 4, in g\n    h(2)"
    )
