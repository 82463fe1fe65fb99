"""Resident memory of every process while a large corpus is counted and encoded.

    python -m benchmarks.memory --gigabytes 2 --workers 2

Runs the commands as a user does and samples the tree of processes four times a second. Flat means: the last third of the samples
is not above the middle third.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil

from benchmarks.corpora import write_corpus

SAMPLE_SECONDS = 0.25


def sample_run(command: list[str]) -> tuple[float, dict[int, list[float]]]:
    """Run a command; seconds it took, and resident MB of each of its processes over time."""
    samples: dict[int, list[float]] = defaultdict(list)
    started = time.monotonic()
    process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None:
        for one in [process, *children_of(process)]:
            try:
                samples[one.pid].append(one.memory_info().rss / 1e6)
            except psutil.Error:
                continue
        time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: {process.stderr.read().decode()}")
    return time.monotonic() - started, samples


def children_of(process: psutil.Process) -> list[psutil.Process]:
    """Its descendants, none when it has just ended."""
    try:
        found: list[psutil.Process] = process.children(recursive=True)
        return found
    except psutil.Error:
        return []


def describe_run(name: str, size: int, seconds: float, samples: dict[int, list[float]]) -> None:
    """One line a process: peak, and the means of the middle and the last third."""
    print(f"{name}: {size / 1e9:.2f} GB in {seconds:.1f} s, {size / 1e6 / seconds:.1f} MB/s")
    for pid, values in samples.items():
        third = max(1, len(values) // 3)
        middle, last = values[third : 2 * third] or values, values[-third:]
        means = f"middle third {sum(middle) / len(middle):.0f} MB, last third {sum(last) / len(last):.0f} MB"
        print(f"  process {pid}: peak {max(values):.0f} MB, {means}, {len(values)} samples")


def main() -> None:
    """Make the corpus, train on a part of it, and watch `count` and `encode`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = write_corpus(Path(folder) / "corpus.jsonl", int(arguments.gigabytes * 1e9))
        size = corpus.stat().st_size
        tool = [sys.executable, "-m", "pipeline.cli"]
        workers = ["--workers", str(arguments.workers)]
        tokenizer = f"{folder}/tokenizer.json"
        train = ["train", str(corpus), "--limit", "4000", "--vocab-size", "8192", "--output", tokenizer, "--workers", "1"]
        sample_run([*tool, *train])
        for command in (
            ["count", str(corpus), "--output", f"{folder}/counts", *workers],
            ["encode", str(corpus), "--tokenizer", tokenizer, "--output", f"{folder}/tokens", *workers],
        ):
            describe_run(command[0], size, *sample_run([*tool, *command]))


if __name__ == "__main__":
    main()
