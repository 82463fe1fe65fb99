"""Run a command and watch its tree of processes; prints one line of JSON.

    python -m benchmarks.processes tokenmill encode corpus/ --tokenizer tokenizer.json --output tokens

Wall-clock and processor seconds of the whole tree, and resident memory of each process, sampled four times a second.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

SAMPLE_SECONDS = 0.25
#: A process with fewer samples has no middle and no last third.
FEWEST_SAMPLES = 6


def watch_command(command: list[str]) -> dict[str, Any]:
    """Run a command to its end. Its error output is kept to be told when it fails."""
    import psutil

    samples: dict[int, list[float]] = defaultdict(list)
    before, started = _children_cpu(), time.perf_counter()
    with psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while True:
            for one in [process, *_descendants(process)]:
                try:
                    samples[one.pid].append(one.memory_info().rss / 1e6)
                except psutil.Error:
                    continue
            try:
                process.wait(SAMPLE_SECONDS)
                break
            except psutil.TimeoutExpired:
                continue
        seconds = time.perf_counter() - started
        if process.returncode:
            sys.exit(f"{' '.join(command)}: exit code {process.returncode}: {process.stderr.read().decode()[-500:]}")
    cpu_seconds = _children_cpu() - before
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "processes": [describe_samples(one) for one in samples.values()]}


def describe_samples(samples: list[float]) -> dict[str, float | None]:
    """Resident MB of a process: the peak, and the means of the middle and the last third of its life.

    >>> describe_samples([1.0, 5.0, 2.0, 2.0, 4.0, 4.0])
    {'peak_mb': 5.0, 'middle_mb': 2.0, 'last_mb': 4.0}
    """
    third = len(samples) // 3
    enough = len(samples) >= FEWEST_SAMPLES
    middle, last = samples[third : 2 * third], samples[-third:]
    return {
        "peak_mb": max(samples),
        "middle_mb": sum(middle) / third if enough else None,
        "last_mb": sum(last) / third if enough else None,
    }


def _descendants(process: Any) -> list[Any]:
    import psutil

    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Watch the command in the arguments; its first word may be `--cores=N`, which pins it."""
    command = sys.argv[1:]
    if command and command[0].startswith("--cores="):
        cores = int(command.pop(0).partition("=")[2])
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    print(json.dumps(watch_command(command)))


if __name__ == "__main__":
    main()
