"""The baked Unicode class table and its loader. The bits are named in `tokenmill/kernels/scan_classes.py`."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

UNICODE_VERSION = "16.0.0"
CLASS_TABLE_FILE = Path(__file__).parent / "unicode_classes_16.npz"


@functools.lru_cache(maxsize=1)
def load_class_table() -> np.ndarray:
    """Class bits of every code point: read-only uint16[0x110000], read from the package once, when first asked for.

    `load_class_table()[ord("A")] & LETTER` is not 0.
    """
    with np.load(CLASS_TABLE_FILE, allow_pickle=False) as runs:
        lengths = np.diff(runs["starts"], append=np.uint32(0x110000))
        table = np.repeat(runs["bits"].astype(np.uint16), lengths)
    table.flags.writeable = False
    return table
