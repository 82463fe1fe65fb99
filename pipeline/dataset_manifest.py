"""The manifest of a dataset, put together: a frame that is known before any work, then files and shards with their sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill import schemas
from tokenmill.dataset.packing import Packing
from tokenmill.pipeline import accounting
from tokenmill.pipeline.planning import Corpus, describe_reading
from tokenmill.pipeline.shaping import describe_rows, total_blocks, total_shaped
from tokenmill.tokenizer import Tokenizer
from tokenmill.transforms.encode import EncodeOptions
from tokenmill.version import __version__

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


def fill_frame(frame: Mapping[str, Any], packing: Packing | None, files: Entries, entries: Entries) -> dict[str, Any]:
    """The manifest of these files and parts of splits, with all totals. `entries` are in the order of the corpus: those without a
    shard are listed apart, as `unwritten`, with the number of the shards before them.
    """
    totals: dict[str, Any] = {**accounting.total_files(files)}
    totals |= total_blocks(packing, entries) | total_shaped(packing, entries) | accounting.total_lost_words(entries)
    shards, unwritten = [entry for entry in entries if "path" in entry], []
    before = 0
    for entry in entries:
        before += "path" in entry
        unwritten += [] if "path" in entry else [{**entry, "shards_before": before}]
    totals |= {"tokens": sum(shard["tokens"] for shard in shards), "shards": len(shards)}
    why = {"reasons": reasons} if (reasons := accounting.add_up_reasons(entries)) else {}
    return {**frame, "totals": totals, **why, "files": files, "shards": shards} | ({"unwritten": unwritten} if unwritten else {})


def name_shards(entries: Entries) -> tuple[Entries, dict[str, str]]:
    """Number the shards of all splits one after the other; also gives the names that files had in the run, by their new ones.

    Rejects are called like their shard; those of parts without one by the numbers that follow the last shard's.
    """
    shards = sum("path" in entry for entry in entries)
    numbers, beyond = iter(range(shards)), iter(range(shards, shards + len(entries)))
    renamed: Entries = []
    names: dict[str, str] = {}
    for entry in entries:
        name = schemas.shard_name(next(numbers if "path" in entry else beyond), shards)
        change = {"path": name} if "path" in entry else {"rejects": schemas.reject_name_of(name)} if "rejects" in entry else {}
        names |= {name: entry["path"]} if "path" in entry else {}
        if any(account["rejected"] for account in entry["files"]):
            names[f"rejects/{schemas.reject_name_of(name)}"] = f"rejects/{schemas.rejects_of(entry)}"
        renamed.append({**entry, **change})
    return renamed, names
