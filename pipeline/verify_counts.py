"""Word counts as `tokenmill verify` checks them: the counts, those of each split that later builds go on from, and rejects."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from tokenmill.dataset.shard_files import check_names
from tokenmill.pipeline.counts_folder import HEADER, fingerprint_inputs, read_counts, read_header
from tokenmill.pipeline.findings import Findings, check_sum, find_strangers, read_whole
from tokenmill.pipeline.fingerprints import hash_bytes
from tokenmill.pipeline.outputs import LEDGER
from tokenmill.training.word_counts import fingerprint_counts
from tokenmill.transforms.files import file_exists, read_json
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.sums import is_summed


def check_counts(folder: str, manifest: Mapping[str, Any], found: Findings) -> None:
    """Add to `found` what is wrong with word counts in a folder, but for the books."""
    check_names(folder, manifest["parts"])
    for part in manifest["parts"]:
        path = FileSystems.join(folder, part["path"])
        problems = list(check_sum("", read_whole(path), part)) if file_exists(path) else ["missing"]
        for problem in problems:
            found.add(f"{part['path']}: {problem}; count again")
    if not found.problems:
        _check_words(folder, manifest, found)
    _check_groups(folder, found)
    _check_rejects(folder, manifest, found)
    rejects = manifest.get("rejects", [])
    find_strangers(folder, [part["path"] for part in manifest["parts"]], [entry["path"] for entry in rejects], found)
    if manifest["input_fingerprint"] != fingerprint_inputs(manifest["files"]):
        found.add("input_fingerprint: not the sum of the files'")
    found.checked = len(manifest["parts"])


def _check_words(folder: str, manifest: Mapping[str, Any], found: Findings) -> None:
    """The rows are those that the manifest has counted, and were made as it says."""
    counts, totals = read_counts(folder), manifest["totals"]
    stated = totals["distinct_words"], totals["words"], sum(part["rows"] for part in manifest["parts"])
    if (counts.num_rows, pc.sum(counts["count"]).as_py() or 0, counts.num_rows) != stated:
        found.add(f"{counts.num_rows:,} distinct words: the manifest says otherwise; count again")
    if fingerprint_counts(counts, with_order=False) != manifest["word_counts_sha256"]:
        found.add("word_counts_sha256: of other words than the parts hold; count again")
    for part in manifest["parts"]:
        footer = read_header(FileSystems.join(folder, part["path"]))
        if wrong := [name for name in HEADER if footer.get(name) != manifest[name]]:
            found.add(f"{part['path']}: its {wrong[0]} is {footer.get(wrong[0])!r}, the manifest says {manifest[wrong[0]]!r}")


def _check_groups(folder: str, found: Findings) -> None:
    """The counts of each split, which later builds go on from, are those that the ledger has sums of."""
    path = FileSystems.join(folder, *LEDGER.split("/"))
    if not file_exists(path):
        return
    ledger = read_json(path)
    if not is_summed(ledger):
        found.add(f"{LEDGER}: damaged; `tokenmill build` counts the corpus again")
        return
    for number, record in enumerate(ledger["records"]):
        group = record["group"]
        name = f"groups/{posixpath.basename(group['path'])}"
        file = FileSystems.join(folder, *name.split("/"))
        if not file_exists(file) or hash_bytes(read_whole(file)) != group["sha256"]:
            found.add(f"{name}: missing, or other bytes than the ledger's sha256 is of; `tokenmill build` counts it again")
            found.groups.add(number)


def _check_rejects(folder: str, manifest: Mapping[str, Any], found: Findings) -> None:
    """The rejects that were kept are those that were counted."""
    lines = 0
    for entry in manifest.get("rejects", []):
        name = posixpath.basename(entry["path"])
        path = FileSystems.join(folder, "rejects", name)
        content = read_whole(path) if file_exists(path) else b""
        lines += content.count(b"\n")
        for problem in check_sum(f"rejects/{name}", content, entry, prefix="rejects_"):
            found.add(problem)
    if "rejects" in manifest and lines != manifest["totals"]["rejected"]:
        found.add(f"rejects: holds {lines:,} rejects, the manifest says {manifest['totals']['rejected']:,}")
