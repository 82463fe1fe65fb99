"""Finding input files, naming them, and packing them into splits."""

from __future__ import annotations

import gzip
import os
import random
import re
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading import documents_of, read_all
from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.pipeline import inputs
from tokenmill.pipeline.inputs import list_inputs, plan_splits, resolve_inputs
from tokenmill.transforms.files import escape_glob
from tokenmill.transforms.read import read_split
from tokenmill.transforms.read_lines import LineCount
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile


def make_files(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")


def names_of(*inputs: object, **options: str) -> list[str]:
    return [file.name for file in resolve_inputs([str(text) for text in inputs], **options)]


def test_folder_is_recursive_sorted_and_without_hidden_files(tmp_path: Path) -> None:
    make_files(tmp_path, "b.txt", "a/z.txt", "a/.hidden", "_tmp/x.txt", "a/_part", ".git/config", "c", "B.txt")
    assert names_of(tmp_path) == ["B.txt", "a/z.txt", "b.txt", "c"]
    assert resolve_inputs([f"{tmp_path}/"])[0].path == f"{tmp_path}/B.txt"


def test_folder_follows_links_once(tmp_path: Path) -> None:
    make_files(tmp_path, "corpus/a.txt", "elsewhere/b.txt")
    (tmp_path / "corpus/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "corpus")
    assert names_of(tmp_path / "corpus") == ["a.txt", "more/b.txt"]


def test_order_of_arguments_is_kept(tmp_path: Path) -> None:
    make_files(tmp_path, "x/b", "x/a", "y/c")
    assert names_of(tmp_path / "y", tmp_path / "x/b", tmp_path / "x/a") == ["c", "b", "a"]


def test_globs_are_named_from_their_root(tmp_path: Path) -> None:
    make_files(tmp_path, "d/2024/a.txt", "d/2024/b.md", "d/2025/a.txt", "d/2025/deep/c.txt", "d/2025/_x.txt", "d/2025/.y.txt")
    assert names_of(tmp_path / "d/20*/*.txt") == ["2024/a.txt", "2025/a.txt"]
    assert names_of(tmp_path / "d/**/*.txt") == ["2024/a.txt", "2025/a.txt", "2025/deep/c.txt"]
    assert names_of(tmp_path / "d/2025/_*.txt") == ["_x.txt"]
    assert names_of(tmp_path / "d/2024/[ab].*") == ["a.txt", "b.md"]


def test_a_name_with_glob_characters_that_exists_is_a_path(tmp_path: Path) -> None:
    make_files(tmp_path, "[1]/a*.txt", "1/ab.txt")
    assert names_of(tmp_path / "[1]") == ["a*.txt"]
    assert names_of(tmp_path / "[1]/a*.txt") == ["a*.txt"]


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path, "a.txt", "d/b.txt")
    monkeypatch.chdir(tmp_path)
    assert [(file.path, file.name) for file in resolve_inputs(["./a.txt", "d"])] == [("a.txt", "a.txt"), ("d/b.txt", "b.txt")]
    assert names_of("*.txt") == ["a.txt"]
    assert names_of(".") == ["a.txt", "d/b.txt"]


@pytest.mark.parametrize(
    ("name", "format", "compression"),
    [
        ("a", "text", ""),
        ("a.md", "text", ""),
        ("a.jsonl", "jsonl", ""),
        ("a.ndjson.zst", "jsonl", "zst"),
        ("a.json.GZIP", "jsonl", "gz"),
        ("a.PQ", "parquet", ""),
        ("a.parquet.zstd", "parquet", "zst"),
        ("a.feather", "arrow", ""),
        ("a.ipc", "arrow", ""),
        ("a.arrow.xz", "arrow", "xz"),
        ("a.gz", "text", "gz"),
        ("a.txt.bz2", "text", "bz2"),
    ],
)
def test_format_and_compression_by_extension(tmp_path: Path, name: str, format: str, compression: str) -> None:
    make_files(tmp_path, name)
    (file,) = list_inputs([str(tmp_path / name)]).files
    assert (file.format, file.compression, file.size) == (format, compression, len(name) + 1)


def test_a_stated_format_wins(tmp_path: Path) -> None:
    make_files(tmp_path, "a.json.gz")
    (file,) = list_inputs([str(tmp_path)], format="text", document="file").files
    assert (file.format, file.compression, file.document) == ("text", "gz", "file")


def test_equal_names_are_told_apart_by_the_common_parent(tmp_path: Path) -> None:
    make_files(tmp_path, "corpus/en/x.txt", "corpus/en/y.txt", "corpus/de/deep/x.txt", "corpus/other.txt")
    inputs = (tmp_path / "corpus/en", tmp_path / "corpus/de/deep/x.txt")
    assert names_of(*inputs) == ["en/x.txt", "en/y.txt", "de/deep/x.txt"]
    assert names_of(*inputs, tmp_path / "corpus/o*.txt") == ["en/x.txt", "en/y.txt", "de/deep/x.txt", "other.txt"]
    assert names_of(f"disk:{tmp_path}/a/data", f"disk:{tmp_path}/b/data:dev") == ["disk:data", "disk:data:dev"]
    assert names_of(f"disk:{tmp_path}/a/data", f"disk:{tmp_path}/b/data") == ["disk:a/data", "disk:b/data"]


def test_names_that_stay_equal_are_refused(tmp_path: Path) -> None:
    make_files(tmp_path, "stdlib/abc.py", "abc.py", "x/y")
    with pytest.raises(UsageError) as caught:
        resolve_inputs(["stdlib", str(tmp_path / "abc.py"), str(tmp_path / "stdlib")])
    assert str(caught.value) == "two inputs would both be called 'stdlib/abc.py'; put them into folders of different names"


@pytest.mark.parametrize("again", ["{0}/./a.txt", "{0}", "{0}/*.txt"])
def test_a_file_given_twice_is_named(tmp_path: Path, again: str) -> None:
    make_files(tmp_path, "a.txt")
    with pytest.raises(UsageError) as caught:
        resolve_inputs([str(tmp_path / "a.txt"), again.format(tmp_path)])
    way_out = "name each file once, or leave out the folder or glob that holds it"
    assert str(caught.value) == f"{tmp_path}/a.txt: is given twice; {way_out}"


def test_a_dataset_given_twice_is_named() -> None:
    with pytest.raises(UsageError, match="hf:a/b: is given twice"):
        resolve_inputs(["hf:a/b", "hf:a/b"])


def test_no_match_names_the_pattern_and_what_is_near(tmp_path: Path) -> None:
    make_files(tmp_path, "train.txt", "test.txt", "other.md")
    with pytest.raises(UnreadableFileError) as caught:
        resolve_inputs([str(tmp_path / "trian.txt")])
    assert str(caught.value) == f"no file at '{tmp_path}/trian.txt'; the folder '{tmp_path}' holds train.txt, ..."
    with pytest.raises(UnreadableFileError) as caught:
        resolve_inputs([str(tmp_path / "deep/er/*.zip")])
    assert str(caught.value).startswith(f"no file at '{tmp_path}/deep/er/*.zip'; the folder '{tmp_path}' holds other.md, ")


def test_an_empty_folder_is_no_input(tmp_path: Path) -> None:
    make_files(tmp_path, ".hidden")
    with pytest.raises(UnreadableFileError, match=r"left out 1 name of hidden or unfinished files: \.hidden; rename"):
        resolve_inputs([str(tmp_path)])


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableFileError, match="pipe: is neither a file nor a folder; write its contents to a file first"):
        resolve_inputs([str(tmp_path)])
    (tmp_path / "pipe").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for text in (tmp_path, tmp_path / "l*"):
        with pytest.raises(UnreadableFileError, match="link: cannot be opened: No such file or directory"):
            resolve_inputs([str(text)])


def test_an_unknown_file_system_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"nosuch://bucket/a\.txt: "):
        resolve_inputs(["nosuch://bucket/a.txt"])


class PrefixFileSystem(LocalFileSystem):
    """A store without folders, as object stores are: `prefix:///a/b` stands for the local file `/a/b`.

    As in some such stores, empty objects `/a/` stand for what would be folders.
    """

    @classmethod
    def scheme(cls) -> str:
        return "prefix"

    def has_dirs(self) -> bool:
        return False

    def exists(self, path: str) -> bool:
        return os.path.isfile(path.removeprefix("prefix://"))

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, os.path.getsize(path.removeprefix("prefix://")))

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        local = dir_or_prefix.removeprefix("prefix://")
        for parent, _, names in os.walk(os.path.dirname(local)):
            paths = (os.path.join(parent, name) for name in names)
            yield from (self.metadata("prefix://" + path) for path in paths if path.startswith(local))
            if f"{parent}/".startswith(local):
                yield FileMetadata(f"prefix://{parent}/", 0)

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> BinaryIO:
        return open(path.removeprefix("prefix://"), "rb")


def test_other_file_systems(tmp_path: Path) -> None:
    make_files(tmp_path, "d/b.txt", "d/a/c.txt", "d/_x", "d/.y", "dd/z")
    base = f"prefix://{tmp_path}"
    assert names_of(f"{base}/d") == names_of(f"{base}/d/") == ["a/c.txt", "b.txt"]
    assert names_of(f"{base}/d*/*") == ["d/b.txt", "dd/z"]
    assert names_of(f"{base}/d/b.txt") == ["b.txt"]
    files = resolve_inputs([f"{base}/d/b.txt", f"{base}/dd"])
    assert [(file.path, file.size) for file in files] == [(f"{base}/d/b.txt", 8), (f"{base}/dd/z", 5)]
    splits = plan_splits(files, options=ReadOptions(), split_bytes=4)
    batches = [batch for split in splits for batch in read_split(split, ReadOptions())]
    assert documents_of(batches) == [("b.txt:0", "d/b.txt"), ("z:0", "dd/z")]
    with pytest.raises(UnreadableFileError, match=r"no file at 'prefix:///.*/nothing'; check the path, and that the file system"):
        resolve_inputs([f"{base}/nothing"])
    with pytest.raises(UsageError, match=r"d/b\.txt: is given twice"):
        resolve_inputs([f"{base}/d/b.txt", f"{base}/d"])


def test_glob_characters_in_other_file_systems(tmp_path: Path) -> None:
    make_files(tmp_path, "x[1]/a*.txt", "x[1]/sub/b", "x1/ab.txt", "y?", "yy", "z*/deep/_x", "z1/deep/c", "z1/d")
    base = f"prefix://{tmp_path}"
    assert names_of(f"{base}/x[1]") == names_of(f"{base}/x[1]/") == ["a*.txt", "sub/b"]
    assert names_of(f"{base}/x[1]/a*.txt") == ["a*.txt"]
    assert names_of(f"{base}/x[12]/a*.txt") == ["x1/ab.txt"]
    assert names_of(f"{base}/y?") == ["y?"]
    assert names_of(f"{base}/y[y?]") == ["y?", "yy"]
    assert names_of(f"{base}/z[1]/**") == names_of(f"{base}/z[1]/") == ["z1/d", "z1/deep/c"]
    with pytest.raises(UnreadableFileError, match="no file at"):
        resolve_inputs([f"{base}/z*"])


@given(path=st.text("ab[]*?!^-\\/.", max_size=8), other=st.text("ab[]*?!^-\\/.", max_size=8))
def test_an_escaped_path_matches_itself_alone(path: str, other: str) -> None:
    pattern = LocalFileSystem.translate_pattern(escape_glob(path))
    assert re.match(pattern, path)
    assert bool(re.match(pattern, other)) == (other == path)


def test_stdlib_is_sources_each_one_document() -> None:
    files = resolve_inputs(["stdlib"])
    names = [file.name for file in files]
    assert names == sorted(names)
    assert {"json/decoder.py", "abc.py"} <= set(names)
    assert not any(part in name for name in names for part in ("site-packages", "dist-packages", "__pycache__"))
    (split,) = plan_splits([file for file in files if file.name == "json/decoder.py"], options=ReadOptions())
    (batch,) = read_split(split, ReadOptions())
    source = Path(sysconfig.get_path("stdlib"), "json/decoder.py").read_text(encoding="utf-8")
    assert documents_of([batch]) == [("json/decoder.py:0", source)]


def plan(folder: Path, split_bytes: int) -> list[list[tuple[str, int, int, int]]]:
    splits = plan_splits(resolve_inputs([str(folder)]), options=ReadOptions(), split_bytes=split_bytes)
    assert [split.index for split in splits] == list(range(len(splits)))
    return [[(part.file.name, part.start, part.end, part.first_row) for part in split.ranges] for split in splits]


def test_small_neighbours_share_a_split_and_large_files_are_cut(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12\n" * 10)
    (tmp_path / "b").write_bytes(b"1\n")
    (tmp_path / "c").write_bytes(b"1\n")
    (tmp_path / "d").write_bytes(b"")
    (tmp_path / "e").write_bytes(b"12345678\n")
    assert plan(tmp_path, 10) == [
        [("a", 0, 10, 0)],
        [("a", 10, 20, 4)],
        [("a", 20, 30, 7)],
        [("b", 0, 2, 0), ("c", 0, 2, 0)],
        [("e", 0, 9, 0)],
    ]


def test_an_empty_corpus_has_no_splits(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert plan(tmp_path, 10) == []


def test_limit_zero_reads_nothing(tmp_path: Path) -> None:
    make_files(tmp_path, "a", "b")
    assert plan_splits(resolve_inputs([str(tmp_path)]), options=ReadOptions(), limit=0) == []


def test_limit_does_not_read_beyond(tmp_path: Path) -> None:
    make_files(tmp_path, "a")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"b\n")[:-4])
    assert documents_of(read_all(tmp_path, limit=1)) == [("a:0", "a")]


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6), split_bytes=st.integers(1, 40))
def test_splits_cover_all_bytes_in_order(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], split_bytes: int) -> None:
    folder = tmp_path_factory.mktemp("plan")
    for number, size in enumerate(sizes):
        (folder / str(number)).write_bytes(b"\n" * size)
    splits = plan(folder, split_bytes)
    parts = [part for split in splits for part in split]
    assert [(name, row) for name, start, end, _ in parts for row in range(start, end)] == [
        (str(number), row) for number, size in enumerate(sizes) for row in range(size)
    ]
    assert all(start == first_row for _, start, _, first_row in parts)
    loads = [sum(end - start for _, start, end, _ in split) for split in splits]
    planned = plan_splits(resolve_inputs([str(folder)]), options=ReadOptions(), split_bytes=split_bytes)
    assert [split.size for split in planned] == loads
    assert max(loads, default=0) <= split_bytes
    for (load, split), follower in zip(zip(loads, splits, strict=True), splits[1:], strict=False):
        is_cut = any(sizes[int(name)] != end - start for name, start, end, _ in [*split, follower[0]])
        first = follower[0][2] - follower[0][1]
        assert is_cut or 2 * load >= split_bytes or load + first > split_bytes, "only a split that is half full ends early"


def test_a_file_that_comes_goes_or_grows_moves_few_splits() -> None:
    chance = random.Random(3)
    new = []
    for _ in range(100):
        files = {f"{number:04}": chance.randint(1, 400) for number in range(0, 600, 2)}
        name = chance.choice(list(files))
        without = {key: size for key, size in files.items() if key != name}
        before = pack(files)
        for changed in ({**files, name + "a": 100}, without, {**files, name: chance.randint(1, 400)}):
            after = pack(changed)
            assert all(sum(size for _, size in split) <= 2_000 for split in after)
            new.append(len(set(after) - set(before)))
    assert len(before) > 30 and sum(new) / len(new) < 3.5 and sorted(new)[-len(new) // 10] < 8


def pack(files: dict[str, int]) -> list[tuple[tuple[str, int], ...]]:
    ranges = [Range(SourceFile(name, name, "text"), 0, size) for name, size in sorted(files.items())]
    splits = inputs.pack_ranges([SizedRange(part, None, part.end) for part in ranges], 2_000)
    return [tuple((part.file.name, part.end) for part in split.ranges) for split in splits]


@pytest.mark.parametrize(
    "error", [UnreadableFileError("a: is gone"), KeyboardInterrupt()], ids=lambda error: type(error).__name__
)
def test_an_error_does_not_wait_for_what_is_queued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    (tmp_path / "a").write_bytes(b"1\n" * 40)
    begun: list[int] = []
    release = threading.Event()

    def count_records(part: SizedRange, limit: int | None) -> LineCount:
        begun.append(part.range.start)
        if part.range.start == 0:
            raise error
        release.wait(timeout=3)
        return LineCount(1, 1)

    monkeypatch.setattr(inputs, "_count", count_records)
    try:
        with pytest.raises(type(error)):
            plan_splits(resolve_inputs([str(tmp_path)]), options=ReadOptions(), split_bytes=2)
        assert len(begun) <= inputs._THREADS + 1
    finally:
        release.set()


def test_a_file_name_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"\xff.txt"), "wb") as file:
        file.write(b"a")
    with pytest.raises(UnreadableFileError, match="the name of the file is not UTF-8"):
        resolve_inputs([str(tmp_path)])
