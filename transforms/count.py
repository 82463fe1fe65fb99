"""Counting words: splits in, one file of word counts for each hash partition out.

    splits -> Reshuffle -> CountSplit -> (partition, table) -> combine -> WritePartition -> paths

An element is a split or a table, never a word. A worker's table of words has a fixed size; what leaves it is combined on the
worker already, partition by partition, before it travels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import apache_beam as beam
import pyarrow as pa

from tokenmill import schemas
from tokenmill.errors import DataError
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.word_counts import Partition, WordCounter, combine_counts
from tokenmill.transforms.accounts import SplitAccount
from tokenmill.transforms.coders import ArrowTableCoder
from tokenmill.transforms.files import write_file_atomically
from tokenmill.transforms.groups import GroupWriter, read_group
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.memory import keep_freed_memory
from tokenmill.transforms.read import read_documents
from tokenmill.transforms.rejects import RejectWriter
from tokenmill.transforms.splits import ReadOptions, Split
from tokenmill.transforms.stores import FileSystems

#: Tables wait to be added up until they hold this many rows, or as many as are added up already.
PENDING_ROWS = 1 << 18


@dataclass(frozen=True)
class CountOptions:
    """What a count job needs: how to read, normalize and cut words, and where journal, partitions, rejects and groups go."""

    read: ReadOptions
    pretokenizer: PreTokenizer
    normalizer: Normalizer = field(default_factory=Normalizer)
    journal_folder: str = ""
    partitions_folder: str = ""
    rejects_folder: str = ""
    groups_folder: str = ""


class CountWords(beam.PTransform):
    """PCollection of `Split` -> PCollection of the paths of partition files (Arrow IPC, `schemas.WORD_COUNTS`)."""

    def __init__(self, options: CountOptions, splits: int) -> None:
        super().__init__()
        self._options, self._splits = options, splits

    def expand(self, splits: beam.PCollection) -> beam.PCollection:
        return (
            splits
            | "Spread splits" >> beam.Reshuffle()
            | "Count words" >> beam.ParDo(CountSplit(self._options, self._splits)).with_output_types(tuple[int, pa.Table])
            | "Combine counts" >> beam.CombinePerKey(CombineCounts())
            | "Write partitions" >> beam.ParDo(WritePartition(self._options.partitions_folder))
        )


class CountSplit(beam.DoFn):
    """Counts the words of one split."""

    def __init__(self, options: CountOptions, splits: int) -> None:
        self._options, self._splits = options, splits

    def setup(self) -> None:
        keep_freed_memory()
        self._counter = WordCounter(self._options.pretokenizer, self._options.normalizer)

    def process(self, split: Split) -> Iterator[tuple[int, pa.Table]]:
        yield from count_split(split, self._counter, self._options, self._splits)


def warm_up_counting(pretokenizer: PreTokenizer, normalizer: Normalizer) -> None:
    """Load in advance the kernels that the first split would have to wait for."""
    counter = WordCounter(pretokenizer, normalizer)
    counter.begin_split(0)
    for _ in (*counter.count(pa.array([" "], pa.large_string())), *counter.drain()):
        pass


def count_split(split: Split, counter: WordCounter, options: CountOptions, splits: int) -> Iterator[Partition]:
    """Read and count one split; gives `(partition, table)`, and enters the split into the journal when all is given.

    What is given is also written to a file; a split that is in the journal already is given from its file. Data that cannot be
    read becomes a failure in the journal: the driver ends the run with all of them at once.
    """
    name = schemas.group_name(split.index, splits)
    path = FileSystems.join(options.groups_folder, name)
    if Journal(options.journal_folder).has(split.index):
        yield from read_group(path, split.index)
        return
    account = SplitAccount(split, made_ids=options.read.id_column is None)
    with (
        GroupWriter(path, split.index) as group,
        RejectWriter(FileSystems.join(options.rejects_folder, schemas.reject_name(split.index, splits))) as rejects,
    ):
        for partition, table in _count_documents(split, counter, options, account, rejects):
            group.write(partition, table)
            yield partition, table
    described = account.describe_rejects() | rejects.describe()
    record = account.record(words=counter.words, group={"path": name, **group.describe()}, **described)
    Journal(options.journal_folder).finish(split.index, record)


def _count_documents(
    split: Split, counter: WordCounter, options: CountOptions, account: SplitAccount, rejects: RejectWriter
) -> Iterator[Partition]:
    counter.begin_split(split.index)
    try:
        for batch in read_documents(split, options.read, options.normalizer):
            account.add_batch(batch)
            rejects.write(batch.rejects)
            yield from counter.count(batch.all_texts)
    except DataError as error:
        account.fail(error)
    yield from counter.drain()


class CombineCounts(beam.CombineFn):
    """Adds up the tables of one partition. An accumulator is one table; its first batch is added up already, the others wait."""

    def create_accumulator(self) -> pa.Table:
        return schemas.WORD_COUNTS.empty_table()

    def add_input(self, accumulator: pa.Table, table: pa.Table) -> pa.Table:
        return add_table(accumulator, table)

    def merge_accumulators(self, accumulators: Iterable[pa.Table]) -> pa.Table:
        return combine_counts(accumulators)

    def compact(self, accumulator: pa.Table) -> pa.Table:
        return combine_counts([accumulator])

    def extract_output(self, accumulator: pa.Table) -> pa.Table:
        return combine_counts([accumulator])

    def get_accumulator_coder(self) -> ArrowTableCoder:
        return ArrowTableCoder()


def add_table(accumulator: pa.Table, table: pa.Table) -> pa.Table:
    """Append a table; add up when what waits has grown as large as what is added up already, so that a row is moved seldom."""
    together = pa.concat_tables([accumulator, table])
    combined = len(together["word"].chunk(0))
    if together.num_rows - combined > max(PENDING_ROWS, combined):
        return combine_counts([together])
    return together


class WritePartition(beam.DoFn):
    """Writes the counts of one partition to a file and gives its path."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, partition: tuple[int, pa.Table]) -> Iterator[str]:
        yield write_partition(self._folder, *partition)


def write_partition(folder: str, partition: int, counts: pa.Table) -> str:
    """Write `partition-00003.arrow`; doing it again replaces it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schemas.WORD_COUNTS) as writer:
        writer.write_table(counts)
    path: str = FileSystems.join(folder, f"partition-{partition:05d}.arrow")
    write_file_atomically(path, sink.getvalue().to_pybytes())
    return path
