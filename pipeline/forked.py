"""Worker processes that are there at once: forked from a driver that has imported everything, where others spend a second on it.

    ready = ForkedWorkers()
    ready.fork(2, warm_up)       they load kernels (`warm_up`) while the driver goes on, and wait to be told their job
    worker = ready.take()        then as a `subprocess.Popen`; None when there is none left

Only a process that does one thing at a time may be forked: no other thread of Python, and nothing of gRPC in use, whose threads
would be missing in the copy. So only the command line asks for it, before its first job; all other runs start their workers anew.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import IO, Any, NoReturn

from tokenmill.pipeline.worker_process import run_worker

_POLL_SECONDS = 0.02
_GARBAGE_THRESHOLDS = (100_000, 50, 50)
_STANDARD = (0, 1, 2)


class ForkedWorker:
    """What `pipeline/workers.py` needs of a `subprocess.Popen`, for a process that was forked and waits for its job.

    `output` takes what it writes. `stdin` is open as long as this process lives: a worker leaves when it is closed.
    """

    def __init__(self, warm_up: Callable[[], Any]) -> None:
        self.output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker lives
        self.returncode: int | None = None
        self._lock = threading.Lock()
        reading, writing = os.pipe()
        # What Python and libraries do around a fork swallows a Ctrl-C that comes in it: it is to come after that.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which those of libraries are counted as
                self.pid = os.fork()
            if self.pid == 0:
                _be_worker(reading, self.output.fileno(), warm_up, mask)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(reading)
        self.stdin: IO[bytes] = os.fdopen(writing, "wb", buffering=0)

    def start(self, environment: dict[str, str]) -> None:
        """Tell it its job. One that has died meanwhile is found by `wait`."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write(json.dumps(environment).encode() + b"\n")

    def poll(self) -> int | None:
        """Its exit code, minus the signal that killed it, None while it runs."""
        with self._lock:
            if self.returncode is None and (found := os.waitpid(self.pid, os.WNOHANG)) != (0, 0):
                self.returncode = os.waitstatus_to_exitcode(found[1])
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises `subprocess.TimeoutExpired`."""
        if timeout is None:
            with contextlib.suppress(ChildProcessError):  # another thread has seen its end first
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0)
            time.sleep(_POLL_SECONDS)
        return code

    def kill(self) -> None:
        with self._lock:
            if self.returncode is None:
                os.kill(self.pid, signal.SIGKILL)


class ForkedWorkers:
    """Those that wait for a job. One that is never told any leaves with its driver."""

    def __init__(self) -> None:
        self._ready: list[ForkedWorker] = []
        self._asked = False

    def fork(self, number: int, warm_up: Callable[[], Any]) -> None:
        """Fork so many, once, and where that is safe: on Linux, with no other thread. Else do nothing."""
        if self._asked or sys.platform != "linux" or threading.active_count() > 1:
            return
        self._asked = True
        gc.freeze()  # what there is now stays: nobody looks for garbage in it, and copies share its pages
        gc.set_threshold(*_GARBAGE_THRESHOLDS)
        sys.stdout.flush()
        sys.stderr.flush()
        self._ready = [ForkedWorker(warm_up) for _ in range(number)]

    def take(self) -> ForkedWorker | None:
        return self._ready.pop() if self._ready else None


def _be_worker(reading: int, output: int, warm_up: Callable[[], Any], mask: set[signal.Signals | int]) -> NoReturn:
    """Cut what ties the copy to the driver (files, pipes, signals), get ready, and work once the job is known."""
    try:
        for descriptor, standard in zip((reading, output, output), _STANDARD, strict=True):
            os.dup2(descriptor, standard)
        os.closerange(len(_STANDARD), os.sysconf("SC_OPEN_MAX"))
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in zip(_STANDARD, "rww", strict=True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        warm_up()
        if line := _read_line(0):
            os.environ.update(json.loads(line))
            run_worker()
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def _read_line(descriptor: int) -> bytes:
    """A line, and not a byte more: what follows is for whoever reads next. Empty when the writer has gone."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line if byte else b""
