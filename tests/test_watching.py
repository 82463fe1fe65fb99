"""`encode --watch`: files that come while it runs, half-written, vanished, and the end by SIGTERM."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill.errors import DataError, UnreadableFileError, UsageError
from tokenmill.pipeline import driver, watching
from tokenmill.pipeline.inputs import Inputs
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.training.options import TrainingOptions

RUN = Execution(reporter(quiet=True), workers=1)
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`in` with one file, and `tokenizer.json`."""
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", make_texts(40))
    options = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=300, special_tokens=("<eos>",))
    driver.train_on_corpus(Corpus((str(tmp_path / "in"),)), options, str(tmp_path / "tokenizer.json"), RUN)
    return tmp_path


def watch(root: Path, monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object], **rows: object) -> None:
    """Watch for a look more than there are things to do, one of which is done after each look."""
    todo = list(between)
    monkeypatch.setattr(watching, "pause", lambda stop, seconds: todo.pop(0)())
    corpus, tokenizer = Corpus((str(root / "in"),), split_bytes=2000), str(root / "tokenizer.json")
    how = RowOptions(**rows)  # type: ignore[arg-type]
    watching.watch_corpus(corpus, tokenizer, str(root / "out"), RUN, seconds=1, rows=how, rounds=len(between) + 1)


def names(root: Path) -> list[str]:
    return [file["name"] for file in json.loads((root / "out" / "manifest.json").read_text())["files"]]


def nothing() -> None:
    pass


def test_new_files_become_shards_as_if_encoded_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"block": 16, "eos": "<eos>", "shuffle": 1}

    def add(name: str) -> Callable[[], object]:
        return lambda: write_jsonl(root / "in" / f"{name}.jsonl", make_texts(30, seed=ord(name)))

    watch(root, monkeypatch, nothing, add("c"), nothing, add("b"), nothing, **rows)
    assert names(root) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    corpus = Corpus((str(root / "in"),), split_bytes=2000)
    driver.encode_corpus(corpus, str(root / "tokenizer.json"), str(root / "once"), RUN, rows=RowOptions(**rows))  # type: ignore[arg-type]
    assert hash_folder(root / "out", "part-*") == hash_folder(root / "once", "part-*")
    before = hash_folder(root / "out")
    watch(root, monkeypatch, nothing, nothing, **rows)
    assert hash_folder(root / "out") == before


def test_a_file_that_still_grows_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "in" / "b.jsonl"

    def grow() -> None:
        with path.open("a") as file:
            file.write('{"text": "more"}\n')

    watch(root, monkeypatch, nothing, grow, grow, grow)
    assert names(root) == ["a.jsonl"]
    watch(root, monkeypatch, nothing)
    manifest = json.loads((root / "out" / "manifest.json").read_text())
    assert names(root) == ["a.jsonl", "b.jsonl"] and manifest["files"][1]["documents"] == 3


def test_a_file_that_goes_before_it_is_taken_is_no_matter(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "in" / "b.jsonl"
    watch(root, monkeypatch, lambda: path.write_text('{"text": "x"}\n'), path.unlink, nothing)
    assert names(root) == ["a.jsonl"]


@pytest.mark.parametrize("name", ["b.jsonl.part", "b.jsonl~", ".b.jsonl.Xa91", "_b.jsonl"])
def test_a_file_with_the_name_of_an_unfinished_one_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = root / "in" / name
    watch(root, monkeypatch, lambda: write_jsonl(path, make_texts(5)), nothing, nothing)
    assert names(root) == ["a.jsonl"]
    watch(root, monkeypatch, nothing, lambda: path.rename(root / "in" / "b.jsonl"), nothing, nothing)
    assert names(root) == ["a.jsonl", "b.jsonl"]


def test_a_published_file_that_goes_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(root / "in" / "b.jsonl", make_texts(5))
    watch(root, monkeypatch, nothing)
    with pytest.raises(DataError, match=r"b\.jsonl is published and has gone; put it back, or encode what is left"):
        watch(root, monkeypatch, (root / "in" / "b.jsonl").unlink, nothing, nothing)
    assert names(root) == ["a.jsonl", "b.jsonl"]


def test_a_file_that_goes_while_files_are_listed_is_no_matter(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = watching.list_corpus, iter(range(100))

    def list_files(corpus: Corpus) -> Inputs:
        if next(calls) % 2:
            raise UnreadableFileError("in/part.tmp: cannot be opened: No such file or directory")
        return whole(corpus)

    monkeypatch.setattr(watching, "list_corpus", list_files)
    watch(root, monkeypatch, nothing, nothing)
    watch(root, monkeypatch, nothing)
    assert names(root) == ["a.jsonl"]


def test_what_cannot_be_listed_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableFileError, match=r"in/b\.jsonl: cannot be opened"):
        watch(root, monkeypatch, nothing, lambda: (root / "in" / "b.jsonl").symlink_to("nowhere"), nothing)


def test_a_folder_that_is_empty_yet(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "in" / "a.jsonl").unlink()
    watch(root, monkeypatch, nothing, lambda: write_jsonl(root / "in" / "b.jsonl", make_texts(5)), nothing)
    assert names(root) == ["b.jsonl"]


def test_remote_inputs_are_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="--watch is for files and folders of this machine"):
        watching.watch_corpus(Corpus(("gs://b/x",)), "t", "o", RUN, seconds=1, rows=RowOptions())


def test_other_runners_are_refused(root: Path) -> None:
    run = replace(RUN, beam_args=("--runner=FlinkRunner", "--flink_master=flink:8081"))
    with pytest.raises(UsageError, match="--watch runs on this machine; leave --runner out, or have `tokenmill build` do"):
        watching.watch_corpus(Corpus((str(root / "in"),)), "t", "o", run, seconds=1, rows=RowOptions())


@pytest.mark.jit
def test_the_command_ends_well_at_sigterm(root: Path) -> None:
    program = [sys.executable, "-m", "tokenmill", "encode", str(root / "in"), "--tokenizer", str(root / "tokenizer.json")]
    program += ["--output", str(root / "out"), "--watch", "--every", "0.2", "--workers", "1"]
    process = subprocess.Popen(program, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (root / "out" / "manifest.json").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert names(root) == ["a.jsonl"]


def test_a_round_with_rejects_says_why(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setitem(globals(), "RUN", replace(RUN, reporter=reporter(stream=told)))

    def spoil() -> None:
        (root / "in" / "b.jsonl").write_text('{"text": null}\n{"text": "x"}\n{"text": null}\n')

    watch(root, monkeypatch, nothing, spoil, nothing, nothing)
    lines = [line for line in told.getvalue().splitlines() if line.startswith("watch: ")]
    assert lines[0] == f"watch: 2 records rejected so far: {root}/out/rejects says which and why"
    assert lines[1] == "watch: 2: column 'text' holds null, not a string (the first: b.jsonl, row 0)"
