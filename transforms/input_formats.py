"""The formats of input files: one row for each, and the only place that knows which of them there are.

A new format is a module with its `cut` and `read`, a row here, and its name in `tokenmill.names.INPUT_FORMATS`, which `--format`
takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tokenmill.transforms.read_arrow import count_stream_rows, cut_arrow, read_arrow
from tokenmill.transforms.read_batches import DocumentBatch
from tokenmill.transforms.read_csv import count_csv_rows, cut_csv, read_csv
from tokenmill.transforms.read_dataset import cut_dataset, read_dataset
from tokenmill.transforms.read_jsonl import check_jsonl_columns, count_jsonl_rows, cut_jsonl, read_jsonl
from tokenmill.transforms.read_lines import LineCount, count_text_rows, cut_text, read_text
from tokenmill.transforms.read_parquet import cut_parquet, read_parquet
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile


@dataclass(frozen=True)
class InputFormat:
    """How files of one format are found, cut and read.

    `cut` makes ranges of at most about so many bytes, in order; it raises `MissingColumnError` where the format has a schema.
    `read` gives the records of a range, each exactly once, as a document or a reject.
    `extensions` are the endings of names that stand for the format, in lower case, without that of a compression.
    `magic` are the first bytes that files of this format have, and no others; none where contents alone do not tell.
    `has_columns`: documents are rows with named columns, so that there may be an id or a second text, and none is a whole file.
    `has_delimiter`: a character between its cells may be chosen.
    `probe` looks at the first records of a file before the job and raises `MissingColumnError`; None where `cut` does so.
    `count_records` counts a range whose records `cut` does not know, no further than the block that holds record number `limit`.
    """

    name: str
    cut: Callable[[SourceFile, ReadOptions, int], list[SizedRange]]
    read: Callable[[Range, ReadOptions], Iterator[DocumentBatch]]
    extensions: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    has_columns: bool = True
    has_delimiter: bool = False
    probe: Callable[[SourceFile, ReadOptions], None] | None = None
    count_records: Callable[[Range, int | None], LineCount] | None = None


#: What a file is taken for that neither its contents nor its name tell anything of.
DEFAULT_FORMAT = "text"

#: `PAR1` is also a word that a text may begin with; behind it stands the first field of a Thrift structure, a 32-bit number.
_PARQUET_MAGIC = (b"PAR1\x15", b"PARE")
#: A file, and a stream: the marker in front of its first message.
_ARROW_MAGIC = (b"ARROW1\0\0", b"\xff\xff\xff\xff")

_ROWS = (
    InputFormat("text", cut_text, read_text, extensions=(".txt", ".text"), has_columns=False, count_records=count_text_rows),
    InputFormat(
        "jsonl",
        cut_jsonl,
        read_jsonl,
        extensions=(".jsonl", ".ndjson", ".json"),
        probe=check_jsonl_columns,
        count_records=count_jsonl_rows,
    ),
    InputFormat("csv", cut_csv, read_csv, extensions=(".csv",), has_delimiter=True, count_records=count_csv_rows),
    InputFormat("tsv", cut_csv, read_csv, extensions=(".tsv", ".tab"), has_delimiter=True, count_records=count_csv_rows),
    InputFormat("parquet", cut_parquet, read_parquet, extensions=(".parquet", ".pq"), magic=_PARQUET_MAGIC),
    InputFormat(
        "arrow",
        cut_arrow,
        read_arrow,
        extensions=(".arrow", ".feather", ".ipc"),
        magic=_ARROW_MAGIC,
        count_records=count_stream_rows,
    ),
    InputFormat("dataset", cut_dataset, read_dataset),
)

FORMATS: dict[str, InputFormat] = {row.name: row for row in _ROWS}


def format_of(file: SourceFile) -> InputFormat:
    """The row of a file's format."""
    return FORMATS[file.format]


def find_by_extension(extension: str) -> str | None:
    """The format that an ending such as `.jsonl` stands for; None where it stands for none."""
    return next((row.name for row in FORMATS.values() if extension in row.extensions), None)
