"""Files of this machine that a path, glob or folder stands for.

Without Beam, whose import takes a second: a build that finds nothing new must be done before that.
"""

from __future__ import annotations

import glob
import os
import posixpath
import stat
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from tokenmill.errors import UnreadableFileError, UsageError

#: Size, time of change, time of change of the entry, number of the file. Only a file that nobody touched keeps all four.
FileState = tuple[int, int, int, int]
#: Of a file that is not there, or not on this machine, or whose state is not to be trusted.
UNKNOWN: FileState = (0, 0, 0, 0)

#: How names end while a download, a copy or an editor is at work.
_UNFINISHED: tuple[str, ...] = (
    ".part",
    ".partial",
    ".filepart",
    ".tmp",
    ".temp",
    ".crdownload",
    ".download",
    ".opdownload",
    ".aria2",
)
_UNFINISHED += (".opdownload", ".swp", ".swo", ".swx", "~")


def is_remote(path: str) -> bool:
    """Whether a path is of another file system than this machine's: `gs://bucket/a.txt`."""
    return "://" in path


def local_path(url: str) -> str:
    """The path that a `file://` URL stands for. Raises `UsageError` for one of another machine."""
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise UsageError(f"{url}: is not a file of this machine; write file:///folder/file, or the path alone")
    return unquote(url[len("file://") + len(parts.netloc) :])


def look_at(path: str) -> FileState:
    """The state of a local file, `UNKNOWN` for one that has gone."""
    try:
        found = os.stat(path)
    except OSError:
        return UNKNOWN
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@dataclass(frozen=True)
class Listing:
    """What a path, glob or folder stands for: files with their sizes, by names relative to `root`.

    `left_out` are names that are hidden or not final yet, which folders and globs do not take. `is_swept`: nobody named these
    files, nor the ending of their names.
    """

    root: str
    files: dict[str, int]
    left_out: tuple[str, ...] = ()
    is_swept: bool = False


def list_local(text: str) -> Listing:
    """The files of this machine that an input stands for. A path that exists is no glob, whatever it is called."""
    path = os.path.normpath(text)
    if os.path.isdir(path):
        taken, left_out = sort_out(walk_folder(path))
        sizes = {name: measure_file(os.path.join(path, name)) for name in taken}
        return Listing(path, sizes, left_out, is_swept=True)
    if os.path.exists(path):
        refuse_unfinished(path)
        return Listing(os.path.dirname(path), {os.path.basename(path): measure_file(path)})
    root = glob_root(path)
    _refuse_unlisted(path)
    matches = [match for match in glob.glob(path, recursive=True) if not _is_passed_over(match, path)]
    paths = {os.path.relpath(match, root or "."): match for match in matches}
    taken, left_out = sort_out(paths, pattern=path.removeprefix(root))
    sizes = {name: measure_file(paths[name]) for name in taken}
    return Listing(root, sizes, left_out, is_swept=is_sweeping(path))


def is_sweeping(pattern: str) -> bool:
    """Whether a glob takes files whatever their names end with: `data/*` does, `data/*.jsonl` does not."""
    return pattern.endswith("*")


def refuse_unfinished(path: str) -> None:
    """Refuse a file that was named itself, and is hidden or still being written by its name."""
    if is_unfinished(path):
        raise UsageError(f"{path}: has the name of an unfinished file; rename it when it is complete")
    if is_hidden(posixpath.basename(path)):
        raise UsageError(f"{path}: has the name of a hidden file, which begins with a dot or `_`; rename it to read it")


def _refuse_unlisted(pattern: str) -> None:
    """`glob` passes over a folder that it may not list, and over all that is in it, without a word."""
    parts = pattern.split("/")
    for place, part in enumerate(parts):
        if not glob.has_magic(part) or "**" in parts[max(0, place - 1) : place]:  # those below `**` are looked at with it
            continue
        above = "/".join(parts[: place + (part == "**")]) or ("" if place else ".")
        for folder in glob.iglob(above + "/", recursive=True):
            try:
                os.scandir(folder).close()
            except OSError as error:
                _refuse_folder(error)


def _is_passed_over(match: str, pattern: str) -> bool:
    """Whether a match is a folder, of which a glob takes nothing: well meant by `data/*`, but hardly by `data/*.parquet`."""
    if not os.path.isdir(match):
        return False
    last = posixpath.basename(pattern)
    if "." in last and not last.endswith("*"):
        raise UnreadableFileError(
            f"{match}: is a folder, of which {pattern!r} takes no file; give {pattern + '/*'!r}, or rename it"
        )
    return True


def measure_file(path: str) -> int:
    """Size in bytes of a regular file; the link that leads nowhere and the pipe that would never end are told from it."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be opened: {error.strerror}; check the path, or leave it out") from error
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableFileError(f"{path}: is neither a file nor a folder; write its contents to a file first")
    return found.st_size


def walk_folder(folder: str) -> Iterator[str]:
    """Names below a folder, through links to other folders too (each once); of a hidden folder its own alone, with a `/`."""
    seen: set[str] = set()
    for parent, folders, files in os.walk(folder, followlinks=True, onerror=_refuse_folder):
        real = os.path.realpath(parent)
        hidden = [] if real in seen else [name + "/" for name in folders if is_hidden(name)]
        folders[:] = [] if real in seen else [name for name in folders if not is_hidden(name)]
        if real in seen:
            continue
        seen.add(real)
        yield from (os.path.join(os.path.relpath(parent, folder), name).removeprefix("./") for name in (*files, *hidden))


def _refuse_folder(error: OSError) -> None:
    raise UnreadableFileError(
        f"{error.filename}: cannot be listed: {error.strerror}; check its permissions, or leave it out"
    ) from error


def sort_out(names: Iterable[str], pattern: str = "") -> tuple[list[str], tuple[str, ...]]:
    """Names that a folder or glob takes, and those it leaves out: hidden ones unless the pattern spells such a name, and
    unfinished ones.
    """
    with_hidden = is_hidden(pattern)
    taken: list[str] = []
    left_out: list[str] = []
    for name in names:
        (left_out if is_unfinished(name) or (is_hidden(name) and not with_hidden) else taken).append(name)
    return taken, tuple(sorted(left_out))


def is_hidden(name: str) -> bool:
    """Whether a name, or that of a folder above it, begins with a dot or `_`."""
    return any(part.startswith((".", "_")) for part in name.split("/"))


def is_unfinished(name: str) -> bool:
    """Whether programs give such a name to what they are still writing: downloads, copies, files open in an editor."""
    base = posixpath.basename(name).lower()
    return base.endswith(_UNFINISHED) or (len(base) > 1 and base[0] == base[-1] == "#")


def glob_root(pattern: str) -> str:
    """The folders before the first that is a pattern: of `data/20*/x.txt` it is `data`."""
    root = posixpath.dirname(pattern)
    while glob.has_magic(root):
        root = posixpath.dirname(root)
    return root


def list_stdlib() -> dict[str, str]:
    """Names and paths of the sources of the running Python's standard library, sorted."""
    root = sysconfig.get_path("stdlib")
    return {name: posixpath.join(root, name) for name in sorted(_walk_sources(root)) if name.endswith(".py")}


def list_paths(inputs: Sequence[str]) -> list[str] | None:
    """Paths of the local files that inputs stand for, in the order of the corpus; None where an input is not of local files."""
    paths: list[str] = []
    for text in inputs:
        if text.startswith(("hf:", "disk:")) or is_remote(text):
            return None
        if text == "stdlib":
            paths += list_stdlib().values()
            continue
        listing = list_local(text)
        paths += (posixpath.join(listing.root, name) for name in sorted(listing.files))
    return paths


def _walk_sources(root: str) -> Iterator[str]:
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in ("site-packages", "dist-packages", "__pycache__")]
        yield from (os.path.relpath(os.path.join(parent, name), root) for name in files)
