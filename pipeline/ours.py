"""Which files of an output folder are tokenmill's, by their names; these alone are ever deleted, and no link is followed.

    PUBLISHED   part-*.parquet, tokenizer.json, README.md, rejects/part-*.jsonl, groups/group-*.arrow, groups/ledger.json
    WORK        _work: OWNER, publishing.json, and a folder for each run, called by 32 hex digits
    VERSION     a folder of word counts or of a dataset: all of these, manifest.json and _lock.json
    COUNTS      what `train` counts into before it trains
    REPORT      what `report` works in

An output folder is not to be trusted: others may write there, and files get there by accident. A folder is only emptied of names
that tokenmill gives, and what is inside a folder is opened relative to it, so that a link in place of a folder leads nowhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tokenmill import schemas
from tokenmill.errors import OutputExistsError
from tokenmill.transforms.files import delete_files, is_local, list_files

#: Names of files, and folders with what is in them. A name that matches is ours; so is its temporary file.
Tree = Mapping[re.Pattern[str], Any]

_TEMPORARY = re.compile(r"(.+)\.tmp-[0-9a-f]{32}", re.DOTALL)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OWNER = "OWNER"
OWNER_TEXT = "written by tokenmill: a run that is not finished; it goes with the next one\n"


def _tree(entries: Mapping[str, Any]) -> Tree:
    return {re.compile(pattern, re.DOTALL): inner for pattern, inner in entries.items()}


_REJECTS = _tree({r"part-\d{5,}[\w.-]*\.jsonl": None})
_GROUPS = _tree({r"group-\d{5,}-of-\d{5,}\.arrow": None, r"ledger\.json": None})
_JOURNAL = _tree({r"split-\d{5,}\.json": None})
_SHARDS = _tree({r"part-\d{5,}[\w.-]*\.parquet": None})
_RUN = _tree(
    {
        r"shards": _SHARDS,
        r"groups": _GROUPS,
        r"rejects": _REJECTS,
        r"journal": _JOURNAL,
        r"partitions": _tree({r"partition-\d{5,}\.arrow": None}),
        r"(keys|tokenizer)\.json": None,
    }
)
PUBLISHED = {**_SHARDS, **_tree({r"tokenizer\.json|README\.md": None, r"rejects": _REJECTS, r"groups": _GROUPS})}
WORK = _tree({r"[0-9a-f]{32}": _RUN, r"publishing\.json": None, OWNER: None})
VERSION = {**PUBLISHED, **_tree({r"_work": WORK, r"_lock\.json": None, r"manifest\.json": None})}
COUNTS = {**VERSION, **_tree({r"counts": VERSION})}
REPORT = _tree({r"journal": _JOURNAL, r"sums\.arrow|tokenizer-\d+\.json|_lock\.json": None})
#: What says whose a folder is. It goes last: what a clean-up that was cut short leaves is still known for ours.
_LAST = (OWNER, "_work", schemas.MANIFEST)


def find_entry(tree: Tree, name: str) -> tuple[bool, Tree | None]:
    """Whether a name of this folder is ours, and if it is that of a folder, what is ours in there."""
    temporary = _TEMPORARY.fullmatch(name)
    for pattern, inner in tree.items():
        if pattern.fullmatch(name) or (inner is None and temporary and pattern.fullmatch(temporary[1])):
            return True, inner
    return False, None


def is_ours(tree: Tree, name: str) -> bool:
    """Whether `a/b`, relative to the folder that the tree is of, is the name of a file of ours."""
    *folders, last = name.split("/")
    for folder in folders:
        tree = find_entry(tree, folder)[1] or {}
    return find_entry(tree, last) == (True, None)


def walk_names(path: str) -> Iterator[tuple[str, bool]]:
    """All that is in a local folder, hidden or not, by its relative name, and whether it is a regular file; through no link."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(FileNotFoundError), os.scandir(os.path.join(path, folder)) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                yield name, entry.is_file(follow_symlinks=False)


def delete_ours(path: str, tree: Tree) -> None:
    """Delete what the tree names, and the folder itself when nothing else is in it. What cannot be deleted stays."""
    if not is_local(path):
        base = path.rstrip("/") + "/"
        delete_files(file for file in list_files(path, "**") if is_ours(tree, file.removeprefix(base)))
        return
    with contextlib.suppress(OSError):
        folder = os.open(path, _FOLDER)
        try:
            _empty(folder, tree)
        finally:
            os.close(folder)
        os.rmdir(path)


def _empty(folder: int, tree: Tree) -> bool:
    """Delete what is ours in an open folder; whether nothing of ours is left. The marks of `_LAST` stay unless all else went."""
    clean = True
    for name in sorted(os.listdir(folder), key=lambda name: (_LAST.index(name) if name in _LAST else -1, name)):
        found, inner = find_entry(tree, name)
        if found and (clean or name not in _LAST):
            clean &= _delete_file(folder, name) if inner is None else _delete_folder(folder, name, inner)
        clean &= found
    return clean


def _delete_file(folder: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            return True
    return False


def _delete_folder(folder: int, name: str, tree: Tree) -> bool:
    with contextlib.suppress(OSError):
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            _empty(inner, tree)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)
        return True
    return False


def delete_inside(path: str, names: Iterable[str], tree: Tree) -> None:
    """Delete files by their names relative to a folder (`groups/ledger.json`): ours alone, and through no link."""
    wanted = [name for name in names if is_ours(tree, name)]
    if not is_local(path):
        delete_files(f"{path.rstrip('/')}/{name}" for name in wanted)
        return
    for name in wanted:
        *folders, last = name.split("/")
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            folder = os.open(path, _FOLDER & ~os.O_NOFOLLOW)  # the output folder itself may be a link of its user's
            opened.callback(os.close, folder)
            for inner in folders:
                folder = os.open(inner, _FOLDER, dir_fd=folder)
                opened.callback(os.close, folder)
            _delete_file(folder, last)


def refuse_links(path: str, *folders: str) -> None:
    """Raise OutputExistsError where one of these folders inside an output folder is a link, or no folder."""
    for name in folders if is_local(path) else ():
        inner = os.path.join(path, name)
        if os.path.islink(inner) or (os.path.lexists(inner) and not os.path.isdir(inner)):
            what = "a link" if os.path.islink(inner) else "no folder"
            raise OutputExistsError(f"{inner} is {what}, which tokenmill does not make; take it away, or choose another folder")


def refuse_folders(path: str, tree: Tree = VERSION) -> None:
    """Raise OutputExistsError where a folder has the name of a file that tokenmill writes there: no file can take its place."""
    if not is_local(path):
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
        for entry in entries:
            found, inner = find_entry(tree, entry.name)
            if not found or not entry.is_dir(follow_symlinks=False):
                continue
            if inner is None:
                raise OutputExistsError(f"{entry.path} is a folder, where tokenmill writes a file; move it away")
            refuse_folders(entry.path, inner)


def is_marked(path: str) -> bool:
    """Whether a local folder is empty or says that it is ours: by a manifest, or by the mark in its `_work`."""
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    names = os.listdir(path)
    return not names or schemas.MANIFEST in names or is_begun(os.path.join(path, "_work"))


def is_begun(work: str) -> bool:
    """Whether a local `_work` is ours: it says so, or a run that was killed had only just made it, or all but deleted it."""
    if os.path.islink(work) or not os.path.isdir(work):
        return False
    names = os.listdir(work)
    return _says_so(os.path.join(work, OWNER)) or all(name.startswith(f"{OWNER}.tmp-") for name in names)


def _says_so(path: str) -> bool:
    """Whether a file holds what `_work/OWNER` does."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            with open(path, "rb") as file:
                return file.read(len(OWNER_TEXT)) == OWNER_TEXT.encode()
    return False
