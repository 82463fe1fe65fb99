"""Builds into a store of objects: without folders, links, locks of the system, or a step that changes two names at once."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import lock
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.build import build_dataset, describe_build
from tokenmill.pipeline.config import BuildConfig, parse_config
from tokenmill.pipeline.outputs import OutputFolder, read_manifest
from tokenmill.pipeline.progress import reporter
from tokenmill.transforms.files import read_file, write_file_atomically
from tokenmill.transforms.stores import FileSystems

QUIET = reporter(quiet=True)


class ObjectStore(LocalFileSystem):
    """`store:///a/b` stands for the local file `/a/b`."""

    @classmethod
    def scheme(cls) -> str:
        return "store"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths)])

    def has_dirs(self) -> bool:
        return False

    def mkdirs(self, path: str) -> None:
        """As the stores of Beam do: nothing."""

    def exists(self, path: str) -> bool:
        return os.path.isfile(local(path))

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, os.path.getsize(local(path)))

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for parent, _, names in os.walk(os.path.dirname(local(dir_or_prefix))):
            paths = (os.path.join(parent, name) for name in names)
            yield from (self.metadata("store://" + path) for path in paths if path.startswith(local(dir_or_prefix)))

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> BinaryIO:
        os.makedirs(os.path.dirname(local(path)), exist_ok=True)
        return open(local(path), "wb")

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> BinaryIO:
        return open(local(path), "rb")

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        self._give(shutil.copyfile, source_file_names, destination_file_names)

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        self._give(os.replace, source_file_names, destination_file_names)

    def _give(self, how, sources: list[str], targets: list[str]) -> None:  # type: ignore[no-untyped-def]
        for source, target in zip(sources, targets, strict=True):
            os.makedirs(os.path.dirname(local(target)), exist_ok=True)
            how(local(source), local(target))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            for found in self.match([path])[0].metadata_list:
                os.remove(local(found.path))

    def checksum(self, path: str) -> str:
        return hashlib.sha256(Path(local(path)).read_bytes()).hexdigest()


def local(path: str) -> str:
    return path.removeprefix("store://")


def configure(folder: Path, root: str) -> BuildConfig:
    config = {
        "input": {"inputs": [f"{root}{folder}/corpus"]},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 300},
        "output": {"folder": f"{root}{folder}/{'out' if root else 'here'}"},
        "split_mb": 0.01,
        "workers": 1,
    }
    return parse_config(json.dumps(config))


def published(folder: Path) -> dict[str, str]:
    """Without what tells the names of one version in a store from those of the next."""
    marked = re.compile(r"(part-\d{5}-of-\d{5})-[0-9a-f]{8}")
    return {marked.sub(r"\1", name): sha256 for name, sha256 in hash_folder(folder).items() if name != "_state.json"}


def test_a_build_in_a_store_is_that_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    for number in range(3):
        write_jsonl(tmp_path / "corpus" / f"p{number}.jsonl", make_texts(60, seed=number))
    config = configure(tmp_path, "store://")
    build_dataset(config, QUIET, ())
    assert build_dataset(config, QUIET, ()).startswith("nothing has changed since the last build: 180 documents")
    write_jsonl(tmp_path / "corpus" / "p4.jsonl", make_texts(60, seed=4))
    os.remove(tmp_path / "corpus" / "p0.jsonl")
    explained = describe_build(config, QUIET, ())
    assert "3, 2 of them as in the last build" in explained and "1 file new" in explained and "1 file gone" in explained
    build_dataset(config, QUIET, (), retrain=True)
    assert "deep     " in proof.verify(f"store://{tmp_path}/out", deep=True)
    build_dataset(configure(tmp_path, ""), QUIET, ())
    here, there = (published(tmp_path / name) for name in ("here", "out"))
    assert here.keys() == there.keys()
    others = {name for name, sha256 in here.items() if there[name] != sha256}
    made_of_keys = {"tokens/manifest.json", "word-counts/groups/ledger.json", "word-counts/manifest.json"}
    assert others <= made_of_keys, "keys are made of the store's own checksums, and a new version has names of its own"


def test_the_lock_in_a_store_is_its_file(tmp_path: Path) -> None:
    folder = f"store://{tmp_path}/out"
    told = pytest.raises(errors.LockedError, match=rf"process {os.getpid()} on .* its lock ends in")
    with lock.hold_folder(folder), told, lock.hold_folder(folder):
        pass
    assert not (tmp_path / "out" / lock.LOCK).exists()
    with lock.hold_folder(folder):
        pass


def test_readers_see_one_version_wherever_publishing_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = f"store://{tmp_path}/out"

    def publish(content: bytes, run: str) -> None:
        name = "part-00000-of-00001.parquet"
        folder = OutputFolder(out, [run])
        folder.begin()
        write_file_atomically(f"{folder.shards}/{name}", content)
        folder.publish({"format": "tokenmill-dataset", "shards": [{"path": name}]}, {"README.md": content})

    def read() -> bytes:
        manifest = read_manifest(out)
        assert manifest is not None
        return read_file(f"{out}/{manifest['shards'][0]['path']}")

    def stop_at(place: int, real: Callable[..., None]) -> Callable[..., None]:
        calls = itertools.count(1)

        def call(*arguments: Any) -> None:
            if next(calls) == place:
                raise KeyboardInterrupt
            real(*arguments)

        return call

    publish(b"old", "a")
    versions = []
    for system, place in itertools.product(("rename", "delete"), range(1, 9)):
        with monkeypatch.context() as patched:
            patched.setattr(FileSystems, system, staticmethod(stop_at(place, getattr(FileSystems, system))))
            with contextlib.suppress(KeyboardInterrupt):
                publish(b"new", "b")
        versions.append(read())
        publish(b"old", "a")
        assert read() == b"old"
        assert len(list((tmp_path / "out").glob("*.parquet"))) == 1, "the next run deletes what one that was killed has left"
    assert set(versions) == {b"old", b"new"}
