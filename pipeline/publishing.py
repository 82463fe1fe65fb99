"""How a folder gets its next content: readers see the old one or the new one, never a mix.

    switch_folder     the next version is a folder beside the old one, of second names (hard links) for the run's files; then
                      the two change places in one step of the file system, and the old one goes
    replace_files     where that cannot be: on local file systems without such a step, in a folder that is a mount point or holds
                      files of others. The manifest goes first and comes back last: in between, the folder is no dataset
    add_version       on object stores and other file systems: the parts of the next version get names of their own and are
                      written beside the old ones. The manifest is replaced in one write; then the old parts go

On local disks all files of a version are on the disk, not only in memory, before it is published: what a power failure leaves is
whole.

Files that are published are never written to again. So a reader that has them open, and whoever has given them names of his own
(`tokenmill pin`), keeps the version that he began with.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tokenmill import schemas
from tokenmill.errors import OutputError
from tokenmill.pipeline.ours import (
    OWNER,
    OWNER_TEXT,
    PUBLISHED,
    VERSION,
    WORK,
    delete_inside,
    delete_ours,
    is_marked,
    refuse_folders,
    refuse_links,
)
from tokenmill.transforms.files import (
    delete_files,
    file_exists,
    is_local,
    link_file,
    make_folder,
    read_file,
    read_json,
    rename_file,
    write_file_atomically,
)
from tokenmill.transforms.stores import FileSystems, is_store

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_FLUSHED_AT_ONCE = 8
_MARK_LETTERS = 8
#: What a disk says that has not kept what was written.
_LOST = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


def switch_folder(path: str, links: Mapping[str, str], files: Mapping[str, bytes], run: str) -> bool:
    """Replace a local folder as a whole: `links` are files by their new names, `files` contents by names, the manifest too.

    False, and nothing done, where the file system cannot do it in one step.
    """
    real = os.path.realpath(path)
    parent, name = os.path.split(real)
    following = os.path.join(parent, f".{name}.next-{run}")
    if is_entered(real):
        return False
    try:
        _sweep_version(following)
        os.mkdir(following)
        shutil.copymode(real, following)
        mark_work(following)
        for target, source in links.items():
            os.makedirs(os.path.dirname(os.path.join(following, target)), exist_ok=True)
            os.link(source, os.path.join(following, target))
    except OSError:
        _sweep_version(following)
        return False
    for target, content in files.items():
        write_file_atomically(os.path.join(following, target), content)
    delete_ours(os.path.join(following, "_work"), WORK)
    _flush_files(following, [*links, *files])
    _flush(following)
    switched = _exchange(real, following)
    _flush(parent)
    delete_ours(following, VERSION)
    return switched


def is_entered(path: str) -> bool:
    """Whether this process, and so most likely the shell that started it, works in a folder or below it.

    Such a folder is not replaced as a whole: the shell would be left in the old one, which is deleted.
    """
    with contextlib.suppress(OSError, ValueError):  # a working folder that is gone; another drive
        return os.path.commonpath([os.path.realpath(path), os.getcwd()]) == os.path.realpath(path)
    return False


def mark_work(path: str) -> None:
    """Say of a folder that what is in its `_work` is ours, as `is_begun` looks for it."""
    write_file_atomically(os.path.join(path, "_work", OWNER), OWNER_TEXT.encode())


def sweep_versions(path: str) -> None:
    """Delete what a run that was killed while it switched has left beside a local folder."""
    if not is_local(path):
        return
    parent, name = os.path.split(os.path.realpath(path))
    with contextlib.suppress(OSError):
        for left in os.listdir(parent):
            if re.fullmatch(rf"\.{re.escape(name)}\.next-[0-9a-f]{{32}}", left):
                _sweep_version(os.path.join(parent, left))


def _sweep_version(path: str) -> None:
    """Delete a version that was not finished, or that was replaced; a folder of others that is called so stays."""
    if is_marked(path):
        delete_ours(path, VERSION)


def replace_files(path: str, links: Mapping[str, str], files: Mapping[str, bytes], replaced: list[str], log: str) -> None:
    """Replace file by file in a local folder. `replaced` are the names that go; `log` keeps them for `clear_replacement`."""
    contents = {name: content for name, content in files.items() if name != schemas.MANIFEST}
    folders = sorted({posixpath.dirname(name) for name in links} - {""})
    refuse_links(path, *folders)
    refuse_folders(path, PUBLISHED)
    write_file_atomically(log, json.dumps(sorted({*replaced, *links, *contents})).encode())
    delete_files([_join(path, schemas.MANIFEST)])
    delete_inside(path, sorted({*replaced, *links, *contents}), PUBLISHED)
    for folder in folders:
        make_folder(_join(path, folder))
    for name, source in links.items():
        link_file(source, _join(path, name))
    for name, content in contents.items():
        write_file_atomically(_join(path, name), content)
    _flush_files(path, [*links, *contents])
    write_file_atomically(_join(path, schemas.MANIFEST), files[schemas.MANIFEST])
    _flush_files(path, [schemas.MANIFEST])


def add_version(
    path: str,
    links: Mapping[str, str],
    files: Mapping[str, bytes],
    replaced: list[str],
    log: str,
    check: Callable[[], None] | None = None,
) -> None:
    """Put the files of a version beside those of the old one, write the manifest, and delete the old files.

    For file systems that are not this machine's. The parts of a version have names of their own (`mark_names`), so the manifest
    alone decides which version readers see. `check` is called right before it is written, and raises if that must not be.
    """
    contents = {name: content for name, content in files.items() if name != schemas.MANIFEST}
    write_file_atomically(log, json.dumps(sorted({*replaced, *links, *contents})).encode())
    for folder in sorted({posixpath.dirname(name) for name in links} - {""}):
        make_folder(_join(path, folder))
    give = link_file if is_store(path) else rename_file
    for name, source in links.items():
        give(source, _join(path, name))
    if check is not None:
        check()
    for name, content in contents.items():
        target = _join(path, name)
        if not file_exists(target) or read_file(target) != content:
            write_file_atomically(target, content)
    write_file_atomically(_join(path, schemas.MANIFEST), files[schemas.MANIFEST])
    delete_inside(path, sorted({*replaced} - {*links, *contents}), PUBLISHED)


def mark_name(name: str, run: str) -> str:
    """The name of a shard, or of a file of rejects, that no other version of the folder has; other names stay as they are.

    >>> mark_name("rejects/part-00000-of-00064.jsonl", "4f1d0c7a9b")
    'rejects/part-00000-of-00064-4f1d0c7a.jsonl'
    """
    return re.sub(r"(part-\d{5,}-of-\d{5,})(\.parquet|\.jsonl)$", rf"\1-{run[:_MARK_LETTERS]}\2", name)


def mark_names(manifest: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A manifest whose parts have the names that `mark_name` gives them."""
    marked = dict(manifest)
    for kind in ("shards", "parts", "unwritten"):
        if kind in manifest:
            marked[kind] = [{**entry, **_mark_entry(entry, run)} for entry in manifest[kind]]
    return marked


def _mark_entry(entry: Mapping[str, Any], run: str) -> dict[str, str]:
    return {key: mark_name(entry[key], run) for key in ("path", "rejects") if isinstance(entry.get(key), str)}


def clear_replacement(path: str, log: str) -> None:
    """Delete what a run that was killed while it published has left.

    In a local folder with a manifest, all of it is published. Elsewhere there may be files that the manifest does not name: those
    of the next version, or of the one before.
    """
    names, manifest = read_json(log), read_json(_join(path, schemas.MANIFEST))
    if manifest is not None and is_local(path):
        return
    if isinstance(manifest, dict) and isinstance(names, list):
        named = {name for name in names if isinstance(name, str) and not name.startswith("groups/")}  # those tell by their sums
        names = sorted(named - _list_kept(manifest))
    if isinstance(names, list):
        delete_inside(path, (name for name in names if isinstance(name, str)), PUBLISHED)
    delete_inside(path, [f"_work/{posixpath.basename(log)}"], VERSION)


def _list_kept(manifest: Mapping[str, Any]) -> set[str]:
    """Names of what a manifest answers for, and of files that all versions share."""
    entries = [*schemas.list_published(manifest), *manifest.get("unwritten", [])]
    kept = {str(entry["path"]) for entry in entries if "path" in entry}
    return kept | {f"rejects/{schemas.rejects_of(entry)}" for entry in entries} | {"tokenizer.json", "README.md"}


def _join(path: str, name: str) -> str:
    joined: str = FileSystems.join(path, *name.split("/"))
    return joined


def _exchange(one: str, other: str) -> bool:
    """Let two folders change places in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def _flush_files(folder: str, names: Iterable[str]) -> None:
    """Have files and their names on the disk before going on, several at once: a disk takes small ones together.

    Raises OutputError where they cannot be kept.
    """
    paths = [os.path.join(folder, *name.split("/")) for name in names]
    with ThreadPoolExecutor(_FLUSHED_AT_ONCE) as pool:
        for _ in pool.map(_flush, paths):
            pass
    for inner in sorted({os.path.dirname(path) for path in paths}, reverse=True):
        _flush(inner)


def _flush(path: str) -> None:
    """Have a file, or the names in a folder, on the disk; on file systems that cannot say so, nothing."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in _LOST:
            raise OutputError(f"{path}: {error.strerror}; make room there, or choose another folder") from error
