"""Compiled kernels: everything that touches each byte or each pair. The only place that imports numba.

Kernels take flat arrays and tuples of them, release the GIL, and never raise: they return a status, and the Python around them
speaks. Numba compiles a kernel when it is first called and keeps the result in a folder that `tokenmill.kernels.keeping` chooses.
"""

from __future__ import annotations

from tokenmill.kernels.keeping import are_compiled

__all__ = ["are_compiled"]
