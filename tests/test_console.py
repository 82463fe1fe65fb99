"""Standard streams that take nothing: the work is done all the same, and the exit code says what a message cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpora import make_texts, write_jsonl
from tokenmill.pipeline import console
from tokenmill.pipeline.cli.main import main
from tokenmill.pipeline.progress import reporter

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `corpus.jsonl` and `t.json`."""
    folder = tmp_path_factory.mktemp("console")
    write_jsonl(folder / "corpus.jsonl", ["é 😀", *make_texts(10)])
    result = call("train", folder / "corpus.jsonl", "--vocab-size", "270", "--output", folder / "t.json")
    assert result.returncode == 0, result.stderr
    return folder


def call(*words: str | Path, redirect: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a shell, which sends its streams where `redirect` says."""
    command = ["sh", "-c", f'exec "$0" -m tokenmill "$@" {redirect}', sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def encode(made: Path, output: Path, **how: str) -> subprocess.CompletedProcess[str]:
    return call("encode", made / "corpus.jsonl", "--tokenizer", made / "t.json", "--output", output, **how)


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")


@needs_full
def test_a_log_that_is_full_does_not_end_a_run(made: Path, tmp_path: Path) -> None:
    result = encode(made, tmp_path / "out", redirect="2>/dev/full")
    assert result.returncode == 0 and "encoded  11 documents" in result.stdout
    assert (tmp_path / "out" / "manifest.json").exists()


class Gone:
    """A stream whose reader has gone."""

    tries = 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise BrokenPipeError(32, os.strerror(32))

    def flush(self) -> None:
        raise ValueError("I/O operation on closed file")

    def isatty(self) -> bool:
        return False


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_progress_whose_reader_has_gone_does_not_end_a_run(log_format: str) -> None:
    gone = Gone()
    with reporter(log_format, stream=gone).stage("count", 2) as stage:  # type: ignore[arg-type]
        stage.message("half way")
        stage.update(2)
    assert gone.tries >= 2, "each line is tried, and the run goes on"


@needs_full
def test_an_error_that_cannot_be_said_keeps_its_exit_code(made: Path, tmp_path: Path) -> None:
    for words, code in ((("--log-format", "json"), 3), (("--quiet",), 3), (("--nix",), 2)):
        result = call(
            "encode", tmp_path / "nix", "--tokenizer", made / "t.json", "--output", tmp_path / "o", *words, redirect="2>/dev/full"
        )
        assert (result.returncode, result.stdout) == (code, "")


@needs_full
@pytest.mark.parametrize("words", [("--help",), ("encode", "--help"), ("--version",), ("tokenize", "--tokenizer", "T", "x")])
def test_standard_output_that_is_full_is_named(made: Path, words: tuple[str, ...]) -> None:
    words = tuple(str(made / "t.json") if word == "T" else word for word in words)
    result = call(*words, redirect=">/dev/full")
    message = "tokenmill: standard output: No space left on device; not all was printed that there is to say\n"
    assert (result.returncode, result.stderr) == (1, message)


@needs_full
def test_what_is_made_is_there_when_the_summary_cannot_be_printed(made: Path, tmp_path: Path) -> None:
    result = encode(made, tmp_path / "out", redirect=">/dev/full")
    assert result.returncode == 1 and result.stderr.splitlines()[-1].startswith("tokenmill: standard output: No space left")
    assert (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8:strict"])
def test_what_is_printed_is_utf8_whatever_the_locale(made: Path, tmp_path: Path, encoding: str) -> None:
    result = call("tokenize", "--tokenizer", made / "t.json", "é", PYTHONIOENCODING=encoding)
    assert (result.returncode, result.stderr) == (0, "") and json.loads(result.stdout)["tokens"] == ["Ã©"]
    output = os.fsdecode(os.fsencode(tmp_path) + b"/o\xff")
    command = [sys.executable, "-m", "tokenmill", "encode", made / "corpus.jsonl", "--tokenizer", made / "t.json", "--output"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([*command, output], cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 0 and b"in " + os.fsencode(tmp_path) + b"/o\\udcff" in done.stdout


@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\x7f", "\r"])
def test_nothing_that_steers_a_terminal_is_printed(letter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f'{{input: {{inputs: [a]}}, "tra{json.dumps(letter)[1:-1]}[red]in": 1}}')
    for words in (["build", str(config)], ["encode", f"x{letter}[red]y", "--tokenizer", f"t{letter}", "--output", str(tmp_path)]):
        with pytest.raises(SystemExit):
            main(words)
        said = capsys.readouterr()
        assert letter not in said.err + said.out and "\\" in said.err, words
    console.print_text(f"one{letter}\ttwo\nthree")
    assert capsys.readouterr().out == f"one{letter.encode('unicode_escape').decode()}\ttwo\nthree\n"


def test_results_are_escaped_for_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    console.print_result("\x1b\u202e\n")
    assert capsys.readouterr().out == "\x1b\u202e\n\n", "programs get every byte"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console.print_result("\x1b\u202e")
    console.print_json({"text": "\x1b\u202e\x9bé"})
    plain, line = capsys.readouterr().out.splitlines()
    assert plain == r"\x1b\u202e" and line == r'{"text": "\u001b\u202e\u009bé"}' and json.loads(line)["text"] == "\x1b\u202e\x9bé"


def test_python_without_docstrings_runs_every_command(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest\n")
    commands = [["count", "--help"], ["count", str(tmp_path / "a.txt"), "--output", str(tmp_path / "counts"), "--workers", "1"]]
    for words in commands:
        command = [sys.executable, "-OO", "-m", "tokenmill", *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).resolve().parents[1])
        assert result.returncode == 0, result.stderr
        assert "Count the words of a corpus" in result.stdout or "counted  3 words" in result.stdout
