"""Building again: only what is new is done, the result is that of a build from nothing, and what cannot be kept is refused."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import build as builder
from tokenmill.pipeline import lock, state
from tokenmill.pipeline.build import build_dataset, describe_build
from tokenmill.pipeline.config import BuildConfig, parse_config
from tokenmill.pipeline.outputs import OutputFolder
from tokenmill.pipeline.progress import reporter
from tokenmill.transforms import count, encode

ROOT = Path(__file__).resolve().parents[1]
QUIET = reporter(quiet=True)
#: A file that was written to a moment ago is not trusted by its times.
TICK = 0.06


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Six files, each of two splits or so."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(6):
        write_jsonl(folder / f"p{number}.jsonl", make_texts(60, seed=number))
    time.sleep(TICK)
    return folder


def configure(corpus: Path, output: Path, **changes: Any) -> BuildConfig:
    config = {
        "input": {"inputs": [str(corpus)], **changes.pop("input", {})},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 400, **changes.pop("train", {})},
        "output": {"folder": str(output)},
        "split_mb": 0.005,
        "workers": 1,
        **changes,
    }
    return parse_config(json.dumps(config))


def build(config: BuildConfig, **how: bool) -> str:
    return build_dataset(config, QUIET, (), **how)


def results(output: Path) -> dict[str, str]:
    """What is published, without what the build remembers for itself."""
    return {name: sha256 for name, sha256 in hash_folder(output).items() if name != state.STATE}


@contextmanager
def files_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, set[str]]]:
    """The names of the files that are read meanwhile, by each job."""
    names: dict[str, set[str]] = {"count": set(), "encode": set()}
    with monkeypatch.context() as patched:
        for name, module in (("count", count), ("encode", encode)):
            patched.setattr(module, "read_documents", spy(module.read_documents, names[name]))
        yield names


def spy(read: Any, names: set[str]) -> Any:
    def read_documents(split: Any, options: Any, *normalizers: Any) -> Any:
        names.update(part.file.name for part in split.ranges)
        return read(split, options, *normalizers)

    return read_documents


def test_a_build_with_nothing_new_writes_nothing(corpus: Path, tmp_path: Path) -> None:
    config = configure(corpus, tmp_path / "out")
    build(config)
    before = {path: path.stat() for path in sorted(tmp_path.rglob("*"))}
    assert state.is_current(config)
    assert build(config).startswith("nothing has changed since the last build: 360 documents, ")
    after = {path: path.stat() for path in sorted(tmp_path.rglob("*"))}
    written = [path for path in after if path not in before or after[path].st_mtime_ns != before[path].st_mtime_ns]
    assert set(written) <= {tmp_path / "out"} and before.keys() == after.keys(), "of the folder itself, a lock came and went"


def test_inputs_in_another_order_than_their_names(corpus: Path, tmp_path: Path) -> None:
    config = configure(corpus, tmp_path / "out", input={"inputs": [str(corpus / "p4.jsonl"), str(corpus / "p0.jsonl")]})
    build(config)
    assert state.is_current(config)
    turned = configure(corpus, tmp_path / "out", input={"inputs": [str(corpus / "p0.jsonl"), str(corpus / "p4.jsonl")]})
    assert not state.is_current(turned)


def test_a_build_renews_its_lock_while_it_works(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[str] = []
    monkeypatch.setattr(lock.FolderLock, "renew", lambda self: renewed.append(self._path))
    build(configure(corpus, tmp_path / "out"))
    assert renewed.count(str(tmp_path / "out" / lock.LOCK)) >= 5, "planning, counting, training and encoding give signs of life"


def test_the_command_says_so_at_once_and_without_beam(corpus: Path, tmp_path: Path) -> None:
    build(configure(corpus, tmp_path / "out"))
    (tmp_path / "build.yaml").write_text(configure(corpus, tmp_path / "out").model_dump_json())
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "out").rglob("*"))}
    code = "import sys; from tokenmill.pipeline.cli.main import main\ntry: main(['build', sys.argv[1], *sys.argv[2:]])\n"
    code += "finally: print('apache_beam' in sys.modules)"
    words = [sys.executable, "-c", code, str(tmp_path / "build.yaml")]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("nothing has changed since the last build: 360 documents") and said.stdout.endswith("False\n")
    logged = subprocess.run([*words, "--log-format", "json"], cwd=ROOT, capture_output=True, text=True, check=True)
    result = json.loads(logged.stderr)
    assert (result["event"], result["changed"], result["documents"]) == ("result", False, 360)
    assert before == {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "out").rglob("*"))}


def test_errors_of_a_json_log_are_json_with_the_exit_code(corpus: Path, tmp_path: Path) -> None:
    source = random.Random(0)
    whole = gzip.compress(b"".join(b'{"text": "%x"}\n' % source.getrandbits(4000) for _ in range(20_000)), compresslevel=1)
    (corpus / "z.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "build.yaml").write_text(configure(corpus, tmp_path / "out").model_dump_json())
    code = "from tokenmill.pipeline.cli.main import run; run()"
    words = [sys.executable, "-c", code, "build", str(tmp_path / "build.yaml"), "--log-format", "json"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    events = [json.loads(line) for line in said.stderr.splitlines()]
    assert said.returncode == 3 and (events[-1]["event"], events[-1]["exit_code"]) == ("error", 3)
    assert "z.jsonl.gz" in events[-1]["text"] and not (tmp_path / "out" / "word-counts" / "manifest.json").exists()
    os.remove(corpus / "z.jsonl.gz")
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in again.stderr.splitlines()]
    assert any("12 of 12 splits are done already" in event.get("text", "") for event in events), (
        "one bad file costs no other's work"
    )
    assert events[-1]["event"] == "result" and events[-1]["changed"] and events[-1]["encode_splits"] == 12


def test_only_new_and_changed_files_are_read(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(corpus, tmp_path / "out")
    build(config)
    tokenizer = (tmp_path / "out" / "tokenizer.json").read_bytes()
    write_jsonl(corpus / "p3a.jsonl", make_texts(60, seed=30))
    write_jsonl(corpus / "p1.jsonl", make_texts(60, seed=10))
    os.remove(corpus / "p5.jsonl")
    explained = describe_build(config, QUIET, ())
    for line in ("6, 4 of them as in the last build", "1 file new: ", "1 file changed: ", "1 file gone: "):
        assert line in explained
    with files_read(monkeypatch) as read:
        text = build(config)
    assert read == {"count": {"p1.jsonl", "p3a.jsonl"}, "encode": {"p1.jsonl", "p3a.jsonl"}}
    assert "--retrain learns from all" in text and (tmp_path / "out" / "tokenizer.json").read_bytes() == tokenizer
    with files_read(monkeypatch) as read:
        build(config, retrain=True)
    assert read["count"] == set() and len(read["encode"]) == 6, "training again reads no text, a new tokenizer encodes all"
    build(configure(corpus, tmp_path / "fresh"))
    assert results(tmp_path / "out") == results(tmp_path / "fresh")


def test_a_kept_tokenizer_gives_the_shards_of_a_fresh_encoding(corpus: Path, tmp_path: Path) -> None:
    from tokenmill.pipeline import driver
    from tokenmill.pipeline.planning import Corpus, Execution

    config = configure(corpus, tmp_path / "out")
    build(config)
    os.remove(corpus / "p0.jsonl")
    build(config)
    split_bytes, tokenizer = int(0.005 * (1 << 20)), str(tmp_path / "out" / "tokenizer.json")
    fresh = Corpus((str(corpus),), split_bytes=split_bytes)
    driver.encode_corpus(fresh, tokenizer, str(tmp_path / "tokens"), Execution(QUIET, 1))
    assert hash_folder(tmp_path / "out" / "tokens") == hash_folder(tmp_path / "tokens")


def test_a_touched_file_is_read_for_its_hash_alone(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(corpus, tmp_path / "out")
    build(config)
    before = results(tmp_path / "out")
    os.utime(corpus / "p2.jsonl")
    time.sleep(TICK)
    assert not state.is_current(config)
    with files_read(monkeypatch) as read:
        assert build(config).startswith("nothing has changed")
    assert read == {"count": set(), "encode": set()} and results(tmp_path / "out") == before
    assert state.is_current(config)


def test_the_same_size_and_time_do_not_hide_a_change(corpus: Path, tmp_path: Path) -> None:
    config, path = configure(corpus, tmp_path / "out"), corpus / "p2.jsonl"
    build(config)
    found, content = path.stat(), path.read_bytes()
    path.write_bytes(content.replace(b"king", b"gnik"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (found.st_size, found.st_mtime_ns)
    assert not state.is_current(config) and "1 file changed: " in describe_build(config, QUIET, ())


def test_a_lost_shard_is_made_again(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(corpus, tmp_path / "out")
    build(config)
    before = results(tmp_path / "out")
    os.remove(tmp_path / "out" / "tokens" / sorted((tmp_path / "out" / "tokens").glob("part-*"))[1].name)
    with files_read(monkeypatch) as read:
        build(config)
    assert read["count"] == set() and len(read["encode"]) == 1 and results(tmp_path / "out") == before


def test_options_that_would_change_old_results_are_refused(corpus: Path, tmp_path: Path) -> None:
    build(configure(corpus, tmp_path / "out"))
    before = results(tmp_path / "out")
    changed = configure(corpus, tmp_path / "out", train={"vocab_size": 420})
    for attempt in (lambda: build(changed), lambda: describe_build(changed, QUIET, ())):
        with pytest.raises(
            errors.OutputExistsError, match=r"train\.vocab_size was 400 and is 420; give --overwrite to make it anew"
        ):
            attempt()
    assert results(tmp_path / "out") == before
    free = configure(corpus, tmp_path / "out", input={"max_rejects": 3}, workers=2)
    assert build(free).startswith("nothing has changed")
    build(changed, overwrite=True)
    build(configure(corpus, tmp_path / "fresh", train={"vocab_size": 420}))
    assert results(tmp_path / "out") == results(tmp_path / "fresh")


def test_a_dry_run_writes_nothing(corpus: Path, tmp_path: Path) -> None:
    text = describe_build(configure(corpus, tmp_path / "out"), QUIET, ())
    assert "6 files new: " in text and "train    yes: there is no tokenizer yet" in text and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("folder", "step", "reason"),
    [("word-counts", "count   ", "there is no finished one yet"), ("tokens", "encode  ", "12 new or changed, 0 leave")],
)
def test_a_dry_run_sees_what_a_run_that_was_cut_short_has_done(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, step: str, reason: str
) -> None:
    config, output = configure(corpus, tmp_path / "out"), tmp_path / "out"
    publish = OutputFolder.publish

    def fail(self: OutputFolder, *contents: Any) -> None:
        if self.path.endswith(folder):
            raise KeyboardInterrupt
        publish(self, *contents)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(OutputFolder, "publish", fail)
        build(config)
    records = sorted((output / folder).glob("_work/*/journal/split-*.json"))
    records[0].unlink()
    before = hash_folder(output)
    kept = f"{step} 1 of 12 splits: {reason}; 11 already done by a run that did not finish\n"
    assert kept in describe_build(config, QUIET, ()) + "\n"
    damaged, content = records[1], records[1].read_bytes()
    damaged.write_bytes(b"{")
    assert f"{step} 12 of 12 splits: {reason}\n" in describe_build(config, QUIET, ()) + "\n", (
        "that journal has to be put in order"
    )
    damaged.write_bytes(content)
    assert hash_folder(output) == before, "nothing is written, nothing deleted"
    build(config)
    assert describe_build(config, QUIET, ()).count("nothing: ") == 3


def test_results_of_other_programs_are_not_replaced(corpus: Path, tmp_path: Path) -> None:
    config = configure(corpus, tmp_path / "out")
    build(config)
    os.remove(tmp_path / "out" / state.STATE)
    with pytest.raises(errors.OutputExistsError, match="give --overwrite"):
        build(config)


def test_a_tokenizer_that_was_put_there_is_not_mixed_in(corpus: Path, tmp_path: Path) -> None:
    config = configure(corpus, tmp_path / "out")
    build(config)
    before, path = results(tmp_path / "out"), tmp_path / "out" / "tokenizer.json"
    for content in (json.dumps({"merge_rules": [], "vocab": {"a": 0}}).encode(), path.read_bytes()[:-99], b"", b"\0" * 99):
        path.write_bytes(content)
        for run in (build, lambda config: describe_build(config, QUIET, ())):
            with pytest.raises(errors.OutputExistsError) as caught:
                run(config)
            assert f"copy {tmp_path}/out/tokens/tokenizer.json, which is the old one, over it" in str(caught.value)
            assert "was edited, or is damaged" in str(caught.value) and "give --retrain to learn it anew" in str(caught.value)
        assert path.read_bytes() == content
        assert "--retrain" in describe_build(config, QUIET, (), retrain=True)
        build(config, retrain=True)
        assert results(tmp_path / "out") == before
    path.write_bytes(b"{}")
    shutil.copy(tmp_path / "out" / "tokens" / "tokenizer.json", path)
    build(config)
    assert results(tmp_path / "out") == before


def test_an_edited_tokenizer_without_a_copy_is_refused_too(corpus: Path, tmp_path: Path) -> None:
    config = configure(corpus, tmp_path / "out", encode={"enabled": False})
    build(config)
    (tmp_path / "out" / "tokenizer.json").write_text('{"merge_rules": [], "vocab": {"a": 0}}')
    with pytest.raises(errors.OutputExistsError, match="put the old one back, or give --retrain"):
        build(config)


def test_a_tokenizer_that_no_build_trained_is_not_replaced(corpus: Path, tmp_path: Path) -> None:
    config, path = configure(corpus, tmp_path / "out"), tmp_path / "out" / "tokenizer.json"
    path.parent.mkdir()
    path.write_text('{"merge_rules": [], "vocab": {"a": 0}}')
    with pytest.raises(errors.OutputExistsError, match="no build has trained it; give --overwrite to replace it"):
        build(config)
    build(config, overwrite=True)
    build(config)


def test_a_training_that_was_cut_short_is_made_again(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when the new tokenizer is written and not yet remembered: nobody has edited it."""
    config = configure(corpus, tmp_path / "out")
    build(config)
    write_jsonl(corpus / "new.jsonl", make_texts(50, seed=9))

    def fail(*words: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(builder, "describe_training", fail)
        with pytest.raises(KeyboardInterrupt):
            build(config, retrain=True)
    assert "a build that did not finish was training" in describe_build(config, QUIET, ())
    build(config)
    build(configure(corpus, tmp_path / "once"))
    assert results(tmp_path / "out") == results(tmp_path / "once")


def test_a_build_in_a_folder_that_is_held_names_the_holder(corpus: Path, tmp_path: Path) -> None:
    told = pytest.raises(errors.LockedError, match=rf"another run is writing here: process {os.getpid()} on ")
    with OutputFolder(str(tmp_path / "out")).hold(), told:
        build(configure(corpus, tmp_path / "out"))


def test_files_that_are_passed_over_are_no_change(corpus: Path, tmp_path: Path) -> None:
    (corpus / "README.md").write_text("a page\n")
    config = configure(corpus, tmp_path / "out")
    build(config)
    assert state.is_current(config)
    (corpus / "LICENSE").write_text("another page\n")
    assert not state.is_current(config)
    build(config)
    assert state.is_current(config)
    assert [file["name"] for file in json.loads((tmp_path / "out" / "tokens" / "manifest.json").read_bytes())["files"]] == [
        f"p{number}.jsonl" for number in range(6)
    ]
