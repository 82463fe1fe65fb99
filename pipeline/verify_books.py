"""The books of a manifest: documents = encoded + rejected for each shard, each file and in total, and every sum anew."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from tokenmill import schemas
from tokenmill.pipeline.accounting import SUMMED
from tokenmill.pipeline.dataset_manifest import fill_frame
from tokenmill.pipeline.findings import Findings


def check_books(manifest: Mapping[str, Any], found: Findings) -> None:
    """Documents = encoded + rejected, and sums agree, file by file and in total."""
    totals, files, shards = manifest["totals"], manifest["files"], manifest.get("shards", [])
    entries = [*shards, *manifest.get("unwritten", [])]
    for account in [*files, totals, *(account for entry in entries for account in entry["files"])]:
        if account["documents"] != account["encoded"] + account["rejected"]:
            found.add(f"{account.get('name', 'totals')}: {account['documents']} documents are not encoded + rejected")
    for name in SUMMED:
        if totals[name] != sum(file[name] for file in files):
            found.add(f"totals: {name} is not the sum of the files'")
    if "shards" not in manifest:
        return
    _check_sums(manifest, found)
    _check_documents(manifest, found)
    sums = _sum_accounts(account for entry in entries for account in entry["files"])
    for file in files:
        wanted = [*(file[name] for name in SUMMED), file["fingerprint"]]
        if sums.get(file["name"], [*[0] * len(SUMMED), f"{0:032x}"]) != wanted:
            found.add(f"{file['name']}: its account is not the sum of the shards'")


def _check_sums(manifest: Mapping[str, Any], found: Findings) -> None:
    """All that the manifest adds up over its shards is added up anew, by what has written it."""
    entries = [dict(entry) for entry in schemas.list_entries(manifest)]
    remade = fill_frame({}, manifest.get("packing"), list(manifest["files"]), entries)
    stated, summed = manifest["totals"], remade["totals"]
    for name in dict.fromkeys([*stated, *summed]):
        if stated.get(name) != summed.get(name) and name not in SUMMED:
            found.add(f"totals: {name} is {stated.get(name)}, the shards have {summed.get(name)}")
    for name in ("reasons", "unwritten"):
        if manifest.get(name) != remade.get(name):
            found.add(f"{name}: not as the shards have it")


def _check_documents(manifest: Mapping[str, Any], found: Findings) -> None:
    """A shard has the documents of its files, and unless they are packed, each in a row or, where they overflow, in several."""
    packed = "packing" in manifest
    shards, overflows = manifest["shards"], bool(manifest.get("rows", {}).get("overflow"))
    for entry in manifest.get("unwritten", []):
        if entry["tokens"] or schemas.count_rows(entry) or _count_documents(entry) != _count_encoded(entry):
            found.add(f"unwritten: a part of {entry['source'][0]['file']} without a row has rows, tokens or other documents")
    for number, shard in enumerate(shards):
        encoded, rows = _count_encoded(shard), schemas.count_rows(shard)
        name = posixpath.basename(shard["path"])
        if (documents := _count_documents(shard)) != encoded:
            found.add(f"{name}: {documents:,} documents, its files have {encoded:,}", number)
        if not packed and (rows < encoded or (rows > encoded and not overflows)):
            found.add(f"{name}: {rows:,} rows of {encoded:,} documents", number)


def _count_encoded(entry: Mapping[str, Any]) -> int:
    return sum(account["encoded"] for account in entry["files"])


def _count_documents(entry: Mapping[str, Any]) -> int:
    """The documents of a shard: those in its blocks, those of a last block that was dropped, and those without a token."""
    return int(entry["documents"]) + sum(entry.get(name, 0) for name in ("dropped_documents", "empty_documents"))


def _sum_accounts(accounts: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Numbers by file, as `SUMMED` names them, and the fingerprint."""
    sums: dict[str, list[int]] = {}
    mask = (1 << 64) - 1
    for account in accounts:
        numbers = [account[name] for name in SUMMED]
        halves = [int(account["fingerprint"][:16], 16), int(account["fingerprint"][16:], 16)]
        old = sums.get(account["name"], [0] * (len(SUMMED) + 2))
        sums[account["name"]] = [a + b for a, b in zip(old, [*numbers, *halves], strict=True)]
    return {name: [*row[:-2], f"{row[-2] & mask:016x}{row[-1] & mask:016x}"] for name, row in sums.items()}
