"""Static SVG plots without a plotting library: bars, columns and curves. The page defines the colours of classes `s0` to `s5`.

Every plot has a title and a description for screen readers. Lengths are in units of the view box, which is `WIDTH` wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH = 720
SERIES = 6
_LABELS = 210
_VALUES = 76
_BAR, _GAP = 20, 10
_HEIGHT = 280
_MARGIN = 92


class Row(NamedTuple):
    """One group of bars: a label, and a value for each series (None if it is missing)."""

    label: str
    values: tuple[float | None, ...]


def draw_bars(title: str, rows: Sequence[Row], show: Callable[[float | None], str], *, colour_rows: bool = False) -> str:
    """Draw horizontal bars from 0, one below the other. `show` formats the value after a bar. Each series or row has a colour."""
    most = max((value for row in rows for value in row.values if value), default=1.0)
    parts, top = [], 4
    for place, row in enumerate(rows):
        middle = top + _BAR * len(row.values) / 2
        parts.append(_text(_LABELS - 8, middle + 5, _shorten(row.label), anchor="end"))
        for series, value in enumerate(row.values):
            width = _round((WIDTH - _LABELS - _VALUES) * (value or 0) / most)
            parts.append(_rectangle(_LABELS, top + 1, width, _BAR - 2, place if colour_rows else series))
            parts.append(_text(_LABELS + width + 6, top + _BAR / 2 + 5, show(value), kind="value"))
            top += _BAR
        top += _GAP
    described = "; ".join(f"{row.label}: {', '.join(map(show, row.values))}" for row in rows)
    return _wrap(title, described, parts, top)


def draw_columns(title: str, columns: Sequence[tuple[str, int]], *, series: int = 0) -> str:
    """Draw columns side by side from 0, each with its value above and its label below."""
    most = max((value for _, value in columns), default=0) or 1
    step = WIDTH / max(1, len(columns))
    bottom = _HEIGHT - 36
    parts = [_line(0, bottom, WIDTH, bottom, "axis")]
    for place, (label, value) in enumerate(columns):
        height = _round((bottom - 20) * value / most)
        left = place * step
        parts.append(_rectangle(left + step * 0.1, bottom - height, step * 0.8, height, series))
        parts.append(_text(left + step / 2, bottom - height - 5, f"{value:,}", anchor="middle", kind="value"))
        parts.append(_text(left + step / 2, bottom + 20, label, anchor="middle"))
    return _wrap(title, "; ".join(f"{label}: {value:,}" for label, value in columns), parts, _HEIGHT)


def draw_curve(title: str, points: Sequence[tuple[float, float]], *, across: str, up: str, series: int = 0) -> str:
    """Draw a line over two logarithmic axes, labelled `across` and `up`, with a grid at powers of ten. Numbers are 1 or more."""
    right, high = (max((math.log10(point[axis]) for point in points), default=1) or 1 for axis in (0, 1))
    bottom = _HEIGHT - 52

    def place(x: float, y: float) -> tuple[float, float]:
        return _MARGIN + (WIDTH - _MARGIN - 14) * math.log10(x) / right, 12 + (bottom - 12) * (1 - math.log10(y) / high)

    parts = []
    for power in range(int(right) + 1):
        x, _ = place(10**power, 1)
        parts += [_line(x, 12, x, bottom, "grid"), _text(x, bottom + 20, f"{10**power:,}", anchor="middle")]
    for power in range(int(high) + 1):
        _, y = place(1, 10**power)
        parts += [_line(_MARGIN, y, WIDTH - 14, y, "grid"), _text(_MARGIN - 8, y + 5, f"{10**power:,}", anchor="end")]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    parts.append(f'<polyline class="line l{series % SERIES}" points="{path}"/>')
    parts.append(_text((WIDTH + _MARGIN) / 2, _HEIGHT - 8, across, anchor="middle"))
    turned = f"rotate(-90 16 {bottom / 2:.0f})"
    parts.append(f'<text x="16" y="{bottom / 2:.0f}" transform="{turned}" text-anchor="middle">{escape(up)}</text>')
    described = f"{up} fall from {points[0][1]:,} to {points[-1][1]:,} at {across} {points[-1][0]:,}" if points else ""
    return _wrap(title, described, parts, _HEIGHT)


def draw_shares(title: str, shares: Sequence[tuple[str, int]]) -> str:
    """Draw one bar, divided from the left into shares of the whole. The page has the legend of the colours."""
    total = sum(value for _, value in shares) or 1
    parts, left = [], 0.0
    for series, (_, value) in enumerate(shares):
        width = WIDTH * value / total
        parts.append(_rectangle(left, 2, width, 24, series))
        left += width
    return _wrap(title, "; ".join(f"{label}: {value:,}" for label, value in shares), parts, 28)


def _wrap(title: str, described: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><desc>{escape(described)}</desc>{''.join(parts)}</svg>"
    )


def _rectangle(left: float, top: float, width: float, height: float, series: int) -> str:
    return (
        f'<rect class="s{series % SERIES}" x="{left:.1f}" y="{top:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}" rx="2"/>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    classes = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{classes}>{escape(text)}</text>'


def _shorten(label: str) -> str:
    """Shorten a long label to its end, which says more about a path or name than the beginning."""
    return label if len(label) <= 24 else "…" + label[-23:]


def _line(left: float, top: float, right: float, bottom: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"/>'


def _round(number: float) -> float:
    return round(number, 1)
