"""The Arrow coder, and the journal of finished splits."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill.errors import UnreadableFileError
from tokenmill.schemas import WORD_COUNTS
from tokenmill.transforms import journal as journals
from tokenmill.transforms.coders import ArrowTableCoder, register_coders
from tokenmill.transforms.files import list_files, read_file, rename_file, write_file_atomically
from tokenmill.transforms.journal import Journal, Totals
from tokenmill.transforms.sums import add_sum

ROWS = st.lists(st.tuples(st.binary(max_size=4), st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=8)


def to_table(rows: list[tuple[bytes, int, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, WORD_COUNTS.types, strict=True)], WORD_COUNTS)


@given(ROWS, ROWS)
@settings(max_examples=60)
def test_tables_come_back_and_batches_leave_no_trace(first: list[Any], second: list[Any]) -> None:
    coder = ArrowTableCoder()
    cut, whole = pa.concat_tables([to_table(first), to_table(second)]), to_table(first + second)
    encoded = coder.encode(whole)
    decoded = coder.decode(encoded)
    assert decoded.equals(whole) and decoded.schema.equals(WORD_COUNTS, check_metadata=True)
    assert coder.encode(cut) == encoded


def test_a_slice_leaves_its_parent_behind() -> None:
    parent = to_table([(b"w%07d" % row, row, row) for row in range(100_000)])
    part = parent.slice(50_000, 10)
    encoded = ArrowTableCoder().encode(part)
    assert len(encoded) < 2000 < 1_000_000 < len(pickle.dumps(part))
    assert ArrowTableCoder().decode(encoded).equals(part)


@given(ROWS, st.integers(0, 8), st.integers(0, 8))
@settings(max_examples=60)
def test_a_slice_is_encoded_as_a_table_of_its_own(rows: list[Any], start: int, length: int) -> None:
    part = to_table(rows).slice(min(start, len(rows)), length)
    assert ArrowTableCoder().encode(part) == ArrowTableCoder().encode(to_table(rows[start : start + length]))


def test_its_size_is_told_without_encoding() -> None:
    table = to_table([(b"abcd", 1, 2)] * 1000)
    assert ArrowTableCoder().estimate_size(table.slice(0, 10)) == table.slice(0, 10).nbytes < 500


@beam.typehints.with_output_types(tuple[int, pa.Table])
class TableOf(beam.DoFn):
    def process(self, size: int) -> Iterator[tuple[int, pa.Table]]:
        yield size, to_table([(b"x", size, 0)])


def test_a_graph_with_type_hints_carries_the_coder() -> None:
    register_coders()
    assert isinstance(registry.get_coder(pa.Table), ArrowTableCoder)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create([1, 2]) | beam.ParDo(TableOf()) | beam.GroupByKey()
    proto, context = pipeline.to_runner_api(return_context=True)
    carried = [context.coders.get_by_id(identifier) for identifier in proto.components.coders]
    assert ArrowTableCoder() in carried


def test_a_split_is_recorded_under_its_number(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.finish(7, {"split": 7, "bytes": 3, "files": {"é.txt": {"documents": 1}}})
    assert [path.name for path in (tmp_path / "journal").iterdir()] == ["split-00007.json"]
    text = (tmp_path / "journal" / "split-00007.json").read_bytes()
    content = {"split": 7, "bytes": 3, "files": {"é.txt": {"documents": 1}}}
    assert text == json.dumps(add_sum(content), sort_keys=True, separators=(",", ":")).encode() + b"\n" and text.isascii()


def test_a_record_written_twice_is_one_record(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    for _ in range(2):
        journal.finish(0, {"split": 0, "tokens": 5})
    assert journal.records() == {0: {"split": 0, "tokens": 5}}
    assert os.listdir(tmp_path) == ["split-00000.json"]


def test_records_are_in_the_order_of_splits_beyond_five_digits(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    for index in (100_001, 3, 99_999):
        journal.finish(index, {"split": index})
    assert list(journal.records()) == [3, 99_999, 100_001]


def test_a_journal_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    assert Journal(str(tmp_path / "none")).finished() == Totals()


def test_other_files_and_unfinished_ones_are_not_records(tmp_path: Path) -> None:
    for name in ("split-00001.json.tmp-ab", "split-1.json", "split-abcde.json", "manifest.json"):
        (tmp_path / name).write_text("{")
    assert Journal(str(tmp_path)).records() == {}


def test_totals_add_what_the_records_say(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    files = {"a": {"documents": 3, "empty": 1, "rejected": 1}, "b": {"documents": 2}}
    journal.finish(0, {"files": files, "tokens": 40, "bytes": 100, "failure": None})
    assert journal.finished() == Totals(splits=1, documents=5, empty=1, rejected=1, tokens=40, bytes=100)
    journal.finish(1, {"words": 6, "failure": {"error": "UnreadableFileError", "message": "a.gz: cut"}})
    expected = Totals(splits=2, documents=5, empty=1, rejected=1, words=6, tokens=40, bytes=100, failed=1)
    assert journal.finished() == expected


def test_a_poll_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, opened = Journal(str(tmp_path)), []
    monkeypatch.setattr(journals, "read_file", lambda path: opened.append(path) or read_file(path))
    journal.finish(0, {})
    journal.finished()
    journal.finish(1, {})
    assert journal.finished().splits == 2
    assert [os.path.basename(path) for path in opened] == ["split-00000.json", "split-00001.json"]


@pytest.mark.parametrize(("text", "why"), [("{", "Expecting property name"), ("[1]", "no JSON object"), ("\xff", "codec")])
def test_a_broken_record_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "split-00000.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnreadableFileError) as caught:
        Journal(str(tmp_path)).records()
    words = str(caught.value)
    assert words.startswith(f"{path}: not a record of a finished split (") and why in words
    assert words.endswith("; delete it and run again")


def test_a_journal_travels_as_its_folder(tmp_path: Path) -> None:
    journal = pickle.loads(pickle.dumps(Journal(str(tmp_path))))
    assert journal == Journal(str(tmp_path)) and repr(journal) == f"Journal(folder={str(tmp_path)!r})"


@pytest.mark.parametrize("name", ["plain", "a[1]b", "star*", "what?", "é ü"])
def test_folders_are_taken_literally(tmp_path: Path, name: str) -> None:
    journal = Journal(str(tmp_path / name))
    Journal(str(tmp_path / "a1b")).finish(9, {})
    journal.finish(2, {"split": 2})
    assert journal.records() == {2: {"split": 2}}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data.gz"  # no compression by name either
    write_file_atomically(str(path), b"one")
    write_file_atomically(str(path), b"two")
    assert path.read_bytes() == b"two" and os.listdir(tmp_path / "new") == ["data.gz"]


class MemoryFileSystem(FileSystem):
    """A file system that, like HDFS, renames only to names that are free."""

    files: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def scheme(cls) -> str:
        return "tokenmilltest"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath, *paths])

    def create(self, path: str, mime_type: str = "", compression_type: str = "auto") -> Any:
        files = self.files

        class Sink:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *failure: object) -> None: ...

            def write(self, content: bytes) -> None:
                files[path] = content

        return Sink()

    def open(self, path: str, mime_type: str = "", compression_type: str = "auto") -> Any:
        return io.BytesIO(self.files[path])

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        source, target = source_file_names[0], destination_file_names[0]
        if target in self.files or source not in self.files:
            raise BeamIOError("rename refused")
        self.files[target] = self.files.pop(source)

    def exists(self, path: str) -> bool:
        return path in self.files

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            del self.files[path]

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        yield from (FileMetadata(path, len(self.files[path])) for path in self.files if path.startswith(dir_or_prefix))

    def has_dirs(self) -> bool:
        return False

    def split(self, path: str) -> Any: ...
    def mkdirs(self, path: str) -> None: ...
    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None: ...
    def size(self, path: str) -> int: ...
    def last_updated(self, path: str) -> float: ...
    def checksum(self, path: str) -> str: ...
    def metadata(self, path: str) -> Any: ...


@pytest.fixture
def memory() -> Iterator[dict[str, bytes]]:
    MemoryFileSystem.files.clear()
    yield MemoryFileSystem.files


def test_a_journal_lies_on_any_file_system(memory: dict[str, bytes]) -> None:
    journal = Journal("tokenmilltest://run[1]/journal")
    for _ in range(2):
        journal.finish(3, {"tokens": 4})
    memory["tokenmilltest://run1/journal/split-00009.json"] = b"{}"
    assert sorted(memory)[-1] == "tokenmilltest://run[1]/journal/split-00003.json"
    assert journal.finished() == Totals(splits=1, tokens=4)


def test_a_rename_that_fails_for_another_reason_is_an_error(memory: dict[str, bytes]) -> None:
    with pytest.raises(OSError, match="rename refused"):
        rename_file("tokenmilltest://none", "tokenmilltest://target")
    assert list_files("tokenmilltest://empty", "*.json") == []
