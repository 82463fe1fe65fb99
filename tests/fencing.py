"""A guard around kernels: each array that a kernel is given ends where a page ends that nobody may touch.

    | canaries | the array |  no access  |

Whatever reads or writes behind the last byte ends the process (SIGSEGV), on the spot, whether or not the compiled code checks
bounds: the loads and stores of `intrinsics.py` never do. What writes in front of the array changes a canary, and the call raises
`FenceError`. Arrays are copied in, and what may be written to is copied back; a view into a larger array gets a fence of its own.
Arrays above `MOST_BYTES` are too large to copy at each call and stay where they are.

    TOKENMILL_FENCED=1 python -m pytest ...
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher

MOST_BYTES = 1 << 18
CANARY, CANARY_BYTES = 0xA7, 256
_PAGE, _NO_ACCESS = mmap.PAGESIZE, 0

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class FenceError(Exception):
    """A kernel wrote in front of an array."""


class Field:
    """Memory with a fence behind it, lent to one array at a time."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._map = mmap.mmap(-1, room + _PAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        if _LIBC.mprotect(self._bytes.ctypes.data + room, _PAGE, _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")

    def lend(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array that ends at the fence."""
        start = self.room - array.nbytes
        self._canaries(start)[:] = CANARY
        copy = np.frombuffer(self._map, array.dtype, array.size, start).reshape(array.shape)
        copy[...] = array
        copy.flags.writeable = array.flags.writeable
        return copy

    def check(self, array: np.ndarray) -> None:
        """Raise if what stands in front of the array has changed."""
        if (self._canaries(self.room - array.nbytes) != CANARY).any():
            raise FenceError(f"written in front of an array of {array.size} {array.dtype}")

    def _canaries(self, start: int) -> np.ndarray:
        return self._bytes[max(0, start - CANARY_BYTES) : start]


class Fields(threading.local):
    """Fields that wait to be lent, by their size; each thread has its own."""

    def __init__(self) -> None:
        self._free: dict[int, list[Field]] = {}

    def take(self, nbytes: int) -> Field:
        room = _PAGE << max(0, (nbytes + CANARY_BYTES - 1) // _PAGE).bit_length()
        free = self._free.setdefault(room, [])
        return free.pop() if free else Field(room)

    def give_back(self, field: Field) -> None:
        self._free[field.room].append(field)


_FIELDS = Fields()


class Fence:
    """The arguments of one call inside fences."""

    def __init__(self) -> None:
        self._lent: dict[tuple[int, int, Any], tuple[Field, np.ndarray, np.ndarray]] = {}

    def enclose(self, value: Any) -> Any:
        """The same value, its arrays behind fences."""
        if isinstance(value, tuple):
            items = [self.enclose(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, np.ndarray) and value.flags.c_contiguous and value.nbytes <= MOST_BYTES:
            return self._enclose_array(value)
        return value

    def _enclose_array(self, array: np.ndarray) -> np.ndarray:
        key = (array.ctypes.data, array.nbytes, array.dtype)
        if key not in self._lent or self._lent[key][1].shape != array.shape or not array.nbytes:
            field = _FIELDS.take(array.nbytes)
            self._lent[key if array.nbytes else (id(field), 0, None)] = (field, array, field.lend(array))
            return next(reversed(self._lent.values()))[2]
        copy = self._lent[key][2]
        if array.flags.writeable and not copy.flags.writeable:
            raise FenceError("an array is given twice, once to be read alone")
        return copy

    def open(self) -> None:
        """Check the canaries, and copy back what may have been written."""
        for field, array, copy in self._lent.values():
            if array.flags.writeable:
                array[...] = copy
            field.check(array)
            _FIELDS.give_back(field)


class FencedDispatcher(CPUDispatcher):
    """A kernel whose arguments stand behind fences while it runs."""

    def __call__(self, *arguments: Any) -> Any:
        fence = Fence()
        enclosed = [fence.enclose(argument) for argument in arguments]
        result = super().__call__(*enclosed)
        fence.open()
        return result


def fence_kernels() -> None:
    """Put fences around all kernels that are made from now on."""
    from tokenmill.kernels import compiling

    make = compiling.kernel

    def make_fenced(function: Callable[..., Any]) -> Any:
        compiled = make(function)
        if isinstance(compiled, CPUDispatcher):
            compiled.__class__ = FencedDispatcher
        return compiled

    compiling.kernel = make_fenced  # type: ignore[assignment]


def is_wanted() -> bool:
    """Whether this run is one with fences."""
    return os.environ.get("TOKENMILL_FENCED") == "1"
