"""Opens untrusted Parquet files: reads and checks the footer before Arrow sees it.

Arrow reports most damage as an error, but not all. A deeply nested schema overflows its stack. For a footer that contradicts
itself, its Python classes for columns end the process (pyarrow 25: `RowGroupMetaData.column` and the objects it returns). So
these classes are not used: `ParquetFooter` has the parts of a footer that are needed, and Arrow gets only checked footers.

    file, footer = open_parquet(stream)
    footer.raw_sizes[:, footer.find_leaves("text")]

Source: the Parquet format's description (github.com/apache/parquet-format), `README.md` and `parquet.thrift`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill.parquet.fields import DamagedFooter, FooterFields, Ints

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4_HADOOP", "ZSTD", "LZ4_RAW")
_OPTIONAL, _REPEATED = 1, 2
_BYTE_ARRAY = 6
_MAGIC, _MAGIC_OF_ENCRYPTED = b"PAR1", b"PARE"
_TAIL_BYTES = 8
#: The first read from the end of a file. Most footers are smaller.
_FIRST_BYTES = 64 << 10
_MOST_FOOTER_BYTES = 1 << 28
#: The last footers are cached, unless they are large, because a worker opens a file again for each of its splits.
_KEPT_FOOTERS, _MOST_KEPT_BYTES = 4, 4 << 20
#: Arrow reads a schema by recursion. Real schemas rarely have more than a dozen levels.
_MOST_LEVELS = 100
#: The limit on the full names of all columns together, because Arrow's Python side makes strings of them.
_MOST_NAME_BYTES = 1 << 24

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True)
class Leaf:
    """A column without nested columns: its path of names from the outermost inwards, its physical type, its largest levels."""

    path: tuple[str, ...]
    kind: int
    repetition: int
    definition: int


class ParquetFooter:
    """A checked footer.

    `leaves`: the columns as they are stored. `rows`: the rows of each row group (int64[g]). For the chunk of each row group and
    leaf (int64[g, l]): `values`, the sizes in bytes before and after compression (`raw_sizes`, `sizes`), and `offsets` of the
    first data page.

    Raises DamagedFooter for a footer that is incomplete, inconsistent or impossible.
    """

    def __init__(self, content: bytes) -> None:
        self._fields = FooterFields(content)
        self.leaves = _read_leaves(self._fields)
        self.rows = _read_rows(self._fields)
        if not np.all(self._fields.count_within("group", "chunk") == len(self.leaves)):
            raise DamagedFooter("the footer is damaged: a row group has not one chunk for each column")
        self._is_encrypted = self._grid("chunk.encryption", -1) >= 0
        self.values, self.raw_sizes, self.sizes, self.offsets = (
            self._read_sizes(name) for name in ("chunk.values", "chunk.raw_size", "chunk.size", "chunk.offset")
        )
        self._check_chunks()

    def find_leaves(self, path: str) -> list[int]:
        """The places of the leaves with this dotted `path`. Raises DamagedFooter if one is encrypted."""
        return self._refuse_encrypted(path, [place for place, leaf in enumerate(self.leaves) if ".".join(leaf.path) == path])

    def find_leaves_below(self, path: str) -> list[int]:
        """The places of the leaves with this dotted `path` or inside it. Raises DamagedFooter if one is encrypted."""
        names = [".".join(leaf.path) for leaf in self.leaves]
        return self._refuse_encrypted(
            path, [place for place, name in enumerate(names) if name == path or name.startswith(path + ".")]
        )

    def _refuse_encrypted(self, path: str, found: list[int]) -> list[int]:
        if self._is_encrypted[:, found].any():
            raise DamagedFooter(f"column {path!r} is encrypted, and there is no key")
        return found

    def has_dictionary(self) -> npt.NDArray[np.bool_]:
        """bool[g, l]: whether each chunk has a dictionary page."""
        return self._grid("chunk.dictionary", -1) >= 0

    def codecs(self) -> list[list[str]]:
        """The name of the compression of each chunk, by row group and leaf."""
        grid = self._grid("chunk.codec", -1)
        return [[_CODECS[codec] if 0 <= codec < len(_CODECS) else "UNKNOWN" for codec in row] for row in grid.tolist()]

    def text_ranges(self, leaf: int) -> list[tuple[str, str] | None]:
        """The smallest and the largest text of a leaf in each row group, None if the footer does not state them."""
        pairs = zip(*(self._fields.strings("chunk", f"chunk.{name}") for name in ("smallest", "largest")), strict=True)
        try:
            return [
                None if least is None or most is None else (least.decode(), most.decode())
                for least, most in list(pairs)[leaf :: len(self.leaves)]
            ]
        except UnicodeDecodeError:
            raise DamagedFooter("the footer is damaged: statistics that are not UTF-8") from None

    def _grid(self, name: str, absent: int) -> Ints:
        return self._fields.numbers("chunk", name, absent).reshape(self.rows.size, len(self.leaves))

    def _read_sizes(self, name: str) -> Ints:
        """A number that each chunk must have and that is at least 0. It may be missing for an encrypted chunk."""
        grid = self._grid(name, -1)
        grid[self._is_encrypted & (grid == -1)] = 0
        self._refuse(grid < 0, f"{name.partition('.')[2]} is missing or negative")
        return grid

    def _check_chunks(self) -> None:
        """Refuse what makes Arrow end the process: types that differ from the schema, and level histograms of the wrong size."""
        kinds = np.array([leaf.kind for leaf in self.leaves], np.int64)
        type_of_chunk = self._grid("chunk.type", -1)
        self._refuse(~self._is_encrypted & (type_of_chunk != kinds), "its type is not that of the schema")
        for name in ("repetition", "definition"):
            levels = np.array([getattr(leaf, name) + 1 for leaf in self.leaves], np.int64)
            counts = self._grid(f"chunk.{name}s", 0)
            self._refuse((counts != 0) & (counts != levels), f"counts of {name} levels that it does not have")
        self._refuse((self._grid("chunk.text_bytes", -1) != -1) & (kinds != _BYTE_ARRAY), "bytes of text, of which it has none")

    def _refuse(self, is_wrong: npt.NDArray[np.bool_], what: str) -> None:
        if is_wrong.any():
            group, leaf = np.argwhere(is_wrong)[0].tolist()
            name = ".".join(self.leaves[leaf].path)
            raise DamagedFooter(f"the footer is damaged: row group {group}, column {name!r}: {what}")


@dataclass
class _Group:
    """A column with nested columns, `left` of which have not been read yet."""

    path: tuple[str, ...]
    repetition: int
    definition: int
    left: int

    def add(self, name: str, repetition: int, left: int) -> _Group:
        """Add the next column in this one. An optional or repeated column has a level of its own."""
        self.left -= 1
        is_repeated = repetition == _REPEATED
        is_defined = is_repeated or repetition == _OPTIONAL
        return _Group((*self.path, name), self.repetition + is_repeated, self.definition + is_defined, left)


def _read_leaves(fields: FooterFields) -> list[Leaf]:
    """Read the schema, a tree with the root first. Each column states the number of its nested columns, which follow it."""
    names = fields.strings("column", "column.name")
    kinds, repetitions, counts = (
        fields.numbers("column", f"column.{name}", absent).tolist()
        for name, absent in (("type", -1), ("repetition", 0), ("children", 0))
    )
    if not names or min(counts) < 0:
        raise _damaged_schema("no columns, or fewer than none in one")
    leaves: list[Leaf] = []
    groups, name_bytes = [_Group((), 0, 0, counts[0])], 0
    for place in range(1, len(names)):
        while groups and not groups[-1].left:
            groups.pop()
        if not 0 < len(groups) <= _MOST_LEVELS:
            raise _damaged_schema("more columns than it says" if not groups else f"columns {len(groups)} deep in each other")
        column = groups[-1].add(_decode_name(names[place]), repetitions[place], counts[place])
        if kinds[place] < 0 or counts[place]:
            groups.append(column)
            continue
        leaves.append(Leaf(column.path, kinds[place], column.repetition, column.definition))
        name_bytes += sum(map(len, column.path))
        if name_bytes > _MOST_NAME_BYTES:
            raise _damaged_schema("names of columns without end")
    if any(group.left for group in groups):
        raise _damaged_schema("fewer columns than it says")
    return leaves


def _decode_name(name: bytes | None) -> str:
    try:
        return (name or b"").decode()
    except UnicodeDecodeError:
        raise _damaged_schema("the name of a column is not UTF-8") from None


def _damaged_schema(what: str) -> DamagedFooter:
    return DamagedFooter(f"the schema in the footer is damaged: {what}")


def _read_rows(fields: FooterFields) -> Ints:
    rows = fields.numbers("group", "group.rows", -1)
    if np.any(rows < 0) or sum(rows.tolist()) != fields.last_number("rows"):
        raise DamagedFooter("the footer is damaged: row groups and file do not have the same rows")
    return rows


def open_parquet(stream: Any, **how: Any) -> tuple[pq.ParquetFile, ParquetFooter]:
    """Open a Parquet file from an Arrow or Python stream, which the caller closes. `how` are options of `pq.ParquetFile`.

    Raises DamagedFooter, and the errors of Arrow if it cannot read the rest.
    """
    content = _read_content(stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r"))
    footer, metadata = (_take_apart if len(content) <= _MOST_KEPT_BYTES else _take_apart.__wrapped__)(content)
    return pq.ParquetFile(stream, metadata=metadata, **how), footer


@functools.lru_cache(maxsize=_KEPT_FOOTERS)
def _take_apart(content: bytes) -> tuple[ParquetFooter, pq.FileMetaData]:
    """Parse a footer for this module and for Arrow from the same checked bytes, even if the file has changed since."""
    footer = ParquetFooter(content)
    copy = pa.BufferReader(b"".join((_MAGIC, content, len(content).to_bytes(4, "little"), _MAGIC)))
    return footer, pq.read_metadata(copy)


def read_table(stream: Any, columns: list[str] | None = None) -> pa.Table:
    """Read all columns of a Parquet file, or the named ones. Raises the errors of `open_parquet` and `check_rows`."""
    file, footer = open_parquet(stream)
    table = file.read(columns=columns)
    for _ in check_rows([table], sum(footer.rows.tolist())):
        pass
    return table


def check_rows(parts: Iterable[Rows], rows: int) -> Iterator[Rows]:
    """Pass on the parts that Arrow reads. Raises DamagedFooter at the end if they do not have `rows` rows together.

    Arrow uses the number of values in the chunks. If a footer states a wrong one, Arrow returns fewer rows without an error.
    """
    read = 0
    for part in parts:
        read += part.num_rows
        yield part
    if read != rows:
        raise DamagedFooter(f"the footer is damaged: it says {rows:,} rows, there are {read:,}")


def _read_content(file: pa.NativeFile) -> bytes:
    size = file.size()
    if size < len(_MAGIC) + _TAIL_BYTES:
        raise DamagedFooter(f"{size} bytes are too few for a Parquet file")
    tail = _read_tail(file, size, min(size, _FIRST_BYTES))
    if tail[-4:] == _MAGIC_OF_ENCRYPTED:
        raise DamagedFooter("it is encrypted, and there is no key")
    if tail[-4:] != _MAGIC:
        raise DamagedFooter("it does not end as Parquet does")
    footer_size = int.from_bytes(tail[-8:-4], "little")
    if footer_size > min(size - len(_MAGIC) - _TAIL_BYTES, _MOST_FOOTER_BYTES):
        raise DamagedFooter(f"a footer of {footer_size:,} bytes cannot be in {size:,}")
    if footer_size + _TAIL_BYTES > len(tail):
        tail = _read_tail(file, size, footer_size + _TAIL_BYTES)
    return tail[len(tail) - footer_size - _TAIL_BYTES : -_TAIL_BYTES]


def _read_tail(file: pa.NativeFile, size: int, count: int) -> bytes:
    tail: bytes = file.read_at(count, size - count)
    if len(tail) != count:
        raise DamagedFooter(f"{len(tail)} bytes where {count} should be")
    return tail
