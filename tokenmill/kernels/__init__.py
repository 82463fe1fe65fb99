"""Compiled kernels: everything that touches each byte or each pair. The only place that imports numba.

Kernels take flat arrays and tuples of them, release the GIL, and never raise: they return a status, and the Python around them
speaks. Numba compiles a kernel when it is first called and keeps the result beside the source. It only looks at the kernel's own
file when it asks whether that is still good, not at the files of the kernels it calls: so importing this package drops what was
compiled from other sources.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

_FOLDER = Path(__file__).parent
_CACHE = Path(os.environ.get("NUMBA_CACHE_DIR") or _FOLDER / "__pycache__")
_STAMP = _CACHE / "kernels.sha256"


def are_compiled() -> bool:
    """Whether an earlier run has left compiled kernels (as far as the usual places tell)."""
    return next(_CACHE.rglob("*.nbc"), None) is not None


def drop_stale_kernels() -> None:
    """Delete compiled kernels unless they were made from the sources as they are now."""
    sources = b"".join(path.read_bytes() for path in sorted(_FOLDER.glob("*.py")))
    fingerprint = hashlib.sha256(sources).hexdigest()
    with contextlib.suppress(OSError):  # a folder that cannot be written to holds no cache of ours either
        if _STAMP.exists() and _STAMP.read_text() == fingerprint:
            return
        for compiled in [*_CACHE.rglob("*.nbi"), *_CACHE.rglob("*.nbc")]:
            compiled.unlink(missing_ok=True)
        _CACHE.mkdir(parents=True, exist_ok=True)
        _STAMP.write_text(fingerprint)


drop_stale_kernels()
