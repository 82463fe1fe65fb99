"""Encoding: splits in, token shards out: one of each split, several where it holds too much text, none where it has no row.

    splits -> Reshuffle -> EncodeSplit -> records

The split's own DoFn reads, encodes, writes its shards under temporary names and renames them: no document crosses a stage
boundary. What the driver needs to know of them is the split's record in the journal.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from tokenmill import schemas
from tokenmill.arrow import text_buffers
from tokenmill.dataset.packing import Packing
from tokenmill.errors import DataError
from tokenmill.formats import recognition
from tokenmill.tokenizer import Tokenizer
from tokenmill.transforms.accounts import SplitAccount, join_records
from tokenmill.transforms.files import delete_files, read_file
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.memory import keep_freed_memory
from tokenmill.transforms.pack import BlockWriter
from tokenmill.transforms.parts import PartReader, RowsHeld
from tokenmill.transforms.read import DocumentBatch, read_documents
from tokenmill.transforms.rejects import RejectWriter
from tokenmill.transforms.shape import RowShape, RowShaper
from tokenmill.transforms.shuffle import ShuffledWriter
from tokenmill.transforms.splits import Range, ReadOptions, Reject, Split
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.write import ShardWriter

#: What documents are written to: a shard of documents, of shuffled documents, or of blocks.
DocumentWriter = ShardWriter | ShuffledWriter | BlockWriter

_KEPT: dict[str, Tokenizer] = {}


@dataclass(frozen=True)
class EncodeOptions:
    """What an encode job needs: how to read, the tokenizer's file, and where shards, journal and rejects go.

    `packing` writes blocks instead of documents, `shuffle` is the seed of an order of both; `shape`: what rows of documents are;
    `shard_bytes`: how much text a shard holds at most, unless a single document is longer; None for any.
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
    shard_bytes: int | None = None


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


def encode_split(
    split: Split, tokenizer: Tokenizer, options: EncodeOptions, splits: int, *, first_part: int = 0
) -> dict[str, Any]:
    """Read and encode one split, write its shards and its rejects, and enter it into the journal; returns the record.

    `record["shards"]` describes each part of the split, those without a row too: they have no `path`. Data that cannot be read
    becomes a failure in the journal and leaves no shard: the driver ends the run with all of them at once. `first_part` is the
    number of the first part, for one that is made again.
    """
    reader = PartReader(read_documents(split, options.read, tokenizer.normalizer), options.shard_bytes)
    records: list[dict[str, Any]] = []
    try:
        while not reader.is_done and not (records and records[-1]["failure"]):
            number = first_part + len(records)
            records.append(encode_part(split, number, reader.part(), tokenizer, options, splits))
    except BaseException:
        _delete_parts(records, options, rejects=True)
        raise
    if records[-1]["failure"]:
        _delete_parts(records, options)
        record = join_records(records, tokens=0, shards=[])
    else:
        tokens = sum(part["shard"]["tokens"] for part in records)
        record = join_records(records, tokens=tokens, shards=[_describe_part(part, len(records) > 1) for part in records])
    Journal(options.journal_folder).finish(split.index, record)
    return record


def encode_part(
    split: Split, number: int, batches: Iterator[DocumentBatch], tokenizer: Tokenizer, options: EncodeOptions, splits: int
) -> dict[str, Any]:
    """Write one shard of a split and its rejects; returns a record as the journal's, with what the manifest says as `shard`."""
    name = schemas.split_shard_name(split.index, splits, number)
    account, shaper, held = (
        SplitAccount(split, made_ids=options.read.id_column is None),
        RowShaper(tokenizer, options.shape),
        RowsHeld(),
    )
    shard: dict[str, Any] = {"path": name, "source": [describe_range(part) for part in split.ranges]}
    with RejectWriter(FileSystems.join(options.rejects_folder, schemas.reject_name_of(name))) as rejects:
        try:
            path = FileSystems.join(options.shards_folder, name)
            with open_writer(path, describe_shard(tokenizer, options, shard, number), options, split, number) as writer:
                for batch in batches:
                    account.add_batch(batch)
                    held.add(batch)
                    rejects.write(encode_documents(batch, tokenizer, writer, account, shaper))
            shard |= {"documents": account.encoded} | writer.describe() | account.lost_words() | account.describe_rejects()
            shard |= shaper.describe() | rejects.describe()
        except DataError as error:
            account.fail(error)
    return account.record(shard=shard, part=number, holds=held.describe())


def _describe_part(record: Mapping[str, Any], is_one_of_several: bool) -> dict[str, Any]:
    """A part as the split's record has it: what the manifest says of its shard, and the accounts of its files."""
    shard, files = dict(record["shard"]), dict(record["files"])
    if is_one_of_several:
        shard |= {"part": record["part"], "holds": record["holds"]}
        files = {name: account for name, account in files.items() if account["documents"]}
    if not schemas.count_rows(shard):
        rejects = schemas.reject_name_of(shard["path"])
        shard = {name: value for name, value in shard.items() if name not in ("path", "bytes", "sha256")}
        shard |= {"rejects": rejects} if any(account["rejected"] for account in files.values()) else {}
    return {**shard, "files": files}


def _delete_parts(records: Sequence[Mapping[str, Any]], options: EncodeOptions, *, rejects: bool = False) -> None:
    """Delete the shards of a split that is not read to its end, and their rejects if nobody is to see them."""
    names = [part["shard"]["path"] for part in records]
    delete_files(FileSystems.join(options.shards_folder, name) for name in names)
    if rejects:
        delete_files(FileSystems.join(options.rejects_folder, schemas.reject_name_of(name)) for name in names)


def open_writer(path: str, metadata: dict[str, str], options: EncodeOptions, split: Split, number: int = 0) -> DocumentWriter:
    """What the documents of part `number` of a split are written with."""
    part = (number,) if number else ()
    seed = None if options.shuffle is None else (options.shuffle, number_split(split), *part)
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
    lengths, sizes = [made.lengths for made in texts], [np.diff(text_buffers(one)[1], prepend=0) for one in batch.texts]
    if lost.any():
        sizes = [size[~lost] for size in sizes]
        ids, texts = ids.filter(pa.array(~lost)), [made.filter(~lost) for made in texts]
    places = np.flatnonzero(lost).tolist()
    rejects = [describe_lost(batch, place, unknown, lengths, tokenizer, shaper) for place in places]
    for reject in rejects:
        account.reject(reject)
    writer.write(shaper.shape(ids, texts, sizes))
    return heapq.merge(batch.rejects, rejects, key=attrgetter("row"))


def describe_lost(
    batch: DocumentBatch,
    place: int,
    unknown: Sequence[np.ndarray],
    lengths: Sequence[np.ndarray],
    tokenizer: Tokenizer,
    shaper: RowShaper,
) -> Reject:
    """The reject for a document that holds a character without an id (`unknown` says in which text), or cannot be cut."""
    where = named = f"document {batch.documents['doc_id'][place].as_py()}"
    text = batch.documents["text"][place].as_py().encode()
    number = next((number for number, found in enumerate(unknown) if found[place]), None)
    if number is None:
        reason = f"{where}: {shaper.describe_crowded([int(counts[place]) for counts in lengths])}"
    else:
        where += ", second text" if number else ""
        reason = tokenizer.describe_lost(batch.texts[number].slice(place, 1), where, shaper.allow_special)
    return Reject(batch.file, int(batch.rows[place]), -1, reason, text, place=named)


def describe_range(part: Range) -> dict[str, Any]:
    """A range as the manifest and the shard's footer name it."""
    return {"file": part.file.name, "start": part.start, "end": part.end, "first_row": part.first_row, "rows": part.rows}


def describe_shard(tokenizer: Tokenizer, options: EncodeOptions, shard: dict[str, Any], number: int = 0) -> dict[str, str]:
    """The footer of a shard: what made it, the part of its source if not the first, and what an Embedding layer must know."""
    packed = {} if options.packing is None else {"tokenmill.packing": json.dumps(options.packing.describe(), ensure_ascii=False)}
    return {
        **packed,
        "tokenmill.version": str(schemas.DATASET_VERSION),
        "tokenmill.tokenizer_sha256": options.tokenizer_sha256,
        "tokenmill.vocab_size": str(len(tokenizer)),
        "tokenmill.embedding_rows": str(tokenizer.embedding_rows),
        "tokenmill.source": json.dumps(shard["source"], ensure_ascii=False),
        **({"tokenmill.part": str(number)} if number else {}),
    }
