"""What became of the documents of a split: the numbers that the manifest adds up.

Every record that is read is counted once, as encoded or as rejected, under the name of its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.arrow import text_buffers
from tokenmill.errors import TokenmillError
from tokenmill.kernels import fingerprint
from tokenmill.transforms.read_batches import DocumentBatch
from tokenmill.transforms.reject_reasons import RejectReasons
from tokenmill.transforms.splits import Reject, Split

#: Words that a WordPiece model has no ids for: not made up by tokens, or with too many characters.
LOST_WORDS = ("unknown_words", "long_words")

_MASK = (1 << 64) - 1

#: What stands between the two texts of a pair in what its fingerprint is of.
_SEPARATOR = pa.scalar("\0", pa.large_string())


@dataclass
class FileAccount:
    """Numbers of one file within a split.

    `documents` = `encoded` + `rejected`; `empty` are among the encoded; `bytes` are of text, both of a pair. `fingerprint` is a
    sum over the documents that were read whole, two numbers modulo 2^64.
    """

    documents: int = 0
    encoded: int = 0
    empty: int = 0
    rejected: int = 0
    replaced: int = 0
    bytes: int = 0
    fingerprint: list[int] = field(default_factory=lambda: [0, 0])


def join_records(records: Sequence[Mapping[str, Any]], **numbers: Any) -> dict[str, Any]:
    """The record of a split from those of its parts, with totals in `numbers`."""
    files: dict[str, dict[str, Any]] = {}
    for record in records:
        for name, part in record["files"].items():
            files[name] = _add_accounts(files[name], part) if name in files else dict(part)
    text_bytes = sum(record["bytes"] for record in records)
    failure = next((record["failure"] for record in records if record["failure"]), None)
    return {"split": records[0]["split"], "files": files, "bytes": text_bytes, "failure": failure, **numbers}


def _add_accounts(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    sums = {name: one[name] + other[name] for name in one if name != "fingerprint"}
    return {**sums, "fingerprint": [(a + b) & _MASK for a, b in zip(one["fingerprint"], other["fingerprint"], strict=True)]}


class SplitAccount:
    """Counts while a split is read, and gives the record for the journal."""

    def __init__(self, split: Split, *, made_ids: bool) -> None:
        self._index = split.index
        self._made_ids = made_ids
        self._failure: dict[str, str] | None = None
        self._lost = dict.fromkeys(LOST_WORDS, 0)
        self._files = {part.file.name: FileAccount() for part in split.ranges}
        self._reasons = RejectReasons()

    def add_batch(self, batch: DocumentBatch) -> None:
        """Count a batch as it was read: its documents are encoded unless `reject` says otherwise afterwards."""
        account, pairs = self._files[batch.file], batch.pair is not None
        texts = pc.binary_join_element_wise(batch.documents["text"], batch.pair, _SEPARATOR) if pairs else batch.documents["text"]
        text, ends = text_buffers(texts)
        account.documents += batch.documents.num_rows + len(batch.rejects)
        account.encoded += batch.documents.num_rows
        account.rejected += len(batch.rejects)
        account.replaced += len(batch.replaced)
        self._reasons.add(batch.rejects)
        account.empty += int(np.count_nonzero(np.diff(ends, prepend=0) == pairs))
        account.bytes += text.size - ends.size * pairs
        self._add_fingerprint(account, batch, text, ends)

    def reject(self, reject: Reject) -> None:
        """A document of a batch that was added turned out to be a reject."""
        self._files[reject.file].encoded -= 1
        self._files[reject.file].rejected += 1
        self._reasons.add([reject])

    @property
    def encoded(self) -> int:
        """Documents that are encoded so far, of all files."""
        return sum(account.encoded for account in self._files.values())

    def lose_words(self, **words: int) -> None:
        """An unk token stands for so many words; the keys are those of `LOST_WORDS`."""
        for kind, number in words.items():
            self._lost[kind] += number

    def lost_words(self) -> dict[str, int]:
        """For how many words an unk token stands, where it does for any."""
        return {kind: number for kind, number in self._lost.items() if number}

    def describe_rejects(self) -> dict[str, Any]:
        """Why records were rejected, where any were."""
        return {"reasons": reasons} if (reasons := self._reasons.describe()) else {}

    def fail(self, error: TokenmillError) -> None:
        """The split cannot be read to its end: the run will not be published."""
        self._failure = {"error": type(error).__name__, "message": str(error)}

    def record(self, **numbers: Any) -> dict[str, Any]:
        """The journal's record: files, totals in `numbers`, and the failure if there was one."""
        files = {name: asdict(account) for name, account in self._files.items()}
        text_bytes = sum(account.bytes for account in self._files.values())
        return {"split": self._index, "files": files, "bytes": text_bytes, "failure": self._failure, **numbers}

    def _add_fingerprint(self, account: FileAccount, batch: DocumentBatch, text: np.ndarray, ends: np.ndarray) -> None:
        ids, id_ends = text_buffers(batch.documents["doc_id"].cast(pa.large_string()))
        skip = len(batch.file.encode()) + 1 if self._made_ids else 0
        total = np.array(account.fingerprint, np.uint64)
        fingerprint.add_documents(total, ids, id_ends, skip, text, ends)
        account.fingerprint = [int(half) for half in total]
