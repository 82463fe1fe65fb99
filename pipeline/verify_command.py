"""The commands `verify` and `pin`: what they look at, and what they say."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Sequence

from tokenmill import schemas
from tokenmill.dataset.shard_files import check_manifest
from tokenmill.errors import DataError, OutputExistsError, UnreadableFileError, UsageError
from tokenmill.pipeline import source_check
from tokenmill.pipeline.findings import DAMAGED, Findings, describe_damage
from tokenmill.pipeline.outputs import read_manifest, render_manifest
from tokenmill.pipeline.progress import count_things
from tokenmill.pipeline.state import STATE, parse_state
from tokenmill.pipeline.verify import verify_chain, verify_folder
from tokenmill.transforms.files import is_local, link_file, list_files, make_folder, read_json, write_file_atomically
from tokenmill.transforms.stores import FileSystems

_SHOWN = 20


def verify(folder: str, *, deep: bool = False, repair: bool = False, source: Sequence[str] = ()) -> str:
    """Check a dataset, word counts, or all that a build has made; says what was checked.

    `DataError` with a line for each fault. `source` are the inputs, where no build has left word of them.
    """
    folders = [path for name in ("word-counts", "tokens") if read_manifest(path := FileSystems.join(folder, name)) is not None]
    lines, problems, notes = [], [], []
    for path in folders if read_manifest(folder) is None and folders else [folder]:
        said, found = _verify_one(path, deep=deep, repair=repair, source=source)
        lines += said
        notes += found.notes
        problems += [f"{path}: {problem}" for problem in found.problems]
    if folders:
        found = verify_chain(folder)
        problems += [f"{folder}: {problem}" for problem in found.problems]
        notes += found.notes
    if len(problems) == 1:
        raise DataError(problems[0])
    if problems:
        more = [f"and {len(problems) - _SHOWN:,} more"] if len(problems) > _SHOWN else []
        raise DataError("\n".join([f"{folder}: {len(problems):,} errors", *problems[:_SHOWN], *more]))
    return "\n".join([*lines, *(f"note     {note}" for note in notes)])


def _verify_one(folder: str, *, deep: bool, repair: bool, source: Sequence[str]) -> tuple[list[str], Findings]:
    manifest, found = verify_folder(folder)
    is_dataset = manifest["format"] == schemas.DATASET_FORMAT
    lines = []
    if deep and is_dataset:
        again = source_check.check_deep(folder, manifest, _find_source(folder, source), found)
        lines.append(f"deep     {count_things(again, 'shard')} made again from the source")
    if repair and found.shards:
        repaired = source_check.repair_shards(folder, manifest, _find_source(folder, source), found.shards)
        lines.append(f"repaired {count_things(repaired, 'shard')} of {folder}")
        manifest, found = verify_folder(folder)
    if found.problems:
        return lines, found
    totals = manifest["totals"]
    what = f"{totals['tokens']:,} tokens" if is_dataset else f"{totals['distinct_words']:,} distinct words"
    parts = count_things(found.checked, "shard" if is_dataset else "part")
    return [f"verified {folder}: {parts}, {totals['documents']:,} documents, {what}", *lines], found


def _find_source(folder: str, source: Sequence[str]) -> Sequence[str]:
    """The inputs as given, or as the build remembers them whose part the folder is."""
    if source:
        return source
    state = parse_state(read_json(FileSystems.join(posixpath.dirname(folder.rstrip("/")) or ".", STATE)))
    if state is None or not state.inputs:
        raise UsageError(f"{folder} does not say where its input files are; give them: --source INPUT")
    return state.inputs


def pin(folder: str, target: str) -> str:
    """Give a version of a dataset a folder of its own, which later builds do not change: second names for the same files.

    Raises `UnreadableFileError` when another version was published meanwhile, and `OutputExistsError` where there is something.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise DataError(f"{folder}: no finished dataset is there to pin; build or encode it first")
    if manifest.get("format") not in (schemas.DATASET_FORMAT, schemas.WORD_COUNTS_FORMAT):
        raise DataError(f"{folder}: {schemas.MANIFEST} was not written by tokenmill; give a dataset or word counts")
    if manifest["format"] == schemas.DATASET_FORMAT:
        check_manifest(folder, manifest)
    if os.path.exists(target) if is_local(target) else list_files(target, "*"):
        raise OutputExistsError(f"{target} exists; choose another name: a version that is pinned is not changed")
    make_folder(target)
    try:
        names = [posixpath.basename(part["path"]) for part in schemas.list_published(manifest)]
        extras = [name for name in ("tokenizer.json", "README.md") if list_files(folder, name)]
        rejects = [f"rejects/{posixpath.basename(path)}" for path in list_files(FileSystems.join(folder, "rejects"), "part-*")]
        if rejects:
            make_folder(FileSystems.join(target, "rejects"))
        for name in [*names, *extras, *rejects]:
            link_file(FileSystems.join(folder, name), FileSystems.join(target, name))
        if read_manifest(folder) != manifest:
            raise UnreadableFileError(f"{folder}: a new version was published meanwhile; pin again")
        write_file_atomically(FileSystems.join(target, schemas.MANIFEST), render_manifest(manifest))
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise UnreadableFileError(f"{folder}: a new version was published meanwhile ({error}); pin again") from None
        if isinstance(error, DAMAGED):
            raise DataError(f"{folder}/{describe_damage(error)}; nothing is pinned") from None
        raise
    return f"pinned   {count_things(len(names), 'part')} of {folder} in {target}"
