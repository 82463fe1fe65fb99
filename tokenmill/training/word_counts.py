"""Word counts: counts the words of documents; combines, sorts and checks tables of word counts.

A table of word counts has the columns of `schemas.WORD_COUNTS`. Between processes, a table is one hash partition of the words of
one split, and `first_seen` is the split's index << 40 | the word's number within the split. On disk, a table is the whole corpus,
sorted, and `first_seen` is dense.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill import schemas
from tokenmill.arrow import large_strings, read_only, text_buffers, wrap_binary
from tokenmill.errors import DataError, UsageError
from tokenmill.kernels import count as kernel
from tokenmill.kernels import tables
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer

SPLIT_SHIFT = 40
MOST_SPLITS = 1 << (63 - SPLIT_SHIFT)
#: The limit on the bytes of all occurrences of words. Below it, the count of a pair cannot overflow an int64.
MOST_PAIRS = 2.0**62
TABLE_WORDS = 1 << 19
ARENA_BYTES = 64 << 20

Partition = tuple[int, pa.Table]


class WordCounter:
    """Counts words, one split after another, in a table of bounded size.

    A full table is output and emptied, so the same word can be output more than once; `combine_counts` adds the parts up.
    """

    def __init__(
        self,
        pretokenizer: PreTokenizer,
        normalizer: Normalizer | None = None,
        *,
        table_words: int = TABLE_WORDS,
        arena_bytes: int = ARENA_BYTES,
    ) -> None:
        self._normalizer = (normalizer or Normalizer()).runner()
        self._scanner = pretokenizer.scanner()
        self._table = tables.allocate_table(table_words, arena_bytes)
        self._keys = np.empty(tables.STAGED * tables.ENTRY, np.uint64)
        self._base = 0
        self.words = 0

    def begin_split(self, index: int) -> None:
        """Start split `index`. Call `drain` at the end of the split before; words not drained by then are dropped.

        Raises `UsageError` for more splits than `first_seen` (int64) has room for.
        """
        if index >= MOST_SPLITS:
            raise UsageError(f"split {index}: a corpus has at most {MOST_SPLITS:,} splits; give a larger --split-mb")
        if self._table.fill.any():  # The split before was abandoned.
            tables.empty_table(self._table)
        self._base = index << SPLIT_SHIFT
        self.words = 0

    def count(self, texts: pa.Array) -> Iterator[Partition]:
        """Count the words of documents (string or large_string).

        Yields the partitions of the table each time it is full.
        """
        for block in self._scanner.blocks(*self._normalizer.normalize(*text_buffers(large_strings(texts)))):
            yield from self._count_block(block.text, block.first, block.word_ends)
            self.words += block.word_ends.size

    def drain(self) -> Iterator[Partition]:
        """Yield the contents of the table as `(partition, table)`, for each partition with words, and empty it.

        Rows are in order of `first_seen`.
        """
        words = int(self._table.fill[tables.ENTRIES_USED])
        slots, seen = np.empty(words, np.int64), np.empty(words, np.int64)
        sizes = kernel.measure_partitions(self._table, schemas.COUNT_PARTITIONS, slots, seen)
        ends, data = np.zeros(words + 1, np.int64), np.empty(int(sizes[:, 1].sum()), np.uint8)
        counts, first_seen = np.empty(words, np.int64), np.empty(words, np.int64)
        kernel.extract_words(self._table, slots[np.argsort(seen)], sizes, ends[1:], data, counts, first_seen)
        tables.empty_table(self._table)
        table = _build_table(wrap_binary(data, ends), counts, first_seen + self._base)
        stops = np.cumsum(sizes[:, 0])
        for partition in np.flatnonzero(sizes[:, 0]).tolist():
            yield partition, table.slice(stops[partition] - sizes[partition, 0], sizes[partition, 0])

    def _count_block(self, text: np.ndarray, first: int, word_ends: np.ndarray) -> Iterator[Partition]:
        word = kernel.count_words(self._table, self._keys, text, first, word_ends, 0, self.words)
        while word < word_ends.size:
            yield from self.drain()
            reached = kernel.count_words(self._table, self._keys, text, first, word_ends, word, self.words)
            if reached == word:
                start = first if word == 0 else int(word_ends[word - 1])
                yield self._count_oversized(text, start, int(word_ends[word]), word)
                reached = kernel.count_words(self._table, self._keys, text, first, word_ends, word + 1, self.words)
            word = reached

    def _count_oversized(self, text: np.ndarray, start: int, end: int, word: int) -> Partition:
        """Make a table for a single word that is too large for the bounded table."""
        partition = int(tables.hash_word(text, start, end) >> np.uint64(40)) % schemas.COUNT_PARTITIONS
        data = wrap_binary(text[start:end].copy(), np.array([0, end - start]))
        return partition, _build_table(data, np.ones(1, np.int64), np.array([self._base + self.words + word]))


def count_corpus(
    batches: Iterable[pa.Array], pretokenizer: PreTokenizer, normalizer: Normalizer | None = None, **room: int
) -> pa.Table:
    """Count the words of a corpus in this process; the table is sorted as on disk.

    `batches`: string or large_string arrays; `room`: the size options of `WordCounter`.
    """
    counter, partitions = WordCounter(pretokenizer, normalizer, **room), defaultdict[int, list[pa.Table]](list)
    counter.begin_split(0)
    for partition, table in chain(chain.from_iterable(map(counter.count, batches)), counter.drain()):
        partitions[partition].append(table)
    # One output of the table contains a word once, so only partitions that were output several times are added up.
    combined = [parts[0] if len(parts) == 1 else combine_counts(parts) for parts in partitions.values()]
    return sort_counts(pa.concat_tables([schemas.WORD_COUNTS.empty_table(), *combined]))


def combine_counts(parts: Iterable[pa.Table]) -> pa.Table:
    """Add up tables: counts are summed, `first_seen` is the minimum. Rows are in the order in which words first appear."""
    rows = pa.concat_tables([schemas.WORD_COUNTS.empty_table(), *parts])
    text, ends = binary_buffers(rows["word"])
    table = tables.allocate_table(ends.size, int(kernel.measure_long_words(ends)))
    sums = kernel.WordSums(
        data=np.empty(text.size, np.uint8),
        offsets=np.zeros(ends.size + 1, np.int64),
        counts=np.empty(ends.size, np.int64),
        first_seen=np.empty(ends.size, np.int64),
    )
    counts, first_seen = (read_only(rows[name].to_numpy()) for name in ("count", "first_seen"))
    distinct = kernel.add_up_words(table, np.empty(tables.STAGED * tables.ENTRY, np.uint64), text, ends, counts, first_seen, sums)
    offsets = sums.offsets[: distinct + 1].copy()
    words = wrap_binary(sums.data[: offsets[-1]].copy(), offsets)
    return _build_table(words, sums.counts[:distinct].copy(), sums.first_seen[:distinct].copy())


def sort_counts(counts: pa.Table) -> pa.Table:
    """Sort as on disk: by count, highest first, then by the word's bytes. `first_seen` becomes dense."""
    counts = counts.combine_chunks()
    seen = counts["first_seen"].to_numpy()
    dense = np.empty(seen.size, np.int64)
    dense[np.argsort(seen)] = np.arange(seen.size)
    counts = counts.set_column(2, schemas.WORD_COUNTS.field("first_seen"), pa.array(dense))
    return counts.take(pa.array(_order_rows(counts))).combine_chunks()


def _order_rows(counts: pa.Table) -> np.ndarray:
    """Row numbers in the order of `sort_counts`. Words are compared by their first eight bytes, and by all bytes if these tie.

    Numbers sort ten times as fast as byte strings.
    """
    numbers, prefixes = counts["count"].to_numpy(), _first_bytes(*binary_buffers(counts["word"]))
    order = np.argsort(prefixes)
    order = order[np.argsort(-numbers[order], kind="stable")]
    numbers, prefixes = numbers[order], prefixes[order]
    follows = np.zeros(order.size + 1, np.bool_)  # whether a row ties with the row before it
    follows[1:-1] = (numbers[1:] == numbers[:-1]) & (prefixes[1:] == prefixes[:-1])
    tied = np.flatnonzero(follows[1:] | follows[:-1])
    ties = pa.table({"run": np.cumsum(~follows)[tied], "word": counts["word"].take(pa.array(order[tied]))})
    order[tied] = order[tied[pc.sort_indices(ties, [("run", "ascending"), ("word", "ascending")]).to_numpy()]]
    return order


def _first_bytes(text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """uint64[w]: the first eight bytes of each word as a number that compares like them. Short words are padded with zeros."""
    padded = np.concatenate([text, np.zeros(8, np.uint8)])
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: ends.size]
    prefixes = np.lib.stride_tricks.sliding_window_view(padded, 8)[starts].view(">u8").ravel().astype(np.uint64)
    missing = np.maximum(8 - (ends - starts), 0).astype(np.uint64) * np.uint64(8)
    return np.where(missing == 64, 0, prefixes >> missing << missing)


def in_corpus_order(counts: pa.Table) -> pa.Table:
    """Sort word counts by first occurrence."""
    return counts.sort_by("first_seen").combine_chunks()


def fingerprint_counts(counts: pa.Table, *, with_order: bool) -> str:
    """The sha256 of sorted word counts. `with_order` includes `first_seen`, which matters only for first-seen ties."""
    digest = hashlib.sha256()
    for array in (
        *binary_buffers(counts["word"]),
        counts["count"].to_numpy(),
        *([counts["first_seen"].to_numpy()] if with_order else []),
    ):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def check_counts(counts: pa.Table, place: str) -> pa.Table:
    """Check word counts from a file and convert them to `schemas.WORD_COUNTS`, in the order of `sort_counts`.

    If there is no column `first_seen`, the rows are taken to be in order of first occurrence. Raises `DataError`, which names
    `place` and the row (counted from 0), for an empty or repeated word and for a count that is not an integer of at least 1.
    """
    if "first_seen" not in counts.column_names:
        counts = counts.append_column("first_seen", pa.array(np.arange(counts.num_rows)))
    if missing := {"word", "count"} - {*counts.column_names}:
        raise DataError(f"{place}: not word counts, there is no column {min(missing)}; columns must be word, count, first_seen")
    columns = [_read_column(counts[name].combine_chunks(), name, place) for name in schemas.WORD_COUNTS.names]
    counts = pa.table(columns, schema=schemas.WORD_COUNTS)
    _refuse_row(place, pc.less(counts["count"], 1), "the count is below 1; leave the row out")
    _refuse_row(place, pc.equal(pc.binary_length(counts["word"]), 0), "the word is empty; leave the row out")
    _refuse_repeats(place, counts["word"], "the word stands in row {} too; add both counts up")
    _refuse_repeats(place, counts["first_seen"], "row {} has the same first_seen; number the rows, or leave the column out")
    if np.dot(counts["count"].to_numpy().astype(np.float64), pc.binary_length(counts["word"]).to_numpy()) > MOST_PAIRS:
        raise DataError(f"{place}: the counts are too large to add up in 64 bits; divide them all")
    return counts if _is_sorted(counts) else sort_counts(counts)


def _read_column(column: pa.Array, name: str, place: str) -> pa.Array:
    """Convert a column to its type in the schema. Words may be text or bytes; counts may be integers or whole floats."""
    target = schemas.WORD_COUNTS.field(name).type
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    is_word = name == "word"
    fits = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    takes = fits if is_word else (pa.types.is_integer, pa.types.is_floating)
    if not any(test(column.type) for test in takes):
        wanted = "text or bytes" if is_word else "whole numbers"
        raise DataError(f"{place}: not word counts, the column {name} is of type {column.type}; it must hold {wanted}")
    _refuse_row(place, pc.is_null(column), f"{name} is null; leave the row out")
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 2.0**63))
        _refuse_row(place, pc.invert(whole), f"{name} is no whole number below 2^63; correct it", column)
    if pa.types.is_uint64(column.type):
        too_large = pc.greater(column, pa.scalar((1 << 63) - 1, pa.uint64()))
        _refuse_row(place, too_large, f"{name} is not below 2^63; correct it", column)
    return column.cast(target)


def _refuse_row(place: str, wrong: pa.Array | pa.ChunkedArray, reason: str, values: pa.Array | None = None) -> None:
    """Raise `DataError` for the first row that is wrong, if any."""
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        shown = "" if values is None else f" ({values[row].as_py()})"
        raise DataError(f"{place}, row {row}: {reason}{shown}")


def _refuse_repeats(place: str, column: pa.ChunkedArray, reason: str) -> None:
    if pc.count_distinct(column).as_py() == len(column):
        return
    first: dict[object, int] = {}
    for row, value in enumerate(column.to_pylist()):
        if first.setdefault(value, row) != row:
            raise DataError(f"{place}, row {row}: {reason.format(first[value])}")


def _is_sorted(counts: pa.Table) -> bool:
    """Whether rows are sorted by count, highest first, then by word; `first_seen` need not be dense."""
    numbers, words = counts["count"].to_numpy(), counts["word"].combine_chunks()
    ties = np.flatnonzero(numbers[1:] == numbers[:-1])
    before, after = words.take(pa.array(ties)), words.take(pa.array(ties + 1))
    return not (numbers[1:] > numbers[:-1]).any() and bool(pc.all(pc.less(before, after), min_count=0).as_py())


def binary_buffers(words: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The buffers of the words in a table column, as `text_buffers` returns them."""
    return text_buffers(words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words)


def _build_table(words: pa.Array, counts: np.ndarray, first_seen: np.ndarray) -> pa.Table:
    return pa.table([words, pa.array(counts), pa.array(first_seen)], schema=schemas.WORD_COUNTS)
