"""Word counts on disk: one sorted Parquet file with what it was made from in its footer, and a manifest.

Counts made elsewhere are taken too: a Parquet file, or a folder of them, with the columns `word` and `count`.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes

from tokenmill import schemas
from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.parquet.footer import open_parquet, read_table
from tokenmill.pipeline.accounting import Books
from tokenmill.pipeline.fingerprints import hash_bytes
from tokenmill.pipeline.outputs import LEDGER, OutputFolder
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.word_counts import check_counts, combine_counts, fingerprint_counts, sort_counts
from tokenmill.transforms.files import check_regular, list_files, read_file, read_json
from tokenmill.transforms.stores import FileSystems
from tokenmill.transforms.sums import add_sum
from tokenmill.transforms.write import OutputFile
from tokenmill.version import __version__

ROW_GROUP_WORDS = 1 << 20
#: What the footer of word counts says of how they were made.
HEADER = ("normalizer", "pretokenizer", "unicode", "input_fingerprint")
_PRETOKENIZER, _NORMALIZER = b"tokenmill.pretokenizer", b"tokenmill.normalizer"


def write_counts(
    folder: OutputFolder,
    pretokenizer: PreTokenizer,
    normalizer: Normalizer,
    books: Books,
    words: int,
    records: Mapping[int, dict[str, Any]],
    *,
    keep_groups: bool = False,
) -> dict[str, Any]:
    """Gather the partitions of a count job, sort them, and publish the folder; returns its manifest.

    `records` are those of the splits. With `keep_groups` the counts of each split are published too, for `tokenmill build` to go
    on from.
    """
    counts = sort_counts(pa.concat_tables([schemas.WORD_COUNTS.empty_table(), *_read_partitions(folder)]))
    header = {
        "normalizer": normalizer.spec,
        "pretokenizer": pretokenizer.spec,
        "unicode": pretokenizer.unicode_version,
        "input_fingerprint": fingerprint_inputs(books.files),
    }
    part = _write_part(folder, counts, header)
    manifest = {
        "format": schemas.WORD_COUNTS_FORMAT,
        "version": schemas.WORD_COUNTS_VERSION,
        "tokenmill": __version__,
        **header,
        "word_counts_sha256": fingerprint_counts(counts, with_order=False),
        "totals": {**books.totals, "words": words, "distinct_words": counts.num_rows},
        **({"reasons": books.reasons} if books.reasons else {}),
        "files": books.files,
        "parts": [part],
        **({"rejects": rejects} if (rejects := _list_rejects(records, len(folder.keys))) else {}),
    }
    folder.publish(manifest, {LEDGER: _render_ledger(folder, records)} if keep_groups else {})
    return manifest


def _list_rejects(records: Mapping[int, dict[str, Any]], splits: int) -> list[dict[str, Any]]:
    """The files of rejects, with their sums."""
    return [
        {
            "path": schemas.reject_name(index, splits),
            **{name: records[index][name] for name in ("rejects_bytes", "rejects_sha256")},
        }
        for index in sorted(records)
        if "rejects_sha256" in records[index]
    ]


def _render_ledger(folder: OutputFolder, groups: Mapping[int, dict[str, Any]]) -> bytes:
    """Which splits the groups are of, and what was counted in them."""
    ledger = {"keys": list(folder.keys), "records": [groups[index] for index in sorted(groups)]}
    return json.dumps(add_sum(ledger), ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"


def fingerprint_inputs(files: list[dict[str, Any]]) -> str:
    """The inputs' contents as one fingerprint: the sum of the files', whatever their names and their order."""
    return f"{sum(int(file['fingerprint'], 16) for file in files) % (1 << 128):032x}"


def find_counts(inputs: tuple[str, ...]) -> str | None:
    """The one input, if it is word counts and not a corpus: a file or folder of Parquet with the columns `word` and `count`."""
    if len(inputs) != 1 or inputs[0].startswith(("hf:", "disk:")) or inputs[0] == "stdlib":
        return None
    parts = _list_parts(inputs[0])
    return inputs[0] if parts and {"word", "count"} <= set(_open_parquet(parts[0]).schema_arrow.names) else None


def read_pretokenizer(path: str) -> PreTokenizer | None:
    """The pre-tokenizer that word counts were made with, None where their footer does not say."""
    spec = _read_spec(path, _PRETOKENIZER)
    return PreTokenizer.of(spec) if spec else None


def read_normalizer(path: str) -> Normalizer | None:
    """The normalizer of the texts that word counts were made from, None where their footer does not say."""
    spec = _read_spec(path, _NORMALIZER)
    return Normalizer.of(spec) if spec else None


def read_header(path: str) -> dict[str, Any]:
    """What the footer of word counts says that they were made from, by the names of `HEADER`."""
    return {name: _read_spec(path, f"tokenmill.{name}".encode()) for name in HEADER}


def _read_spec(path: str, key: bytes) -> Any:
    """A name, or what `_write_part` made JSON of."""
    metadata = _open_parquet(_list_parts(path)[0]).schema_arrow.metadata or {}
    try:
        text = metadata.get(key, b"").decode()
        return json.loads(text) if text.startswith(("{", "[")) else text
    except ValueError as error:
        raise UnreadableFileError(f"{path}: {key.decode()} in its footer is damaged ({error}); count the corpus again") from None


def check_pretokenizer(path: str, asked: PreTokenizer | None) -> PreTokenizer:
    """The pre-tokenizer to train with on word counts: theirs. Another one is refused, none at all too."""
    recorded = read_pretokenizer(path)
    if recorded is None and asked is None:
        raise UsageError(f"{path} does not say which pre-tokenizer made its words; give --pretokenizer")
    if recorded is not None and asked is not None and asked != recorded:
        raise UsageError(
            f"{path} was counted with pre-tokenizer {recorded}, not {asked}; leave --pretokenizer and its options out, "
            "or count again"
        )
    return recorded or asked  # type: ignore[return-value]


def check_normalizer(path: str, asked: Normalizer | None) -> Normalizer:
    """The normalizer to train with on word counts: theirs. Another one is refused; counts that name none have none."""
    recorded = read_normalizer(path)
    if recorded is not None and asked is not None and asked != recorded:
        raise UsageError(f"{path} was counted with normalizer {recorded}, not {asked}; leave --normalizer out, or count again")
    return recorded or asked or Normalizer()


def read_counts(path: str) -> pa.Table:
    """Word counts of a folder or file, checked, in their order on disk."""
    sums = _read_sums(path)
    tables = [check_counts(_read_part(part, sums.get(posixpath.basename(part))), part) for part in _list_parts(path)]
    return tables[0].combine_chunks() if len(tables) == 1 else sort_counts(combine_counts(tables))


def _list_parts(path: str) -> list[str]:
    if path.endswith((".parquet", ".pq")):
        return [path] if FileSystems.exists(path) else []
    return list_files(path, "*.parquet")


def _open_parquet(path: str) -> pq.ParquetFile:
    with _opening(path) as stream:
        return open_parquet(stream)[0]


def _read_sums(path: str) -> dict[str, str]:
    """sha256 of the parts by name, as the manifest of the folder has them; none where the counts were made elsewhere."""
    manifest = read_json(FileSystems.join(path, schemas.MANIFEST))
    if not isinstance(manifest, dict) or manifest.get("format") != schemas.WORD_COUNTS_FORMAT:
        return {}
    return {part["path"]: part["sha256"] for part in manifest.get("parts", []) if {"path", "sha256"} <= part.keys()}


def _read_part(path: str, sha256: str | None = None) -> pa.Table:
    if sha256 is not None and hash_bytes(read_file(path)) != sha256:
        raise UnreadableFileError(f"{path}: other bytes than the manifest's sha256 is of; count the corpus again")
    with _opening(path) as stream:
        return read_table(stream)


@contextlib.contextmanager
def _opening(path: str) -> Iterator[IO[bytes]]:
    """A file of word counts, with what goes wrong as `UnreadableFileError`."""
    try:
        check_regular(path)
        yield FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise UnreadableFileError(f"{path}: not a Parquet file ({reason}); make it again, or give another --format") from None


def _read_partitions(folder: OutputFolder) -> list[pa.Table]:
    paths = list_files(folder.partitions, "partition-*.arrow")
    return [pa.ipc.open_file(pa.py_buffer(read_file(path))).read_all() for path in paths]


def _write_part(folder: OutputFolder, counts: pa.Table, header: dict[str, Any]) -> dict[str, Any]:
    name = schemas.shard_name(0, 1)
    output = OutputFile(FileSystems.join(folder.shards, name))
    metadata = {
        "tokenmill.version": str(schemas.WORD_COUNTS_VERSION),
        **{f"tokenmill.{key}": value if isinstance(value, str) else json.dumps(value) for key, value in header.items()},
    }
    schema = schemas.WORD_COUNTS.with_metadata(metadata)
    with output, pq.ParquetWriter(output, schema, compression="zstd", use_dictionary=False, write_statistics=["count"]) as writer:
        writer.write_table(counts, row_group_size=ROW_GROUP_WORDS)
    return {"path": name, "rows": counts.num_rows, "bytes": output.size, "sha256": output.sha256}
