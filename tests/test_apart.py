"""No part of a corpus is lost to what is around it: folders that may not be listed, files that change, outputs among inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import hash_folder, make_texts, write_jsonl
from tests.test_cli import call, check_error
from tokenmill.errors import UnreadableFileError, UsageError, WorkerError
from tokenmill.pipeline import tokenize_command as texts
from tokenmill.pipeline.build import build_dataset
from tokenmill.pipeline.config import parse_config
from tokenmill.pipeline.fingerprints import stamp_file
from tokenmill.pipeline.inputs import resolve_inputs
from tokenmill.pipeline.planning import Corpus, Execution, check_unchanged, choose_workers, plan_corpus
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.runners import explain_failure
from tokenmill.transforms.splits import SourceFile

QUIET = reporter(quiet=True)


@pytest.fixture
def unlisted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with `open/a.txt` and `shut/b.txt`, the second of which nobody may list (root may list all, so it is acted)."""
    for name in ("open/a.txt", "shut/b.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x\n")
    scandir = os.scandir

    def refuse(path: Any = ".") -> Any:
        if os.path.basename(os.path.normpath(path)) == "shut":
            raise PermissionError(13, os.strerror(13), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    yield tmp_path


@pytest.mark.parametrize("pattern", ["**/*.txt", "*/*.txt", "**", "shut/*", "s*/?.txt", "**/b*/**"])
def test_a_glob_stops_at_a_folder_that_may_not_be_listed(unlisted: Path, pattern: str) -> None:
    with pytest.raises(UnreadableFileError, match=r"shut/?: cannot be listed: Permission denied"):
        resolve_inputs([str(unlisted / pattern)])


def test_a_file_in_such_a_folder_is_unreadable_data(unlisted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", os.scandir)
    with pytest.raises(
        UnreadableFileError, match=r"no file at '.*shut/x'; the folder '.*shut' cannot be listed: Permission denied"
    ):
        resolve_inputs([str(unlisted / "shut" / "x")])


def test_a_glob_lists_no_more_than_it_needs(unlisted: Path) -> None:
    assert [file.name for file in resolve_inputs([str(unlisted / "*" / "a.txt")])] == ["open/a.txt"]
    assert [file.name for file in resolve_inputs([str(unlisted / "open" / "*")])] == ["a.txt"]


def test_a_folder_named_like_a_file_is_not_passed_over(tmp_path: Path) -> None:
    """As Spark writes them: `corpus.jsonl/part-00000`."""
    (tmp_path / "b.jsonl").mkdir()
    (tmp_path / "b.jsonl" / "part-0").write_text('{"text": "x"}\n')
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(UnreadableFileError, match=r"b\.jsonl: is a folder, of which '.*l' takes no file; give '.*\.jsonl/\*'"):
        resolve_inputs([str(tmp_path / "*.jsonl")])
    for pattern, names in (("*", ["a.jsonl"]), ("*.jsonl/*", ["b.jsonl/part-0"]), ("**/*", ["a.jsonl", "b.jsonl/part-0"])):
        assert [file.name for file in resolve_inputs([str(tmp_path / pattern)])] == names


def test_a_file_that_grows_before_its_state_is_looked_at_is_found_out(tmp_path: Path) -> None:
    """By the size that it was listed with it was cut: the state alone would tell of no change."""
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    files = resolve_inputs([str(path)])
    path.write_text("one\ntwo\n")
    with pytest.raises(UnreadableFileError, match=r"a\.txt: holds 8 bytes and was listed with 4; run again when it is at rest"):
        plan_corpus(Corpus((str(path),)), Execution(QUIET), files=files)
    known = {str(path): (plan_corpus(Corpus((str(path),)), Execution(QUIET)).states[str(path)], "xxh3:0")}
    plan = plan_corpus(Corpus((str(path),)), Execution(QUIET), known, files=files)
    with pytest.raises(UnreadableFileError, match="changed while it was read"):
        check_unchanged(plan)


@pytest.mark.skipif(not os.path.exists("/proc/version"), reason="has no files that do not tell their size")
def test_a_file_that_does_not_tell_its_size_is_not_taken_for_empty() -> None:
    (file,) = resolve_inputs(["/proc/version"])
    with pytest.raises(UnreadableFileError, match=r"/proc/version: holds \d+ bytes and was listed with 0; .* or copy it"):
        stamp_file(file)


def test_the_stamp_of_a_file_at_rest(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert stamp_file(SourceFile(str(tmp_path / "a.txt"), "a.txt", "text", size=4)).startswith("xxh3:")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `a.jsonl`, `t.json` and the dataset `tokens/`, one record of which was rejected."""
    folder = tmp_path_factory.mktemp("made")
    write_jsonl(folder / "a.jsonl", make_texts(20))
    with (folder / "a.jsonl").open("a") as file:
        file.write("no JSON\n")
    for words in (
        ("train", folder / "a.jsonl", "--vocab-size", "300", "--output", folder / "t.json"),
        ("encode", folder / "a.jsonl", "--tokenizer", folder / "t.json", "--output", folder / "tokens"),
    ):
        assert call(*words, "--quiet").exit_code == 0
    return folder


@pytest.mark.parametrize("name", ["part-*.parquet", "rejects/*.jsonl", "tokenizer.json", "../a*", "**/*.parquet"])
def test_a_dataset_is_not_replaced_by_what_is_made_of_it(made: Path, name: str) -> None:
    before = hash_folder(made)
    words = ("encode", made / "tokens" / name, "--tokenizer", made / "t.json", "--output", made / "tokens", "--overwrite")
    if name == "../a*":
        assert call(*words, "--quiet").exit_code == 0, "what is no part of the dataset may lie anywhere"
        return
    columns = ("--text-column", "raw" if "rejects" in name else "doc_id")
    check_error(call(*words, *columns, "--format", "text" if "json" in name else "auto"), 2, "would be replaced by what is made")
    assert hash_folder(made) == before


def test_a_file_that_is_read_is_not_replaced(made: Path) -> None:
    before = hash_folder(made)
    train = ("train", made / "t.json", "--format", "text", "--vocab-size", "300", "--output", made / "t.json")
    check_error(call(*train), 2, "t.json would be replaced by what is made of it")
    report = ("report", made / "a.jsonl", "--tokenizer", made / "t.json", "--output", made / "a.jsonl", "--overwrite")
    check_error(call(*report), 2, "a.jsonl would be replaced by what is made of it")
    assert hash_folder(made) == before


def test_a_build_does_not_read_what_it_has_written(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [*make_texts(20)])
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("no JSON\n")
    config = parse_config(
        f"""
        input: {{inputs: ['{tmp_path}/**/*.jsonl']}}
        train: {{model: byte-bpe, pretokenizer: gpt2, vocab_size: 300}}
        output: {{folder: '{tmp_path}/out'}}
        """
    )
    build_dataset(config, QUIET, ())
    before = hash_folder(tmp_path)
    assert any("rejects" in name for name in before)
    with pytest.raises(UsageError, match=r"/rejects/part-0.*\.jsonl: no column 'text'"):
        build_dataset(config, QUIET, ())
    assert hash_folder(tmp_path) == before


def test_a_pipe_as_output_is_refused_and_not_waited_for(made: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.json")
    train = ("train", made / "a.jsonl", "--vocab-size", "300", "--output", tmp_path / "t.json")
    check_error(call(*train), 2, "must be the name of a file")


def test_an_empty_input_is_not_the_current_folder(made: Path, tmp_path: Path) -> None:
    """`tokenmill encode "$CORPUS"`, with a variable that nobody has set, would read whatever lies there."""
    words = ("encode", "", "--tokenizer", made / "t.json", "--output", tmp_path / "out")
    check_error(call(*words), 2, "an input is empty; give a file, a folder or a glob, `.` for the current folder")


def test_no_more_workers_are_started_than_there_is_work_for(made: Path) -> None:
    """A slip of the finger in `--workers` would start thousands of processes."""
    plan = plan_corpus(Corpus((str(made / "a.jsonl"),)), Execution(QUIET))
    chosen = [choose_workers(plan, Execution(QUIET, workers=workers)) for workers in (None, 1, 2, 99_999)]
    assert (len(plan.splits), chosen) == (1, [1, 1, 2, 2])


def test_memory_that_ran_out_is_told_with_a_way_out(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nMemoryError: Allocation failed'
    explained = explain_failure(RuntimeError(f"{text} [while running 'EncodeDocuments/Encode']"))
    way_out = "give fewer --workers, a smaller --split-mb, or"
    assert isinstance(explained, WorkerError)
    assert str(explained) == f"out of memory in step 'EncodeDocuments/Encode'; {way_out} shorter documents"
    bare = explain_failure(
        RuntimeError(text.replace("MemoryError: Allocation failed", "numpy._core._exceptions._ArrayMemoryError: no"))
    )
    assert str(bare) == f"out of memory; {way_out} shorter documents"

    def run_out(*_: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(texts, "tokenize_texts", run_out)
    check_error(call("tokenize", "--tokenizer", made / "t.json", "x"), 1, f"out of memory; {way_out} a part of the corpus")


def test_a_folder_that_can_have_no_such_name(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        """
        input: {inputs: [a.txt]}
        train: {model: byte-bpe, pretokenizer: gpt2, vocab_size: 300}
        output: {folder: "x\\0y"}
        """
    )
    check_error(call("build", tmp_path / "c.yaml"), 2, "output.folder: 'x\\x00y'")
