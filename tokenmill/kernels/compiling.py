"""How kernels are compiled: one decorator for those that Python calls, one for their parts.

Compiling takes 0.05 s for the smallest function and 0.2 s for most, so what is not needed is left out: entries for C
(`no_cfunc_wrapper`), checks for division by zero (`error_model`), and of parts also the entry for Python and the files in Numba's
cache: the kernel that a part belongs to holds its code. `docs/performance.md` has the figures.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from numba import config, njit
from numba.core.caching import FunctionCache
from numba.extending import overload, register_jitable

from tokenmill.kernels.keeping import CACHE, IN_TREE

_NUMBA: Any = config
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}

#: A part of kernels: compiled with each kernel that calls it; called from Python it is a plain function.
part = register_jitable(**_OPTIONS)
#: A part that a hot loop takes in whole: left to LLVM it can stay a call.
inline_part = register_jitable(forceinline=True, **_OPTIONS)


class _Kept(FunctionCache):
    """Numba's cache of one kernel, without which it works as well: files that are damaged or cannot be written stop nobody."""

    def load_overload(self, *signature: Any) -> Any:
        try:
            return super().load_overload(*signature)
        except Exception:  # what unpickling makes of any bytes: a file of no length, as a power failure leaves, is one
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *compiled: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(*compiled)


def kernel(function: Callable[..., Any]) -> Any:
    """A kernel: compiled when Python first calls it with arguments of these types, kept in the cache, without the GIL."""
    compiled = njit(nogil=True, **_OPTIONS)(function)
    if CACHE is None or compiled is function:  # as it is where compiling is switched off
        return compiled
    others, _NUMBA.CACHE_DIR = _NUMBA.CACHE_DIR, "" if CACHE == IN_TREE else str(CACHE)
    try:
        compiled._cache = _Kept(function)
    finally:
        _NUMBA.CACHE_DIR = others  # whatever else in this process uses Numba keeps its own place
    return compiled


def part_of_tables(choices: Mapping[type, Callable[..., Any]]) -> Callable[..., Any]:
    """A part that is one of several, by the NamedTuple of arrays that it takes first.

    The choice is made when a kernel is compiled, and costs nothing when it runs; what is not chosen is not compiled either.
    """

    def chosen(tables: Any, *others: Any) -> Any:
        return choices[type(tables)](tables, *others)

    @overload(chosen, jit_options=_OPTIONS, strict=False)  # type: ignore[arg-type]
    def _choose(tables: Any, *others: Any) -> Callable[..., Any]:
        return choices[tables.instance_class]

    return chosen
