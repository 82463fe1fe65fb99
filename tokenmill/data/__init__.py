"""The precomputed Unicode tables and their loaders: character classes for scanners, and character changes for normalizers.

`tokenmill/kernels/scan_classes.py` names the bits of the classes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

UNICODE_VERSION = "16.0.0"
CLASS_TABLE_FILE = Path(__file__).parent / "unicode_classes_16.npz"
NORMALIZATION_FILE = Path(__file__).parent / "unicode_normalization_16.npz"


@functools.lru_cache(maxsize=1)
def load_class_table() -> np.ndarray:
    """The class bits of every code point: read-only uint16[0x110000], loaded from the package on first use.

    `load_class_table()[ord("A")] & LETTER` is not 0.
    """
    with np.load(CLASS_TABLE_FILE, allow_pickle=False) as runs:
        table = _expand_runs(runs["starts"], runs["bits"].astype(np.uint16))
    table.flags.writeable = False
    return table


class NormalizationTable(NamedTuple):
    """The character data of the normalizers, made by `build_normalization_table.py`.

    `combining`, `kinds`: uint8[0x110000], combining classes and the bits NONSPACING and CONTROL. `canonical`, `compatible`,
    `lower`: what code points become, as code points. `compatible` has only code points whose decomposition differs from the
    canonical one. `pairs`: uint32[p, 3], first, second, composite.
    """

    combining: np.ndarray
    kinds: np.ndarray
    canonical: dict[int, tuple[int, ...]]
    compatible: dict[int, tuple[int, ...]]
    lower: dict[int, tuple[int, ...]]
    pairs: np.ndarray


@functools.lru_cache(maxsize=1)
def load_normalization_table() -> NormalizationTable:
    """The table of the normalizers, loaded from the package on first use.

    `load_normalization_table().lower[ord("A")]` is `(97,)`.
    """
    with np.load(NORMALIZATION_FILE, allow_pickle=False) as file:
        combining, kinds = (_expand_runs(file[f"{name}_starts"], file[name]) for name in ("combining", "kinds"))
        canonical, compatible, lower = (_list_changes(file, name) for name in ("canonical", "compatible", "lower"))
        return NormalizationTable(combining, kinds, canonical, compatible, lower, file["pairs"])


def _expand_runs(starts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Expand runs of equal values to a value for each code point."""
    return np.repeat(values, np.diff(starts, append=np.uint32(0x110000)))


def _list_changes(file: Mapping[str, np.ndarray], name: str) -> dict[int, tuple[int, ...]]:
    ends, points = file[f"{name}_ends"].tolist(), file[f"{name}_to"].tolist()
    parts = (tuple(points[start:end]) for start, end in zip([0, *ends], ends, strict=False))
    return dict(zip(file[f"{name}_from"].tolist(), parts, strict=True))
