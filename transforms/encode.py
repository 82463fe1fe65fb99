"""Encoding: splits in, one token shard for each out.

    splits -> Reshuffle -> EncodeSplit -> records

The split's own DoFn reads, encodes, writes its shard under a temporary name and renames it: no document crosses a stage boundary.
What the driver needs to know of a shard is its record in the journal.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from tokenmill import schemas
from tokenmill.errors import DataError
from tokenmill.formats import recognition
from tokenmill.packing import Packing
from tokenmill.tokenizer import Tokenizer
from transforms.accounts import SplitAccount
from transforms.files import read_file
from transforms.journal import Journal
from transforms.memory import keep_freed_memory
from transforms.pack import BlockWriter
from transforms.read import DocumentBatch, read_documents
from transforms.rejects import RejectWriter
from transforms.shape import RowShape, RowShaper
from transforms.shuffle import ShuffledWriter
from transforms.splits import Range, ReadOptions, Reject, Split
from transforms.write import ShardWriter

#: What documents are written to: a shard of documents, of shuffled documents, or of blocks.
DocumentWriter = ShardWriter | ShuffledWriter | BlockWriter

_KEPT: dict[str, Tokenizer] = {}


@dataclass(frozen=True)
class EncodeOptions:
    """What an encode job needs: how to read, the tokenizer's file, and where shards, journal and rejects go.

    `packing` writes blocks instead of documents, `shuffle` is the seed of an order of both; `shape`: what rows of documents are.
    """

    read: ReadOptions
    tokenizer_path: str
    tokenizer_sha256: str
    shards_folder: str = ""
    journal_folder: str = ""
    rejects_folder: str = ""
    packing: Packing | None = None
    shuffle: int | None = None
    shape: RowShape = field(default_factory=RowShape)


class EncodeDocuments(beam.PTransform):
    """PCollection of `Split` -> PCollection of the records of their shards."""

    def __init__(self, options: EncodeOptions, splits: int) -> None:
        super().__init__()
        self._options, self._splits = options, splits

    def expand(self, splits: beam.PCollection) -> beam.PCollection:
        return (
            splits
            | "Spread splits" >> beam.Reshuffle()
            | "Encode" >> beam.ParDo(EncodeSplit(self._options, self._splits)).with_output_types(dict[str, Any])
        )


class EncodeSplit(beam.DoFn):
    """Encodes one split into its shard."""

    def __init__(self, options: EncodeOptions, splits: int) -> None:
        self._options, self._splits = options, splits

    def setup(self) -> None:
        keep_freed_memory()
        self._tokenizer = open_tokenizer(self._options.tokenizer_path)

    def process(self, split: Split) -> Iterator[dict[str, Any]]:
        yield encode_split(split, self._tokenizer, self._options, self._splits)


def open_tokenizer(path: str) -> Tokenizer:
    """Load a tokenizer from any Beam file system, or take the one that is kept under this path."""
    if path in _KEPT:
        return _KEPT[path]
    return recognition.loads(read_file(path))


@contextlib.contextmanager
def keep_tokenizer(path: str, tokenizer: Tokenizer) -> Iterator[None]:
    """Spare this process, and those forked from it, the loading of a tokenizer that is there already."""
    _KEPT[path] = tokenizer
    try:
        yield
    finally:
        del _KEPT[path]


def encode_split(split: Split, tokenizer: Tokenizer, options: EncodeOptions, splits: int) -> dict[str, Any]:
    """Read and encode one split, write its shard and its rejects, and enter it into the journal; returns the record.

    Data that cannot be read becomes a failure in the journal and leaves no shard: the driver ends the run with all of them at
    once.
    """
    name = schemas.shard_name(split.index, splits)
    account = SplitAccount(split, made_ids=options.read.id_column is None)
    shaper = RowShaper(tokenizer, options.shape)
    shard: dict[str, Any] = {"path": name, "source": [describe_range(part) for part in split.ranges]}
    with RejectWriter(FileSystems.join(options.rejects_folder, schemas.reject_name(split.index, splits))) as rejects:
        try:
            path = FileSystems.join(options.shards_folder, name)
            with open_writer(path, describe_shard(tokenizer, options, shard), options, split) as writer:
                for batch in read_documents(split, options.read, tokenizer.normalizer):
                    account.add_batch(batch)
                    rejects.write(encode_documents(batch, tokenizer, writer, account, shaper))
            shard |= {"documents": account.encoded} | writer.describe() | account.lost_words() | account.describe_rejects()
            shard |= shaper.describe()
        except DataError as error:
            account.fail(error)
    record = account.record(tokens=shard.get("tokens", 0), shard=shard)
    Journal(options.journal_folder).finish(split.index, record)
    return record


def open_writer(path: str, metadata: dict[str, str], options: EncodeOptions, split: Split) -> DocumentWriter:
    """What the documents of a split are written with."""
    seed = None if options.shuffle is None else (options.shuffle, number_split(split))
    if options.packing is not None:
        return BlockWriter(path, metadata, options.packing, seed)
    shard = ShardWriter(path, metadata, options.shape.schema)
    return shard if seed is None else ShuffledWriter(shard, seed)


def number_split(split: Split) -> int:
    """A number of 64 bits that tells splits apart: made of what they are, not of their place, which new files may change."""
    ranges = json.dumps([describe_range(part) for part in split.ranges], sort_keys=True)
    return int.from_bytes(hashlib.sha256(ranges.encode()).digest()[:8], "little")


def encode_documents(
    batch: DocumentBatch,
    tokenizer: Tokenizer,
    writer: DocumentWriter,
    account: SplitAccount,
    shaper: RowShaper | None = None,
) -> Iterator[Reject]:
    """Encode a batch into the shard; documents with a character that has no id, and pairs that cannot be cut, are rejects.

    Gives all rejects of the batch in the order of their rows, the reader's too.
    """
    if not batch.documents.num_rows:
        return iter(batch.rejects)
    shaper, ids = shaper or RowShaper(tokenizer, RowShape()), batch.documents["doc_id"]
    texts = [shaper.tokenize(one) for one in batch.texts]
    for made in texts:
        account.lose_words(unknown_words=made.encoded.unknown_words, long_words=made.encoded.long_words)
    crowded = shaper.find_crowded(texts)
    lost = np.logical_or.reduce([crowded, *(made.encoded.unknown for made in texts)])
    unknown = [made.encoded.unknown for made in texts]
    if lost.any():
        ids, texts = ids.filter(pa.array(~lost)), [made.filter(~lost) for made in texts]
    rejects = [describe_lost(batch, place, unknown, tokenizer, shaper) for place in np.flatnonzero(lost).tolist()]
    for reject in rejects:
        account.reject(reject)
    writer.write(shaper.shape(ids, texts))
    return heapq.merge(batch.rejects, rejects, key=attrgetter("row"))


def describe_lost(
    batch: DocumentBatch, place: int, unknown: Sequence[np.ndarray], tokenizer: Tokenizer, shaper: RowShaper
) -> Reject:
    """The reject for a document that holds a character without an id (`unknown` says in which text), or cannot be cut."""
    where = named = f"document {batch.documents['doc_id'][place].as_py()}"
    text = batch.documents["text"][place].as_py().encode()
    number = next((number for number, found in enumerate(unknown) if found[place]), None)
    if number is None:
        reason = f"{where}: one of its texts leaves no room for the other; choose --truncate longest_first, or longer rows"
    else:
        where += ", second text" if number else ""
        reason = tokenizer.describe_lost(batch.texts[number].slice(place, 1), where, shaper.allow_special)
    return Reject(batch.file, int(batch.rows[place]), -1, reason, text, place=named)


def describe_range(part: Range) -> dict[str, Any]:
    """A range as the manifest and the shard's footer name it."""
    return {"file": part.file.name, "start": part.start, "end": part.end, "first_row": part.first_row, "rows": part.rows}


def describe_shard(tokenizer: Tokenizer, options: EncodeOptions, shard: dict[str, Any]) -> dict[str, str]:
    """The footer of a shard: what made it, and what an Embedding layer must know."""
    packed = {} if options.packing is None else {"tokenmill.packing": json.dumps(options.packing.describe(), ensure_ascii=False)}
    return {
        **packed,
        "tokenmill.version": str(schemas.DATASET_VERSION),
        "tokenmill.tokenizer_sha256": options.tokenizer_sha256,
        "tokenmill.vocab_size": str(len(tokenizer)),
        "tokenmill.embedding_rows": str(tokenizer.embedding_rows),
        "tokenmill.source": json.dumps(shard["source"], ensure_ascii=False),
    }
