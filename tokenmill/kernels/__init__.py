"""Compiled kernels: everything that touches each byte or each pair. The only place that imports numba.

Kernels take flat arrays and tuples of them, release the GIL, and never raise: they return a status, and the Python around them
speaks. Numba compiles a kernel when it is first called and keeps the result on disk.
"""

from __future__ import annotations

import os
from pathlib import Path


def are_compiled() -> bool:
    """Whether an earlier run has left compiled kernels (as far as the usual places tell)."""
    places = [os.environ.get("NUMBA_CACHE_DIR"), str(Path(__file__).parent / "__pycache__")]
    return any(next(Path(place).rglob("*.nbc"), None) is not None for place in places if place)
