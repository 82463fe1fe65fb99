"""How kernels are compiled: one decorator for those that Python calls, one for their parts.

Compiling takes 0.05 s for the smallest function and 0.2 s for most, so what is not needed is left out: entries for C
(`no_cfunc_wrapper`), checks for division by zero (`error_model`), and of parts also the entry for Python and the files in Numba's
cache: the kernel that a part belongs to holds its code. `docs/performance.md` has the figures.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.extending import register_jitable

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}

#: A kernel: compiled when Python first calls it with arguments of these types, kept in Numba's cache, without the GIL.
kernel = njit(cache=True, nogil=True, **_OPTIONS)
#: A part of kernels: compiled with each kernel that calls it; called from Python it is a plain function.
part = register_jitable(**_OPTIONS)
#: A part that a hot loop takes in whole: left to LLVM it can stay a call.
inline_part = register_jitable(forceinline=True, **_OPTIONS)
