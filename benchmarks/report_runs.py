"""The sections of the report on whole commands: pipelines, growth, worst inputs, start."""

from __future__ import annotations

from typing import Any

from benchmarks.results import load_results
from benchmarks.settings import Settings
from benchmarks.tables import format_table, measured_on

_TITLES = {
    "tokenmill": "tokenmill encode",
    "gigatoken": "gigatoken + pyarrow, by hand",
    "datasets": "datasets.map + tokenizers 0.23",
    "datatrove": "datatrove, tokenizers 0.23",
}

_PIPELINES = """## Pipelines

Whole commands, imports and start-up included: documents in files to ids in files, GPT-2's vocabulary, text of all three
corpora. The script by hand is `encode_with_gigatoken` in `benchmarks/scripts.py`: a process for each core, Parquet in and out
like tokenmill's. It checks nothing, rejects nothing, and leaves half a dataset behind when it is stopped. Slow ones take a
small part of the files. The better of two runs; the ids in the files are compared.
"""

_GROWTH = """## Growth

`tokenmill count` and `tokenmill encode` over JSON lines of growing size: the corpora again and again, with new words in each
turn. Seconds per GB *beyond the size before* show whether time is linear once everything has started. Memory is resident
memory, sampled four times a second: the driver and the largest worker, and for that worker the means of the middle and the last
third of its life.
"""


_MODELS = """## Models, pre-tokenizers, options

tokenmill alone, one process, one core: how fast each encodes beside byte-level BPE under GPT-2's pattern, which is 1.00. CPU
time, the best of three rounds.
"""


def sections(settings: Settings) -> list[str]:
    """Every section there are results for."""
    found = load_results(settings, "")
    parts: list[str] = []
    models = [found[name] for name in found if name.startswith("models-")]
    if models:
        parts.append(models_table(models))
    pipelines = [found[name] for name in found if name.startswith("pipelines-")]
    if pipelines:
        parts += [_PIPELINES, *map(pipeline_table, pipelines)]
    for name, write in (
        ("counting", counting_table),
        ("growth", growth_table),
        ("words", words_table),
        ("line", line_table),
        ("start", start_table),
    ):
        if name in found:
            parts.append(write(found[name]))
    return parts


def models_table(results: list[dict[str, Any]]) -> str:
    """Every case over every corpus: its speed, and that as a share of the first case's."""
    lines = []
    for name in results[0]["rows"]:
        cells = [name]
        for result in results:
            seconds, first = result["rows"][name], next(iter(result["rows"].values()))
            speeds = [f"{result['bytes'] / 1e6 / seconds[kind]:.0f}" for kind in ("cold", "warm")]
            shares = [f"{first[kind] / seconds[kind]:.2f}" for kind in ("cold", "warm")]
            cells += [" / ".join(speeds), " / ".join(shares)]
        lines.append(cells)
    head = [""]
    for result in results:
        head += [f"{result['corpus']}, MB/s cold / warm", "share"]
    return f"{_MODELS}\n{measured_on(results[0])}\n\n{format_table(head, lines)}"


def pipeline_table(result: dict[str, Any]) -> str:
    """Everyone over files of one format."""
    best = {name: min(rows, key=lambda row: float(row["seconds"])) for name, rows in result["rows"].items()}
    ours = _speed(best["tokenmill"])
    lines = []
    for name, row in best.items():
        line = [
            _TITLES[name],
            f"{row['bytes'] / 1e6:.0f}",
            f"{row['seconds']:.1f}",
            f"{_speed(row):.1f}",
            f"{ours / _speed(row):.2f}",
        ]
        lines.append([*line, f"{row['cpu_seconds']:.1f}", f"{_peak(row):.0f}"])
    head = ["", "MB of text", "seconds", "MB/s", "ratio", "CPU s", "peak of all processes, MB"]
    title = f"### {result['format']} to token shards, {result['workers']} workers"
    return f"{title}\n\n{measured_on(result)}\n\n{format_table(head, lines)}"


def counting_table(result: dict[str, Any]) -> str:
    """`tokenmill count` by format."""
    lines = []
    for format, (row,) in result["rows"].items():
        cells = [format, f"{row['bytes'] / 1e6:.0f}", f"{row['seconds']:.1f}", f"{_speed(row):.1f}", f"{row['cpu_seconds']:.1f}"]
        lines.append([*cells, f"{_peak(row):.0f}"])
    head = ["", "MB of text", "seconds", "MB/s", "CPU s", "peak of all processes, MB"]
    title = f"### `tokenmill count`, {result['workers']} workers"
    return f"{title}\n\n{measured_on(result)}\n\n{format_table(head, lines)}"


def growth_table(result: dict[str, Any]) -> str:
    """Time and memory by size."""
    lines = []
    for command, rows in result["rows"].items():
        for place, row in enumerate(rows):
            size = row["bytes"] / 1e9
            line = [command, f"{size * 1000:,.0f}", f"{row['seconds']:.1f}", f"{_speed(row):.1f}"]
            before = rows[place - 1] if place else None
            more = None if before is None else (row["seconds"] - before["seconds"]) / (size - before["bytes"] / 1e9)
            lines.append([*line, "" if more is None else f"{more:.1f}", *_memory(row)])
    head = [
        "",
        "MB of text",
        "seconds",
        "MB/s",
        "seconds per GB more",
        "driver, MB",
        "worker, peak",
        "middle third",
        "last third",
    ]
    return f"{_GROWTH}\n{measured_on(result)}\n\n{format_table(head, lines)}"


def words_table(result: dict[str, Any]) -> str:
    """Training and encoding of one hard word."""
    lines = []
    for name, row in result["rows"].items():
        per_byte = [1e9 * row[kind]["seconds"] / row["bytes"] for kind in ("train", "encode")]
        line = [name, f"{row['train']['seconds']:.2f}", f"{per_byte[0]:,.0f}", f"{row['encode']['seconds']:.3f}"]
        lines.append([*line, f"{per_byte[1]:,.0f}", f"{row['peak_mb']:.0f}"])
    head = ["one word", "1,000 merges, s", "ns a byte", "encode, s", "ns a byte", "peak, MB"]
    return f"## Worst inputs\n\nOne word, in memory, on one core. {measured_on(result)}\n\n{format_table(head, lines)}"


def line_table(result: dict[str, Any]) -> str:
    """A very long line."""
    lines = []
    for command, row in result["rows"].items():
        lines.append([f"`tokenmill {command}`", f"{row['bytes'] / 1e6:.0f}", f"{row['seconds']:.1f}", f"{_peak(row):.0f}"])
    head = ["one document on one line", "MB", "seconds", "peak of all processes, MB"]
    return f"{measured_on(result)}\n\n{format_table(head, lines)}"


def start_table(result: dict[str, Any]) -> str:
    """What starting takes."""
    lines = [[name, f"{seconds:.2f}"] for name, seconds in result["rows"].items()]
    return f"## Start\n\nThe best of several. {measured_on(result)}\n\n{format_table(['', 'seconds'], lines)}"


def _speed(row: dict[str, Any]) -> float:
    return float(row["bytes"]) / 1e6 / float(row["seconds"])


def _peak(row: dict[str, Any]) -> float:
    return sum(float(one["peak_mb"]) for one in row["processes"])


def _memory(row: dict[str, Any]) -> list[str]:
    """The first process is the driver, the largest other one a worker."""
    driver, *workers = row["processes"]
    if not workers:
        return [f"{driver['peak_mb']:.0f}", "", "", ""]
    worker = max(workers, key=lambda one: float(one["peak_mb"]))
    thirds = ["" if worker[key] is None else f"{worker[key]:.0f}" for key in ("middle_mb", "last_mb")]
    return [f"{driver['peak_mb']:.0f}", f"{worker['peak_mb']:.0f}", *thirds]
