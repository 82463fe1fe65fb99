"""Measuring for a report: splits in, one table of sums out.

    splits -> Reshuffle -> MeasureSplit -> tables of sums -> combine -> WriteSums -> path

A table of sums has some rows for each token that was used and for each group: it does not grow with the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import apache_beam as beam
import pyarrow as pa

from tokenmill.errors import DataError
from tokenmill.report.measure import Measurement
from tokenmill.report.sums import add_tables
from tokenmill.schemas import REPORT_SUMS
from tokenmill.transforms.accounts import SplitAccount
from tokenmill.transforms.coders import ArrowTableCoder
from tokenmill.transforms.encode import open_tokenizer
from tokenmill.transforms.files import write_file_atomically
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.memory import keep_freed_memory
from tokenmill.transforms.read import DocumentBatch, read_documents
from tokenmill.transforms.splits import ReadOptions, Split


@dataclass(frozen=True)
class ReportOptions:
    """What a report job needs: how to read, the tokenizers' files, where its journal and its sums go.

    `by`: what the groups are, None for none. Groups of a column are read as ids: `read.id_column` names it.
    """

    read: ReadOptions
    tokenizer_paths: tuple[str, ...]
    by: Literal["file", "column"] | None
    journal_folder: str
    sums_path: str


class MeasureDocuments(beam.PTransform):
    """PCollection of `Split` -> PCollection of the path of the file of sums (Arrow IPC, `schemas.REPORT_SUMS`)."""

    def __init__(self, options: ReportOptions) -> None:
        super().__init__()
        self._options = options

    def expand(self, splits: beam.PCollection) -> beam.PCollection:
        return (
            splits
            | "Spread splits" >> beam.Reshuffle()
            | "Measure" >> beam.ParDo(MeasureSplit(self._options)).with_output_types(pa.Table)
            | "Add up" >> beam.CombineGlobally(AddSums())
            | "Write sums" >> beam.ParDo(WriteSums(self._options.sums_path))
        )


class MeasureSplit(beam.DoFn):
    """Measures one split."""

    def __init__(self, options: ReportOptions) -> None:
        self._options = options

    def setup(self) -> None:
        keep_freed_memory()
        self._measurement = Measurement([open_tokenizer(path) for path in self._options.tokenizer_paths])

    def process(self, split: Split) -> Iterator[pa.Table]:
        yield measure_split(split, self._measurement, self._options)


def measure_split(split: Split, measurement: Measurement, options: ReportOptions) -> pa.Table:
    """Read and measure one split, and enter it into the journal; returns its sums.

    Data that cannot be read becomes a failure in the journal: the driver ends the run with all of them at once.
    """
    account = SplitAccount(split, made_ids=options.read.id_column is None)
    measurement.clear()
    try:
        for batch in read_documents(split, options.read, *measurement.normalizers):
            account.add_batch(batch)
            measure_documents(batch, measurement, options)
    except DataError as error:
        account.fail(error)
    changes = [[asdict(change) for change in changes] for changes in measurement.changes]
    record = account.record(tokens=measurement.tokens, changes=changes, **account.describe_rejects())
    Journal(options.journal_folder).finish(split.index, record)
    return measurement.table()


def measure_documents(batch: DocumentBatch, measurement: Measurement, options: ReportOptions) -> None:
    """Add a batch to the sums, each document to its group."""
    ids = batch.documents["doc_id"]

    def name_document(place: int) -> str:
        return f"{batch.file}:{batch.rows[place]}" if options.by == "column" else ids[place].as_py()

    groups = {None: "", "file": batch.file, "column": ids}[options.by]
    measurement.add(batch.documents["text"], groups=groups, name_document=name_document)


class AddSums(beam.CombineFn):
    """Adds up tables of sums."""

    def create_accumulator(self) -> pa.Table:
        return REPORT_SUMS.empty_table()

    def add_input(self, accumulator: pa.Table, table: pa.Table) -> pa.Table:
        return add_tables([accumulator, table])

    def merge_accumulators(self, accumulators: Iterable[pa.Table]) -> pa.Table:
        return add_tables(accumulators)

    def extract_output(self, accumulator: pa.Table) -> pa.Table:
        return accumulator

    def get_accumulator_coder(self) -> ArrowTableCoder:
        return ArrowTableCoder()


class WriteSums(beam.DoFn):
    """Writes the sums to a file and gives its path; doing it again replaces it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, sums: pa.Table) -> Iterator[str]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, sums.schema) as writer:
            writer.write_table(sums)
        write_file_atomically(self._path, sink.getvalue().to_pybytes())
        yield self._path
