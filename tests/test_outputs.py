"""Output folders: who holds one, what is replaced, and that a run that fails leaves what was published before it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import driver, publishing
from tokenmill.pipeline.ours import OWNER_TEXT
from tokenmill.pipeline.outputs import OutputFolder
from tokenmill.pipeline.planning import Corpus, Execution, Plan, check_unchanged, plan_corpus
from tokenmill.pipeline.progress import reporter
from tokenmill.transforms.files import delete_files, delete_tree, list_files

ROOT = Path(__file__).resolve().parents[1]
RUN = Execution(reporter(quiet=True), workers=1)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus((str(write_jsonl(tmp_path / "corpus.jsonl", make_texts(40))),))


@pytest.mark.parametrize("name", ["counts", "out [1]", "what?*", "späte Züge"])
def test_a_run_that_fails_leaves_the_old_result(corpus: Corpus, tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    driver.count_corpus(corpus, "gpt2", str(output), RUN)
    before = hash_folder(output)
    assert set(before) == {"manifest.json", "part-00000-of-00001.parquet"}
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    with pytest.raises(errors.UnreadableFileError, match=r"bad\.gz"):
        driver.count_corpus(Corpus((str(tmp_path / "bad.gz"),)), "gpt2", str(output), RUN, overwrite=True)
    assert hash_folder(output) == before
    driver.count_corpus(Corpus(corpus.inputs, limit=3), "gpt2", str(output), RUN, overwrite=True)
    assert set(hash_folder(output)) == set(before) and hash_folder(output) != before


def test_a_second_run_into_a_folder_is_told_so(corpus: Corpus, tmp_path: Path) -> None:
    output = tmp_path / "counts"
    with OutputFolder(str(output)).hold():
        with pytest.raises(errors.LockedError, match=r"another run is writing here: process \d+ on \S+ since 20.*; wait for it"):
            driver.count_corpus(corpus, "gpt2", str(output), RUN)
        words = [sys.executable, "-m", "tokenmill", "count", corpus.inputs[0], "--output", str(output), "--quiet"]
        other = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert other.returncode == 4 and other.stderr.startswith("tokenmill: ") and len(other.stderr.splitlines()) == 1
    driver.count_corpus(corpus, "gpt2", str(output), RUN)


def test_what_another_run_publishes_while_this_one_plans_is_kept(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "counts"

    def plan_slowly(planned: Corpus, run: Execution) -> Plan:
        monkeypatch.undo()
        driver.count_corpus(Corpus(corpus.inputs, limit=3), "gpt2", str(output), RUN)
        return plan_corpus(planned, run)

    monkeypatch.setattr(driver, "plan_corpus", plan_slowly)
    with pytest.raises(errors.OutputExistsError, match="give --overwrite"):
        driver.count_corpus(corpus, "gpt2", str(output), RUN)
    assert json.loads((output / "manifest.json").read_text())["totals"]["documents"] == 3


@pytest.mark.parametrize("switched", [True, False])
def test_what_is_published_is_on_the_disk_before(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switched: bool
) -> None:
    output, flush = tmp_path / "counts", os.fsync
    flushed: dict[int, bool] = {}

    def note(handle: int) -> None:
        """Files by their numbers, and whether the folder was published by then."""
        flushed[os.fstat(handle).st_ino] = (output / "manifest.json").exists()
        flush(handle)

    monkeypatch.setattr(os, "fsync", note)
    if not switched:
        monkeypatch.setattr(publishing, "_exchange", lambda *_: False)
    driver.count_corpus(corpus, "gpt2", str(output), RUN)
    files = [path for path in output.rglob("*") if path.is_file()]
    assert len(files) > 1
    for path in files:
        assert flushed[path.stat().st_ino] is (path.name == "manifest.json" and not switched), path
    assert output.stat().st_ino in flushed


@pytest.mark.parametrize(("number", "published"), [(errno.EIO, False), (errno.ENOSPC, False), (errno.EINVAL, True)])
def test_a_disk_that_has_not_kept_a_file_ends_the_run(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, published: bool
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    if published:  # a file system that does not know flushing
        driver.count_corpus(corpus, "gpt2", str(tmp_path / "counts"), RUN)
    else:
        with pytest.raises(errors.OutputError, match=rf"part-00000-of-00001\.parquet: {os.strerror(number)}; make room there"):
            driver.count_corpus(corpus, "gpt2", str(tmp_path / "counts"), RUN)
    assert (tmp_path / "counts" / "manifest.json").exists() == published


@pytest.mark.parametrize("switched", [True, False])
def test_publishing_that_was_cut_short_is_done_again(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switched: bool
) -> None:
    output, notes = tmp_path / "counts", tmp_path / "counts" / "notes.txt"
    driver.count_corpus(Corpus(corpus.inputs, limit=3), "gpt2", str(output), RUN)
    if not switched:  # a folder that holds something of others is not replaced as a whole
        notes.write_text("mine")
    before, place = hash_folder(output), "_exchange" if switched else "link_file"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, place, stop)
    with pytest.raises(KeyboardInterrupt):
        driver.count_corpus(corpus, "gpt2", str(output), RUN, overwrite=True)
    if switched:
        assert hash_folder(output, "*.*") == before, "readers see the old version until the new one is there"
    else:
        assert not (output / "manifest.json").exists()
    monkeypatch.undo()
    monkeypatch.setattr("tokenmill.transforms.count.read_documents", None)  # counted is counted
    driver.count_corpus(corpus, "gpt2", str(output), RUN, overwrite=True)
    monkeypatch.undo()
    after = hash_folder(output)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert after.pop("notes.txt", None) == before.pop("notes.txt", None)
    driver.count_corpus(corpus, "gpt2", str(tmp_path / "fresh"), RUN)
    assert after == hash_folder(tmp_path / "fresh")


def test_a_foreign_working_folder_is_in_the_way(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "counts" / "_work").mkdir(parents=True)
    (tmp_path / "counts" / "_work" / "notes.txt").write_text("mine")
    with pytest.raises(errors.OutputExistsError, match="not of tokenmill"):
        driver.count_corpus(corpus, "gpt2", str(tmp_path / "counts"), RUN)
    assert (tmp_path / "counts" / "_work" / "notes.txt").read_text() == "mine"


def test_rejects_of_the_old_result_go_with_it(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    output = tmp_path / "counts"
    driver.count_corpus(Corpus((str(tmp_path / "bad.jsonl"),)), "gpt2", str(output), RUN)
    assert "rejects/part-00000-of-00001.jsonl" in hash_folder(output)
    driver.count_corpus(corpus, "gpt2", str(output), RUN, overwrite=True)
    assert set(hash_folder(output)) == {"manifest.json", "part-00000-of-00001.parquet"}


def test_a_file_that_changes_while_it_is_read_is_found_out(corpus: Corpus) -> None:
    plan = plan_corpus(corpus, RUN)
    check_unchanged(plan)
    with open(corpus.inputs[0], "a") as file:
        file.write('{"text": "late"}\n')
    with pytest.raises(errors.UnreadableFileError, match=r"corpus\.jsonl: changed while it was read"):
        check_unchanged(plan)
    os.remove(corpus.inputs[0])
    with pytest.raises(errors.UnreadableFileError, match="changed while it was read"):
        check_unchanged(plan)


def test_a_damaged_manifest_is_in_the_way(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "counts").mkdir()
    (tmp_path / "counts" / "manifest.json").write_text("{")
    with pytest.raises(errors.UnreadableFileError, match="not a manifest of tokenmill"):
        driver.count_corpus(corpus, "gpt2", str(tmp_path / "counts"), RUN, overwrite=True)


def test_tokenizer_output_replaces_a_tokenizer_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(errors.OutputExistsError, match=r"notes\.txt exists and is no tokenizer"):
        driver.check_tokenizer_output(str(tmp_path / "notes.txt"))
    for path in ("", str(tmp_path)):
        with pytest.raises(errors.UsageError, match="must be the name of a file"):
            driver.check_tokenizer_output(path)
    (tmp_path / "t.json").write_text(json.dumps({"merge_rules": [], "vocab": {}}))
    driver.check_tokenizer_output(str(tmp_path / "t.json"))
    driver.check_tokenizer_output(str(tmp_path / "new.json"))


def test_files_and_trees_are_deleted_literally(tmp_path: Path) -> None:
    for name in ("a1", "a[1]"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("")
    delete_tree(str(tmp_path / "a[1]"))
    assert [path.name for path in tmp_path.iterdir()] == ["a1"]
    delete_files([str(tmp_path / "a1" / "?"), str(tmp_path / "a1" / "absent")])
    assert list_files(str(tmp_path / "a1"), "*") == [str(tmp_path / "a1" / "f")]


@pytest.mark.parametrize(
    "left", [(), ("OWNER",), (f"OWNER.tmp-{'0' * 32}",), ("OWNER", "publishing.json", f"{'0' * 32}/keys.json")]
)
def test_what_a_killed_run_leaves_at_its_first_and_last_steps_is_swept(tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in left or ("",):
        (tmp_path / "_work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "_work" / name).write_text(OWNER_TEXT) if name else (tmp_path / "_work").mkdir(exist_ok=True)
    (tmp_path / "_lock.json").write_text('{"host": "gone", "pid": 1}')
    folder = OutputFolder(str(tmp_path))
    folder.check_free(overwrite=False)
    folder.sweep()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_work_that_is_somebody_elses_stays(tmp_path: Path) -> None:
    (tmp_path / "_work").mkdir()
    (tmp_path / "_work" / "thesis.txt").write_text("mine")
    folder = OutputFolder(str(tmp_path))
    with pytest.raises(errors.OutputExistsError, match="_work is in the way, and not of tokenmill"):
        folder.check_free(overwrite=False)
    folder.sweep()
    assert (tmp_path / "_work" / "thesis.txt").read_text() == "mine"


def test_what_says_whose_the_work_is_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a folder's entries are ordered, a run that is killed while it cleans up leaves one that the next run knows."""
    folder = OutputFolder(str(tmp_path))
    folder.begin()
    deleted: list[str] = []
    for name in ("remove", "unlink", "rmdir"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda path, *rest, call=call, **named: (deleted.append(str(path)), call(path, *rest, **named))[1]
        )
    folder.abandon()
    assert [os.path.basename(path) for path in deleted[-2:]] == ["OWNER", "_work"] and list(tmp_path.iterdir()) == []
