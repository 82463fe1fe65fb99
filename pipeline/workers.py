"""Worker processes of a local run.

They are ours because with Beam's own `run()` waits for ever when one of them dies, and all they print reaches the terminal. These

- end the run about a second after a death, with a `WorkerError` of process, exit code or signal, and the last line it wrote;
- live no longer than the driver, even when that one is killed: a worker reads its standard input and leaves at its end;
- keep their output in a temporary file, of which only a failure shows the last line;
- see the modules that the driver sees (`sys.path` is handed on).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any

from apache_beam.portability.api import beam_fn_api_pb2, beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
from apache_beam.runners.portability.fn_api_runner.worker_handlers import GrpcWorkerHandler
from apache_beam.transforms import environments
from google.protobuf import json_format, text_format

from tokenmill import errors
from tokenmill.pipeline.forked import ForkedWorker, ForkedWorkers

Worker = subprocess.Popen[bytes] | ForkedWorker

#: How long a worker may take to leave when asked, and a failed run to come back, before they are left behind.
GRACE_SECONDS = 5.0

#: Without the entry for the current folder, which the driver may not have and where anything may lie.
_WORKER_CODE = (
    "import sys; sys.path = list(filter(None, sys.path)); from tokenmill.pipeline.worker_process import run_worker; run_worker()"
)
_LOG_LINE = re.compile(r"(DEBUG|INFO|WARNING):")
WORKERS_URN = "tokenmill:local_worker_processes:v1"


class WorkerProcesses:
    """The worker processes of one local run. `death` says how the first one that died in the middle of it did."""

    def __init__(self, ready: ForkedWorkers | None = None) -> None:
        self._lock = threading.Lock()
        self._ready = ready or ForkedWorkers()
        self.started: list[Worker] = []
        self._killed = False
        self.death: str | None = None

    def start(self, environment: dict[str, str]) -> tuple[Worker, IO[bytes]]:
        """Start one worker, one that is ready if there is; also gives the file that takes what it writes.

        Its standard input stays open as long as this process lives.
        """
        with self._lock:
            if self._killed:
                raise errors.WorkerError("the run has ended: no worker is started any more")
            if forked := self._ready.take():
                forked.start(environment)
                self.started.append(forked)
                return forked, forked.output
            output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker lives
            command = [sys.executable, "-c", _WORKER_CODE]
            process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=output)
            self.started.append(process)
        return process, output

    def report(self, process: Worker, last_line: str) -> None:
        """Take down the first death, and end the workers that are left: a run cannot go on without one of them."""
        with self._lock:
            if self.death is None and not self._killed:
                self.death = describe_death(process.pid, process.returncode, last_line)
        self.kill()

    def wait(self) -> None:
        """Wait until all have left; kill those that do not within the grace time."""
        deadline = time.monotonic() + GRACE_SECONDS
        for process in self.started:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def kill(self) -> None:
        """Kill those still running, and allow no new ones."""
        with self._lock:
            self._killed = True
            for process in self.started:
                process.kill()


def describe_death(pid: int, code: int | None, last_line: str = "") -> str:
    """`worker process 17 was killed by signal 9 (SIGKILL) ...`: what ended a worker, and what to do."""
    if code is not None and code < 0:
        name = next((known.name for known in signal.Signals if known == -code), "unknown")
        how = f"was killed by signal {-code} ({name})"
    else:
        how = f"ended with exit code {code}"
    hint = "if memory ran out, give fewer --workers or a smaller --split-mb" if code == -9 else "see what it wrote"
    said = f"; it last wrote: {last_line}" if last_line else ""
    return f"worker process {pid} {how} in the middle of the job{said}; {hint}, then run the same command again"


class LocalJob(ExtendedProvisionInfo):
    """Beam's description of a job, which it hands to every worker handler: it carries the run's processes there."""

    def __init__(self, info: beam_provision_api_pb2.ProvisionInfo, processes: WorkerProcesses) -> None:
        super().__init__(info)
        self.processes = processes

    def for_environment(self, env: Any) -> LocalJob:
        return self


class ProcessEnvironment(environments.Environment):
    """Names, in the graph, the kind of workers that `ProcessHandler` starts."""

    def to_runner_api_parameter(self, context: Any) -> tuple[str, bytes]:
        return WORKERS_URN, b""


class ProcessHandler(GrpcWorkerHandler):
    """Starts one worker process, waits for its end, and answers for it when it dies."""

    def __init__(self, payload: bytes, state: Any, job: LocalJob, grpc_server: Any) -> None:
        super().__init__(state, job, grpc_server)
        self._processes = job.processes
        self._closing = threading.Event()

    def start_worker(self) -> None:
        self._process, self._output = self._processes.start(self._environment())
        threading.Thread(target=self._watch, name="tokenmill-watch", daemon=True).start()

    def stop_worker(self) -> None:
        """Nothing to do: a worker leaves when its instructions end. `WorkerProcesses.wait` waits for all of them together."""

    def close(self) -> None:
        self._closing.set()
        super().close()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
            "WORKER_ID": self.worker_id,
            "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(self.control_api_service_descriptor()),
            "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(self.logging_api_service_descriptor()),
            "PIPELINE_OPTIONS": json_format.MessageToJson(self.provision_info.provision_info.pipeline_options),
        }

    def _watch(self) -> None:
        code = self._process.wait()
        if self._closing.is_set() and code >= 0:  # asked to leave; but a signal that is not ours is a death even then
            return
        with self._output:
            self._processes.report(self._process, self._read_last_line())
        while not self._closing.wait(0.05):
            self._fail_instructions()
        self._fail_instructions()

    def _read_last_line(self) -> str:
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - 2000))
        lines = self._output.read().decode("utf-8", "replace").splitlines()
        said = [line.strip() for line in lines if line.strip() and not _LOG_LINE.match(line)]
        return said[-1] if said else ""

    def _fail_instructions(self) -> None:
        """Answer what the dead worker was asked: only an answer, not Beam's `abort`, ends the wait for its output."""
        for identifier, future in list(self.control_conn._futures_by_id.items()):
            if not future.is_done():
                future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=identifier, error="the worker process died"))
