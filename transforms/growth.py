"""Texts that a normalizer makes longer: batches of them stay within the largest document, and a longer one is a reject."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tokenmill.arrow import text_buffers
from tokenmill.text.normalizers import Normalizer
from tokenmill.transforms.document_limit import HEAD_BYTES, describe_long
from tokenmill.transforms.read_batches import DocumentBatch, Int64s, sort_rejects
from tokenmill.transforms.splits import Reject


def bound_growth(batches: Iterable[DocumentBatch], normalizer: Normalizer, most: int) -> Iterator[DocumentBatch]:
    """The same documents in batches that have no more than `most` bytes, or one document, when they are normalized.

    Nothing is looked at where a normalizer cannot make texts longer by replacing.
    """
    for batch in batches:
        if normalizer.growth == 1 or batch.documents.nbytes * normalizer.growth <= most:
            yield batch
        else:
            yield from _cut_batch(*_reject_grown(batch, normalizer, most), most)


def _reject_grown(batch: DocumentBatch, normalizer: Normalizer, most: int) -> tuple[DocumentBatch, Int64s]:
    """The batch without documents that get too long, and int64[d]: how long the others can get at most."""
    sizes = np.zeros(len(batch.rows), np.int64)
    for texts in batch.texts:
        _, ends = text_buffers(texts)
        sizes += np.ceil(np.diff(ends, prepend=0) * normalizer.growth).astype(np.int64)
    for place in np.flatnonzero(sizes > most).tolist():
        sizes[place] = sum(normalizer.measure(texts[place].as_py().encode(), most) for texts in batch.texts)
    kept = sizes <= most
    if kept.all():
        return batch, sizes
    grown = [_reject(batch, place, int(sizes[place]), most) for place in np.flatnonzero(~kept).tolist()]
    documents, rows = batch.documents.filter(pa.array(kept)), batch.rows[kept]
    replaced = tuple(row for row in batch.replaced if row in rows)
    rejects = sort_rejects([*batch.rejects, *grown])
    return replace(batch, documents=documents, rows=rows, rejects=rejects, replaced=replaced), sizes[kept]


def _reject(batch: DocumentBatch, place: int, size: int, most: int) -> Reject:
    text = batch.documents["text"][place].as_py().encode()
    reason = f"normalized, it {describe_long(size, most)}"
    return Reject(batch.file, int(batch.rows[place]), -1, reason, text[:HEAD_BYTES], len(text))


def _cut_batch(batch: DocumentBatch, sizes: Int64s, most: int) -> Iterator[DocumentBatch]:
    edges, held = [batch.first_row], 0
    for row, size in zip(batch.rows.tolist(), sizes.tolist(), strict=True):
        if held and held + size > most:
            edges.append(row)
            held = 0
        held += size
    for first, last in itertools.pairwise([*edges, np.iinfo(np.int64).max]):
        yield batch.between(first, last)
