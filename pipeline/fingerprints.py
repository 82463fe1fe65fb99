"""By what a build knows that work is done already: stamps of files, keys of splits.

    stamp   what a file holds: a hash of its bytes, or what its file system or dataset gives for one
    key     what comes out of a split: a hash of the job's options, and of stamp, name and place of each of its ranges

Equal keys, equal results: what was made under a key in an earlier run is taken over. Sizes and times of change are no part of a
key; they only spare reading a file again for its stamp (`FileState`), as in git's index: they are compared together with the time
of the last change of the file's entry and its number, which no program can set back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from typing import Any

import xxhash
from apache_beam.io.filesystem import BeamIOError

from tokenmill import schemas
from tokenmill.errors import UnreadableFileError
from tokenmill.pipeline.listing import UNKNOWN, FileState, is_remote, look_at
from tokenmill.transforms.read_dataset import open_dataset
from tokenmill.transforms.splits import Range, SourceFile, Split
from tokenmill.transforms.stores import FileSystems
from tokenmill.version import __version__

#: A block stays in the processor's cache until it is hashed: new memory for each took twice the time on two cores.
_BLOCK_BYTES = 256 << 10
_THREADS = 8

#: The stamp of a file and the state in which it had it, by the file's path.
Known = Mapping[str, tuple[FileState, str]]


def stamp_files(files: Sequence[SourceFile], known: Known | None = None) -> dict[str, str]:
    """What each file holds, by its name. A local file that is in a `known` state is not read again."""
    known = known or {}

    def stamp(file: SourceFile) -> str:
        state, remembered = known.get(file.path, (UNKNOWN, ""))
        if state != UNKNOWN and state == look_at(file.path):
            return remembered
        return stamp_file(file)

    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip((file.name for file in files), pool.map(stamp, files), strict=True))


def stamp_file(file: SourceFile) -> str:
    """Hash of a local file's bytes; elsewhere the checksum of the store, of a dataset its fingerprint.

    Raises `UnreadableFileError` also for a file of another length than it was listed with: it would be read in part.
    """
    if file.format == "dataset":
        return f"dataset:{open_dataset(file.path)._fingerprint}"
    try:
        if is_remote(file.path):
            return f"checksum:{FileSystems.checksum(file.path)}"
        digest, block, read = xxhash.xxh3_128(), memoryview(bytearray(_BLOCK_BYTES)), 0
        with open(file.path, "rb", buffering=0) as opened:
            while size := opened.readinto(block):
                digest.update(block[:size])
                read += size
    except (OSError, BeamIOError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFileError(f"{file.path}: cannot be opened: {reason}; check the path, or leave it out") from None
    if read != file.size:
        raise UnreadableFileError(
            f"{file.path}: holds {read:,} bytes and was listed with {file.size:,}; run again when it is at rest, or copy it"
        )
    return f"xxh3:{digest.hexdigest()}"


def key_splits(splits: Iterable[Split], stamps: Mapping[str, str], basis: str) -> list[str]:
    """The key of each split: 32 hex digits. `basis`: what the job is, as `describe_job` gives it."""
    return [_hash([basis, [_describe_range(part, stamps[part.file.name]) for part in split.ranges]]) for split in splits]


def describe_job(name: str, options: Any) -> str:
    """All that the results of a job depend on beside its splits: the options, but for the folders they go to."""
    kept = {field.name for field in fields(options) if not field.name.endswith(("_folder", "_path"))}
    chosen = {key: value for key, value in asdict(options).items() if key in kept}
    chosen["read"] = {key: value for key, value in chosen["read"].items() if key != "batch_bytes"}
    versions = [__version__, schemas.DATASET_VERSION, schemas.WORD_COUNTS_VERSION]
    return json.dumps([name, versions, chosen], sort_keys=True, default=str)


def name_run(keys: Sequence[str]) -> str:
    """The name of a run is its work's: the same work finds what an earlier run of it has left."""
    return _hash(keys)


def _describe_range(part: Range, stamp: str) -> list[Any]:
    file = part.file
    kind = [file.name, file.format, file.compression, file.document, *filter(None, (file.encoding, file.delimiter))]
    return [*kind, stamp, part.start, part.end, part.first_row, part.rows]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def hash_bytes(content: bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(content).hexdigest()
