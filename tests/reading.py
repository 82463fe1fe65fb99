"""Files written and read back in one call: what the tests of the readers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.transforms.read import DocumentBatch, read_split
from tokenmill.transforms.splits import ReadOptions, Reject


def write(folder: Path, content: bytes, *, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read_all(
    path: Path | str,
    *,
    split_bytes: int = 1 << 20,
    limit: int | None = None,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    max_window: float = 128,
    **options: Any,
) -> list[DocumentBatch]:
    """All batches of an input, through the planner; `options` are those of `ReadOptions`."""
    chosen = ReadOptions(**options)
    how = {"document": chosen.document, "encoding": encoding, "delimiter": delimiter, "max_window": max_window}
    files = resolve_inputs([str(path)], **how)
    splits = plan_splits(files, options=chosen, split_bytes=split_bytes, limit=limit)
    batches = [batch for split in splits for batch in read_split(split, chosen)]
    for batch in batches:
        check_rows(batch, made_ids=chosen.id_column is None)
    return batches


def check_rows(batch: DocumentBatch, *, made_ids: bool) -> None:
    """What holds of every batch: each record once, as a document or a reject, both in the file's order, from `first_row` on."""
    rows, rejected = batch.rows.tolist(), [reject.row for reject in batch.rejects]
    assert batch.rows.dtype == np.int64 and len(rows) == batch.documents.num_rows
    assert rows == sorted(rows) and rejected == sorted(rejected)
    together = [*rows, *rejected]
    assert len(set(together)) == len(together) and min(together) >= batch.first_row
    if made_ids:
        assert batch.documents["doc_id"].to_pylist() == [f"{batch.file}:{row}" for row in rows]


def documents_of(batches: list[DocumentBatch]) -> list[tuple[str, str]]:
    return [(row["doc_id"], row["text"]) for batch in batches for row in batch.documents.to_pylist()]


def rejects_of(batches: list[DocumentBatch]) -> list[Reject]:
    return [reject for batch in batches for reject in batch.rejects]
