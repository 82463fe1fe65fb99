"""The same graph on a runner that knows nothing of us: Beam's portable job service with a pool of external workers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest

from tokenmill.errors import TokenmillError
from tokenmill.pipeline.runners import run_pipeline
from tokenmill.transforms.coders import register_coders
from tokenmill.transforms.files import write_file_atomically
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.splits import Range, SourceFile, Split

SPLITS = [Split(index, (Range(SourceFile("a.txt", "a.txt", "text"), 10 * index, 10 * index + 10),)) for index in range(7)]


@beam.typehints.with_output_types(tuple[int, pa.Table])
class ReadSplit(beam.DoFn):
    """Stands in for a reader: a table for each of three partitions, in two batches, and a record in the journal."""

    def __init__(self, folder: str) -> None:
        self.journal = Journal(folder)

    def process(self, split: Split) -> Iterator[tuple[int, pa.Table]]:
        for partition in range(3):
            rows = pa.table({"word": [b"%d" % (split.index * partition)] * 5, "count": [split.ranges[0].end] * 5})
            yield partition, pa.concat_tables([rows.slice(0, 2), rows.slice(2, 2)])
        self.journal.finish(split.index, {"split": split.index, "words": 12})


class WritePartition(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, group: tuple[int, Iterable[pa.Table]]) -> None:
        tables = list(group[1])
        assert {table["word"].num_chunks for table in tables} == {1}, "tables came pickled: our coder joins their batches"
        merged = pa.concat_tables(tables).group_by("word").aggregate([("count", "sum")]).sort_by("word")
        write_file_atomically(os.path.join(self.folder, f"partition-{group[0]}"), repr(merged.to_pydict()).encode())


def run_in(folder: Path, *, workers: int = 1, beam_args: list[str] | None = None) -> dict[str, bytes]:
    """Run the graph and return all files it left, by name."""
    register_coders()

    def build(pipeline: beam.Pipeline) -> None:
        tables = pipeline | beam.Create(SPLITS) | beam.Reshuffle() | beam.ParDo(ReadSplit(str(folder)))
        _ = tables | beam.GroupByKey() | beam.ParDo(WritePartition(str(folder)))

    run_pipeline(build, workers=workers, beam_args=beam_args or [])
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_a_graph_gives_the_same_files_wherever_it_runs(tmp_path: Path, portable_args: list[str]) -> None:
    folders = [tmp_path / name for name in ("here", "processes", "portable")]
    for folder in folders:
        folder.mkdir()
    here = run_in(folders[0])
    assert len(here) == len(SPLITS) + 3
    assert here["partition-0"] == repr({"word": [b"0"], "count_sum": [4 * sum(range(10, 80, 10))]}).encode()
    assert run_in(folders[1], workers=2) == here
    assert run_in(folders[2], beam_args=portable_args) == here


class Break(beam.DoFn):
    def process(self, number: int) -> Iterator[int]:
        yield 1 // number


@pytest.mark.slow
def test_a_bug_that_shows_elsewhere_is_named(portable_args: list[str]) -> None:
    with pytest.raises(TokenmillError, match=r"unexpected failure.*ZeroDivisionError"):
        run_pipeline(lambda pipeline: pipeline | beam.Create([1, 0]) | beam.ParDo(Break()), beam_args=portable_args)
