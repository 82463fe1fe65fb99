"""What a run says while it lasts: on a terminal, in a file, to a program, and not at all."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest

from tokenmill.pipeline.progress import Reporter, Snapshot, describe, reporter
from tokenmill.unicode_text import show_printable


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def make(log_format: str = "text", quiet: bool = False) -> tuple[Reporter, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    return reporter(log_format, quiet, stream=stream, clock=clock), stream, clock


def test_lines_come_every_two_seconds_and_at_the_end() -> None:
    report, stream, clock = make()
    with report.stage("count", 40) as stage:
        for done in range(1, 7):
            clock.now += 0.5
            stage.update(done, documents=1000 * done, bytes=10_000_000 * done, words=7 * done)
    assert stream.getvalue().splitlines() == [
        "count: 4/40 splits, 4,000 documents, 20.0 MB/s, 28 words",
        "count: 6/40 splits, 6,000 documents, 20.0 MB/s, 42 words, done in 3.0 s",
    ]


def test_messages_come_at_once() -> None:
    report, stream, _ = make()
    with report.stage("encode", 2) as stage:
        stage.message("3 documents rejected")
    assert stream.getvalue().splitlines() == ["encode: 3 documents rejected", "encode: 0/2 splits, done in 0.0 s"]


def test_the_merge_loop_shows_its_latest_merges() -> None:
    report, stream, clock = make()
    with report.stage("merges", 8000, unit="merges") as stage:
        clock.now += 2
        stage.update(1200, latest=[("Ġ", "t", 5200), ("h", "e", 4100)])
    assert stream.getvalue().splitlines()[0] == "merges: 1,200/8,000 merges, Ġ + t (5,200), h + e (4,100)"


def test_a_stage_that_fails_says_so_and_lets_the_error_pass() -> None:
    report, stream, _ = make()
    with pytest.raises(ZeroDivisionError), report.stage("count", 4):
        raise ZeroDivisionError
    assert stream.getvalue() == "count: 0/4 splits, failed after 0.0 s\n"


def test_json_lines_hold_an_event_and_the_counters() -> None:
    report, stream, clock = make("json")
    with report.stage("encode", 3) as stage:
        stage.update(1, documents=9)
        clock.now += 2
        stage.update(2, documents=10, bytes=50, tokens=20)
        stage.message("a\nb \ud800")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    counters = {"stage": "encode", "total": 3, "unit": "splits", "words": 0, "latest": [], "seconds": 2.0}
    counters |= {"done": 2, "documents": 10, "bytes": 50, "tokens": 20}
    assert lines == [
        {"event": "start", "stage": "encode", "total": 3, "unit": "splits"},
        {"event": "progress", **counters},
        {"event": "message", "stage": "encode", "text": "a\nb \ud800"},
        {"event": "end", **counters},
    ]


def test_json_tells_a_failure_from_an_end() -> None:
    report, stream, _ = make("json")
    with pytest.raises(KeyboardInterrupt), report.stage("count", 4):
        raise KeyboardInterrupt
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["start", "failed"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_quiet_says_nothing(log_format: str) -> None:
    report, stream, clock = make(log_format, quiet=True)
    with report.stage("count", 4) as stage:
        clock.now += 60
        stage.update(4)
        stage.message("nothing")
    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    with reporter(stream=stream).stage("merges", 8, unit="merges") as stage:
        stage.update(8, latest=[("[b", "old]", 3)])
        stage.message("stopped [bold]early[/bold]: \x1b[2J")
    shown = stream.getvalue()
    assert "━" in shown and "8/8" in shown and "[b + old] (3)" in shown
    assert r"merges: stopped [bold]early[/bold]: \x1b[2J" in shown


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with reporter(stream=stream).stage("count", 1):
        pass
    assert stream.getvalue().startswith("count: 0/1 splits, done in")


def test_the_default_stream_is_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with reporter().stage("count", 1):
        pass
    captured: Any = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("count: 0/1 splits")


def test_counts_of_zero_are_left_out() -> None:
    assert describe(Snapshot("encode", 0, 2000)) == "0/2,000 splits"
    assert describe(Snapshot("encode", 1, 2, bytes=5)) == "1/2 splits"  # no speed without time
    assert describe(Snapshot("encode", 1, 2, tokens=1234, seconds=1.0)) == "1/2 splits, 1,234 tokens"


def test_what_does_not_print_is_escaped() -> None:
    assert show_printable("Ġthe é 你 a\x1b[0m\n\u202e\ud800") == "Ġthe é 你 a\\x1b[0m\\n\\u202e\\ud800"


def test_rich_is_imported_only_for_a_terminal() -> None:
    program = "import sys; from tokenmill.pipeline.progress import reporter; reporter('json'); print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
