"""The manifest of a dataset, put together: a frame that is known before any work, then files and shards with their sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline import accounting
from pipeline.planning import Corpus, describe_reading
from pipeline.shaping import describe_rows, total_blocks, total_shaped
from tokenmill import __version__, schemas
from tokenmill.packing import Packing
from tokenmill.tokenizer import Tokenizer
from transforms.encode import EncodeOptions

Entries = list[dict[str, Any]]


def frame_dataset(tokenizer: Tokenizer, corpus: Corpus, options: EncodeOptions) -> dict[str, Any]:
    """What a dataset's manifest says before a document is read: format, tokenizer, how it is read, what its rows are."""
    return {
        "format": schemas.DATASET_FORMAT,
        "version": schemas.DATASET_VERSION,
        "tokenmill": __version__,
        "tokenizer": {
            "file": "tokenizer.json",
            "sha256": options.tokenizer_sha256,
            "vocab_size": len(tokenizer),
            "embedding_rows": tokenizer.embedding_rows,
        },
        **describe_reading(corpus),
        **describe_rows(options.packing, options.shuffle, options.shape),
    }


def fill_frame(frame: Mapping[str, Any], packing: Packing | None, files: Entries, shards: Entries) -> dict[str, Any]:
    """The manifest of these files and shards, with all totals."""
    totals: dict[str, Any] = {**accounting.total_files(files)}
    totals |= total_blocks(packing, shards) | total_shaped(packing, shards) | accounting.total_lost_words(shards)
    totals |= {"tokens": sum(shard["tokens"] for shard in shards), "shards": len(shards)}
    why = {"reasons": reasons} if (reasons := accounting.add_up_reasons(shards)) else {}
    return {**frame, "totals": totals, **why, "files": files, "shards": shards}
