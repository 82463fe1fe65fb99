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
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tokenmill import schemas
from tokenmill.dataset.shard_files import check_names
from tokenmill.errors import DataError
from tokenmill.parquet.footer import open_parquet
from tokenmill.pipeline.counts_folder import fingerprint_inputs
from tokenmill.pipeline.findings import DAMAGED, Findings, check_sum, describe_damage, find_strangers, read_whole
from tokenmill.pipeline.fingerprints import hash_bytes
from tokenmill.pipeline.lock import find_holder
from tokenmill.pipeline.outputs import read_manifest
from tokenmill.pipeline.verify_books import check_books
from tokenmill.pipeline.verify_counts import check_counts
from tokenmill.transforms.files import file_exists, is_local, read_file
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.sums import SUM, is_summed

_THREADS = 8
#: How often a folder is looked at that changes meanwhile, and how long between two looks for a manifest.
LOOKS = 20
LOOK_SECONDS = 0.25


#: The versions of manifests, by their format.
VERSIONS = {schemas.DATASET_FORMAT: schemas.DATASET_VERSION, schemas.WORD_COUNTS_FORMAT: schemas.WORD_COUNTS_VERSION}


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
    if manifest is None or manifest.get("format") not in VERSIONS:
        raise DataError(f"{folder}: neither a dataset nor word counts: no {schemas.MANIFEST} of one; is the build finished?")
    if manifest.get("version") != (version := VERSIONS[manifest["format"]]):
        raise DataError(f"{folder}/{schemas.MANIFEST}: of version {manifest.get('version')!r}; this tokenmill knows {version}")
    if SUM in manifest and not is_summed(manifest):
        found.add(f"{schemas.MANIFEST}: changed since it was written: its sha256 is of another content")
    try:
        if manifest["format"] == schemas.DATASET_FORMAT:
            _check_dataset(folder, manifest, found)
        else:
            check_counts(folder, manifest, found)
        check_books(manifest, found)
    except DAMAGED as error:
        found.add(describe_damage(error))
    return manifest, found


def verify_chain(folder: str) -> Findings:
    """Check that what stands in the folder of a build was made from each other."""
    found = Findings()
    counts, dataset = (read_manifest(FileSystems.join(folder, name)) for name in ("word-counts", "tokens"))
    path = FileSystems.join(folder, "tokenizer.json")
    if counts is None or not file_exists(path):
        return found
    content = read_whole(path)
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
    check_names(folder, shards)
    tokenizer = FileSystems.join(folder, "tokenizer.json")
    if manifest["tokenizer"]["file"] != "tokenizer.json":
        found.add(f"tokenizer.file: {manifest['tokenizer']['file']!r}, a dataset has tokenizer.json")
    if not file_exists(tokenizer) or hash_bytes(read_whole(tokenizer)) != manifest["tokenizer"]["sha256"]:
        found.add("tokenizer.json: missing, or not the one that made the shards")
    card = FileSystems.join(folder, "README.md")
    if "readme" in manifest and (not file_exists(card) or hash_bytes(read_whole(card)) != manifest["readme"]["sha256"]):
        found.add("README.md: missing, or changed since it was written")
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        checks = pool.map(lambda shard: list(check_shard(folder, manifest, shard)), shards)
        for number, problems in enumerate(checks):
            for problem in problems:
                found.add(f"{posixpath.basename(shards[number]['path'])}: {problem}", number)
    entries = [*shards, *manifest.get("unwritten", [])]
    for number, entry in enumerate(entries):
        for problem in _check_rejects(folder, entry):
            found.add(problem, number)
    find_strangers(folder, [shard["path"] for shard in shards], map(schemas.rejects_of, entries), found)
    found.checked = len(shards)


def check_shard(folder: str, manifest: Mapping[str, Any], shard: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with one shard, given its entry in the manifest."""
    path = FileSystems.join(folder, posixpath.basename(shard["path"]))
    if not file_exists(path):
        yield "missing"
        return
    content = read_whole(path)
    yield from check_sum("", content, shard)
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
        content = read_whole(path) if file_exists(path) else b""
        for line in content.splitlines():
            file = json.loads(line)["file"]
            kept[file] = kept.get(file, 0) + 1
    except (ValueError, KeyError, TypeError):
        yield f"rejects/{name}: holds a line that is no reject"
        return
    if kept != counted:
        yield f"rejects/{name}: holds {sum(kept.values()):,} rejects, the manifest says {sum(counted.values()):,}"
    elif counted and "rejects_sha256" in shard:
        yield from check_sum(f"rejects/{name}", content, shard, prefix="rejects_")
