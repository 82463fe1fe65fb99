"""The section of the report on loaders of packed blocks, and on what a token takes on the disk."""

from __future__ import annotations

from typing import Any

from benchmarks.results import load_results
from benchmarks.settings import Settings
from benchmarks.tables import format_table, measured_on

_HEAD = """## Loaders

Packed blocks of 2,048 tokens in batches of eight, of the sources of Python's standard library. MB/s are of int32, four bytes a
token, whatever is stored; *ratio* is tokenmill's speed as a multiple. CPU seconds count all threads. Every measurement is a
process of its own, the best of three passes over files that are in memory. The raw file is no dataset: no ids, no boundaries,
nothing to check, and uint16 for vocabularies below 65,536. tokenmill writes while it encodes, so it has no time of its own.
"""


def sections(settings: Settings) -> list[str]:
    """The head, and a table for each vocabulary there are results for."""
    found = sorted(load_results(settings, "loaders-").values(), key=lambda result: int(result["vocabulary"]))
    return [_HEAD, *map(loader_table, found)] if found else []


def loader_table(result: dict[str, Any]) -> str:
    """Everybody over the blocks of one vocabulary."""
    rows, totals = result["rows"], result["totals"]
    lines = []
    for name, row in rows.items():
        tokens = row["read"]["tokens"]
        size = row["write"]["bytes"] if "write" in row else totals["size"]
        written = f"{row['write']['seconds']:.2f}" if "write" in row else ""
        line = [name, row["read"]["version"], f"{size / tokens:.2f}", written]
        for kind in ("read", "shuffled"):
            ours = rows["tokenmill"][kind]["seconds"]
            seconds, batches = row[kind]["seconds"], row[kind]["batches"]
            line += [f"{tokens * 4 / seconds / 1e6:.0f}", f"{batches / seconds:,.0f}", f"{seconds / ours:.2f}"]
        lines.append([*line, f"{row['read']['cpu_seconds']:.3f}"])
    lines += [[name, why, *[""] * 9] for name, why in result["missing"].items()]
    head = ["", "version", "bytes a token", "written in, s", "in order, MB/s", "batches/s", "ratio"]
    head += ["shuffled, MB/s", "batches/s", "ratio", "CPU s, in order"]
    title = f"### Vocabulary of {result['vocabulary']:,}, {totals['tokens']:,} tokens"
    return f"{title}\n\n{measured_on(result)}\n\n{format_table(head, lines)}"
