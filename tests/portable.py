"""Beam's portable job service with a pool of external workers, for tests that want to see a job run there.

Job service, workers and the test's process talk over gRPC only, as on a cluster: what works there depends on nothing that a local
run happens to share.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

START_SECONDS = 60.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return int(listener.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("localhost", port)) == 0


@contextmanager
def serve(module: str, option: str, log: Path) -> Iterator[int]:
    """Run a server module of Beam on a free port until the end of the context, together with all that it starts."""
    port = free_port()
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])  # it starts workers by `python`
    modules = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {**os.environ, "PATH": path, "PYTHONPATH": modules}
    with log.open("wb") as output:
        command = [sys.executable, "-m", module, option, str(port)]
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not listens(port):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield port
    finally:
        started = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        for process in started:
            process.kill()
        psutil.wait_procs(started, timeout=START_SECONDS)
        server.wait()


@pytest.fixture(scope="session")
def portable_args(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Beam options for a portable runner with workers of its own, alive for the session."""
    logs = tmp_path_factory.mktemp("portable")
    if shutil.which("python", path=os.path.dirname(sys.executable)) is None:
        pytest.skip("Beam's worker pool starts `python`, and there is none beside this interpreter")
    with ExitStack() as servers:
        jobs = servers.enter_context(serve("apache_beam.runners.portability.local_job_service_main", "--port", logs / "jobs"))
        pool = servers.enter_context(serve("apache_beam.runners.worker.worker_pool_main", "--service_port", logs / "pool"))
        yield [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{jobs}",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{pool}",
        ]
