"""Results: one JSON file a table, with the date and the machine it was measured on."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.settings import ROOT, Settings


def save_result(settings: Settings, name: str, content: dict[str, Any]) -> None:
    """Write a table's measurements, and when and on what they were taken."""
    settings.results.mkdir(parents=True, exist_ok=True)
    stamped = {"date": _now(), "commit": _commit(), "machine": describe_machine(), "quick": settings.quick, **content}
    path = settings.results / f"{name}.json"
    half = path.with_suffix(".half")
    half.write_text(json.dumps(stamped, indent=1, ensure_ascii=False) + "\n")
    half.rename(path)


def load_results(settings: Settings, prefix: str) -> dict[str, dict[str, Any]]:
    """The results whose names begin with `prefix`, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(settings.results.glob(f"{prefix}*.json"))}


def median_of(rows: Iterable[dict[str, Any]], *keys: str) -> float:
    """The median of a figure, `keys` leading to it: `median_of(rows, "warm", "seconds")`."""
    values = []
    for row in rows:
        value: Any = row
        for key in keys:
            value = value[key]
        values.append(float(value))
    return statistics.median(values)


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory and versions of the machine."""
    cpu = Path("/proc/cpuinfo").read_text().splitlines()
    memory = Path("/proc/meminfo").read_text().splitlines()
    return {
        "cpu": next((line.split(":")[1].strip() for line in cpu if line.startswith("model name")), platform.machine()),
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory[0].split()[1]) * 1024 / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _commit() -> str:
    """The commit that was measured, `unknown` outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
