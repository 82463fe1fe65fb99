"""Why records were rejected, counted by kind while a split is read: for the summary, and for the manifest.

    {"reason": "column 'text' holds a list, not a string", "count": 5, "file": "a.jsonl", "row": 0}

An entry stands for all rejects of one kind, and gives reason, file and row of the first one. Two reasons are of one kind when
they differ only in numbers, bytes and quoted characters. There are at most `MOST_KINDS` entries, and one for all other kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tokenmill.transforms.splits import Reject

#: Kinds of reasons that are told apart. No reader has a tenth of it; a reason that quotes records must not fill the memory.
MOST_KINDS = 100
#: A longer reason is cut.
MOST_CHARACTERS = 200
OTHER_REASONS = "other reasons"

_PARTICULARS = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|0x[0-9a-f]+|U\+[0-9A-F]+|\d+(?:,\d{3})*""")


class RejectReasons:
    """Counts rejects by the kind of their reason. Memory does not grow with their number."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}

    def add(self, rejects: Iterable[Reject]) -> None:
        """Count rejects. Those of a file must come in the order of the corpus, but for those of one batch."""
        for reject in rejects:
            self._add({"reason": reject.brief[:MOST_CHARACTERS], "count": 1, "file": reject.file, "row": reject.row})

    def merge(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Add the entries of a part of the corpus that follows those added before."""
        for entry in entries:
            self._add(entry)

    def describe(self) -> list[dict[str, Any]]:
        """All entries, the most frequent first; of equally frequent ones that which comes first in the corpus."""
        return [dict(entry) for entry in sorted(self._entries.values(), key=lambda entry: -entry["count"])]

    def _add(self, entry: Mapping[str, Any]) -> None:
        kind = name_kind(entry["reason"])
        if kind not in self._entries and len(self._entries) >= MOST_KINDS:
            kind = OTHER_REASONS
            entry = {**entry, "reason": OTHER_REASONS}
        if (found := self._entries.get(kind)) is None:
            self._entries[kind] = dict(entry)
            return
        found["count"] += entry["count"]
        if entry["file"] == found["file"] and entry["row"] < found["row"]:
            found |= {"reason": entry["reason"], "row": entry["row"]}


def name_kind(reason: str) -> str:
    """A reason without its particulars.

    >>> name_kind("invalid UTF-8: byte 3 of the text is 0xff")
    'invalid UTF-#: byte # of the text is #'
    """
    return _PARTICULARS.sub("#", reason)
