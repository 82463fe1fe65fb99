"""Every Arrow schema, column name and format version of tokenmill, on one page.

A newcomer starts here: these are the shapes of everything that crosses a line of the flow

    documents -> word counts -> (merge loop) -> tokenizer.json -> token shards
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

TOKENIZER_FORMAT = "tokenmill"
TOKENIZER_VERSION = 1
WORD_COUNTS_FORMAT = "tokenmill-word-counts"
WORD_COUNTS_VERSION = 1
DATASET_FORMAT = "tokenmill-dataset"
DATASET_VERSION = 1
REPORT_FORMAT = "tokenmill-report"
REPORT_VERSION = 1

#: A batch of documents as the readers give it: a few MiB of text, in corpus order.
DOCUMENTS = pa.schema([("doc_id", pa.string()), ("text", pa.large_string())])

#: The second text of a document, where the job reads pairs; it stands behind the columns of `DOCUMENTS`.
SECOND_TEXT = pa.field("pair", pa.large_string())

#: Word counts: of one partition between processes, and of the whole corpus on disk. `first_seen` orders words by their first
#: occurrence in the corpus; on disk it is dense (0 .. words - 1), so that it does not depend on how the corpus was split.
WORD_COUNTS = pa.schema(
    [
        pa.field("word", pa.large_binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("first_seen", pa.int64(), nullable=False),
    ]
)

#: A token shard. One row per document, empty documents too; ids are int32, what an Embedding layer takes as they are.
TOKENS = pa.schema([pa.field("doc_id", pa.string()), pa.field("input_ids", pa.list_(pa.int32()))])

#: What options add to a token shard: lists as long as `input_ids`. Masks and types are small numbers, and int8.
TOKEN_MASK = pa.list_(pa.int8())

#: Where in its text each token begins, and where it ends, in bytes or characters: two columns of plain lists.
TOKEN_OFFSETS = ("offset_starts", "offset_ends")
TOKEN_PLACE = pa.list_(pa.int32())

#: What shards and totals count of shaped rows: tokens and documents that were cut, special tokens found inside texts; and of rows
#: that are cut or filled up, each token of a document once (its own and its template's, no padding), and the bytes of its text.
SHAPED = ("cut_tokens", "cut_documents", "special_tokens_found", "kept_tokens", "kept_bytes")

#: What options add to packed blocks, a number for each token: 1 for tokens and 0 for padding; the part of the block that a token
#: belongs to, from 1 on, 0 for padding; the place of a token in its part, 0 for padding.
BLOCK_COLUMNS = {"attention_mask": pa.int8(), "segment_ids": pa.int32(), "position_ids": pa.int32()}

#: The numbers of a report, all of them sums; `tokenmill/report/sums.py` shows rows.
REPORT_SUMS = pa.schema(
    [("tokenizer", pa.int32()), ("sum", pa.string()), ("group", pa.string()), ("key", pa.int64()), ("value", pa.int64())]
)

#: How many hash partitions the word counts of one split are cut into. Fixed, so that no result depends on the workers.
COUNT_PARTITIONS = 16

#: The name of the file whose presence makes a folder a dataset (or a folder of word counts). Written last, by rename.
MANIFEST = "manifest.json"


def count_rows(shard: Mapping[str, Any]) -> int:
    """Rows of a shard, by its entry in the manifest: its blocks, or its documents and what of them overflows into further rows.

    >>> count_rows({"documents": 2, "rows": 5})
    5
    """
    return int(shard["blocks"] if "blocks" in shard else shard.get("rows", shard["documents"]))


def list_published(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of the files that a manifest answers for: the shards of a dataset, or the parts of word counts."""
    return [*manifest.get("shards", []), *manifest.get("parts", [])]


def list_entries(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a dataset in the order of the corpus: its shards, and between them the parts that gave no row, `unwritten`."""
    shards, unwritten = manifest["shards"], manifest.get("unwritten", [])
    entries: list[Mapping[str, Any]] = []
    for number, shard in enumerate([*shards, None]):
        entries += [entry for entry in unwritten if entry["shards_before"] == number]
        entries += [] if shard is None else [shard]
    return entries


def rejects_of(entry: Mapping[str, Any]) -> str:
    """Name of the file of a part's rejects, where there are any."""
    return reject_name_of(entry["path"]) if "path" in entry else str(entry.get("rejects", ""))


def shard_name(index: int, shards: int) -> str:
    """Name of a shard file: `shard_name(0, 64)` is `part-00000-of-00064.parquet`."""
    return f"part-{index:05d}-of-{shards:05d}.parquet"


def split_shard_name(index: int, splits: int, number: int) -> str:
    """Name of the shard of a split's part `number` while the job runs.

    `split_shard_name(3, 64, 2)` is `part-00003-of-00064.2.parquet`; for part 0 there is no `.2`. A stream says that there are 0
    splits, since it does not know better: then this is also the name that the shard keeps.
    """
    if not splits:
        return shard_name(index + number, splits)
    return shard_name(index, splits).replace(".parquet", f".{number}.parquet" if number else ".parquet")


def group_name(index: int, groups: int) -> str:
    """Name of the word counts of one split: `group_name(0, 64)` is `group-00000-of-00064.arrow`."""
    return f"group-{index:05d}-of-{groups:05d}.arrow"


def reject_name(index: int, shards: int) -> str:
    """Name of the file of a split's rejects: `reject_name(0, 64)` is `part-00000-of-00064.jsonl`."""
    return f"part-{index:05d}-of-{shards:05d}.jsonl"


def reject_name_of(shard: str) -> str:
    """Name of the file of the rejects that a shard's split had, by the shard's own: `.jsonl` in place of `.parquet`."""
    return shard.removesuffix(".parquet") + ".jsonl"


def block_schema(block: int, *, ragged: bool, columns: tuple[str, ...] = ()) -> pa.Schema:
    """A shard of packed blocks: a row for each block of `block` tokens, lists of any length where the last one may be shorter.

    Of each document that has a part in the block: its id, where the part begins in the block (`doc_offsets`) and in the document
    (`doc_starts`), and how many of the document's own tokens it has (`doc_lengths`: EOS and padding do not count). `columns` adds
    those of `BLOCK_COLUMNS`.
    """

    def row_of(kind: pa.DataType) -> pa.DataType:
        item = pa.field("item", kind, nullable=False)
        return pa.list_(item) if ragged else pa.list_(item, block)

    parts = [("doc_ids", pa.string()), ("doc_offsets", pa.int32()), ("doc_starts", pa.int64()), ("doc_lengths", pa.int32())]
    return pa.schema(
        [
            pa.field("input_ids", row_of(pa.int32()), nullable=False),
            *(pa.field(name, row_of(kind), nullable=False) for name, kind in BLOCK_COLUMNS.items() if name in columns),
            *(pa.field(name, pa.list_(pa.field("item", kind, nullable=False)), nullable=False) for name, kind in parts),
        ]
    )
