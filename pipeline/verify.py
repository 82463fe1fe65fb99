"""`tokenmill verify`: whether a dataset, or word counts, are what their manifest says; and whether they say what the source does.

files     every shard is there, with its size, sha256, rows, tokens and footer; its ids are below `embedding_rows`; nothing else
          is there that looks like one
books     documents = encoded + rejected, for each shard, each file and in total; the sums over shards, files and rejects agree
chain     inputs -> word counts -> tokenizer -> shards: each names the fingerprint of what it was made from
deep      documents of each shard, some of them, are encoded anew from the source and compared; where the tokenizer gives back
          every text, they are also decoded
"""

from __future__ import annotations

import json
import os
import posixpath
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from tokenmill import schemas
from tokenmill.errors import DataError
from tokenmill.parquet.footer import open_parquet, read_table
from tokenmill.pipeline.accounting import SUMMED
from tokenmill.pipeline.counts_folder import fingerprint_inputs
from tokenmill.pipeline.fingerprints import hash_bytes
from tokenmill.pipeline.lock import find_holder
from tokenmill.pipeline.outputs import LEDGER, read_manifest, sum_ledger
from tokenmill.transforms.files import file_exists, is_local, list_files, read_file, read_json

_THREADS = 8
#: How often a folder is looked at that changes meanwhile, and how long between two looks for a manifest.
LOOKS = 20
LOOK_SECONDS = 0.25
#: What comes of a manifest whose entries are missing or of another kind.
DAMAGED = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError)


@dataclass
class Findings:
    """What is wrong, in words; `shards` are the numbers of the shards that are not as they should be. `notes` are no faults."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shards: set[int] = field(default_factory=set)
    checked: int = 0

    def add(self, problem: str, shard: int | None = None) -> None:
        self.problems.append(problem)
        if shard is not None:
            self.shards.add(shard)


def verify_folder(folder: str) -> tuple[dict[str, Any], Findings]:
    """Check a dataset or word counts; the manifest and what was found. `DataError` for a folder that is neither.

    A problem only counts while the version that has it is still the published one: when another run publishes, files of the old
    version go. The new version is then checked instead, and a note says so.
    """
    notes: list[str] = []
    for _ in range(LOOKS):
        version = _name_version(folder)
        try:
            manifest, found = _verify_version(folder)
        except DataError:
            if _name_version(folder) == version:
                raise
            found = None
        if found is not None and (not found.problems or _name_version(folder) == version):
            found.notes += notes
            return manifest, found
        notes = [f"{folder}: another version was published meanwhile; that one was looked at"]
        _wait_for_manifest(folder)
    raise DataError(f"{folder}: new versions are published faster than they can be looked at; verify again when that has ended")


def _name_version(folder: str) -> tuple[int, ...] | bytes | None:
    """What tells the published version from any other, also from one with the same contents: which file its manifest is."""
    path = FileSystems.join(folder, schemas.MANIFEST)
    if not is_local(path):
        return read_file(path) if file_exists(path) else None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _wait_for_manifest(folder: str) -> None:
    """Where files are replaced one by one the folder has no manifest for a moment."""
    for _ in range(LOOKS):
        if _name_version(folder) is not None:
            return
        time.sleep(LOOK_SECONDS)


def _verify_version(folder: str) -> tuple[dict[str, Any], Findings]:
    manifest = read_manifest(folder)
    found = Findings()
    if manifest is None or manifest.get("format") not in (schemas.DATASET_FORMAT, schemas.WORD_COUNTS_FORMAT):
        raise DataError(f"{folder}: neither a dataset nor word counts: no {schemas.MANIFEST} of one; is the build finished?")
    try:
        if manifest["format"] == schemas.DATASET_FORMAT:
            _check_dataset(folder, manifest, found)
        else:
            _check_counts(folder, manifest, found)
        _check_books(manifest, found)
    except DAMAGED as error:
        found.add(describe_damage(error))
    return manifest, found


def describe_damage(error: Exception) -> str:
    """What an error of the kind `DAMAGED` says of a manifest."""
    return f"{schemas.MANIFEST}: not as tokenmill writes it ({type(error).__name__}: {error})"


def verify_chain(folder: str) -> Findings:
    """Check that what stands in the folder of a build was made from each other."""
    found = Findings()
    counts, dataset = (read_manifest(FileSystems.join(folder, name)) for name in ("word-counts", "tokens"))
    path = FileSystems.join(folder, "tokenizer.json")
    if counts is None or not file_exists(path):
        return found
    content = _read(path)
    try:
        _check_chain(content, counts, dataset, found)
    except DAMAGED as error:
        found.add(f"tokenizer.json or a {describe_damage(error)}")
    if found.problems and (holder := find_holder(folder)):
        return Findings(notes=[f"tokenizer, counts and tokens are not compared: a build is at work in {folder}: {holder}"])
    return found


def _check_chain(content: bytes, counts: Mapping[str, Any], dataset: Mapping[str, Any] | None, found: Findings) -> None:
    training = json.loads(content).get("training") or {}
    learned_from = training.get("word_counts_sha256"), counts.get("word_counts_sha256")
    if training.get("ties") != "first-seen" and learned_from[0] != learned_from[1]:  # first-seen hashes the order too
        found.notes.append("the tokenizer was trained on an earlier state of the word counts")
    if dataset is None:
        return
    if dataset["tokenizer"]["sha256"] != hash_bytes(content):
        found.add("tokens: made by another tokenizer than tokenizer.json; build again")
    if counts["input_fingerprint"] != fingerprint_inputs(dataset["files"]):
        found.add("tokens and word-counts: made from different texts; build again")


def _check_dataset(folder: str, manifest: Mapping[str, Any], found: Findings) -> None:
    shards = manifest["shards"]
    tokenizer = FileSystems.join(folder, manifest["tokenizer"]["file"])
    if not file_exists(tokenizer) or hash_bytes(_read(tokenizer)) != manifest["tokenizer"]["sha256"]:
        found.add(f"{manifest['tokenizer']['file']}: missing, or not the one that made the shards")
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        checks = pool.map(lambda shard: list(check_shard(folder, manifest, shard)), shards)
        for number, problems in enumerate(checks):
            for problem in problems:
                found.add(f"{posixpath.basename(shards[number]['path'])}: {problem}", number)
    for number, entry in enumerate([*shards, *manifest.get("unwritten", [])]):
        for problem in _check_rejects(folder, entry):
            found.add(problem, number)
    _find_strangers(folder, [shard["path"] for shard in shards], found)
    found.checked = len(shards)


def check_shard(folder: str, manifest: Mapping[str, Any], shard: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with one shard, given its entry in the manifest."""
    path = FileSystems.join(folder, posixpath.basename(shard["path"]))
    if not file_exists(path):
        yield "missing"
        return
    content = _read(path)
    if len(content) != shard["bytes"]:
        yield f"{len(content):,} bytes, the manifest says {shard['bytes']:,}"
    elif hash_bytes(content) != shard["sha256"]:
        yield "other bytes than the manifest's sha256 is of"
    try:
        file, footer = open_parquet(pa.BufferReader(content))
        yield from _check_rows(file, manifest, shard)
        yield from _check_layout(file, footer.rows.tolist(), manifest.get("packing"))
        yield from _check_footer(file.schema_arrow.metadata or {}, manifest, shard)
    except (pa.ArrowException, OSError, ValueError) as error:
        yield f"cannot be read ({str(error).splitlines()[0]})"


def _check_rows(file: pq.ParquetFile, manifest: Mapping[str, Any], shard: Mapping[str, Any]) -> Iterator[str]:
    rows = ids = 0
    least, most = 0, -1
    for batch in file.iter_batches(columns=["input_ids"]):
        values = pc.list_flatten(batch["input_ids"])
        rows, ids = rows + batch.num_rows, ids + len(values)
        if len(values):
            bounds = pc.min_max(values)
            least, most = min(least, bounds["min"].as_py()), max(most, bounds["max"].as_py())
    wanted_rows = schemas.count_rows(shard)
    wanted_ids = shard["tokens"] + shard.get("eos", 0) + shard.get("padding", 0)
    if rows != wanted_rows:
        yield f"{rows:,} rows, the manifest says {wanted_rows:,}"
    if ids != wanted_ids:
        yield f"{ids:,} token ids, the manifest says {wanted_ids:,}"
    if least < 0 or most >= manifest["tokenizer"]["embedding_rows"]:
        wrong = least if least < 0 else most
        yield f"id {wrong}: ids are from 0 to {manifest['tokenizer']['embedding_rows'] - 1}"


def _check_footer(footer: Mapping[bytes, bytes], manifest: Mapping[str, Any], shard: Mapping[str, Any]) -> Iterator[str]:
    if footer.get(b"tokenmill.tokenizer_sha256", b"").decode() != manifest["tokenizer"]["sha256"]:
        yield "made by another tokenizer"
    if json.loads(footer.get(b"tokenmill.source", b"null")) != shard["source"]:
        yield "made from other input than the manifest says"
    for name in ("vocab_size", "embedding_rows"):
        stated = footer.get(f"tokenmill.{name}".encode(), b"").decode()
        if stated != str(manifest["tokenizer"][name]):
            yield f"made with {name} {stated or 'unknown'}, the manifest says {manifest['tokenizer'][name]}"
    if footer.get(b"tokenmill.part", b"0").decode() != str(shard.get("part", 0)):
        yield "of another part of its source than the manifest says"
    packing = json.loads(footer.get(b"tokenmill.packing", b"null"))
    promised = manifest.get("packing")
    if packing != (promised and {name: promised[name] for name in packing or promised}):
        yield "packed in another way than the manifest says"


def _check_layout(file: pq.ParquetFile, groups: list[int], packing: Mapping[str, Any] | None) -> Iterator[str]:
    """Columns and row groups of packed blocks are those by which readers find their places."""
    if packing is None:
        return
    if file.schema_arrow.names != packing["columns"]:
        yield f"columns {', '.join(file.schema_arrow.names)}, the manifest says {packing['columns']}"
    size = packing["row_group_blocks"]
    if any(rows != size for rows in groups[:-1]) or any(rows > size for rows in groups[-1:]):
        yield f"row groups of {', '.join(map(str, groups[:3]))} blocks, the manifest says {size}"


def _check_rejects(folder: str, shard: Mapping[str, Any]) -> Iterator[str]:
    """The rejects that were kept are those that were counted, file by file."""
    name = posixpath.basename(schemas.rejects_of(shard)) or "none"
    path = FileSystems.join(folder, "rejects", name)
    counted = {account["name"]: account["rejected"] for account in shard["files"] if account["rejected"]}
    kept: dict[str, int] = {}
    try:
        for line in _read(path).splitlines() if file_exists(path) else []:
            file = json.loads(line)["file"]
            kept[file] = kept.get(file, 0) + 1
    except (ValueError, KeyError, TypeError):
        yield f"rejects/{name}: holds a line that is no reject"
        return
    if kept != counted:
        yield f"rejects/{name}: holds {sum(kept.values()):,} rejects, the manifest says {sum(counted.values()):,}"


def _check_counts(folder: str, manifest: Mapping[str, Any], found: Findings) -> None:
    words = total = 0
    for part in manifest["parts"]:
        path = FileSystems.join(folder, posixpath.basename(part["path"]))
        if not file_exists(path) or hash_bytes(_read(path)) != part["sha256"]:
            found.add(f"{part['path']}: missing, or other bytes than the manifest's sha256 is of; count again")
            continue
        table = read_table(pa.BufferReader(_read(path)), ["count"])
        words, total = words + table.num_rows, total + int(np.sum(table["count"].to_numpy()))
    if not found.problems and (words, total) != (manifest["totals"]["distinct_words"], manifest["totals"]["words"]):
        found.add(f"{words:,} distinct words, {total:,} words: the manifest says otherwise; count again")
    _check_groups(folder, found)
    _find_strangers(folder, [part["path"] for part in manifest["parts"]], found)
    if manifest["input_fingerprint"] != fingerprint_inputs(manifest["files"]):
        found.add("input_fingerprint: not the sum of the files'")
    found.checked = len(manifest["parts"])


def _check_groups(folder: str, found: Findings) -> None:
    """The counts of each split, which later builds go on from, are those that the ledger has sums of."""
    path = FileSystems.join(folder, *LEDGER.split("/"))
    if not file_exists(path):
        return
    ledger = read_json(path)
    if not isinstance(ledger, dict) or sum_ledger(ledger) != ledger:
        found.add(f"{LEDGER}: damaged; `tokenmill build --retrain` counts the corpus again")
        return
    for record in ledger["records"]:
        group = record["group"]
        name = f"groups/{posixpath.basename(group['path'])}"
        file = FileSystems.join(folder, *name.split("/"))
        if not file_exists(file) or hash_bytes(_read(file)) != group["sha256"]:
            found.add(
                f"{name}: missing, or other bytes than the ledger's sha256 is of; `tokenmill build --retrain` counts it again"
            )


def _check_books(manifest: Mapping[str, Any], found: Findings) -> None:
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
    if totals["tokens"] != sum(shard["tokens"] for shard in shards) or totals["shards"] != len(shards):
        found.add("totals: tokens or shards are not those of the shards")
    if "packing" not in manifest:
        _check_rows_of_documents(manifest, found)
    sums = _sum_accounts(account for entry in entries for account in entry["files"])
    for file in files:
        wanted = [*(file[name] for name in SUMMED), file["fingerprint"]]
        if sums.get(file["name"], [*[0] * len(SUMMED), f"{0:032x}"]) != wanted:
            found.add(f"{file['name']}: its account is not the sum of the shards'")


def _check_rows_of_documents(manifest: Mapping[str, Any], found: Findings) -> None:
    """A shard has the documents of its files, each in a row or, where they overflow, in several; the total is the sum."""
    shards, overflows = manifest["shards"], bool(manifest.get("rows", {}).get("overflow"))
    for number, shard in enumerate(shards):
        encoded, rows = sum(account["encoded"] for account in shard["files"]), schemas.count_rows(shard)
        name = posixpath.basename(shard["path"])
        if shard["documents"] != encoded:
            found.add(f"{name}: {shard['documents']:,} documents, its files have {encoded:,}", number)
        if rows < encoded or (rows > encoded and not overflows):
            found.add(f"{name}: {rows:,} rows of {encoded:,} documents", number)
    if manifest["totals"].get("rows", manifest["totals"]["encoded"]) != sum(map(schemas.count_rows, shards)):
        found.add("totals: rows are not those of the shards")


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


def _find_strangers(folder: str, listed: list[str], found: Findings) -> None:
    names = {posixpath.basename(path) for path in listed}
    for path in list_files(folder, "*.parquet"):
        if os.path.basename(path) not in names:
            found.add(f"{os.path.basename(path)}: not in the manifest; it does not belong to the dataset")


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
