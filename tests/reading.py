"""Files written and read back in one call: what the tests of the readers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.inputs import plan_splits, resolve_inputs
from transforms.read import DocumentBatch, read_split
from transforms.splits import ReadOptions, Reject


def write(folder: Path, content: bytes, *, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read_all(path: Path | str, *, split_bytes: int = 1 << 20, limit: int | None = None, **options: Any) -> list[DocumentBatch]:
    """All batches of an input, through the planner; `options` are those of `ReadOptions`."""
    chosen = ReadOptions(**options)
    files = resolve_inputs([str(path)], document=chosen.document)
    splits = plan_splits(files, options=chosen, split_bytes=split_bytes, limit=limit)
    return [batch for split in splits for batch in read_split(split, chosen)]


def documents_of(batches: list[DocumentBatch]) -> list[tuple[str, str]]:
    return [(row["doc_id"], row["text"]) for batch in batches for row in batch.documents.to_pylist()]


def rejects_of(batches: list[DocumentBatch]) -> list[Reject]:
    return [reject for batch in batches for reject in batch.rejects]
