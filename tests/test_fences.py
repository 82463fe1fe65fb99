"""The guard of `fencing.py` finds what it is there for: each kind of fault ends a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import sys
import numpy as np
from tests.fencing import FenceError, fence_kernels
fence_kernels()
from tokenmill.kernels.compiling import kernel
from tokenmill.kernels.intrinsics import borrow, load_item, mark_bytes_between, store_item

@kernel
def write(items, position):
    store_item(borrow(items), position, 7)

@kernel
def read(items, position):
    return load_item(borrow(items), position)

@kernel
def read_block(items, position):
    return mark_bytes_between(borrow(items), position, 0, 0)

@kernel
def note_origins(out, origins, count):
    for place in range(min(count, out.size)):  # the room of another array
        origins[place, 0] = place

items, bytes_ = np.arange(10), np.zeros(100, np.uint8)[:70]
write(items, 9)
print(items.tolist(), read(items[:4], 3), read_block(bytes_, 6) == 2**64 - 1, flush=True)
try:
    FAULT
except FenceError as error:
    print(error)
"""


def run_with(fault: str, folder: Path) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder), "NUMBA_DISABLE_JIT": "0"}
    settings.pop("NUMBA_BOUNDSCHECK", None)
    program = folder / "program.py"
    program.write_text(PROGRAM.replace("FAULT", fault))
    return subprocess.run([sys.executable, str(program)], cwd=ROOT, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.jit
@pytest.mark.parametrize(
    "fault",
    [
        "write(items[:4], 4)",
        "read(np.empty(0, np.int64), 0)",
        "read_block(bytes_, 7)",
        "note_origins(np.empty(5000, np.uint8), np.empty((100, 2), np.int64), 2000)",
    ],
)
def test_what_reaches_behind_an_array_ends_the_process(fault: str, tmp_path: Path) -> None:
    ended = run_with(fault, tmp_path)
    assert ended.stdout == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 7] 3 True\n"
    assert ended.returncode == -signal.SIGSEGV


@pytest.mark.jit
def test_what_is_written_in_front_of_an_array_is_seen(tmp_path: Path) -> None:
    ended = run_with("write(items, -3)", tmp_path)
    assert ended.returncode == 0 and ended.stdout.endswith("\nwritten in front of an array of 10 int64\n")
