"""Footers of Parquet files made by hand: one that is right, and those that contradict themselves."""

from __future__ import annotations

from collections.abc import Sequence

from tokenmill.kernels import thrift_fields
from tokenmill.parquet.thrift import Value, array, binary, i32, i64, struct, varint

_TEXT, _INT64 = 6, 2


def column(name: bytes, kind: int = _TEXT, *, repetition: int = 1) -> Value:
    return struct({1: i32(kind), 3: i32(repetition), 4: binary(name)})


def group(name: bytes, children: int, *, repetition: int = 1) -> Value:
    return struct({3: i32(repetition), 4: binary(name), 5: i32(children)})


def levels(repetitions: int, definitions: int, *, text_bytes: int | None = None) -> Value:
    """Size statistics: histograms of so many levels."""
    fields = {} if text_bytes is None else {1: i64(text_bytes)}
    counts = {2: repetitions, 3: definitions}
    return struct({**fields, **{field: array([i64(0)] * count) for field, count in counts.items() if count}})


def chunk(kind: int = _TEXT, **fields: Value) -> Value:
    """A chunk of a column, with the fields `f4`, `f16` and so on instead of those it would have, or beside them."""
    about = {1: i32(kind), 2: array([i32(0)]), 3: array([binary(b"text")]), 4: i32(0), 5: i64(1), 6: i64(9), 7: i64(9), 9: i64(4)}
    given = {int(name[1:]): value for name, value in fields.items()}
    return struct({2: i64(0), 3: struct(dict(sorted({**about, **given}.items())))})


def rows_of(chunks: Sequence[Value], rows: int = 1) -> Value:
    return struct({1: array(chunks), 2: i64(9), 3: i64(rows)})


def footer(schema: Sequence[Value], groups: Sequence[Value], rows: int = 1) -> bytes:
    return struct({1: i32(2), 2: array(schema), 3: i64(rows), 4: array(groups)})[1]


def in_file(content: bytes) -> bytes:
    return b"PAR1" + b"\0" * 100 + content + len(content).to_bytes(4, "little") + b"PAR1"


TEXT = [group(b"schema", 1), column(b"text")]
RIGHT = footer(TEXT, [rows_of([chunk(f16=levels(0, 2, text_bytes=5))])])
#: What is wrong, and what is said of it.
WRONG = {
    "more counts of definition levels": (footer(TEXT, [rows_of([chunk(f16=levels(0, 3))])]), "counts of definition levels"),
    "fewer counts of definition levels": (footer(TEXT, [rows_of([chunk(f16=levels(0, 1))])]), "counts of definition levels"),
    "counts of repetition levels": (footer(TEXT, [rows_of([chunk(f16=levels(2, 2))])]), "counts of repetition levels"),
    "bytes of text of numbers": (
        footer([group(b"schema", 1), column(b"text", _INT64)], [rows_of([chunk(_INT64, f16=levels(0, 2, text_bytes=5))])]),
        "column 'text': bytes of text, of which it has none",
    ),
    "another type": (footer(TEXT, [rows_of([chunk(_INT64)])]), "its type is not that of the schema"),
    "a negative size": (footer(TEXT, [rows_of([chunk(f6=i64(-1))])]), "raw_size is missing or negative"),
    "more chunks than columns": (footer(TEXT, [rows_of([chunk()] * 3000)]), "not one chunk for each column"),
    "fewer chunks than columns": (footer([group(b"schema", 2), *TEXT[1:] * 2], [rows_of([chunk()])]), "not one chunk for each"),
    "other rows": (footer(TEXT, [rows_of([chunk()], 3)], 5), "row groups and file do not have the same rows"),
    "negative rows": (footer(TEXT, [rows_of([chunk()], -5)], -5), "row groups and file do not have the same rows"),
    "a schema without end": (footer([group(b"g", 1)] * 200_000 + TEXT[1:], [rows_of([chunk()])]), "columns 101 deep"),
    "a schema cut off": (footer([group(b"schema", 1 << 30), *TEXT[1:]], [rows_of([chunk()])]), "fewer columns than it says"),
    "a schema with a stranger": (footer([*TEXT, *TEXT[1:]], [rows_of([chunk()])]), "more columns than it says"),
    "no schema": (struct({1: i32(2), 3: i64(0)})[1], "no columns"),
    "a name that is none": (footer([group(b"schema", 1), column(b"\xff")], [rows_of([chunk()])]), "is not UTF-8"),
    "names without end": (
        footer([group(b"schema", 1), group(b"n" * 60_000, 300), *[column(b"text")] * 300], [rows_of([chunk()])]),
        "names of columns without end",
    ),
    "structs without end": (b"\x1c" * 100_000, "too many values within each other"),
    "lists without end": (b"\x19" * 100_000, "too many values within each other"),
    "a list longer than the file": (b"\x15\x04\x19\xfc\xff\xff\xff\xff\x07", "it ends too early"),
    "a map longer than the file": (b"\x1b\xff\xff\xff\xff\x07\x55", "it ends too early"),
    "a string longer than the file": (b"\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "it ends too early"),
    "a number without end": (b"\x16" + b"\xff" * 100, "a number too large"),
    "a number a bit too large": (b"\x16" + b"\xff" * 9 + b"\x02", "a number too large"),
    "an int16 that is none": (struct({9: (thrift_fields.I16, varint(1 << 17))})[1], "a number too large"),
    "an int32 that is none": (struct({1: (thrift_fields.I32, varint(1 << 33))})[1], "a number too large"),
    "counts that are int32": (
        footer(TEXT, [rows_of([chunk(f16=struct({3: array([i32(0), i32(0)])}))])]),
        "a field of another type",
    ),
    "one struct instead of a list": (struct({2: struct({4: binary(b"schema")})})[1], "a field of another type"),
    "a type that is none": (b"\x1e\x00", "a type that does not exist"),
    "a number instead of the schema": (struct({2: i64(1)})[1], "a field of another type"),
    "cut off": (RIGHT[:-5], "it ends too early"),
    "nothing": (b"", "it ends too early"),
}
