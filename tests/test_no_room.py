"""A disk that takes no more, and input files that go: clear errors, nothing published, the old dataset as it was."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import lock
from tokenmill.pipeline.fingerprints import stamp_file
from tokenmill.transforms.files import write_file_atomically
from tokenmill.transforms.splits import SourceFile

ROOT = Path(__file__).resolve().parents[1]


def run_build(config: Path, most_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a build whose files may not grow beyond a limit; beyond it writing fails as on a full disk."""

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    words = [sys.executable, "-c", "from tokenmill.pipeline.cli.main import run; run()", "build", str(config), "--quiet"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=limit)


@pytest.mark.parametrize(
    ("most_bytes", "what"), [(9_000, r"word-counts/_work/\w+/groups/group-"), (20_000, r"tokens/_work/\w+/shards/part-")]
)
def test_a_full_disk_is_named_and_nothing_is_published(tmp_path: Path, most_bytes: int, what: str) -> None:
    (tmp_path / "corpus").mkdir()
    write_jsonl(tmp_path / "corpus" / "a.jsonl", make_texts(30))
    config = {
        "input": {"inputs": [str(tmp_path / "corpus")]},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 260},
        "output": {"folder": str(tmp_path / "out")},
    }
    (tmp_path / "build.yaml").write_text(json.dumps(config))
    assert run_build(tmp_path / "build.yaml").returncode == 0
    before = hash_folder(tmp_path / "out", "*/[!_]*")
    words = make_texts(600) if "groups" in what else [" ".join(random.Random(n).choices("abcdefgh", k=80)) for n in range(900)]
    write_jsonl(tmp_path / "corpus" / "a.jsonl", words)
    full = run_build(tmp_path / "build.yaml", most_bytes)
    assert full.returncode == 1 and len(full.stderr.splitlines()) == 1, full.stderr
    assert re.search(what, full.stderr) and "File too large; make room there, or choose another folder" in full.stderr
    tokens = {name: sha256 for name, sha256 in before.items() if name.startswith("tokens/")}
    assert tokens == {name: sha for name, sha in hash_folder(tmp_path / "out", "*/[!_]*").items() if name.startswith("tokens/")}
    assert not list(tmp_path.rglob("*.tmp-*")), "a file that could not be finished is taken away"
    assert run_build(tmp_path / "build.yaml").returncode == 0


def test_an_input_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.UnreadableFileError, match=r"gone\.txt: cannot be opened: No such file or directory"):
        stamp_file(SourceFile(str(tmp_path / "gone.txt"), "gone.txt", "text"))


def test_what_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(errors.OutputError, match=r"a\.json: No space left on device; make room there"):
        write_file_atomically(str(tmp_path / "a.json"), b"{}")
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_another_machine_counts_until_it_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(age: float) -> None:
        holder = {"host": "elsewhere", "pid": 7, "since": "2026-01-01T00:00:00+00:00", "command": "tokenmill build b.yaml"}
        (tmp_path / lock.LOCK).write_text(json.dumps({**holder, "renewed": lock.time.time() - age}))

    write(60)
    told = r"process 7 on elsewhere since 2026.*\(tokenmill build b\.yaml\); its last sign of life is 60 s"
    with pytest.raises(errors.LockedError, match=told), lock.hold_folder(str(tmp_path)):
        pass
    write(lock.STALE_SECONDS + 1)
    with lock.hold_folder(str(tmp_path)) as held:
        first = (tmp_path / lock.LOCK).read_text()
        assert json.loads(first)["pid"] == os.getpid()
        held.renew()
        assert (tmp_path / lock.LOCK).read_text() == first, "renewed once a minute"
        monkeypatch.setattr(lock, "RENEW_SECONDS", 0.0)
        held.renew()
        assert (tmp_path / lock.LOCK).read_text() != first
    assert not (tmp_path / lock.LOCK).exists()


def test_a_lock_of_a_container_that_was_killed_on_this_system_is_stale(tmp_path: Path) -> None:
    holder = {"host": "an-older-pod", "pid": 1, "since": "", "boot": lock.lock_holder.boot_id(), "renewed": lock.time.time()}
    assert holder["boot"], "Linux says it"
    (tmp_path / lock.LOCK).write_text(json.dumps(holder))
    with lock.hold_folder(str(tmp_path)):
        assert json.loads((tmp_path / lock.LOCK).read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"host": 1, "renewed": "x"}'])
def test_a_lock_file_that_says_nothing_stops_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / lock.LOCK).write_text(content)
    with lock.hold_folder(str(tmp_path)):
        assert json.loads((tmp_path / lock.LOCK).read_text())["pid"] == os.getpid()
