"""Measures batches of texts and their encodings by each tokenizer, and adds up the numbers.

The memory depends on the vocabulary and the number of groups, not on the size of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tokenmill.arrow import large_strings, text_buffers
from tokenmill.data import load_class_table
from tokenmill.errors import UsageError
from tokenmill.kernels.measure import BEGINS, ENDS, LEFT_OUT, PADDING, find_differences, measure_documents
from tokenmill.report.sums import LENGTH, OF_TEXTS, OF_TOKENIZER, TEXTS, TOKEN, add_tables, table_of_groups, table_of_keys
from tokenmill.text.normalizers import Normalizer
from tokenmill.tokenizer import Tokenizer

#: Groups are for languages, sources and files. A column of ids would make a table as large as the corpus.
MOST_GROUPS = 10_000
#: The limit on the largest id, because every id up to it has a counter.
MOST_ROWS = 1 << 24
#: How many of the documents that decoding does not restore are kept, and how much of each.
MOST_CHANGES = 5
_EXCERPT_BYTES = 40


@dataclass(frozen=True)
class Change:
    """A document that decoding does not restore: the first difference, with excerpts of the text and of the decoded text.

    `byte` counts from the start of the document.
    """

    document: str
    byte: int
    text: str
    decoded: str


class _Texts(NamedTuple):
    """A batch: `text` uint8[n], `ends` int64[d]; `sums` int64[5, d], with a row for each of `OF_TEXTS`."""

    array: pa.Array
    text: np.ndarray
    ends: np.ndarray
    sums: np.ndarray


class Measurement:
    """Measures texts with several tokenizers. Not thread-safe. Raises `UsageError` for ids that are too large to count.

    >>> measurement = Measurement([tokenizer])
    >>> measurement.add(["one", "two words"], groups=["en", "en"])
    >>> measurement.table()          # rows of sums; tokenmill.report.numbers makes a report of them
    """

    def __init__(self, tokenizers: Sequence[Tokenizer]) -> None:
        self._classes = load_class_table()
        self._parts = [_TokenizerSums(tokenizer) for tokenizer in tokenizers]
        self._normalizers = [tokenizer.normalizer for tokenizer in tokenizers]
        self.clear()

    def clear(self) -> None:
        """Start again with the same tokenizers. This is cheaper than a new `Measurement`."""
        self._groups = _GroupSums()
        for part in self._parts:
            part.clear()

    @property
    def normalizers(self) -> list[Normalizer]:
        """The normalizers of the tokenizers."""
        return self._normalizers

    def add(
        self,
        texts: pa.Array | Sequence[str],
        *,
        groups: str | pa.Array | Sequence[str] = "",
        name_document: Callable[[int], str] = lambda place: f"text {place}",
    ) -> None:
        """Add a batch of valid texts. Raises `UsageError` for more than `MOST_GROUPS` groups.

        `groups` is one name for all texts or a name for each. `name_document` returns the name of a text from its place in the
        batch.
        """
        batch = self._measure(large_strings(texts))
        names, codes = _number_groups(groups)
        self._groups.add(names, codes, batch.sums)
        for part in self._parts:
            part.add(batch, names, codes, name_document)

    def table(self) -> pa.Table:
        """All sums so far, in the schema `REPORT_SUMS`."""
        tables = [table_of_groups(TEXTS, OF_TEXTS, self._groups.sums)]
        for number, part in enumerate(self._parts):
            tables += part.tables(number)
        return add_tables(tables)

    @property
    def changes(self) -> list[list[Change]]:
        """For each tokenizer, the first documents that decoding did not restore."""
        return [list(part.changes) for part in self._parts]

    @property
    def tokens(self) -> int:
        """The number of tokens of the first tokenizer so far."""
        return int(self._parts[0].counts.sum())

    def _measure(self, array: pa.LargeStringArray) -> _Texts:
        text, ends = text_buffers(array)
        sums = np.empty((len(OF_TEXTS), ends.size), np.int64)
        documents, empty, sizes, characters, words = sums
        measure_documents(text, ends, self._classes, characters, words)
        documents[:] = 1
        sizes[:] = np.diff(ends, prepend=0)
        empty[:] = sizes == 0
        return _Texts(array, text, ends, sums)


class _GroupSums:
    """Sums by group. The numbers of each document are added to its group."""

    def __init__(self) -> None:
        self.sums: dict[str, np.ndarray] = {}

    def add(self, names: Sequence[str], codes: np.ndarray | None, rows: np.ndarray) -> None:
        """Add `rows` int64[k, d]. `codes` int64[d] are the places of the documents' groups in `names`, None for one group."""
        if codes is None:
            self._add(names[0], rows.sum(axis=1))
            return
        by_group = np.zeros((rows.shape[0], len(names)), np.int64)
        for row, total in zip(rows, by_group, strict=True):
            np.add.at(total, codes, row)
        for place, name in enumerate(names):
            self._add(name, by_group[:, place])

    def _add(self, name: str, values: np.ndarray) -> None:
        if name in self.sums:
            self.sums[name] += values
            return
        self.sums[name] = values
        check_groups(len(self.sums))


def check_groups(number: int) -> None:
    """Raise `UsageError` for more groups than a report supports."""
    if number > MOST_GROUPS:
        raise UsageError(f"more than {MOST_GROUPS:,} groups; group by a column of few values, such as a language")


class _TokenizerSums:
    """The sums of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.embedding_rows > MOST_ROWS:
            raise UsageError(f"the largest id is {tokenizer.embedding_rows - 1}; a report counts ids up to {MOST_ROWS - 1}")
        self._tokenizer = tokenizer
        self._spelled, self._spelled_ends = _spell_all(tokenizer)
        self._roles = _list_roles(tokenizer)
        unk = tokenizer.model.unk_token
        self._unk = -1 if unk is None else tokenizer.model.vocab[unk]
        self.clear()

    def clear(self) -> None:
        self._groups = _GroupSums()
        self._lengths: dict[int, int] = {}
        self.counts = np.zeros(self._tokenizer.embedding_rows, np.int64)
        self.changes: list[Change] = []

    def add(self, batch: _Texts, names: Sequence[str], codes: np.ndarray | None, name_document: Callable[[int], str]) -> None:
        encoded, unknown = self._tokenizer.encode_known(batch.array)
        ids, offsets = encoded.values.to_numpy(), encoded.offsets.to_numpy()
        known = ~unknown
        lengths = np.diff(offsets)
        differences = self._find_differences(np.maximum(ids, 0) if unknown.any() else ids, offsets, batch)
        rows = np.empty((len(OF_TOKENIZER), known.size), np.int64)
        rows[:4] = batch.sums[[OF_TEXTS.index(name) for name in OF_TOKENIZER[:4]]]
        rows[4:] = lengths, self._count_unknown(ids, offsets), np.ones(known.size), differences >= 0
        self._groups.add(names, codes, rows * known)
        counted = ids if known.all() else ids[np.repeat(known, lengths)]
        self.counts += np.bincount(counted, minlength=self.counts.size)
        for length, documents in zip(*np.unique(lengths[known], return_counts=True), strict=True):
            self._lengths[int(length)] = self._lengths.get(int(length), 0) + int(documents)
        self._keep_changes(encoded, batch, np.flatnonzero((differences >= 0) & known), differences, name_document)

    def tables(self, number: int) -> list[pa.Table]:
        used = np.flatnonzero(self.counts)
        lengths = np.array(sorted(self._lengths.items()), np.int64).reshape(-1, 2)
        return [
            table_of_groups(number, OF_TOKENIZER, self._groups.sums),
            table_of_keys(number, TOKEN, used, self.counts[used]),
            table_of_keys(number, LENGTH, lengths[:, 0], lengths[:, 1]),
        ]

    def _find_differences(self, ids: np.ndarray, offsets: np.ndarray, batch: _Texts) -> np.ndarray:
        differences = np.empty(batch.ends.size, np.int64)
        spelling = self._spelled, self._spelled_ends, self._roles, self._tokenizer.pretokenizer.drops_spaces
        find_differences(ids, offsets, *spelling, batch.text, batch.ends, differences)
        return differences

    def _count_unknown(self, ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        places = np.flatnonzero(ids == self._unk)
        documents = np.searchsorted(offsets, places, side="right") - 1
        return np.bincount(documents, minlength=offsets.size - 1)

    def _keep_changes(
        self,
        encoded: pa.LargeListArray,
        batch: _Texts,
        documents: np.ndarray,
        differences: np.ndarray,
        name_document: Callable[[int], str],
    ) -> None:
        for document in documents[: MOST_CHANGES - len(self.changes)].tolist():
            text = batch.array[document].as_py().encode()
            decoded = self._tokenizer.decode_bytes(encoded[document].as_py(), skip_special_tokens=True)
            self.changes.append(_describe_change(name_document(document), int(differences[document]), text, decoded))


def _describe_change(name: str, byte: int, text: bytes, decoded: bytes) -> Change:
    """Make excerpts from the first difference on. They never begin inside a character of the text."""
    while byte and byte < len(text) and text[byte] & 0xC0 == 0x80:
        byte -= 1
    excerpts = (data[byte : byte + _EXCERPT_BYTES].decode("utf-8", "replace") for data in (text, decoded))
    return Change(name, byte, *excerpts)


def _spell_all(tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all ids end to end (uint8), and their offsets (int64[rows + 1]). Special tokens have no bytes."""
    model = tokenizer.model
    special = {model.vocab[token] for token in model.special_tokens}
    sizes = np.zeros(tokenizer.embedding_rows + 1, np.int64)
    spelled = {token_id: data for token_id, data in sorted(model.spellings.items()) if token_id not in special}
    for token_id, data in spelled.items():
        sizes[token_id + 1] = len(data)
    return np.frombuffer(b"".join([*spelled.values(), bytes(PADDING)]), np.uint8), np.cumsum(sizes)


def _list_roles(tokenizer: Tokenizer) -> np.ndarray:
    """uint8[rows]: the role of each id in decoding, as bits defined in `kernels/measure.py`."""
    model = tokenizer.model
    roles = np.zeros(tokenizer.embedding_rows, np.uint8)
    roles[list(model.word_starts)] |= BEGINS
    roles[list(model.word_ends)] |= ENDS
    roles[[model.vocab[token] for token in model.special_tokens]] |= LEFT_OUT
    return roles


def _number_groups(groups: str | pa.Array | Sequence[str]) -> tuple[list[str], np.ndarray | None]:
    if isinstance(groups, str):
        return [groups], None
    found = (groups if isinstance(groups, pa.Array) else pa.array(groups, pa.string())).dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy()
