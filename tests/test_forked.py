"""Workers that are forked from the driver: a Ctrl-C that comes while they are is heeded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_FORK_UNDER_A_SIGNAL = """
import os, signal, sys
from tokenmill.pipeline.forked import ForkedWorkers
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.default_int_handler)
os.register_at_fork(after_in_parent=lambda: signal.raise_signal(int(sys.argv[1])))
workers = ForkedWorkers()
try:
    workers.fork(2, lambda: None)
    print("went on")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
@pytest.mark.parametrize("signal", ["1", "2", "15"])
def test_a_signal_during_the_fork_is_heeded(signal: str) -> None:
    """Python itself drops what is raised there."""
    command = [sys.executable, "-c", _FORK_UNDER_A_SIGNAL, signal]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "interrupted\n", "")
