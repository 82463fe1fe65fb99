"""A build that is killed at any point leaves nothing half-published, and the same command finishes it, with the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.corpora import hash_folder, make_texts, write_jsonl

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120


@pytest.mark.slow
@pytest.mark.jit
def test_killed_at_fifty_random_operations(tmp_path: Path) -> None:
    """17 of a first build, 17 of one that replaces an older one as a whole, 17 of one that does it file by file.

    `tests/killing.py` says what is compared.
    """
    command = [sys.executable, "-m", "tests.killing", str(tmp_path), "17", "20261130"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("killed at 17 of ") == 3


def start(config: Path) -> subprocess.Popen[str]:
    code = "from tokenmill.pipeline.cli.main import run; run()"
    words = [sys.executable, "-c", code, "build", str(config), "--quiet"]
    return subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    for number in range(4):
        write_jsonl(tmp_path / "corpus" / f"p{number}.jsonl", make_texts(4_000, seed=number))
    content = {
        "input": {"inputs": [str(tmp_path / "corpus")]},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 400},
        "output": {"folder": str(tmp_path / "out")},
        "split_mb": 0.04,
        "workers": 2,
    }
    (tmp_path / "build.yaml").write_text(json.dumps(content))
    return tmp_path / "build.yaml"


@pytest.mark.slow
@pytest.mark.jit
def test_group_driver_and_worker_killed_one_after_the_other(config: Path, tmp_path: Path) -> None:
    """One build, killed three times while it encodes: its whole process group, its driver alone, a worker alone."""
    output = tmp_path / "out" / "tokens"
    finished = 0
    for victim in ("group", "driver", "worker"):
        process = start(config)
        wait_for_splits(output, process, finished + 2)
        workers = psutil.Process(process.pid).children(recursive=True)
        if victim == "group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid if victim == "driver" else workers[-1].pid, signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == (1 if victim == "worker" else -signal.SIGKILL) and "Traceback" not in said
        assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == [], "no worker outlives its driver"
        assert not (output / "manifest.json").exists() and not list(output.glob("part-*"))
        finished = count_splits(output)
    last = start(config)
    _, said = last.communicate(timeout=PATIENCE)
    assert (last.returncode, said) == (0, "")
    resumed = {name: sha256 for name, sha256 in hash_folder(tmp_path / "out").items() if name != "_state.json"}
    config.write_text(config.read_text().replace("/out", "/unbroken"))
    assert start(config).wait(PATIENCE) == 0
    unbroken = {name: sha256 for name, sha256 in hash_folder(tmp_path / "unbroken").items() if name != "_state.json"}
    assert resumed == unbroken


def count_splits(output: Path) -> int:
    return len(list(output.glob("_work/*/journal/split-*.json")))


def wait_for_splits(output: Path, process: subprocess.Popen[str], number: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while count_splits(output) < number:
        assert process.poll() is None and time.monotonic() < deadline, "the build was over before it could be killed"
        time.sleep(0.005)
