"""Every Arrow schema, column name and format version of tokenmill.

Start reading here: these schemas describe the data that passes between the steps

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

#: A batch of documents as the readers produce it: a few MiB of text, in corpus order.
DOCUMENTS = pa.schema([("doc_id", pa.string()), ("text", pa.large_string())])

#: The second text of a document, if the job reads pairs. It follows the columns of `DOCUMENTS`.
SECOND_TEXT = pa.field("pair", pa.large_string())

#: Word counts: of one partition when they pass between processes, of the whole corpus on disk. `first_seen` orders words by
#: their first occurrence in the corpus. On disk it is dense (0 .. words - 1), so it does not depend on how the corpus was split.
WORD_COUNTS = pa.schema(
    [
        pa.field("word", pa.large_binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("first_seen", pa.int64(), nullable=False),
    ]
)

#: A token shard. It has one row per document, also for empty documents. Ids are int32, which embedding layers accept.
TOKENS = pa.schema([pa.field("doc_id", pa.string()), pa.field("input_ids", pa.list_(pa.int32()))])

#: The type of the mask and type-id columns that options add to a token shard: int8 lists as long as `input_ids`.
TOKEN_MASK = pa.list_(pa.int8())

#: Two list columns: where each token begins and where it ends in its text, in bytes or characters.
TOKEN_OFFSETS = ("offset_starts", "offset_ends")
TOKEN_PLACE = pa.list_(pa.int32())

#: What shards and totals count for shaped rows: tokens and documents that were truncated, and special tokens found in texts. For
#: rows that are truncated or padded they also count the tokens kept (each token of a document once, with those of the template
#: and without padding) and the bytes of their text.
SHAPED = ("cut_tokens", "cut_documents", "special_tokens_found", "kept_tokens", "kept_bytes")

#: The columns that options add to packed blocks, with one number for each token. `attention_mask` is 1 for tokens and 0 for
#: padding. `segment_ids` numbers the parts of the block from 1; `position_ids` is the position of a token in its part. Both are 0
#: for padding.
BLOCK_COLUMNS = {"attention_mask": pa.int8(), "segment_ids": pa.int32(), "position_ids": pa.int32()}

#: The numbers of a report, all of which are sums; `tokenmill/report/sums.py` shows example rows.
REPORT_SUMS = pa.schema(
    [("tokenizer", pa.int32()), ("sum", pa.string()), ("group", pa.string()), ("key", pa.int64()), ("value", pa.int64())]
)

#: How many hash partitions the word counts of one split are cut into. It is fixed, so no result depends on the workers.
COUNT_PARTITIONS = 16

#: The name of the file that makes a folder a dataset (or a folder of word counts). It is written last, by rename.
MANIFEST = "manifest.json"


def count_rows(shard: Mapping[str, Any]) -> int:
    """The number of rows of a shard, from its manifest entry: its blocks, or its documents plus the rows of their overflow.

    >>> count_rows({"documents": 2, "rows": 5})
    5
    """
    return int(shard["blocks"] if "blocks" in shard else shard.get("rows", shard["documents"]))


def list_published(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of the files that a manifest covers: the shards of a dataset, or the parts of word counts."""
    return [*manifest.get("shards", []), *manifest.get("parts", [])]


def list_entries(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a dataset in corpus order: its shards and, between them, the parts without a row (`unwritten`)."""
    shards, unwritten = manifest["shards"], manifest.get("unwritten", [])
    entries: list[Mapping[str, Any]] = []
    for number, shard in enumerate([*shards, None]):
        entries += [entry for entry in unwritten if entry["shards_before"] == number]
        entries += [] if shard is None else [shard]
    return entries


def rejects_of(entry: Mapping[str, Any]) -> str:
    """The name of the file that holds the rejects of a part, if it has any."""
    return reject_name_of(entry["path"]) if "path" in entry else str(entry.get("rejects", ""))


def shard_name(index: int, shards: int) -> str:
    """The name of a shard: `shard_name(0, 64)` is `part-00000-of-00064.parquet`."""
    return f"part-{index:05d}-of-{shards:05d}.parquet"


def split_shard_name(index: int, splits: int, number: int) -> str:
    """The name that the shard of a split's part `number` has while the job runs.

    `split_shard_name(3, 64, 2)` is `part-00003-of-00064.2.parquet`; part 0 has no number. A stream passes 0 for `splits`, because
    it does not know their number; its shards keep this name.
    """
    if not splits:
        return shard_name(index + number, splits)
    return shard_name(index, splits).replace(".parquet", f".{number}.parquet" if number else ".parquet")


def group_name(index: int, groups: int) -> str:
    """The name of the word counts of one split: `group_name(0, 64)` is `group-00000-of-00064.arrow`."""
    return f"group-{index:05d}-of-{groups:05d}.arrow"


def reject_name(index: int, shards: int) -> str:
    """The name of the file that holds the rejects of a split: `reject_name(0, 64)` is `part-00000-of-00064.jsonl`."""
    return f"part-{index:05d}-of-{shards:05d}.jsonl"


def reject_name_of(shard: str) -> str:
    """The name of the file that holds the rejects of a shard's split: the shard's name with `.jsonl` for `.parquet`."""
    return shard.removesuffix(".parquet") + ".jsonl"


def block_schema(block: int, *, ragged: bool, columns: tuple[str, ...] = ()) -> pa.Schema:
    """The schema of a shard of packed blocks, with one row per block of `block` tokens.

    `ragged`: the lists have no fixed length, because the last block may be shorter. For each document with a part in the block, a
    row has its id (`doc_ids`), where the part begins in the block (`doc_offsets`) and in the document (`doc_starts`), and how
    many of the document's own tokens it has (`doc_lengths`, without EOS and padding). `columns` names the columns of
    `BLOCK_COLUMNS` to add.
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
