"""Every Arrow schema, column name and format version of tokenmill, on one page.

A newcomer starts here: these are the shapes of everything that crosses a line of the flow

    documents -> word counts -> (merge loop) -> tokenizer.json -> token shards
"""

from __future__ import annotations

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

#: The numbers of a report, all of them sums; `tokenmill/report/sums.py` shows rows.
REPORT_SUMS = pa.schema(
    [("tokenizer", pa.int32()), ("sum", pa.string()), ("group", pa.string()), ("key", pa.int64()), ("value", pa.int64())]
)

#: How many hash partitions the word counts of one split are cut into. Fixed, so that no result depends on the workers.
COUNT_PARTITIONS = 16

#: The name of the file whose presence makes a folder a dataset (or a folder of word counts). Written last, by rename.
MANIFEST = "manifest.json"


def shard_name(index: int, shards: int) -> str:
    """Name of a shard file: `shard_name(0, 64)` is `part-00000-of-00064.parquet`."""
    return f"part-{index:05d}-of-{shards:05d}.parquet"


def reject_name(index: int, shards: int) -> str:
    """Name of the file of a split's rejects: `reject_name(0, 64)` is `part-00000-of-00064.jsonl`."""
    return f"part-{index:05d}-of-{shards:05d}.jsonl"
