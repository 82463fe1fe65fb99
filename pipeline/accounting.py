"""Adding up the journal: nothing is published before every split is there and every document is encoded or rejected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tokenmill import errors
from tokenmill.transforms.accounts import LOST_WORDS
from tokenmill.transforms.reject_reasons import RejectReasons
from tokenmill.transforms.splits import SourceFile

#: What is counted of each file, and added up.
SUMMED = ("documents", "encoded", "empty", "rejected", "replaced", "bytes")
_MASK = (1 << 64) - 1
#: How many of many messages are shown.
_SHOWN = 5
#: How many reasons for rejects are shown.
SHOWN_REASONS = 3
#: The share of its records that a run may reject, and a file of `LEAST_RECORDS` or more, where `--max-rejects` says nothing.
DEFAULT_SHARE = Fraction(1, 2)
LEAST_RECORDS = 100


@dataclass(frozen=True)
class MaxRejects:
    """How many rejected records a run may have: a number, or a share of all records that were read.

    With neither, the default holds: at most half of all records, and at most half of each file that has `LEAST_RECORDS` or more.
    So one bad line among few ends no run, but a file whose records have another shape does, however many others there are.
    """

    number: int | None = None
    share: Fraction | None = None

    @classmethod
    def parse(cls, text: str | int | None) -> MaxRejects:
        """`100` is a number, `0.5%` a share of the records, None the default."""
        if text is None:
            return cls()
        found = re.fullmatch(r"(\d+)|(\d+(?:\.\d+)?)%", str(text), re.ASCII)
        if found is None or (found[2] and Fraction(found[2]) > 100):
            raise errors.UsageError(f"--max-rejects {text!r}: give a number (100) or a share of all records (0.5%)")
        return cls(share=Fraction(found[2]) / 100) if found[2] else cls(number=int(found[1]))

    @property
    def is_default(self) -> bool:
        """Whether no limit was given."""
        return self.number is None and self.share is None

    @property
    def allows_all(self) -> bool:
        """Whether all records may be rejected: `100%`."""
        return self.share == 1

    def allowed(self, records: int) -> int:
        """How many of so many records may be rejected."""
        return self.number if self.number is not None else int((DEFAULT_SHARE if self.share is None else self.share) * records)


#: All records may be rejected.
ANY_REJECTS = MaxRejects(share=Fraction(1))


@dataclass(frozen=True)
class Books:
    """What was read: an account of each file, their sums, and why records were rejected (`transforms/reject_reasons.py`)."""

    files: list[dict[str, Any]]
    totals: dict[str, int]
    reasons: list[dict[str, Any]]

    def describe(self) -> dict[str, Any]:
        """Sums and the most frequent reasons, for the log."""
        return {**self.totals, "reasons": self.reasons[:SHOWN_REASONS]}


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


def describe_split(record: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The parts of a split as the manifest lists them: what the writer says of each shard, the key of the split, and the accounts
    of its files.
    """
    return [{**shard, "key": key, "files": _close_accounts(shard["files"])} for shard in record["shards"]]


def _close_accounts(files: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_close_account({"name": name, **part}) for name, part in files.items()]


def total_files(files: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The counts of all files together."""
    return {key: sum(file[key] for file in files) for key in SUMMED}


def total_lost_words(shards: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """For how many words of the shards an unk token stands, by reason; a reason that is none's is left out."""
    totals = {kind: sum(shard.get(kind, 0) for shard in shards) for kind in LOST_WORDS}
    return {kind: number for kind, number in totals.items() if number}


def close_books(files: Sequence[SourceFile], records: Mapping[int, Mapping[str, Any]], splits: int) -> Books:
    """The accounts of a run. Raises the first failure of its journal, and `AccountingError` where the numbers do not add up."""
    check_failures(records)
    accounts = add_up_files(files, records, splits)
    return Books(accounts, total_files(accounts), add_up_reasons(records[index] for index in sorted(records)))


def add_up_reasons(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The reasons for rejects of all parts together: records of a journal or shards of a manifest, in corpus order."""
    reasons = RejectReasons()
    for part in parts:
        for one in (part, *part.get("shards", [])):
            reasons.merge(one.get("reasons", []))
    return reasons.describe()


def describe_reasons(reasons: Sequence[Mapping[str, Any]]) -> list[str]:
    """The most frequent reasons for rejects, each with a place.

    `3: column 'text' is null (the first: a.jsonl, row 17)`
    """
    lines = [
        f"{reason['count']:,}: {reason['reason']} (the first: {reason['file']}, row {reason['row']})"
        for reason in reasons[:SHOWN_REASONS]
    ]
    more = sum(reason["count"] for reason in reasons[SHOWN_REASONS:])
    return [*lines, *([f"{more:,}: {len(reasons) - SHOWN_REASONS} other reasons"] if more else [])]


def name_rejected_files(files: Sequence[Mapping[str, Any]]) -> list[str]:
    """The files of which every record was rejected."""
    return [file["name"] for file in files if file["rejected"] and file["rejected"] == file["documents"]]


def check_rejects(books: Books, limit: MaxRejects, place: str) -> None:
    """Raise `TooManyRejectsError` when more records were rejected than the run may have, or, short of `100%`, all of them.

    `place` says where the rejects are.
    """
    if limit.allows_all:
        return
    read, rejected = books.totals["documents"], books.totals["rejected"]
    way_out = f"{place} says which and why; nothing is published; to allow it, give --max-rejects 100%"
    if read and rejected == read:
        raise errors.TooManyRejectsError(f"all of {count_records(read)} were rejected{_list_reasons(books)}; {way_out}")
    if rejected > (allowed := limit.allowed(read)):
        most = "more than half (the default limit)" if limit.is_default else f"--max-rejects allows {allowed}"
        raise errors.TooManyRejectsError(
            f"{rejected} of {count_records(read)} were rejected, {most}{_list_reasons(books)}; {way_out}"
        )
    if limit.is_default:
        _check_each_file(books, way_out)


def _check_each_file(books: Books, way_out: str) -> None:
    bad = [
        file
        for file in books.files
        if file["documents"] >= LEAST_RECORDS and file["rejected"] > DEFAULT_SHARE * file["documents"]
    ]
    if bad:
        more = f" (so it is in {len(bad) - 1} more files)" if len(bad) > 1 else ""
        raise errors.TooManyRejectsError(
            f"{bad[0]['name']}: {bad[0]['rejected']} of its {count_records(bad[0]['documents'])} were rejected, more than half "
            f"(the default limit){more}{_list_reasons(books)}; {way_out}"
        )


def _list_reasons(books: Books) -> str:
    return f": {'; '.join(describe_reasons(books.reasons))}" if books.reasons else ""


def count_records(number: int) -> str:
    """`1 record`, `5 records`."""
    return f"{number} record" if number == 1 else f"{number} records"


def check_made(books: Books, made: int, what: str, published: Mapping[str, Any] | None, folder: str) -> None:
    """Raise `NothingEncodedError` where nothing was made (`what`: tokens or words) and what is published is not empty.

    A corpus that a producer has cut to nothing must not take what was made of it with it.
    """
    before = (published or {}).get("totals", {})
    if not made and max(before.get("tokens", 0), before.get("words", 0)) > 0:
        raise errors.NothingEncodedError(
            f"no {what} in the {count_records(books.totals['documents'])} of {len(books.files)} files: an empty result does not "
            f"replace what {folder} holds; look at the input, or delete {folder} first"
        )
