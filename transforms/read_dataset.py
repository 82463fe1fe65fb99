"""Datasets of Hugging Face `datasets`: `hf:PATH[:CONFIG][@REVISION][:SPLIT]` and `disk:DIR[:SPLIT]`, cut by rows.

hf:universal-dependencies/universal_dependencies:en_ewt@2.18:train[:10000]
hf:ag_news                  the split `train` of its only configuration
hf:ag_news:test             one field that is a usual split name, or has a slice or a `+`, is the split, not the configuration
hf:my/folder                files in a local folder
disk:corpus:validation      what `save_to_disk` wrote
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.parquet.footer import open_parquet
from tokenmill.transforms.decompress import reading
from tokenmill.transforms.read_batches import DocumentBatch
from tokenmill.transforms.read_columns import Columns, find_columns, read_columns, rows_per_batch, take_rows
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile

if TYPE_CHECKING:
    from datasets import Dataset

_NAME = re.compile(r"(?P<path>[^:@]+)(?::(?P<config>[^:@\[+]*))?(?:@(?P<revision>[^:@]+))?(?::(?P<split>.+))?")
_SPLIT_NAMES = frozenset({"train", "validation", "valid", "val", "dev", "test", "all"})
_DEFAULT_SPLIT = "train"
#: What `datasets` takes for Parquet.
_PARQUET_SUFFIXES = frozenset({".parquet", ".geoparquet", ".gpq"})


@dataclass(frozen=True)
class DatasetName:
    """What an `hf:` or `disk:` input asks for. `split` is None where none is named."""

    kind: str
    path: str
    config: str | None = None
    revision: str | None = None
    split: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it stands on this machine's disk rather than on the Hub."""
        return self.kind == "disk" or os.path.isdir(self.path)


def parse_dataset_name(text: str) -> DatasetName:
    """Take an `hf:` or `disk:` input apart.

    `hf:a/b:en@2.1:train[:9]` is `DatasetName("hf", "a/b", "en", "2.1", "train[:9]")`. Raises `UsageError`.
    """
    kind, _, name = text.partition(":")
    if kind == "disk" and name:
        path, _, split = name.partition(":")
        return DatasetName(kind, path, split=split or None)
    found = _NAME.fullmatch(name) if kind == "hf" else None
    if found is None:
        raise UsageError(f"{text!r} is not of the form hf:PATH[:CONFIG][@REVISION][:SPLIT] or disk:DIR[:SPLIT]")
    config, revision, split = found["config"], found["revision"], found["split"]
    if config in _SPLIT_NAMES and revision is None and split is None:
        return DatasetName(kind, found["path"], split=config)
    return DatasetName(kind, found["path"], config or None, revision, split)


@functools.lru_cache(maxsize=4)
def open_dataset(text: str) -> Dataset:
    """The dataset that an input names. One process opens it once, however many ranges of it are read.

    Raises `UnreadableFileError` where there is none, `UsageError` for a split or configuration it does not have.
    """
    name = parse_dataset_name(text)
    source = SourceFile(text, text, "dataset")
    with reading(source):
        try:
            return _load_disk(name, text) if name.kind == "disk" else _load_hub(name)
        except (UsageError, UnreadableFileError, OSError, pa.ArrowException):
            raise
        except ValueError as error:
            raise UsageError(f"{text}: {str(error).strip()}") from error
        except Exception as error:
            raise UnreadableFileError(f"{text}: cannot be loaded: {type(error).__name__}: {error}") from error


def _load_hub(name: DatasetName) -> Dataset:
    import datasets

    datasets.disable_progress_bars()  # they would stand between the lines of our own log
    if name.is_local:
        _check_footers(Path(name.path))
    return datasets.load_dataset(name.path, name.config, revision=name.revision, split=name.split or _DEFAULT_SPLIT)


def _check_footers(folder: Path) -> None:
    """Refuse Parquet files that would end the process, which `datasets` gives to Arrow as they are."""
    for path in sorted(path for path in folder.rglob("*") if path.suffix in _PARQUET_SUFFIXES and path.is_file()):
        with reading(SourceFile(str(path), str(path), "parquet")), path.open("rb") as stream:
            open_parquet(stream)


def _load_disk(name: DatasetName, text: str) -> Dataset:
    import datasets

    loaded = datasets.load_from_disk(name.path)
    if isinstance(loaded, datasets.Dataset):
        if name.split is not None:
            raise UsageError(f"{text}: the folder holds one dataset without splits; leave out {':' + name.split!r}")
        return loaded
    split = name.split or (_DEFAULT_SPLIT if len(loaded) != 1 else next(iter(loaded)))
    if split not in loaded:
        raise UsageError(f"{text}: no split {split!r}; the splits there are: {', '.join(loaded)}")
    return loaded[split]


def list_other_splits(text: str) -> tuple[str, list[str]] | None:
    """The split that is read where an input names none, and those that are not; None where there is nothing to choose.

    For `disk:DIR` with the splits train and test this is `("train", ["test"])`.
    """
    name = parse_dataset_name(text)
    if name.split is not None:
        return None
    splits = _list_splits(name, text)
    return (_DEFAULT_SPLIT, [split for split in splits if split != _DEFAULT_SPLIT]) if len(splits) > 1 else None


def _list_splits(name: DatasetName, text: str) -> list[str]:
    """All splits of a dataset: those that its folder lists, or that its description has."""
    if name.kind != "disk":
        return list(open_dataset(text).info.splits or ())
    try:
        listed = json.loads((Path(name.path) / "dataset_dict.json").read_bytes()).get("splits")
    except (OSError, ValueError, AttributeError):
        return []
    return [split for split in listed if isinstance(split, str)] if isinstance(listed, list) else []


def cut_dataset(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    """Cut a dataset into ranges of rows of about `split_bytes` of text each.

    Raises `MissingColumnError`, and what `open_dataset` raises.
    """
    dataset = open_dataset(file.path)
    columns = find_columns(dataset.features.arrow_schema, file, options)
    rows = len(dataset)
    size = _text_bytes(dataset, columns)
    parts = min(rows, -(-size // split_bytes) or 1)
    edges = [rows * part // parts for part in range(parts + 1)] if rows else []
    return [
        SizedRange(Range(file, start, end, first_row=start), end - start, size * (end - start) // rows)
        for start, end in itertools.pairwise(edges)
    ]


def _text_bytes(dataset: Dataset, columns: Columns) -> int:
    """Bytes of the text column, estimated: after a selection the table still holds the rows that were left out."""
    held = dataset.data.select([columns.texts[0].root])
    return int(held.nbytes * len(dataset) // max(1, held.num_rows))


def read_dataset(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    """Read the rows of a range. Raises `UnreadableFileError`, and `InvalidTextError` under the policy `error`."""
    dataset = open_dataset(part.file.path)
    columns = find_columns(dataset.features.arrow_schema, part.file, options)
    step = rows_per_batch(options, rows=len(dataset), size=_text_bytes(dataset, columns))
    with reading(part.file):
        batches = _read_rows(dataset.select_columns(columns.roots).with_format("arrow"), part, step)
        yield from read_columns(take_rows(batches, part.rows), columns, part.file, options, first_row=part.first_row)


def _read_rows(dataset: Dataset, part: Range, step: int) -> Iterator[pa.RecordBatch]:
    for start in range(part.start, part.end, step):
        yield from dataset[start : min(start + step, part.end)].to_batches()
