"""Rejects on their way out: one file of JSON lines for each split that has any, written while the split is read."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from tokenmill.transforms.splits import Reject
from tokenmill.transforms.write import OutputFile

#: How many bytes of a rejected record are kept.
REJECT_RAW_BYTES = 64 << 10


class RejectWriter:
    """Writes rejects in the order given, to a file that there is only when there are any.

    Use as a context manager; an exception leaves no file. Raises what `OutputFile` raises.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._output: OutputFile | None = None

    def __enter__(self) -> RejectWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._output is not None:
            self._output.__exit__(kind, error, trace)

    def write(self, rejects: Iterable[Reject]) -> None:
        """Add rejects; the first one opens the file."""
        for reject in rejects:
            self._output = self._output or OutputFile(self._path)
            self._output.write(render_reject(reject))

    def describe(self) -> dict[str, Any]:
        """Size and sha256 of what was written, for the manifest; nothing where there was no reject."""
        return {} if self._output is None else {"rejects_bytes": self._output.size, "rejects_sha256": self._output.sha256}


def render_reject(reject: Reject) -> bytes:
    """A rejected record as a JSON line: file, row, offset, reason, how long the record was, and its first bytes in base64."""
    fields = {
        "file": reject.file,
        "row": reject.row,
        "offset": reject.offset,
        "reason": reject.reason,
        "bytes": max(len(reject.raw), reject.size),
        "raw": base64.b64encode(reject.raw[:REJECT_RAW_BYTES]).decode("ascii"),
    }
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
