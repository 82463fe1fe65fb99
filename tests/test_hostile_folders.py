"""Output folders that others have written to: nothing outside is changed, no link is followed, no file of others is deleted."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.corpora import hash_folder, write_jsonl
from tokenmill import errors, schemas
from tokenmill.dataset.token_dataset import TokenDataset
from tokenmill.pipeline import publishing, verify_command
from tokenmill.pipeline.driver import encode_corpus
from tokenmill.pipeline.lock import hold_folder
from tokenmill.pipeline.ours import OWNER_TEXT, is_begun
from tokenmill.pipeline.outputs import OutputFolder
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.tokenize_command import decode_dataset, read_rows
from tokenmill.transforms.sums import add_sum

REFUSALS = (errors.UsageError, errors.UnreadableFileError, errors.OutputError)
RUN = "ab" * 16
SHARD = "part-00000-of-00001.parquet"
KEY = ["0" * 32]
#: Places inside `out`, or beside it, where a hostile hand puts something.
PLACES = [
    *("_work", "_work/OWNER", "_work/publishing.json", "_work/notes.txt", f"_work/{RUN}", f"_work/{RUN}/shards", "_work/other"),
    *(f"_work/{RUN}/shards/{SHARD}", f"_work/{RUN}/journal/split-00000.json", f"_work/{RUN}/keys.json", f"_work/{RUN}/mine.txt"),
    *("rejects", "rejects/.hidden", "rejects/part-00000-of-00001.jsonl", "groups", "groups/ledger.json", "notes.txt", ".hidden"),
    *("manifest.json", "_lock.json", "part-00000-of-00001.parquet", f"x.tmp-{RUN}", f"../.out.next-{RUN}", "../.out.next-notes"),
    *(f"../.out.next-{RUN}/mine.txt", f"../.out.next-{RUN}/{SHARD}", "../.out.next-notes/data.txt", f"_work/{RUN}/rejects"),
]
NAMES = [
    "../victim/data.txt",
    "victim",
    SHARD,
    "rejects/part-00000-of-00001.jsonl",
    "/etc/hostname",
    "notes.txt",
    "rejects/../../x",
]
MANIFESTS = [
    {"format": schemas.DATASET_FORMAT, "shards": [{"path": path} for path in NAMES]},
    {"format": schemas.WORD_COUNTS_FORMAT, "parts": [{"path": path} for path in NAMES]},
]
CONTENTS = st.sampled_from(
    [b"", b"mine", OWNER_TEXT.encode(), *(json.dumps(value).encode() for value in (NAMES, *MANIFESTS, KEY))]
)
ENTRIES = st.lists(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(["file", "file", "folder", "link", "link to a file"]), CONTENTS),
    max_size=9,
)


def is_foreign(name: str) -> bool:
    """A name that tokenmill never gives."""
    return os.path.basename(name) in ("notes.txt", "mine.txt", ".hidden", "data.txt") or "next-notes" in name


def lay_out(root: Path, entries: list[tuple[str, str, bytes]]) -> dict[str, bytes]:
    """Make the entries where nothing stands in the way; the contents of those that are nobody's but the user's."""
    (root / "victim").mkdir()
    for name in ("data.txt", SHARD, "part-00000-of-00001.jsonl", "ledger.json", "split-00000.json", "keys.json", "manifest.json"):
        (root / "victim" / name).write_text("the victim's")
    (root / "out").mkdir()
    foreign = {}
    for place, kind, content in entries:
        path = Path(os.path.normpath(root / "out" / place))
        if os.path.lexists(path) or not str(path.parent.resolve()).startswith((str(root / "out"), str(root / ".out"), str(root))):
            continue
        if "victim" in str(path.parent.resolve()) or (path.parent.exists() and not path.parent.is_dir()):
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if kind == "file":
            path.write_bytes(content)
            foreign |= {str(path): content} if is_foreign(place) else {}
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(root / "victim" / ("" if kind == "link" else "data.txt"))
    return foreign


def use_folder(path: str) -> None:
    """What a run does with its folder, without the work: one shard and one reject are written, and published."""
    folder = OutputFolder(path, KEY)
    folder.check_free(overwrite=True)
    with folder.hold():
        folder.check_free(overwrite=True)
        folder.begin()
        Path(folder.shards, SHARD).write_bytes(b"shard")
        Path(folder.rejects, "part-00000-of-00001.jsonl").write_bytes(b"{}")
        manifest = {"format": schemas.DATASET_FORMAT, "shards": [{"path": SHARD, "bytes": 5}]}
        folder.publish(manifest, {"tokenizer.json": b"{}", "README.md": b"read"})
        folder.sweep()


#: A manifest that lists a shard, in whose place there is a folder.
TAKEN = ([("manifest.json", "file", json.dumps(MANIFESTS[0]).encode()), (SHARD, "folder", b"")], False)


@example(*TAKEN)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ENTRIES, st.booleans())
def test_nothing_of_others_is_touched(tmp_path_factory: pytest.TempPathFactory, entries: list, exchange: bool) -> None:
    root = tmp_path_factory.mktemp("hostile")
    foreign = lay_out(root, entries)
    victim = hash_folder(root / "victim")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "_flush", lambda path: None)
        if not exchange:
            patch.setattr(publishing, "_exchange", lambda *_: False)
        for _ in range(2):
            with contextlib.suppress(*REFUSALS):
                use_folder(str(root / "out"))
    assert hash_folder(root / "victim") == victim
    assert {path: Path(path).read_bytes() for path in foreign} == foreign


@pytest.mark.parametrize("name", ["_work", "rejects"])
def test_a_link_in_place_of_a_folder_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "victim")
    with pytest.raises(errors.OutputExistsError, match=rf"{name} is (a link|in the way)"):
        use_folder(str(tmp_path / "out"))
    assert list((tmp_path / "victim").iterdir()) == []


@pytest.mark.parametrize("name", [SHARD, "tokenizer.json", "rejects/part-00000-of-00001.jsonl", f"_work/{RUN}/keys.json"])
def test_a_folder_in_place_of_a_file_is_named_before_anything_is_changed(tmp_path: Path, name: str) -> None:
    use_folder(str(tmp_path))
    (tmp_path / "_work").mkdir()
    (tmp_path / "_work" / "OWNER").write_text(OWNER_TEXT)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir(parents=True)
    before = hash_folder(tmp_path)
    with pytest.raises(errors.OutputExistsError, match=f"{name} is a folder, where tokenmill writes a file; move it away"):
        use_folder(str(tmp_path))
    assert hash_folder(tmp_path) == before


def test_a_clean_up_that_fails_keeps_the_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = OutputFolder(str(tmp_path), KEY)
    folder.begin()
    (Path(folder.shards) / SHARD).write_bytes(b"x")
    opened, unlink = os.open, os.unlink

    def refuse(path: object, *rest: object, **named: object) -> None:
        raise OSError(24, os.strerror(24), path)

    for name, call in (("open", opened), ("unlink", unlink)):
        monkeypatch.setattr(os, name, refuse)
        folder._delete_work()
        monkeypatch.setattr(os, name, call)
        assert is_begun(str(tmp_path / "_work")), f"{name} failed"
    folder.sweep()
    assert list(tmp_path.iterdir()) == []


def test_the_working_folder_of_the_shell_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaced as a whole, it would be gone from under the shell."""
    monkeypatch.chdir(tmp_path)
    number = tmp_path.stat().st_ino
    use_folder(".")
    assert tmp_path.stat().st_ino == number and os.getcwd() == str(tmp_path)
    assert (tmp_path / "manifest.json").exists() and not (tmp_path / "_work").exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "large"])
def test_a_lock_that_is_no_file_stops_nobody(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "_lock.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b" " * (1 << 20))
    if kind == "folder":
        with pytest.raises(errors.OutputError, match=r"_lock\.json: "), hold_folder(str(tmp_path)):
            pass
        return
    with hold_folder(str(tmp_path)):
        assert json.loads(path.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("name", ["manifest.json", SHARD, "tokenizer.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_no_reader_waits_for_a_pipe_or_reads_a_device(tmp_path: Path, name: str, kind: str) -> None:
    """In its place in a finished dataset: for the loader, `decode` and `verify`."""
    encode_one(tmp_path)
    (tmp_path / "out" / name).unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / "out" / name)
    else:
        (tmp_path / "out" / name).symlink_to("/dev/zero")
    out = str(tmp_path / "out")
    with pytest.raises(errors.TokenmillError):
        verify_command.verify(out)
    with pytest.raises(errors.TokenmillError):
        dataset = TokenDataset(out)
        dataset.row(0)
        dataset.tokenizer()
    with pytest.raises(errors.TokenmillError):
        list(decode_dataset(out, None, None) if name == "tokenizer.json" else read_rows(out))


def encode_one(folder: Path) -> None:
    """A dataset of one document, `out`."""
    (folder / "t.json").write_text(json.dumps({"merge_rules": [["a", "b"]], "vocab": {"a": 0, "b": 1, "ab": 2}}))
    write_jsonl(folder / "a.jsonl", ["abab"])
    run = Execution(reporter(quiet=True), workers=1)
    encode_corpus(Corpus((str(folder / "a.jsonl"),)), str(folder / "t.json"), str(folder / "out"), run)


@pytest.mark.parametrize("named", ["/dev/zero", "../a.parquet", "pipe.parquet"])
def test_a_manifest_names_files_of_its_folder_alone(tmp_path: Path, named: str) -> None:
    encode_one(tmp_path)
    out = str(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["shards"][0]["path"] = named
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(add_sum(manifest)))
    for read in (verify_command.verify, TokenDataset, lambda path: list(read_rows(path))):
        with pytest.raises(errors.DataError, match="is no name of a shard"):
            read(out)


@pytest.mark.parametrize("name", ["manifest.json", SHARD])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    use_folder(str(tmp_path))
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(errors.DataError):
        verify_command.verify(str(tmp_path))
