"""Kills builds at chosen points, for `test_kill.py`: a process of its own, which has everything imported and only forks.

    python -m tests.killing FOLDER POINTS SEED

A build's file operations are counted; a child process that is to die at the Nth one kills itself there (SIGKILL, with all its
threads). What it leaves is looked at as a reader would, then the same build is run to its end and compared with an unbroken one.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill.pipeline import publishing
from tokenmill.pipeline.build import build_dataset
from tokenmill.pipeline.config import parse_config
from tokenmill.pipeline.progress import reporter
from tokenmill.transforms import files, write

#: Calls by which a build changes what is on the disk.
WATCHED = ((os, "replace"), (os, "link"), (os, "mkdir"), (os, "remove"), (os, "unlink"), (os, "rmdir"), (publishing, "_exchange"))
#: Beside what a build publishes: what it remembers for itself.
PRIVATE = "_state.json"


class Dying:
    """Counts operations; the process dies before number `at` (never, if that is None)."""

    def __init__(self, at: int | None) -> None:
        self.at, self.done = at, 0

    def step(self) -> None:
        if self.done == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.done += 1

    def watch(self) -> None:
        """Put the counter in front of every call that changes files."""
        for module, name in WATCHED:
            setattr(module, name, self._counted(getattr(module, name)))
        write.OutputFile.write = self._halved(write.OutputFile.write)  # type: ignore[method-assign]
        files.rename_file = write.rename_file = publishing.rename_file = self._counted(files.rename_file)  # type: ignore[attr-defined]

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.step()
            return call(*arguments, **named)

        return counted

    def _halved(self, write_whole: Callable[..., int]) -> Callable[..., int]:
        """Of what is written in the moment of death, half reaches the file."""

        def halved(output: Any, data: Any) -> int:
            if self.done == self.at:
                output._file.write(memoryview(data).cast("B")[: len(memoryview(data).cast("B")) // 2])
                output._file.flush()
            self.step()
            return write_whole(output, data)

        return halved


def build(folder: Path) -> None:
    config = {
        "input": {"inputs": [str(folder / "corpus")]},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 330},
        "output": {"folder": str(folder / "out")},
        "split_mb": 0.0015,
        "workers": 1,
    }
    build_dataset(parse_config(json.dumps(config)), reporter(quiet=True), ())


def run_child(work: Callable[[], None]) -> int:
    """Run in a copy of this process; its exit code, minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def build_and_count(folder: Path) -> None:
    dying = Dying(None)
    dying.watch()
    build(folder)
    (folder / "operations").write_text(str(dying.done))


def build_and_die(folder: Path, at: int) -> None:
    Dying(at).watch()
    build(folder)


def published(folder: Path) -> dict[str, str]:
    return {name: sha256 for name, sha256 in hash_folder(folder / "out").items() if name != PRIVATE}


def check_readers_view(folder: Path, versions: list[dict[str, str]]) -> None:
    """Each dataset folder that has a manifest is one of the versions, to the byte; without one it may hold anything but that."""
    for name in ("word-counts", "tokens"):
        if not (folder / "out" / name / "manifest.json").exists():
            continue
        seen = {key: value for key, value in published(folder).items() if key.startswith(f"{name}/") and "/_" not in key}
        wanted = [{key: value for key, value in version.items() if key.startswith(f"{name}/")} for version in versions]
        assert seen in wanted, f"{name}: neither the old version nor the new one: {sorted(seen)}"


def make_scenes(root: Path) -> list[tuple[Path, list[dict[str, str]], int]]:
    """Folders to begin from: with nothing built yet, with a build of older files, with that and a file of somebody else.

    With each the versions that a reader may see, and how many operations the next build takes.
    """
    texts = {number: make_texts(12, seed=number) for number in range(4)}
    older, fresh, shared = root / "older", root / "fresh", root / "shared"
    for folder in (older, fresh):
        (folder / "corpus").mkdir(parents=True)
        for number in range(3):
            write_jsonl(folder / "corpus" / f"p{number}.jsonl", texts[number])
    time.sleep(0.06)
    assert run_child(lambda: build(older)) == 0
    old = published(older)
    (older / "corpus" / "p1.jsonl").unlink()
    write_jsonl(older / "corpus" / "p3.jsonl", texts[3])
    shutil.copytree(older, shared)
    for name in ("word-counts", "tokens"):
        (shared / "out" / name / "notes.txt").write_text("not ours: such a folder is not replaced as a whole")
    scenes = []
    for folder, versions in ((fresh, []), (older, [old]), (shared, [published(shared)])):
        trial = root / "trial"
        copy_scene(folder, trial)
        assert run_child(lambda: build_and_count(trial)) == 0  # noqa: B023
        new = published(trial)
        scenes.append((folder, [*versions, new], int((trial / "operations").read_text())))
    return scenes


def copy_scene(folder: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)


def kill_and_finish(scene: Path, versions: list[dict[str, str]], at: int, trial: Path) -> None:
    copy_scene(scene, trial)
    assert run_child(lambda: build_and_die(trial, at)) == -signal.SIGKILL, f"operation {at} did not come"
    check_readers_view(trial, versions)
    assert run_child(lambda: build(trial)) == 0, f"killed before operation {at}: running again fails"
    others = {name for name, _ in published(trial).items() ^ versions[-1].items()}
    assert not others, f"killed before operation {at}: other bytes in {sorted(others)}"
    left = [
        path for path in trial.rglob("*") if ".next-" in path.name or ".tmp-" in path.name or path.name in ("_work", "_lock.json")
    ]
    assert not left, f"killed before operation {at}: {left[0]} is left"


def main() -> None:
    root, points, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    for scene, versions, operations in make_scenes(root):
        for at in sorted(chance.sample(range(operations), points)):
            kill_and_finish(scene, versions, at, root / "trial")
        builtins.print(f"{scene.name}: killed at {points} of {operations} operations")


if __name__ == "__main__":
    main()
