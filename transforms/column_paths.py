"""Paths to texts inside nested columns: `meta.text`, `paragraphs[]`, `messages[].content`.

A dot leads into an object (a struct of Arrow), `[]` to each element of a list. The texts of a list's elements are joined with a
newline. A key that is called as the path is written wins over the path; of several such keys the longest does:

    {"meta.text": "a", "meta": {"text": "b"}}       meta.text is "a"
    {"messages": [{"content": "a"}, {"content": "b"}]}   messages[].content is "a\\nb"

The same rules hold for JSON (`transforms/parse_json.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.arrow import decode_strings, holds_strings, measure_strings, plain_type

#: What stands between the texts of a list's elements.
SEPARATOR = "\n"
#: How deep `list_texts` goes down, and how many paths it gives.
_DEEPEST, _MOST_PATHS = 4, 30

Int64s = npt.NDArray[np.int64]


def split_path(path: str) -> Iterator[tuple[str, int, str]]:
    """The ways to read the first key of a path, the longest key first: (key, how many lists follow, rest of the path).

    >>> list(split_path("a[].b"))
    [('a[].b', 0, ''), ('a[]', 0, 'b'), ('a', 1, 'b')]
    """
    cut = len(path)
    while cut >= 0:
        key, rest = path[:cut], path[cut + 1 :]
        depth = 0
        yield key, depth, rest
        while key.endswith("[]") and key != "[]":
            key, depth = key.removesuffix("[]"), depth + 1
            yield key, depth, rest
        cut = path.rfind(".", 1, cut)


def is_path(column: str) -> bool:
    """Whether a column's name may lead into something: it has a dot or ends in `[]`."""
    return "." in column or column.endswith("[]")


@dataclass(frozen=True)
class ColumnPath:
    """Where a column stands in a schema: keys, each with the number of lists below it, and the type that is found there."""

    name: str
    steps: tuple[tuple[str, int], ...]
    kind: pa.DataType

    @property
    def root(self) -> str:
        """The column of the schema that holds it."""
        return self.steps[0][0]

    @property
    def in_list(self) -> bool:
        """Whether a row may have any number of texts there."""
        return any(depth for _, depth in self.steps)

    @property
    def leaf(self) -> str:
        """What Parquet is asked for: the keys down to the first list, which is read whole."""
        count = next((number for number, (_, depth) in enumerate(self.steps, start=1) if depth), len(self.steps))
        return ".".join(key for key, _ in self.steps[:count])


def find_path(schema: pa.Schema | pa.StructType, path: str) -> ColumnPath | None:
    """Where a path leads, None where there is no such column; a key that stands twice is none."""
    for key, depth, rest in split_path(path):
        places = schema.get_all_field_indices(key)
        if len(places) != 1:
            continue
        kind = schema.field(places[0]).type
        for _ in range(depth):
            if not _is_list(kind):
                return None
            kind = kind.value_type
        if not rest:
            return ColumnPath(path, ((key, depth),), kind)
        inner = find_path(kind, rest) if pa.types.is_struct(kind) else None
        return inner and ColumnPath(path, ((key, depth), *inner.steps), inner.kind)
    return None


def _is_list(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column of this type can be read as text: strings, or bytes that are UTF-8."""
    return holds_strings(kind) or plain_type(kind) in (pa.binary(), pa.large_binary(), pa.binary_view())


def list_texts(schema: pa.Schema) -> list[str]:
    """The paths of a schema that hold strings, in its order, some at most."""
    found = (path for field in schema for path in _list_below(field.name, field.type, _DEEPEST))
    return [path for path, _ in zip(found, range(_MOST_PATHS), strict=False)]


def _list_below(path: str, kind: pa.DataType, deepest: int) -> Iterator[str]:
    if holds_strings(kind):
        yield path
    elif deepest and pa.types.is_struct(kind):
        for position in range(kind.num_fields):
            yield from _list_below(f"{path}.{kind.field(position).name}", kind.field(position).type, deepest - 1)
    elif deepest and _is_list(kind):
        yield from _list_below(f"{path}[]", kind.value_type, deepest - 1)


@dataclass(frozen=True, eq=False)
class TextColumn:
    """The texts of an Arrow column of whatever layout, of which only those are decoded that are asked for.

    A dictionary or runs of 47 kB may stand for gigabytes of text. `elements` are the texts; `offsets: int64[n + 1]` say which of
    them a row joins, None where each row has one; `broken: bool[n]` are the rows whose list is null somewhere.
    """

    elements: pa.Array
    offsets: Int64s | None = None
    broken: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.elements) if self.offsets is None else self.offsets.size - 1

    @cached_property
    def sizes(self) -> Int64s:
        """int64[n]: the bytes of each row's text."""
        sizes = measure_strings(self.elements)
        if self.offsets is None:
            return sizes
        ends = np.concatenate([[0], np.cumsum(sizes)])[self.offsets]
        return np.diff(ends) + np.maximum(np.diff(self.offsets) - 1, 0)

    def decode(self, start: int, end: int) -> pa.LargeStringArray:
        """The texts of rows `[start, end)`, null where there is none."""
        if self.offsets is None:
            return decode_strings(self.elements[start:end])
        offsets = self.offsets[start : end + 1]
        texts = decode_strings(self.elements[offsets[0] : offsets[-1]])
        lists = pa.LargeListArray.from_arrays(pa.array(offsets - offsets[0]), texts)
        joined = pc.binary_join(lists, pa.scalar(SEPARATOR, pa.large_string()))
        if self.broken is None or not self.broken[start:end].any():
            return joined
        return pc.if_else(pa.array(self.broken[start:end]), pa.scalar(None, pa.large_string()), joined)


def take_column(column: pa.Array, path: ColumnPath) -> TextColumn:
    """The texts that a path leads to, of a column of its `root`."""
    found = TextColumn(column)
    for number, (key, depth) in enumerate(path.steps):
        if number:
            inner = found.elements
            found = replace(found, elements=pc.struct_field(inner, [inner.type.get_field_index(key)]))
        for _ in range(depth):
            found = _open_lists(found)
    return found


def _open_lists(column: TextColumn) -> TextColumn:
    """A column of lists as a column of their elements."""
    lists = column.elements
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        lists = lists.cast(pa.large_list(lists.type.value_type))
    offsets = np.zeros(1, np.int64) if not len(lists) else lists.offsets.to_numpy().astype(np.int64)
    nulls = lists.is_null().to_numpy(zero_copy_only=False)
    if column.offsets is None or column.broken is None:
        return TextColumn(lists.values, offsets, nulls)
    counts = np.concatenate([[0], np.cumsum(nulls)])[column.offsets]
    return TextColumn(lists.values, offsets[column.offsets], column.broken | (np.diff(counts) > 0))
