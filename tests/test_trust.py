"""What is on the disk is not trusted: a change to any value of a manifest, or byte of a build, is found or changes nothing."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.build import build_dataset
from tokenmill.pipeline.config import parse_config
from tokenmill.pipeline.driver import encode_corpus
from tokenmill.pipeline.outputs import render_manifest
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.transforms.sums import SUM, add_sum, is_summed

#: Values that only the sum of the manifest protects: without the source nothing says what else they should be. A name stands for
#: all that is inside it.
ONLY_SUMMED = {
    "tokenmill": "the version that wrote it; versions read each other's datasets",
    "reading": "how the source was read; `verify --deep` reads it so again",
    "shuffle": "the seed of the order; the rows are right in any order",
    "rows": "what was asked for; the columns and rows that came of it are checked",
    "reasons": "why records were rejected; words for people",
    "files.format": "of the source",
    "files.size": "of the source",
    "files.name": "of the source",
    "shards.key": "by which a build finds what is done; with another key it is done again",
    "unwritten.key": "by which a build finds what is done; with another key it is done again",
    "unwritten.source": "of the source",
    "packing.row_group_blocks": "how many blocks a row group may have; where none is full, a larger number fits too",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of two files with rejects, `out`; its dataset in packed and in padded rows, `packed` and `padded`."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "corpus").mkdir()
    write_jsonl(folder / "corpus" / "a.jsonl", make_texts(40))
    write_jsonl(folder / "corpus" / "b.jsonl", make_texts(30, seed=2))
    with open(folder / "corpus" / "b.jsonl", "a") as file:
        file.write('{"text": 1}\n{"text": "half')
    (folder / "corpus" / "c.jsonl").write_text("no JSON\n" * 3)
    build(folder, "out")
    run, corpus = Execution(reporter(quiet=True), workers=1), Corpus((str(folder / "corpus"),), split_bytes=4 << 10)
    for name, rows in {
        "packed": RowOptions(block=8, eos="<|end|>", shuffle=3),
        "padded": RowOptions(max_length=8, overflow="rows", pad="<|end|>", pad_to=8, attention_mask=True),
    }.items():
        encode_corpus(corpus, str(folder / "out" / "tokenizer.json"), str(folder / name), run, rows=rows)
    return folder


def build(folder: Path, output: str) -> None:
    config = {
        "input": {"inputs": [str(folder / "corpus")], "max_rejects": "100%"},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 300, "special": ["<|end|>"]},
        "output": {"folder": str(folder / output)},
        "split_mb": 0.004,
    }
    build_dataset(parse_config(json.dumps(config)), reporter(quiet=True), ())


MANIFESTS = ["out/tokens", "out/word-counts", "packed", "padded"]


def list_leaves(tree: Any, path: tuple = ()) -> Iterator[tuple]:
    """The places of all values that hold no others; of lists in their first entry and the last one."""
    entries = dict(enumerate(tree)) if isinstance(tree, list) else {}
    inner = tree.items() if isinstance(tree, dict) else [*entries.items()][:1] + [*entries.items()][1:][-1:]
    for key, value in inner:
        yield from list_leaves(value, (*path, key))
    if not inner:
        yield path


def name_place(path: tuple) -> str:
    """`("shards", 3, "path")` as `shards.path`."""
    return ".".join(str(key) for key in path if not isinstance(key, int))


def change_value(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        last = {"0": "1"}.get(value[-1:], "0")
        return value[:-1] + last
    return [*value, 1] if isinstance(value, list) else {**value, "x": 1}


def change_leaf(manifest: dict, path: tuple) -> dict:
    changed = copy.deepcopy(manifest)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change_value(place[path[-1]])
    return changed


def is_found(folder: Path) -> bool:
    try:
        proof.verify(str(folder))
    except errors.DataError:
        return True
    return False


def list_unseen(folder: Path) -> set[str]:
    """The values that may be others for all that `verify` sees, if the sum is right; each is changed in turn."""
    manifest = json.loads((folder / "manifest.json").read_text())
    assert is_summed(manifest) and not is_found(folder)
    unseen = set()
    for path in list_leaves(manifest):
        if path != (SUM,):
            (folder / "manifest.json").write_bytes(render_manifest(add_sum(change_leaf(manifest, path))))
            unseen |= set() if is_found(folder) else {name_place(path)}
    return unseen


def test_what_a_manifest_says_is_compared_with_what_is_there(built: Path, tmp_path: Path) -> None:
    unseen = set()
    for name in MANIFESTS:
        shutil.copytree(built / name, tmp_path / name)
        unseen |= list_unseen(tmp_path / name)
    groups = {next((one for one in ONLY_SUMMED if f"{place}.".startswith(f"{one}.")), place) for place in unseen}
    assert groups == set(ONLY_SUMMED)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_to_a_manifest_is_found(built: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(MANIFESTS))
    shutil.copytree(built / name, tmp_path / "copy", dirs_exist_ok=True)
    manifest = json.loads((built / name / "manifest.json").read_text())
    path = data.draw(st.sampled_from(list(list_leaves(manifest))))
    (tmp_path / "copy" / "manifest.json").write_bytes(render_manifest(change_leaf(manifest, path)))
    assert is_found(tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy")


@pytest.mark.parametrize("name", MANIFESTS)
def test_another_version_is_not_read(built: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(built / name, tmp_path / "copy")
    manifest = json.loads((built / name / "manifest.json").read_text())
    (tmp_path / "copy" / "manifest.json").write_bytes(render_manifest({**manifest, "version": 99}))
    with pytest.raises(errors.DataError, match=r"manifest\.json: of version 99; this tokenmill knows 1"):
        proof.verify(str(tmp_path / "copy"))


DAMAGES = st.tuples(st.sampled_from(["flip", "zero first half", "zero last half"]), st.floats(0, 1, exclude_max=True))


def damage(path: Path, how: str, place: float) -> bool:
    """Change a file without its size; False where it is as it was."""
    content = path.read_bytes()
    half = len(content) // 2
    changed = bytearray(content)
    if how == "flip" and content:
        changed[int(place * len(content))] ^= 1 << int(place * 1e6) % 8
    elif how == "zero first half":
        changed[:half] = bytes(half)
    else:
        changed[half:] = bytes(len(content) - half)
    path.write_bytes(changed)
    return bytes(changed) != content


def check_damage(built: Path, copy: Path, name: str, how: str, place: float) -> None:
    """Either `verify` or the next build names the file, or the next build, of more texts, gives what a new one does."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(built / "corpus", copy / "corpus")
    shutil.copytree(built / "out", copy / "out")
    if not damage(copy / "out" / name, how, place):
        return
    named = re.escape(name.rpartition("/")[2])
    try:
        proof.verify(str(copy / "out"))
    except errors.TokenmillError as error:
        assert re.search(named, str(error)), error
        return
    write_jsonl(copy / "corpus" / "d.jsonl", make_texts(10, seed=3))
    try:
        build(copy, "out")
    except errors.TokenmillError as error:
        assert re.search(named, str(error)), error
        return
    expected = hash_next(built)
    assert {name: sha256 for name, sha256 in hash_folder(copy / "out").items() if name != "_state.json"} == expected


_NEXT: dict[Path, dict[str, str]] = {}


def hash_next(built: Path) -> dict[str, str]:
    """What the build makes of one more file: its tokenizer stays, so it is made in two steps."""
    if built not in _NEXT:
        other = built.parent / "next"
        shutil.copytree(built / "corpus", other / "corpus")
        shutil.copytree(built / "out", other / "out")
        write_jsonl(other / "corpus" / "d.jsonl", make_texts(10, seed=3))
        build(other, "out")
        _NEXT[built] = {name: sha256 for name, sha256 in hash_folder(other / "out").items() if name != "_state.json"}
    return _NEXT[built]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_to_a_build_is_found_or_changes_nothing(built: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(hash_folder(built / "out"))))
    check_damage(built, tmp_path / "copy", name, *data.draw(DAMAGES))


@pytest.mark.deep
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_to_a_build_is_found_or_changes_nothing_many(built: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(hash_folder(built / "out"))))
    check_damage(built, tmp_path / "copy", name, *data.draw(DAMAGES))
