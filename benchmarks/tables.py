"""Tables of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(format_table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("|" + "|".join(lines[1]) + "|" if line is lines[1] else "| " + " | ".join(line) + " |" for line in lines)


def measured_on(result: dict[str, Any]) -> str:
    """When a result was measured, of which commit, and on what machine."""
    machine = result["machine"]
    hardware = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:.0f} GB"
    quick = "; a quick run, no figure to quote" if result["quick"] else ""
    return f"Measured {result['date']}, commit {result['commit']}, {hardware}, Python {machine['python']}{quick}."
