"""Where compiled kernels are kept, and for how long they are good.

    NUMBA_CACHE_DIR/tokenmill-FINGERPRINT     where that is set
    beside the sources                        where these can be written to
    ~/.cache/tokenmill-FINGERPRINT            else, as of a package that root has installed (`XDG_CACHE_HOME`, where that is set)
    /tmp/tokenmill-UID/FINGERPRINT            without a home, as many containers are; a folder that nobody else can write to

Numba itself gives up where there is none of the first three. When it asks whether a kernel is still good it only looks at the
kernel's own file, not at those of the parts that are compiled into it. So a folder is for one state of all sources: by its name,
or, beside the sources, by a file with their fingerprint. Where nothing can be written every process compiles for itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SOURCES = Path(__file__).parent
#: Where Numba keeps kernels by itself, and only there without a name of ours in it.
IN_TREE = _SOURCES / "__pycache__"


def choose_cache(fingerprint: str) -> Path | None:
    """The folder for kernels of these sources, made if missing; None where there is none to write to."""
    return next((folder for folder in _list_candidates(fingerprint) if _can_write(folder)), None)


def fingerprint_sources() -> str:
    """sha256 of all sources of kernels."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCES.glob("*.py")))).hexdigest()


def are_compiled() -> bool:
    """Whether an earlier run has left compiled kernels."""
    return CACHE is not None and next(CACHE.rglob("*.nbc"), None) is not None


def drop_stale_kernels(folder: Path, fingerprint: str) -> None:
    """Delete compiled kernels unless they were made from sources of this fingerprint."""
    stamp = folder / "kernels.sha256"
    with contextlib.suppress(OSError):  # another process may be doing the same
        if stamp.exists() and stamp.read_text() == fingerprint:
            return
        for compiled in [*folder.rglob("*.nbi"), *folder.rglob("*.nbc")]:
            compiled.unlink(missing_ok=True)
        stamp.write_text(fingerprint)


def _list_candidates(fingerprint: str) -> Iterator[Path]:
    name = f"tokenmill-{fingerprint[:16]}"
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given).absolute() / name
    yield IN_TREE
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if home.is_absolute():
        yield home / name
    with contextlib.suppress(OSError, AttributeError):  # no such user ids on Windows
        private = Path(tempfile.gettempdir()) / f"tokenmill-{os.getuid()}"
        if _is_private(private):
            yield private / name


def _is_private(folder: Path) -> bool:
    """Whether a folder is ours alone, made if missing: what lies in it is run as code, and /tmp is everybody's."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _can_write(folder: Path) -> bool:
    """As Numba finds it out: modes say little of file systems that are read-only, and nothing to root."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


_FINGERPRINT = fingerprint_sources()
#: The folder that this process keeps its kernels in, and takes them from.
CACHE = choose_cache(_FINGERPRINT)
if CACHE == IN_TREE:
    drop_stale_kernels(IN_TREE, _FINGERPRINT)
