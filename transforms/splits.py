"""What a split of the input is: the unit of parallel work, of shards and of accounting.

A split is planned in the driver and holds one or more ranges of files, 16-64 MB together, in corpus order. Many small files share
a split; a large file is cut into many; a file that cannot be cut (compressed text, an Arrow stream) is one range.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: The largest document that is read unless the job says otherwise; `transforms/document_limit.py` says why.
DOCUMENT_BYTES = 128 << 20
#: The largest window of a zstd file that is read unless the job says otherwise: that of the zstd program.
WINDOW_BYTES = 128 << 20


@dataclass(frozen=True)
class SourceFile:
    """One input file.

    `path` is what opens it (a Beam file system path, or the `hf:`/`disk:` text as given); `name` is how artefacts call it,
    relative to the folder or glob root it was found under. `format` is a name of `FORMATS`, such as `jsonl`;
    `compression` is empty, `gz`, `zst`, `bz2` or `xz`; `size` is in bytes, as stored, and 0 for a dataset. `document` is `file`
    when a text file is one document whatever the job's options say (the sources of the standard library). `encoding` is that of
    its text as Python calls it, empty for UTF-8. A zstd file with a window of more than `max_window_bytes` is refused.
    `delimiter` is what stands between the cells of a table, empty for that of the format. `is_recognised`: the format is what the
    contents say, not the name alone.
    """

    path: str
    name: str
    format: str
    compression: str = ""
    size: int = 0
    document: str = "line"
    encoding: str = ""
    max_window_bytes: int = WINDOW_BYTES
    delimiter: str = ""
    is_recognised: bool = field(default=False, compare=False, repr=False)

    @property
    def is_stream(self) -> bool:
        """Whether its text only comes out from the start on, so that it cannot be cut."""
        return bool(self.compression or self.encoding)

    @property
    def kind(self) -> str:
        """Format and compression as one word: `jsonl`, `jsonl.gz`."""
        return f"{self.format}.{self.compression}" if self.compression else self.format


@dataclass(frozen=True)
class Range:
    """A part of one file: bytes `[start, end)` of lines, row groups of Parquet, record batches of Arrow, or rows of a dataset.

    A line belongs to the range its first byte lies in. `first_row` is the row number, within the file, of the range's first
    record; `rows` limits how many records are taken (None: all). A compressed file, a file in another encoding than UTF-8 or an
    Arrow stream has one range, the whole of it, whatever its numbers say.

    Of a shard that is made again, `from_row` and `to_row` say which rows are wanted: the others are read over.
    """

    file: SourceFile
    start: int
    end: int
    first_row: int = 0
    rows: int | None = None
    from_row: int = 0
    to_row: int | None = None


@dataclass(frozen=True)
class SizedRange:
    """A range as the planner sees it: `rows` records when the file's metadata tell (else None), about `size` bytes of work."""

    range: Range
    rows: int | None
    size: int


@dataclass(frozen=True)
class Split:
    """One unit of work: `index` is its place in corpus order, and the number of its shard.

    `size` is about how many bytes of work it is: as stored, or of text where the format's metadata tell.
    """

    index: int
    ranges: tuple[Range, ...]
    size: int = 0


@dataclass(frozen=True)
class ReadOptions:
    """How documents are taken out of files. Part of the job, the same for every split.

    `pair_column`: where the second text of a pair stands; None for single texts.
    `document` is `line` or `file` (text only). `invalid_utf8` is `error`, `replace` or `reject` and also governs lone
    surrogates in JSON. `batch_bytes` is how much text a batch holds, about. A document of more than `max_document_bytes` is a
    reject (`transforms/document_limit.py`).
    """

    text_column: str = "text"
    id_column: str | None = None
    document: str = "line"
    invalid_utf8: str = "reject"
    batch_bytes: int = 4 << 20
    pair_column: str | None = None
    max_document_bytes: int = DOCUMENT_BYTES

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of texts: one, or those of both texts of a pair."""
        return (self.text_column,) if self.pair_column is None else (self.text_column, self.pair_column)


@dataclass(frozen=True)
class Reject:
    """A record that was read but cannot become a document: where it stands, why, and what it was (raw bytes).

    `row` counts records from 0 within the file; `offset` is the byte position of a line, -1 where the format has none, and for a
    document that was in order until it was encoded. `size` is that of a record of which `raw` is only the beginning, else -1.
    `place` is what the reason begins with where it names the document.
    """

    file: str
    row: int
    offset: int
    reason: str
    raw: bytes = field(default=b"", repr=False)
    size: int = -1
    place: str = field(default="", compare=False)

    @property
    def brief(self) -> str:
        """The reason, without the name of the document: file and row say that too."""
        return self.reason.removeprefix(self.place).lstrip(",: ")
