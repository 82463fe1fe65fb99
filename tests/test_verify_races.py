"""`verify` while other versions are published: no false alarm, and `--repair` never mixes two versions."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora import hash_folder, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import findings, publishing, source_check, verify
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.driver import encode_corpus
from tokenmill.pipeline.lock import hold_folder
from tokenmill.pipeline.outputs import OutputFolder
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter

RUN = Execution(reporter(quiet=True), workers=1)
TOKENIZER = {"merge_rules": [["a", "b"]], "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}}

#: Where `verify` looks at the disk.
LOOKS = [*((verify, name) for name in ("read_manifest", "read_whole", "file_exists")), (findings, "list_files")]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two datasets of different texts, in two and in three shards."""
    folder, made = tmp_path_factory.mktemp("versions"), []
    (folder / "t.json").write_text(json.dumps(TOKENIZER))
    for number in range(2):
        write_jsonl(folder / f"{number}.jsonl", ["abc" * 40] * (30 + 15 * number))
        corpus = Corpus((str(folder / f"{number}.jsonl"),), split_bytes=2 << 10)
        encode_corpus(corpus, str(folder / "t.json"), str(folder / f"v{number}"), RUN)
        made.append(folder / f"v{number}")
    return made


def publish(version: Path, out: Path, *, at_once: bool) -> None:
    """Publish a version again, as a run does it: as a folder, or file by file."""
    names = [path.relative_to(version).as_posix() for path in version.rglob("*") if path.is_file()]
    links = {name: str(version / name) for name in names if name.endswith(".parquet")}
    files = {name: (version / name).read_bytes() for name in names if name not in links}
    if at_once:
        assert publishing.switch_folder(str(out), links, files, "ab" * 16)
        return
    old = OutputFolder(str(out))._list_published()
    (out / "_work").mkdir(exist_ok=True)
    publishing.replace_files(str(out), links, files, old, str(out / "_work" / "publishing.json"))
    shutil.rmtree(out / "_work")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.booleans()), min_size=1, max_size=3))
def test_a_version_that_is_replaced_is_no_damage(
    versions: list[Path], tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[int, int, bool]]
) -> None:
    """At any look of `verify` at the disk another version, or the same one anew, takes the place of the first."""
    out = tmp_path_factory.mktemp("race") / "out"
    shutil.copytree(versions[0], out)
    waiting = {step: (versions[number], at_once) for step, number, at_once in plan}
    steps = iter(range(10_000))

    def interleave(call):  # type: ignore[no-untyped-def]
        def looked(*arguments: object, **named: object) -> object:
            if found := waiting.pop(next(steps), None):
                publish(found[0], out, at_once=found[1])
            return call(*arguments, **named)

        return looked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "_flush", lambda path: None)
        patch.setattr(verify, "_THREADS", 1)
        for module, name in LOOKS:
            patch.setattr(module, name, interleave(getattr(module, name)))
        assert "verified" in proof.verify(str(out))
    proof.verify(str(out))


def test_damage_is_still_damage_when_nothing_is_published(versions: list[Path], tmp_path: Path) -> None:
    shutil.copytree(versions[0], tmp_path / "out")
    os.remove(next((tmp_path / "out").glob("part-*")))
    with pytest.raises(errors.DataError, match="missing"):
        proof.verify(str(tmp_path / "out"))


def test_repair_refuses_another_version(versions: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, find = tmp_path / "out", source_check._find_files
    shutil.copytree(versions[0], out)
    os.remove(next(out.glob("part-*")))

    def publish_meanwhile(*arguments: object) -> object:
        publish(versions[1], out, at_once=True)
        return find(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(source_check, "_find_files", publish_meanwhile)
    with pytest.raises(errors.DataError, match="another version was published meanwhile; nothing is repaired; run verify again"):
        proof.verify(str(out), repair=True, source=[str(versions[0].parent / "0.jsonl")])
    assert hash_folder(out) == hash_folder(versions[1])


def test_a_chain_is_not_judged_while_a_build_is_at_work(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    for name in ("word-counts", "tokens"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    assert verify.verify_chain(str(tmp_path)).problems
    with hold_folder(str(tmp_path)):
        found = verify.verify_chain(str(tmp_path))
    assert not found.problems and f"process {os.getpid()} on" in found.notes[0]
