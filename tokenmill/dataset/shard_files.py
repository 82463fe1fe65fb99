"""The files of a finished dataset on any file system that Arrow supports: reads the manifest and single row groups of shards."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tokenmill import schemas
from tokenmill.errors import DataError, UsageError
from tokenmill.parquet.footer import ParquetFooter, open_parquet
from tokenmill.parquet.pages import OtherLayout, read_integers

#: A Parquet file numbers its row groups with 16-bit integers.
MOST_ROW_GROUPS = (1 << 15) - 1
_SHARD_NAME = re.compile(r"part-\d{5,}-of-\d{5,}(-[0-9a-f]{8})?\.parquet")
#: The number of files that are kept open.
_OPEN_FILES = 64


@dataclass(frozen=True)
class Chunk:
    """The place of one column of one row group in its file."""

    offset: int
    size: int
    values: int
    compression: str
    has_dictionary: bool


@dataclass(frozen=True)
class Footer:
    """The footer of a shard. For each row group: its rows, the chunks of its columns by name, and its smallest and largest id."""

    rows: list[int]
    chunks: list[dict[str, Chunk]]
    id_ranges: list[tuple[str, str] | None]
    schema: pa.Schema


class ShardFiles:
    """The manifest and shards of the dataset in `folder`. Can be pickled, without the open files.

    All data comes from the version that was opened. Files that were open before another version was published stay readable;
    opening more files then raises DataError. Raises DataError if there is no finished dataset, or if the manifest names files
    outside the folder.
    """

    def __init__(self, folder: str, filesystem: Any = None) -> None:
        self.folder = folder
        self._filesystem, self._root = _find_filesystem(folder, filesystem)
        self._manifest_time: tuple[int | None, int | None] = (None, None)
        self.manifest = self._read_manifest()
        self.shards: list[dict[str, Any]] = self.manifest["shards"]
        self._footers: dict[int, Footer] = {}
        self._files: OrderedDict[int, Any] = OrderedDict()
        self._metadata: dict[int, Any] = {}
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": OrderedDict(), "_metadata": {}}

    def footer(self, shard: int) -> Footer:
        """The footer of a shard, read once."""
        if shard not in self._footers:
            file = self._open(shard)
            try:
                parquet, footer = open_parquet(file)
                self._check_tokenizer(shard, parquet.metadata.metadata or {})
                self._metadata[shard], self._footers[shard] = parquet.metadata, _read_footer(parquet, footer)
            except (OSError, ValueError, pa.ArrowException) as error:
                raise self._damaged(shard, error) from None
        return self._footers[shard]

    def read_matrix(self, shard: int, group: int, column: str, shape: tuple[int, int], pad: int) -> npt.NDArray[np.integer]:
        """Read a column with a number for each token, as rows x block. Shorter rows are padded with `pad`."""
        footer = self.footer(shard)
        try:
            chunk, rows, kind = footer.chunks[group][column], footer.rows[group], footer.schema.field(column).type
        except (IndexError, KeyError) as error:
            raise self._damaged(shard, error) from None
        if rows != shape[0]:
            raise self._damaged(shard, ValueError(f"row group {group} has {rows} rows instead of {shape[0]}"))
        dtype = kind.value_type.to_pandas_dtype()
        if chunk.values == rows * shape[1] and not chunk.has_dictionary:
            try:
                content = self._open(shard).read_at(chunk.size, chunk.offset)
                self._check_remote()
                return read_integers(content, chunk.values, chunk.compression).reshape(shape).astype(dtype, copy=False)
            except OtherLayout:
                pass
            except (OSError, ValueError, pa.ArrowException) as error:
                raise self._damaged(shard, error) from None
        return self._pad_rows(shard, group, column, np.full(shape, pad, dtype))

    def _pad_rows(self, shard: int, group: int, column: str, matrix: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """Read the rows of a column with Arrow and write them over `matrix`."""
        lists = self.read_table(shard, group, [column])[column]
        for row, values in zip(matrix, lists, strict=True):
            tokens = values.values.to_numpy(zero_copy_only=False)[: row.size]
            row[: tokens.size] = tokens
        return matrix

    def read_table(self, shard: int, group: int, columns: list[str]) -> pa.Table:
        """Read columns of a row group with Arrow."""
        try:
            table = self._open_parquet(shard).read_row_group(group, columns=columns, use_threads=False)
            self._check_remote()
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self._damaged(shard, error) from None
        rows = self.footer(shard).rows[group]
        if table.num_rows != rows:  # Arrow uses the number of values in the footer, which may differ.
            raise self._damaged(shard, ValueError(f"row group {group} has {table.num_rows} rows instead of {rows}"))
        return table

    def read_file(self, name: str) -> bytes:
        """Read a file of the folder, such as the tokenizer."""
        try:
            with self._open_regular(f"{self._root}/{name}") as file:
                self._check_version()
                content: bytes = file.read()
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.folder}/{name}: cannot be read ({error}); encode the corpus again") from None
        return content

    def _open_parquet(self, shard: int) -> pq.ParquetFile:
        """Open a shard with Arrow. The footer is checked and parsed once each time the file is opened."""
        file = self._open(shard)
        if (metadata := self._metadata.get(shard)) is not None:
            return pq.ParquetFile(file, metadata=metadata)
        parquet, _ = open_parquet(file)
        self._metadata[shard] = parquet.metadata
        return parquet

    def _open(self, shard: int) -> Any:
        if self._process != os.getpid():  # After a fork, the position in a file may be shared with the parent.
            self._files, self._metadata, self._process = OrderedDict(), {}, os.getpid()
        if (file := self._files.get(shard)) is not None:
            return file
        try:
            file = self._open_regular(f"{self._root}/{self.shards[shard]['path']}")
        except (OSError, pa.ArrowException) as error:
            self._check_version()
            raise self._damaged(shard, error) from None
        self._check_version()
        self._files[shard] = file
        if len(self._files) > _OPEN_FILES:
            oldest, _ = self._files.popitem(last=False)
            self._metadata.pop(oldest, None)
        return file

    def _open_regular(self, path: str) -> Any:
        """Open a file. Raises OSError if a local path is not a regular file: opening a pipe would wait for its other end."""
        if isinstance(self._filesystem, pafs.LocalFileSystem):
            (found,) = self._filesystem.get_file_info([path])
            if found.type not in (pafs.FileType.File, pafs.FileType.NotFound):
                raise OSError(f"{path} is not a regular file")
        return self._filesystem.open_input_file(path)

    def _check_version(self) -> None:
        """Raise DataError if the folder contains another version than the one that was opened.

        Publishing removes the manifest of the old version first. So if the manifest is unchanged, every file opened before this
        check belongs to its version.
        """
        try:
            (found,) = self._filesystem.get_file_info([self._manifest_path])
            if (found.mtime_ns, found.size) == self._manifest_time:
                return
            with self._filesystem.open_input_file(self._manifest_path) as file:
                same = file.read() == self._manifest_content
        except (OSError, pa.ArrowException):
            same = False
        if not same:
            raise DataError(
                f"{self.folder}: another version was published since the dataset was opened; open it again, or open a version"
                " that stays: `tokenmill pin` makes one"
            )
        self._manifest_time = (found.mtime_ns, found.size)

    def _check_remote(self) -> None:
        """Check the version after each read on an object store, where an open file is read by name."""
        if not isinstance(self._filesystem, pafs.LocalFileSystem):
            self._check_version()

    def _check_tokenizer(self, shard: int, metadata: Mapping[bytes, bytes]) -> None:
        """Raise DataError if the footer of a shard names another tokenizer than the manifest."""
        stated = metadata.get(b"tokenmill.tokenizer_sha256", b"").decode("utf-8", "replace")
        wanted = _look_up(self.manifest, "tokenizer.sha256")
        if stated and isinstance(wanted, str) and stated != wanted:
            raise self._damaged(shard, ValueError("its ids are of another tokenizer than the manifest's"))

    def _damaged(self, shard: int, error: Exception) -> DataError:
        path, reason = self.shards[shard]["path"], (str(error).splitlines() or [""])[0]
        return DataError(f"{self.folder}/{path}: missing or damaged ({reason}); encode the corpus again")

    def _read_manifest(self) -> dict[str, Any]:
        self._manifest_path = path = f"{self._root}/{schemas.MANIFEST}"
        try:
            (info,) = self._filesystem.get_file_info([path])
            with self._open_regular(path) as file:
                self._manifest_content: bytes = file.read()
            self._manifest_time = (info.mtime_ns, info.size)
            manifest = json.loads(self._manifest_content)
        except FileNotFoundError:
            raise DataError(f"{self.folder!r} is no finished dataset: it holds no {schemas.MANIFEST}") from None
        except (OSError, pa.ArrowException) as error:
            if "://" not in self.folder:
                raise DataError(f"{self.folder!r} is no finished dataset: it holds no {schemas.MANIFEST}") from None
            reason = (str(error).splitlines() or [""])[0]
            raise DataError(f"{self.folder}: cannot be read ({reason}); check the credentials and the network") from None
        except (ValueError, RecursionError):
            raise DataError(f"{self.folder}/{schemas.MANIFEST} is damaged; encode the corpus again") from None
        if not isinstance(manifest, dict) or manifest.get("format") != schemas.DATASET_FORMAT:
            raise DataError(f"{self.folder}/{schemas.MANIFEST} is not that of a dataset; `tokenmill encode` writes one")
        if manifest.get("version") != schemas.DATASET_VERSION:
            raise DataError(
                f"{self.folder} is a dataset of version {manifest.get('version')}; this is for {schemas.DATASET_VERSION}"
            )
        check_manifest(self.folder, manifest)
        return manifest


def check_manifest(folder: str, manifest: Mapping[str, Any]) -> None:
    """Raise DataError if a field that readers use has the wrong type, or if a shard has the name of a file outside the folder."""
    shards, packing = manifest.get("shards"), manifest.get("packing")
    if not isinstance(shards, list) or not all(isinstance(shard, dict) for shard in shards):
        raise DataError(f"{folder}/{schemas.MANIFEST} is damaged: it lists no shards; encode the corpus again")
    check_names(folder, shards)
    numbers = [(manifest, name, 0) for name in ("tokenizer.embedding_rows", "totals.tokens")]
    numbers += [(shard, "documents" if packing is None else "blocks", 0) for shard in shards]
    if packing is not None:
        numbers += [(manifest, f"packing.{name}", 1) for name in ("block", "row_group_blocks")]
        numbers += [(manifest, "packing.pad.id", 0)] if _look_up(manifest, "packing.pad") is not None else []
    for place, name, least in numbers:
        value = _look_up(place, name)
        if type(value) is not int or not least <= value < 1 << 63:
            raise DataError(f"{folder}/{schemas.MANIFEST} is damaged: {name} is {value!r}; encode the corpus again")
    if packing is None:
        return
    most = MOST_ROW_GROUPS * packing["row_group_blocks"]
    if damaged := [shard["blocks"] for shard in shards if shard["blocks"] > most]:
        raise DataError(f"{folder}/{schemas.MANIFEST} is damaged: blocks is {damaged[0]!r}; encode the corpus again")
    if not isinstance(packing.get("columns"), list):
        raise DataError(f"{folder}/{schemas.MANIFEST} is damaged: packing.columns is no list; encode the corpus again")


def check_names(folder: str, parts: Sequence[Mapping[str, Any]]) -> None:
    """Raise DataError where a manifest names a file that is none of its folder's shards: `/dev/zero`, `../x.parquet`."""
    for part in parts:
        if not isinstance(part.get("path"), str) or not _SHARD_NAME.fullmatch(part["path"]):
            raise DataError(f"{folder}/{schemas.MANIFEST}: {part.get('path')!r} is no name of a shard; encode the corpus again")


def _look_up(place: Any, name: str) -> Any:
    """`place["a"]["b"]` for `a.b`, None if it does not exist."""
    for part in name.split("."):
        place = place.get(part) if isinstance(place, dict) else None
    return place


def _find_filesystem(folder: str, filesystem: Any) -> tuple[Any, str]:
    """The file system of a folder and the path on it: local, `s3://`, `gs://`, `hdfs://`, or the given file system."""
    if filesystem is not None:
        if not isinstance(filesystem, pafs.FileSystem):
            filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
        return filesystem, folder.rstrip("/")
    if "://" not in folder:
        return pafs.LocalFileSystem(), folder.rstrip("/") or "/"
    try:
        if folder.startswith("gs://") and (emulator := os.environ.get("STORAGE_EMULATOR_HOST")):
            scheme, _, address = emulator.rpartition("://")
            found = pafs.GcsFileSystem(anonymous=True, scheme=scheme or "http", endpoint_override=address.rstrip("/"))
            return found, folder.removeprefix("gs://").rstrip("/")
        found, path = pafs.FileSystem.from_uri(folder)
    except (ValueError, OSError, pa.ArrowException) as error:
        raise UsageError(f"{folder}: {error}; give `filesystem=` one of pyarrow or fsspec") from None
    return found, path.rstrip("/")


def _read_footer(file: pq.ParquetFile, footer: ParquetFooter) -> Footer:
    names = [leaf.path[0] for leaf in footer.leaves]
    numbers = [grid.tolist() for grid in (footer.offsets, footer.sizes, footer.values)]
    groups = zip(*numbers, footer.codecs(), footer.has_dictionary().tolist(), strict=True)
    chunks = [dict(zip(names, itertools.starmap(Chunk, zip(*group, strict=True)), strict=True)) for group in groups]
    ids = [place for place, name in enumerate(names) if name in ("doc_id", "doc_ids")]
    ranges: list[tuple[str, str] | None] = footer.text_ranges(ids[-1]) if ids else [None for _ in chunks]
    return Footer(footer.rows.tolist(), chunks, ranges, file.schema_arrow)
