"""How a run tells people, or programs, how far it is. Everything goes to standard error: standard output is for results.

    with reporter("text", quiet=False).stage("count", total=40) as stage:
        stage.update(12, documents=51_000, bytes=31_457_280, words=5_200_000)

A terminal gets a bar, anything else plain lines (at most one in two seconds, and one at the end of a stage):

    count: 12/40 splits, 51,000 documents, 15.7 MB/s, 5,200,000 words

`--log-format json` gives one JSON object a line, at the same pace:

    {"event": "progress", "stage": "count", "done": 12, "total": 40, "documents": 51000, "bytes": 31457280, ...}

with `event` one of `start`, `progress`, `message`, `end`, `failed` and, for what a command or a build comes to, `result`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, TextIO, cast

from tokenmill.unicode_text import show_printable

LINE_SECONDS = 2.0

#: A merge as the merge loop tells of it: left symbol, right symbol, count of the pair.
Merge = tuple[str, str, int]


@dataclass(frozen=True)
class Snapshot:
    """How far a stage is. `bytes` is text read so far; `seconds` counts from the start of the stage."""

    stage: str
    done: int
    total: int
    unit: str = "splits"
    documents: int = 0
    bytes: int = 0
    words: int = 0
    tokens: int = 0
    latest: tuple[Merge, ...] = ()
    seconds: float = 0.0


class View(Protocol):
    """Where snapshots are shown."""

    def start(self, snapshot: Snapshot) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...
    def say(self, snapshot: Snapshot, text: str) -> None: ...
    def finish(self, snapshot: Snapshot, failed: bool) -> None: ...
    def tell(self, stage: str, counters: Mapping[str, Any]) -> None: ...


class Stage:
    """A stage in progress. Numbers are totals so far, not increments."""

    def __init__(self, view: View, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        self._view, self._clock, self._started = view, clock, clock()
        self.snapshot = snapshot

    def update(
        self,
        done: int,
        *,
        documents: int = 0,
        bytes: int = 0,
        words: int = 0,
        tokens: int = 0,
        latest: Sequence[Merge] = (),
    ) -> None:
        """Say how far it is. Cheap: call it as often as is convenient."""
        seconds = self._clock() - self._started
        self.snapshot = replace(
            self.snapshot,
            done=done,
            documents=documents,
            bytes=bytes,
            words=words,
            tokens=tokens,
            latest=tuple(latest),
            seconds=seconds,
        )
        self._view.show(self.snapshot)

    def message(self, text: str) -> None:
        """Say something in words, now."""
        self._view.say(self.snapshot, text)

    def close(self, failed: bool) -> None:
        """End the stage; `Reporter.stage` does it."""
        self._view.finish(replace(self.snapshot, seconds=self._clock() - self._started), failed)


@dataclass(frozen=True)
class Reporter:
    """Opens stages; made by `reporter`."""

    view: View
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def stage(self, name: str, total: int, *, unit: str = "splits") -> Iterator[Stage]:
        """A stage of `total` units: `with reporter.stage("merges", 8000, unit="merges") as stage: ...`."""
        stage = Stage(self.view, Snapshot(name, 0, total, unit), self.clock)
        self.view.start(stage.snapshot)
        try:
            yield stage
        except BaseException:
            stage.close(failed=True)
            raise
        stage.close(failed=False)

    def tell(self, stage: str, counters: Mapping[str, Any]) -> None:
        """Counters of a result, for programs; people read them in the summary."""
        self.view.tell(stage, counters)


def reporter(
    log_format: str = "text",
    quiet: bool = False,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Reporter:
    """The reporter that fits: silent if `quiet`, JSON lines for `json`, a bar on a terminal, plain lines otherwise."""
    stream = cast(TextIO, _Told(sys.stderr if stream is None else stream))
    if quiet:
        return Reporter(_SilentView(), clock)
    if log_format == "json":
        return Reporter(_JsonView(stream, clock), clock)
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return Reporter(_BarView(stream), clock)
    return Reporter(_LineView(stream, clock), clock)


def describe(snapshot: Snapshot) -> str:
    """`12/40 splits, 51,000 documents, 15.7 MB/s, 5,200,000 words`: what there is to tell, counts of 0 left out."""
    parts = [f"{snapshot.done:,}/{snapshot.total:,} {snapshot.unit}".rstrip(), describe_counts(snapshot)]
    return ", ".join(part for part in parts if part)


def describe_counts(snapshot: Snapshot) -> str:
    """The same without the leading fraction."""
    parts = [f"{snapshot.documents:,} documents"] if snapshot.documents else []
    if snapshot.bytes and snapshot.seconds:
        parts.append(f"{snapshot.bytes / 1e6 / snapshot.seconds:.1f} MB/s")
    parts += [f"{getattr(snapshot, name):,} {name}" for name in ("words", "tokens") if getattr(snapshot, name)]
    parts += [f"{left} + {right} ({count:,})" for left, right, count in snapshot.latest]
    return show_printable(", ".join(parts))


def count_things(number: int, name: str) -> str:
    """`1 file`, `1,790 files`."""
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


class _Told:
    """A stream that may have nobody at its other end any more, or no room: that does not end a run of hours."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _Pace:
    """Lets a line through every `LINE_SECONDS`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._last = clock, clock()

    def is_due(self) -> bool:
        now = self._clock()
        due = now - self._last >= LINE_SECONDS
        if due:
            self._last = now
        return due


class _SilentView:
    def start(self, snapshot: Snapshot) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...
    def say(self, snapshot: Snapshot, text: str) -> None: ...
    def finish(self, snapshot: Snapshot, failed: bool) -> None: ...
    def tell(self, stage: str, counters: Mapping[str, Any]) -> None: ...


class _LineView:
    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._pace = stream, _Pace(clock)

    def start(self, snapshot: Snapshot) -> None: ...

    def show(self, snapshot: Snapshot) -> None:
        if self._pace.is_due():
            self._print(f"{snapshot.stage}: {describe(snapshot)}")

    def say(self, snapshot: Snapshot, text: str) -> None:
        self._print(f"{snapshot.stage}: {show_printable(text)}")

    def finish(self, snapshot: Snapshot, failed: bool) -> None:
        how = "failed after" if failed else "done in"
        self._print(f"{snapshot.stage}: {describe(snapshot)}, {how} {snapshot.seconds:.1f} s")

    def tell(self, stage: str, counters: Mapping[str, Any]) -> None: ...

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class _JsonView:
    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._pace = stream, _Pace(clock)

    def start(self, snapshot: Snapshot) -> None:
        self._print(event="start", stage=snapshot.stage, total=snapshot.total, unit=snapshot.unit)

    def show(self, snapshot: Snapshot) -> None:
        if self._pace.is_due():
            self._print(event="progress", **_to_fields(snapshot))

    def say(self, snapshot: Snapshot, text: str) -> None:
        self._print(event="message", stage=snapshot.stage, text=text)

    def finish(self, snapshot: Snapshot, failed: bool) -> None:
        self._print(event="failed" if failed else "end", **_to_fields(snapshot))

    def tell(self, stage: str, counters: Mapping[str, Any]) -> None:
        self._print(event="result", stage=stage, **counters)

    def _print(self, **fields: Any) -> None:
        print(json.dumps(fields), file=self._stream, flush=True)


def _to_fields(snapshot: Snapshot) -> dict[str, Any]:
    return {**asdict(snapshot), "seconds": round(snapshot.seconds, 3)}


class WatchedView:
    """A view that also calls `sign` whenever there is something to show: a sign of life."""

    def __init__(self, view: View, sign: Callable[[], None]) -> None:
        self._view, self._sign = view, sign

    def start(self, snapshot: Snapshot) -> None:
        self._sign()
        self._view.start(snapshot)

    def show(self, snapshot: Snapshot) -> None:
        self._sign()
        self._view.show(snapshot)

    def say(self, snapshot: Snapshot, text: str) -> None:
        self._view.say(snapshot, text)

    def finish(self, snapshot: Snapshot, failed: bool) -> None:
        self._view.finish(snapshot, failed)

    def tell(self, stage: str, counters: Mapping[str, Any]) -> None:
        self._view.tell(stage, counters)


class _BarView:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Any = None

    def start(self, snapshot: Snapshot) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        name, counts = (TextColumn(field, markup=False) for field in ("{task.description}", "{task.fields[counts]}"))
        columns = [name, BarColumn(), MofNCompleteColumn(), counts, TimeElapsedColumn()]
        self._bar = Progress(*columns, console=Console(file=self._stream))
        self._task = self._bar.add_task(snapshot.stage, total=snapshot.total, counts="")
        self._bar.start()

    def show(self, snapshot: Snapshot) -> None:
        counts = describe_counts(snapshot)
        self._bar.update(self._task, completed=snapshot.done, total=snapshot.total, counts=counts)

    def say(self, snapshot: Snapshot, text: str) -> None:
        self._bar.console.print(f"{snapshot.stage}: {show_printable(text)}", markup=False, highlight=False, soft_wrap=True)

    def finish(self, snapshot: Snapshot, failed: bool) -> None:
        self.show(snapshot)
        self._bar.stop()

    def tell(self, stage: str, counters: Mapping[str, Any]) -> None: ...
