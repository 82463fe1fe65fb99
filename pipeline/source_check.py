"""`tokenmill verify --deep` and `--repair`: shards are made again from their source and compared, or put in place of bad ones.

The manifest says which ranges of which files a shard was made of, and how they were read; the same ranges give the same bytes.
"""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from apache_beam.io.filesystem import CompressionTypes

from tokenmill import schemas
from tokenmill.dataset.packing import Packing
from tokenmill.dataset.shard_files import check_manifest
from tokenmill.errors import DataError, UsageError
from tokenmill.models.alphabets import ByteAlphabet
from tokenmill.parquet.footer import read_table
from tokenmill.pipeline.accounting import describe_split
from tokenmill.pipeline.driver import load_tokenizer
from tokenmill.pipeline.findings import Findings
from tokenmill.pipeline.inputs import resolve_inputs
from tokenmill.pipeline.lock import hold_folder
from tokenmill.pipeline.ours import refuse_links
from tokenmill.pipeline.outputs import read_manifest
from tokenmill.pipeline.planning import FILE_OPTIONS
from tokenmill.tokenizer import Tokenizer
from tokenmill.transforms.encode import EncodeOptions, encode_split
from tokenmill.transforms.files import delete_files, file_exists, write_file_atomically
from tokenmill.transforms.read import read_split
from tokenmill.transforms.shape import RowShape
from tokenmill.transforms.splits import Range, ReadOptions, SourceFile, Split
from tokenmill.transforms.stores import FileSystems

#: Shards that are made again, and documents of each that are decoded.
DEEP_SHARDS = 8
DEEP_DOCUMENTS = 100


def check_deep(folder: str, manifest: Mapping[str, Any], inputs: Sequence[str], found: Findings) -> int:
    """Make some shards again, and parts of the source that gave none, and compare them; returns how many."""
    entries = list_parts(manifest)
    step = max(1, -(-len(entries) // DEEP_SHARDS))
    chosen = sorted({*range(0, len(entries), step), *range(len(entries))[-1:]} - found.shards)
    tokenizer = load_tokenizer(FileSystems.join(folder, "tokenizer.json"))
    files = _find_files(manifest, inputs)
    for number in chosen:
        with tempfile.TemporaryDirectory() as temporary:
            record = _encode_again(manifest, number, tokenizer, files, temporary)
            if problem := _compare(record, entries[number]):
                found.add(f"{_name_part(entries[number])}: {problem}", number)
        if "path" in entries[number] and not {"packing", "rows"} & manifest.keys() and is_lossless(tokenizer):
            for problem in _decode_some(folder, manifest, number, tokenizer, files):
                found.add(f"{entries[number]['path']}: {problem}", number)
    return len(chosen)


def list_parts(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a dataset by the numbers that `Findings.shards` has: shards, then what gave no row."""
    return [*manifest["shards"], *manifest.get("unwritten", [])]


def _name_part(entry: Mapping[str, Any]) -> str:
    source = entry["source"][0]["file"] if entry["source"] else "nothing"
    return str(entry.get("path", f"the part of {source} that gave no row"))


def repair_shards(folder: str, manifest: Mapping[str, Any], inputs: Sequence[str], numbers: Iterable[int]) -> int:
    """Put shards in place that are made again from the source; those that would not have the manifest's bytes are refused.

    Returns how many. `DataError` where the source or the tokenizer is not what it was: then nothing of that shard is replaced;
    and where another version was published since `manifest` was read: then nothing is replaced at all.
    """
    check_manifest(folder, manifest)
    files, repaired = _find_files(manifest, inputs), 0
    with hold_folder(folder) as lock:
        if read_manifest(folder) != manifest:
            raise DataError(f"{folder}: another version was published meanwhile; nothing is repaired; run verify again")
        refuse_links(folder, "rejects")
        tokenizer = load_tokenizer(FileSystems.join(folder, "tokenizer.json"))
        for number in sorted(numbers):
            entry = list_parts(manifest)[number]
            with tempfile.TemporaryDirectory() as temporary:
                record = _encode_again(manifest, number, tokenizer, files, temporary)
                if problem := _compare(record, entry):
                    raise DataError(f"{_name_part(entry)}: cannot be repaired: {problem}; encode the corpus again")
                lock.check()
                _put_in_place(folder, temporary, record["shards"][0], entry)
            repaired += 1
    return repaired


def is_lossless(tokenizer: Tokenizer) -> bool:
    """Whether decoding gives back every text."""
    plain = tokenizer.normalizer.is_identity and tokenizer.template.is_empty and tokenizer.decoder is None
    return plain and tokenizer.pretokenizer.lossless and isinstance(tokenizer.model.alphabet, ByteAlphabet)


def _find_files(manifest: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, SourceFile]:
    """The input files by the names that the manifest has for them."""
    reading = manifest.get("reading")
    if reading is None:
        raise UsageError(
            "the manifest does not say how its files were read: it is of an older tokenmill; encode the corpus again"
        )
    if not isinstance(reading, dict) or not _is_sound(reading):
        raise DataError("manifest.json: reading is not as tokenmill writes it; encode the corpus again")
    how = {name: reading[name] for name in ("format", "document", *FILE_OPTIONS) if name in reading}
    files = {file.name: file for file in resolve_inputs(inputs, **how)}
    if missing := [file["name"] for file in manifest["files"] if file["name"] not in files]:
        raise UsageError(f"the dataset was made of {missing[0]!r}, which {' '.join(inputs)} does not hold; give all of --source")
    return files


def _is_sound(reading: dict[str, Any]) -> bool:
    """Whether the options for files are of the types that they have on the command line."""
    texts = (reading.get("format"), reading.get("document"), reading.get("encoding", ""), reading.get("delimiter", ""))
    return all(isinstance(text, str) for text in texts) and isinstance(reading.get("max_window", 1), (int, float))


def _make_split(manifest: Mapping[str, Any], number: int, files: Mapping[str, SourceFile]) -> Split:
    """The split that a part is of; of one of several only the rows that it holds are read."""
    entry = list_parts(manifest)[number]
    ranges = [Range(files[part["file"]], part["start"], part["end"], part["first_row"], part["rows"]) for part in entry["source"]]
    if "holds" in entry:
        held = {part["file"]: (part["from_row"], part["to_row"]) for part in entry["holds"]}
        windows = [held.get(part.file.name, (0, 0)) for part in ranges]
        ranges = [replace(part, from_row=first, to_row=last) for part, (first, last) in zip(ranges, windows, strict=True)]
    return Split(number, tuple(ranges))


def _read_options(manifest: Mapping[str, Any]) -> ReadOptions:
    chosen: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in manifest["reading"].items()
    }
    return ReadOptions(**{name: value for name, value in chosen.items() if name not in ("format", *FILE_OPTIONS)})


def _make_options(manifest: Mapping[str, Any]) -> EncodeOptions:
    """What the shards were made with, as the manifest says. `DataError` for what tokenmill does not write there."""
    try:
        return _read_encode_options(manifest)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise DataError(
            f"manifest.json: reading, packing or rows is not as tokenmill writes it ({error!r}); encode the corpus again"
        ) from None


def _read_encode_options(manifest: Mapping[str, Any]) -> EncodeOptions:
    packing, described = None, manifest.get("packing")
    if described is not None:
        eos, pad = (described[name] and (described[name]["token"], described[name]["id"]) for name in ("eos", "pad"))
        packing = Packing(
            described["block"],
            described["pack"],
            described["tail"],
            eos,
            pad,
            segment_ids="segment_ids" in described["columns"],
            position_ids="position_ids" in described["columns"],
            bounded=described.get("bounded", False),
        )
    shuffle, shape = manifest.get("shuffle"), RowShape.of(manifest.get("rows", {}))
    sha256 = manifest["tokenizer"]["sha256"]
    return EncodeOptions(_read_options(manifest), "", sha256, packing=packing, shuffle=shuffle, shape=shape)


def _encode_again(
    manifest: Mapping[str, Any], number: int, tokenizer: Tokenizer, files: Mapping[str, SourceFile], temporary: str
) -> dict[str, Any]:
    options = replace(_make_options(manifest), shards_folder=temporary, journal_folder=temporary, rejects_folder=temporary)
    entries = list_parts(manifest)
    split, part = _make_split(manifest, number, files), entries[number].get("part", 0)
    return encode_split(split, tokenizer, options, len(entries), first_part=part)


def _compare(record: Mapping[str, Any], shard: Mapping[str, Any]) -> str | None:
    """What tells a shard that was made again from the one in the manifest."""
    if record["failure"] is not None:
        return f"its source cannot be read ({record['failure']['message']})"
    (made,) = describe_split(record, shard["key"])
    if _sort_accounts(made) != _sort_accounts(shard):
        return "its source has changed since it was encoded"
    if made.get("sha256") != shard.get("sha256"):
        return "the same source gives other tokens"
    wanted = shard.get("rejects_sha256", made.get("rejects_sha256"))
    return None if made.get("rejects_sha256") == wanted else "the same source gives other rejects"


def _sort_accounts(shard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The accounts of a shard's files, those that it has documents of: a journal sorts them by name, a run has them as it read
    them.
    """
    return sorted((file for file in shard["files"] if file["documents"]), key=itemgetter("name"))


def _decode_some(
    folder: str, manifest: Mapping[str, Any], number: int, tokenizer: Tokenizer, files: Mapping[str, SourceFile]
) -> list[str]:
    """Documents of a shard, decoded, are the texts of the source, byte by byte."""
    path = FileSystems.join(folder, list_parts(manifest)[number]["path"])
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        rows = read_table(file, ["doc_id", "input_ids"])
    step = max(1, rows.num_rows // DEEP_DOCUMENTS)
    places = range(0, rows.num_rows, step)
    decoded = {rows["doc_id"][place].as_py(): tokenizer.decode_bytes(rows["input_ids"][place].as_py()) for place in places}
    for batch in read_split(_make_split(manifest, number, files), _read_options(manifest)):
        ids, texts = batch.documents["doc_id"], batch.documents["text"]
        for place, doc_id in enumerate(ids.to_pylist()):
            if doc_id in decoded and decoded.pop(doc_id) != texts[place].as_py().encode():
                return [f"document {doc_id} does not decode to its text"]
    return [f"document {next(iter(decoded))} is not in the source"] if decoded else []


def _put_in_place(folder: str, temporary: str, made: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
    """Rejects first: a shard that is whole stands for a repair that is done."""
    rejects, shard = posixpath.basename(schemas.rejects_of(entry)), posixpath.basename(entry.get("path", ""))
    for name, target in (
        (schemas.rejects_of(made), FileSystems.join(folder, "rejects", rejects) if rejects else ""),
        (made.get("path", ""), FileSystems.join(folder, shard) if shard else ""),
    ):
        if not target:
            continue
        path = FileSystems.join(temporary, name)
        if name and file_exists(path):
            with open(path, "rb") as file:
                write_file_atomically(target, file.read())
        else:
            delete_files([target])
