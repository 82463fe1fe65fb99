"""Adding up the journal: nothing is published before every split is there and every document is encoded or rejected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tokenmill import errors
from transforms.accounts import LOST_WORDS
from transforms.splits import SourceFile

#: What is counted of each file, and added up.
SUMMED = ("documents", "encoded", "empty", "rejected", "replaced", "bytes")
_MASK = (1 << 64) - 1
#: How many of many messages are shown.
_SHOWN = 5


@dataclass(frozen=True)
class MaxRejects:
    """How many rejected records a run may have: a number, or a share of the documents read. None of both: any number."""

    number: int | None = None
    share: Fraction | None = None

    @classmethod
    def parse(cls, text: str | int | None) -> MaxRejects:
        """`100` is a number, `0.5%` a share of the documents, None no limit."""
        if text is None:
            return cls()
        found = re.fullmatch(r"(\d+)|(\d+(?:\.\d+)?)%", str(text), re.ASCII)
        if found is None or (found[2] and Fraction(found[2]) > 100):
            raise errors.UsageError(f"--max-rejects {text!r}: give a number (100) or a share of the documents (0.5%)")
        return cls(share=Fraction(found[2]) / 100) if found[2] else cls(number=int(found[1]))

    def allowed(self, documents: int) -> int | None:
        """How many of so many documents may be rejected, None for all."""
        return self.number if self.share is None else int(self.share * documents)


def check_failures(records: Mapping[int, Mapping[str, Any]]) -> None:
    """Raise the first failure of the journal, by its own class, with what else failed."""
    failures = [record["failure"] for _, record in sorted(records.items()) if record["failure"]]
    if not failures:
        return
    kind = getattr(errors, failures[0]["error"], errors.DataError)
    messages = list(dict.fromkeys(failure["message"] for failure in failures))
    more = f"; and {len(messages) - _SHOWN} more" if len(messages) > _SHOWN else ""
    raise kind("; ".join(messages[:_SHOWN]) + more)


def add_up_files(files: Sequence[SourceFile], records: Mapping[int, Mapping[str, Any]], splits: int) -> list[dict[str, Any]]:
    """Per input file, in corpus order: name, size, fingerprint and the counts.

    Raises `AccountingError` where they do not add up.
    """
    if missing := sorted(set(range(splits)) - set(records)):
        raise errors.AccountingError(f"split {missing[0]} of {splits} left no record ({len(missing)} did not); run the job again")
    accounts: dict[str, dict[str, Any]] = {
        file.name: {"name": file.name, "size": file.size, "format": file.kind, "fingerprint": [0, 0], **dict.fromkeys(SUMMED, 0)}
        for file in files
    }
    for record in records.values():
        for name, part in record["files"].items():
            account = accounts[name]
            for key in SUMMED:
                account[key] += part[key]
            account["fingerprint"] = [(a + b) & _MASK for a, b in zip(account["fingerprint"], part["fingerprint"], strict=True)]
    return [_close_account(account) for account in accounts.values()]


def _close_account(account: dict[str, Any]) -> dict[str, Any]:
    if account["documents"] != account["encoded"] + account["rejected"]:
        raise errors.AccountingError(
            f"{account['name']}: {account['documents']} documents read, "
            f"but {account['encoded']} encoded and {account['rejected']} rejected; run the job again, and report it"
        )
    low, high = account["fingerprint"]
    return {**account, "fingerprint": f"{high:016x}{low:016x}"}


def describe_split(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A shard as the manifest lists it: what its writer says of it, the key of its split, and the accounts of its files."""
    files = [_close_account({"name": name, **part}) for name, part in record["files"].items()]
    return {**record["shard"], "key": key, "files": files}


def total_files(files: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The counts of all files together."""
    return {key: sum(file[key] for file in files) for key in SUMMED}


def total_lost_words(shards: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """For how many words of the shards an unk token stands, by reason; a reason that is none's is left out."""
    totals = {kind: sum(shard.get(kind, 0) for shard in shards) for kind in LOST_WORDS}
    return {kind: number for kind, number in totals.items() if number}


def check_rejects(totals: Mapping[str, int], limit: MaxRejects, place: str) -> None:
    """Raise `TooManyRejectsError` when more records were rejected than the run may have."""
    allowed = limit.allowed(totals["documents"])
    if allowed is not None and totals["rejected"] > allowed:
        raise errors.TooManyRejectsError(
            f"{totals['rejected']} of {totals['documents']} records were rejected, --max-rejects allows {allowed}; "
            f"{place} says which and why; nothing is published"
        )
