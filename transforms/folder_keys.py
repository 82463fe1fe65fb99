"""Columns that folders stand for: of `data/lang=en/part.parquet` the column `lang` is `en` in every row.

Hive, Spark and Arrow write datasets so, with `%2F` and the like in values. Such a column can be an id, and so a group of a
report. It comes before a column of that name in the file.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa

from tokenmill.transforms.read_batches import DocumentBatch
from tokenmill.transforms.splits import ReadOptions, SourceFile


def find_folder_key(file: SourceFile, column: str | None) -> str | None:
    """The value of a column that a folder of a file's path stands for, the innermost one; None where there is none.

    >>> find_folder_key(SourceFile("d/lang=en%20GB/a.parquet", "a.parquet", "parquet"), "lang")
    'en GB'
    """
    if column is None or file.format == "dataset":
        return None
    for folder in reversed(file.path.split("/")[:-1]):
        key, separator, value = folder.partition("=")
        if separator and unquote(key) == column:
            return unquote(value, errors="replace")
    return None


def without_folder_key(file: SourceFile, options: ReadOptions) -> ReadOptions:
    """The options for reading the file itself, which need not have a column that its folder stands for."""
    return options if find_folder_key(file, options.id_column) is None else replace(options, id_column=None)


def set_ids(batch: DocumentBatch, value: str) -> DocumentBatch:
    """The batch with one id for all its documents."""
    ids = pa.array([value] * batch.documents.num_rows, pa.string())
    columns = [ids, *batch.documents.columns[1:]]
    return replace(batch, documents=pa.RecordBatch.from_arrays(columns, schema=batch.documents.schema))
