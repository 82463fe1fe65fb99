"""What `tokenmill verify` has found, and how it reads a folder that it does not trust."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenmill import schemas
from tokenmill.errors import DataError
from tokenmill.pipeline.fingerprints import hash_bytes
from tokenmill.transforms.files import list_files, read_file
from tokenmill.transforms.stores import FileSystems

#: What comes of a manifest whose entries are missing or of another kind.
DAMAGED = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError)


@dataclass
class Findings:
    """What is wrong, in words; `shards` and `groups` are the numbers of those that can be made again. `notes` are no faults."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shards: set[int] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)
    checked: int = 0

    def add(self, problem: str, shard: int | None = None) -> None:
        self.problems.append(problem)
        if shard is not None:
            self.shards.add(shard)


def describe_damage(error: Exception) -> str:
    """What an error of the kind `DAMAGED` says of a manifest."""
    return f"{schemas.MANIFEST}: not as tokenmill writes it ({type(error).__name__}: {error})"


def read_whole(path: str) -> bytes:
    """The bytes of a file. Raises DataError for one that cannot be read, or is no regular file."""
    try:
        return read_file(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def find_strangers(folder: str, parts: Iterable[str], rejects: Iterable[str], found: Findings) -> None:
    """Files that look like parts of a dataset, or like its rejects, and that its manifest does not name."""
    for inner, pattern, listed in (("", "*.parquet", {*parts}), ("rejects/", "part-*.jsonl", {*rejects})):
        for path in list_files(FileSystems.join(folder, inner) if inner else folder, pattern):
            if (name := os.path.basename(path)) not in listed:
                found.add(f"{inner}{name}: not in the manifest; it does not belong to the dataset")


def check_sum(name: str, content: bytes, entry: Mapping[str, Any], *, prefix: str = "") -> Iterator[str]:
    """What is wrong with the bytes of a file, given size and sha256 in its entry in the manifest."""
    named, size = f"{name}: " if name else "", entry[f"{prefix}bytes"]
    if len(content) != size:
        yield f"{named}{len(content):,} bytes, the manifest says {size:,}"
    elif hash_bytes(content) != entry[f"{prefix}sha256"]:
        yield f"{named}other bytes than the manifest's sha256 is of"
