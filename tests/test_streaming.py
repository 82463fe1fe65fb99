"""The graph of a stream of files, driven by `TestStream`: time goes on, files come, come late, come twice, watermarks advance."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.io.fileio import MatchContinuously
from apache_beam.io.filesystem import FileMetadata
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from tests.corpora import make_texts, write_jsonl
from tokenmill import TokenDataset
from tokenmill.errors import DataError, TooManyRejectsError
from tokenmill.pipeline import driver, jobs
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.accounting import MaxRejects
from tokenmill.pipeline.dataset_manifest import frame_dataset
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.runners import run_pipeline
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.pipeline.stream_steps import FilePlan, StreamOptions, plan_file, publish_files, take_whole_files
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms.encode import encode_split, keep_tokenizer

RUN = Execution(reporter(quiet=True), workers=1)
WINDOW_SECONDS = 10
#: Beam's runner for `TestStream`: the other one in process cannot be told what time it is.
STREAM_RUNNER = "--runner=BundleBasedDirectRunner"
ROWS = RowOptions(block=16, eos="<eos>", shuffle=1)


@dataclass(frozen=True)
class Mill:
    """A folder `in` of JSON lines, a tokenizer, and what a stream of that folder into `out` is given."""

    root: Path
    corpus: Corpus
    tokenizer: Tokenizer

    def add(self, name: str, documents: int = 30) -> FileMetadata:
        path = write_jsonl(self.root / "in" / f"{name}.jsonl", make_texts(documents, seed=ord(name[0])))
        return FileMetadata(str(path), path.stat().st_size)

    def options(self, rows: RowOptions = ROWS, out: str = "out", **changes: Any) -> StreamOptions:
        encode = driver.make_encode_options(self.corpus, self.tokenizer, rows)
        frame, folder = frame_dataset(self.tokenizer, self.corpus, encode), self.root / out
        places = {f"{name}_folder": str(folder / "_work" / name) for name in ("shards", "journal", "rejects")}
        encode = replace(encode, tokenizer_path=str(self.root / "tokenizer.json"), **places)
        for place in places.values():
            Path(place).mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_bytes((self.root / "tokenizer.json").read_bytes())
        return StreamOptions(encode, str(self.root / "in"), str(folder), frame, split_bytes=self.corpus.split_bytes, **changes)

    def manifest(self, out: str = "out") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / out / "manifest.json").read_text())
        return found

    def encode_once(self, rows: RowOptions = ROWS) -> dict[str, Any]:
        return driver.encode_corpus(self.corpus, str(self.root / "tokenizer.json"), str(self.root / "once"), RUN, rows=rows)


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    (tmp_path / "in").mkdir()
    write_jsonl(tmp_path / "texts.jsonl", make_texts(40))
    options = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=300, special_tokens=("<eos>",))
    path = str(tmp_path / "tokenizer.json")
    driver.train_on_corpus(Corpus((str(tmp_path / "texts.jsonl"),)), options, path, RUN)
    tokenizer = driver.load_tokenizer(path)
    with keep_tokenizer(path, tokenizer):
        yield Mill(tmp_path, Corpus((str(tmp_path / "in"),), split_bytes=2000), tokenizer)


@beam.typehints.with_output_types(dict[str, Any])
class Note(beam.DoFn):
    """Keeps what was published, in order."""

    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, published: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with open(self._path, "a") as file:
            file.write(json.dumps(published) + "\n")
        yield published


def stream(mill: Mill, events: test_stream.TestStream, options: StreamOptions) -> list[dict[str, Any]]:
    """Run the graph over a stream to its end; what each publication published, in order."""
    notes, build = mill.root / "notes", jobs.watch_graph(events, options, WINDOW_SECONDS)
    run_pipeline(lambda pipeline: build(pipeline) | "Note" >> beam.ParDo(Note(str(notes))), beam_args=[STREAM_RUNNER])
    return [json.loads(line) for line in notes.read_text().splitlines()]


def begin() -> test_stream.TestStream:
    return test_stream.TestStream(coder=FastPrimitivesCoder()).advance_watermark_to(0)


def at(seconds: float, *files: FileMetadata) -> list[TimestampedValue]:
    return [TimestampedValue(file, seconds) for file in files]


def hash_shards(manifest: dict[str, Any]) -> list[str]:
    return [shard["sha256"] for shard in manifest["shards"]]


def test_two_windows_are_two_publications_and_the_shards_those_of_the_bounded_job(mill: Mill) -> None:
    a, b, c = mill.add("a", 60), mill.add("b"), mill.add("c")
    events = begin().add_elements(at(1, c)).advance_watermark_to(5).add_elements(at(7, a)).advance_watermark_to(12)
    events = events.add_elements(at(13, b)).advance_watermark_to_infinity()
    first, second = stream(mill, events, mill.options())
    assert (first["files"], second["files"]) == (["a.jsonl", "c.jsonl"], ["b.jsonl"])
    assert (first["dataset"]["documents"], second["dataset"]["documents"]) == (90, 120)
    once = mill.encode_once()
    assert len(once["shards"]) > 3
    assert hash_shards(mill.manifest()) == hash_shards(once)
    assert [file["fingerprint"] for file in mill.manifest()["files"]] == [file["fingerprint"] for file in once["files"]]
    assert mill.manifest()["totals"] == once["totals"]
    names = [shard["path"] for shard in mill.manifest()["shards"]]
    assert set(first["shards"]) | set(second["shards"]) == set(names) and len(set(names)) == len(names)


def test_a_file_that_comes_late_is_published_late(mill: Mill) -> None:
    b, c = mill.add("b"), mill.add("c", 60)
    events = begin().advance_watermark_to(25).add_elements(at(2, c)).add_elements(at(27, b)).advance_watermark_to_infinity()
    assert [part["files"] for part in stream(mill, events, mill.options()) if part["files"]] == [["c.jsonl"], ["b.jsonl"]]
    assert hash_shards(mill.manifest()) == hash_shards(mill.encode_once())


@pytest.mark.parametrize("order", list(itertools.permutations("abc"))[1:4])
def test_the_end_is_the_same_whatever_came_first(mill: Mill, order: tuple[str, ...]) -> None:
    files = {name: mill.add(name) for name in "abc"}
    stream(mill, begin().add_elements(at(1, *files.values())).advance_watermark_to_infinity(), mill.options())
    expected = mill.manifest()
    other = mill.options(out="other")
    for name in order:
        plan = plan_file(f"{name}.jsonl", files[name].size_in_bytes, other)
        records = {split.index: encode_split(split, mill.tokenizer, other.encode, 0) for split in plan.splits}
        publish_files([plan], records, other)
    assert mill.manifest("other") == expected


def test_the_source_that_looks_again_and_again(mill: Mill) -> None:
    """As far as it goes in process: it gives its files when it ends, so it is given an end."""
    mill.add("a"), mill.add("b")
    now = Timestamp.now()
    files = MatchContinuously(str(mill.root / "in" / "**"), interval=0.2, start_timestamp=now, stop_timestamp=now + 0.4)
    run_pipeline(jobs.watch_graph(files, mill.options(), WINDOW_SECONDS))
    assert hash_shards(mill.manifest()) == hash_shards(mill.encode_once())


def test_what_comes_twice_is_there_once(mill: Mill) -> None:
    a, b = mill.add("a"), mill.add("b")
    events = begin().add_elements(at(1, a)).advance_watermark_to(12).add_elements(at(13, a, b)).advance_watermark_to_infinity()
    published = stream(mill, events, mill.options())
    assert [part["files"] for part in published] == [["a.jsonl"], ["b.jsonl"]]
    assert mill.manifest()["totals"]["documents"] == 60


def test_a_stream_that_begins_again_goes_on_there(mill: Mill) -> None:
    a = mill.add("a")
    stream(mill, begin().add_elements(at(1, a)).advance_watermark_to_infinity(), mill.options())
    before = mill.manifest()
    known = frozenset(shard["key"] for shard in before["shards"])
    b = mill.add("b")
    events = begin().add_elements(at(1, a, b)).advance_watermark_to_infinity()
    published = stream(mill, events, mill.options(published=known))
    assert [part["files"] for part in published] == [["a.jsonl"], ["b.jsonl"]]
    assert not list((mill.root / "out" / "_work" / "shards").iterdir())
    assert hash_shards(mill.manifest()) == hash_shards(mill.encode_once())


def test_other_commands_read_what_a_stream_wrote(mill: Mill) -> None:
    a = mill.add("a")
    (mill.root / "in" / "b.jsonl").write_text('{"text": "x"}\n{"text": 7}\n')
    b = FileMetadata(str(mill.root / "in" / "b.jsonl"), (mill.root / "in" / "b.jsonl").stat().st_size)
    rows = RowOptions(block=16, eos="<eos>")
    stream(
        mill,
        begin().add_elements(at(1, b)).advance_watermark_to(12).add_elements(at(13, a)).advance_watermark_to_infinity(),
        mill.options(rows),
    )
    assert mill.manifest()["totals"]["rejected"] == 1
    said = proof.verify(str(mill.root / "out"), deep=True, source=[str(mill.root / "in")])
    assert "deep" in said
    dataset = TokenDataset(str(mill.root / "out"), batch_size=4)
    assert sum(len(batch["input_ids"]) for batch in dataset) == mill.manifest()["totals"]["blocks"]
    before = hash_shards(mill.manifest())
    driver.encode_corpus(mill.corpus, str(mill.root / "tokenizer.json"), str(mill.root / "out"), RUN, rows=rows, update=True)
    assert set(hash_shards(mill.manifest())) == set(before)


def test_hidden_files_are_left_out(mill: Mill) -> None:
    a, hidden = mill.add("a"), mill.add("_b")
    stream(mill, begin().add_elements(at(1, hidden, a)).advance_watermark_to_infinity(), mill.options())
    assert [file["name"] for file in mill.manifest()["files"]] == ["a.jsonl"]


def test_a_published_file_with_other_contents_ends_the_stream(mill: Mill) -> None:
    a = mill.add("a")
    stream(mill, begin().add_elements(at(1, a)).advance_watermark_to_infinity(), mill.options())
    before = mill.manifest()
    again = mill.add("a", 31)
    with pytest.raises(DataError, match=r"a\.jsonl is published and has changed; give new contents a new name"):
        stream(mill, begin().add_elements(at(1, again)).advance_watermark_to_infinity(), mill.options())
    assert mill.manifest() == before


def test_a_file_that_cannot_be_read_is_not_published_in_part(mill: Mill) -> None:
    a = mill.add("a")
    whole = gzip.compress((mill.root / "in" / "a.jsonl").read_bytes())
    (mill.root / "in" / "b.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    b = FileMetadata(str(mill.root / "in" / "b.jsonl.gz"), len(whole) // 2)
    stream(mill, begin().add_elements(at(1, a)).advance_watermark_to_infinity(), mill.options())
    with pytest.raises(DataError, match=r"b\.jsonl\.gz"):
        stream(mill, begin().add_elements(at(1, b)).advance_watermark_to_infinity(), mill.options())
    assert [file["name"] for file in mill.manifest()["files"]] == ["a.jsonl"]


def test_more_rejects_than_there_may_be_end_the_stream(mill: Mill) -> None:
    path = mill.root / "in" / "a.jsonl"
    path.write_text('{"text": 7}\n{"text": "x"}\n')
    events = begin().add_elements(at(1, FileMetadata(str(path), path.stat().st_size))).advance_watermark_to_infinity()
    with pytest.raises(TooManyRejectsError, match="1 of 2 records were rejected, --max-rejects allows 0"):
        stream(mill, events, mill.options(max_rejects=MaxRejects(0)))
    assert not (mill.root / "out" / "manifest.json").exists()


def test_files_wait_until_all_of_their_splits_are_there(mill: Mill) -> None:
    options = mill.options()
    found = {name: mill.add(name, 60) for name in "ab"}
    a, b = (plan_file(f"{name}.jsonl", found[name].size_in_bytes, options) for name in "ab")
    records: list[dict[str, Any]] = [{"split": split.index} for split in (*a.splits, *b.splits)]
    assert len(a.splits) > 1
    whole, taken, rest = take_whole_files([records[1], a, *records[2:], b])
    assert whole == [b] and sorted(taken) == sorted(split.index for split in b.splits)
    assert take_whole_files([*rest, records[0]]) == ([a], {split.index: {"split": split.index} for split in a.splits}, [])
    assert isinstance(rest[0], FilePlan)
