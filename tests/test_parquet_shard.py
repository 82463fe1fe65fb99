"""Our Parquet files: whatever rows they hold, readers give them back, as they give back what Arrow writes."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenmill import schemas
from tokenmill.kernels.byte_arrays import put_lengths_first
from tokenmill.kernels.levels import MOST_RUN_BYTES, put_row_starts
from tokenmill.parquet import columns as parquet_columns
from tokenmill.parquet import thrift
from tokenmill.parquet.shard import ArrowFile, TokenFile, open_file

METADATA = {"tokenmill.version": "1", "tokenmill.source": "é"}
Rows = list[tuple[str, list[int]]]


def write_file(groups: list[Rows], *, parts: int = 1) -> bytes:
    """A file of these row groups, the rows of each given in so many parts."""
    output = io.BytesIO()
    file = TokenFile(output, schemas.TOKENS, METADATA)
    for rows in groups:
        tables = [table_of([rows[edges[0] : edges[-1] + 1]]) for edges in cut_evenly(len(rows), parts)]
        file.write_row_group({name: [table[name].combine_chunks() for table in tables] for name in schemas.TOKENS.names})
    file.close()
    return output.getvalue()


def cut_evenly(rows: int, parts: int) -> list[np.ndarray]:
    return [edges for edges in np.array_split(np.arange(rows), parts) if edges.size]


def table_of(groups: list[Rows]) -> pa.Table:
    rows = [row for group in groups for row in group]
    return pa.table([[name for name, _ in rows], [tokens for _, tokens in rows]], schema=schemas.TOKENS.with_metadata(METADATA))


def check(groups: list[Rows], *, parts: int = 1) -> pq.ParquetFile:
    """What we write is read as what Arrow writes of the same rows, to the schema's metadata."""
    content, expected, arrows = write_file(groups, parts=parts), table_of(groups), io.BytesIO()
    pq.write_table(expected, arrows)
    found = pq.read_table(io.BytesIO(content))
    found.validate(full=True)
    assert found.equals(expected)
    assert found.equals(pq.read_table(arrows), check_metadata=True)
    file = pq.ParquetFile(io.BytesIO(content))
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [len(rows) for rows in groups]
    return file


def row_groups() -> st.SearchStrategy[list[Rows]]:
    ids = st.integers(0, 2**31 - 1) | st.integers(0, 3)
    rows = st.tuples(
        st.text(max_size=6), st.lists(ids, max_size=20) | st.just([]) | st.integers(0, 60).map(lambda size: [7] * size)
    )
    return st.lists(st.lists(rows, min_size=1, max_size=12), max_size=3)


@settings(deadline=None, max_examples=200)
@given(
    groups=row_groups(),
    parts=st.integers(1, 3),
    page=st.integers(1, 40),
    most=st.sampled_from([7, 1 << 28]),
    run=st.sampled_from([1, 4, 1 << 20]),
)
def test_rows_come_back(groups: list[Rows], parts: int, page: int, most: int, run: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_columns, "PAGE_VALUES", page)
        patch.setattr(parquet_columns, "MOST_PAGE_VALUES", most)
        patch.setattr(parquet_columns, "PAGE_BYTES", page)
        patch.setattr(parquet_columns, "_RUN_VALUES", run)
        check(groups, parts=parts)


@pytest.mark.parametrize("lengths", [[300_000, 0, 1], [1] * 3000, [0] * 3000, [262_144, 262_144], [700, 0] * 500, [100] * 5000])
def test_pages_of_real_size(lengths: list[int]) -> None:
    rows = [(f"document {place}", (np.arange(length) % 50_257).tolist()) for place, length in enumerate(lengths)]
    check([rows])


def test_pages_begin_with_rows() -> None:
    """Arrow 25 keeps to that too; fastparquet fails on others."""
    ends = np.cumsum([3, 300_000, 1, 5, 600_000, 2, 262_144])
    pages = parquet_columns._cut_pages(ends)
    assert pages == [(0, 300_003), (300_003, 900_009), (900_009, 1_162_155)]
    assert {last for _, last in pages} <= set(ends.tolist())


def test_an_empty_file() -> None:
    assert check([]).num_row_groups == 0


def test_the_footer_says_what_arrows_says() -> None:
    """Types, encodings, statistics and sizes that readers rely on, beside those of the same rows written by Arrow."""
    rows = [("b", [1, 2, 3]), ("a", []), ("é", [50_256] * 2000)]
    other = io.BytesIO()
    pq.write_table(table_of([rows]), other, compression="zstd", use_dictionary=False, write_statistics=["doc_id"])
    ours, theirs = check([rows]).metadata, pq.ParquetFile(other).metadata
    assert ours.schema.equals(theirs.schema)
    assert (ours.num_rows, ours.format_version) == (theirs.num_rows, theirs.format_version)
    for place in range(2):
        mine, arrows = (metadata.row_group(0).column(place) for metadata in (ours, theirs))
        for name in ("physical_type", "num_values", "path_in_schema", "compression", "has_dictionary_page"):
            assert getattr(mine, name) == getattr(arrows, name)
        assert set(mine.encodings) == set(arrows.encodings) == {"PLAIN", "RLE"}
        assert (mine.statistics is None) == (arrows.statistics is None)
    statistics = ours.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max, statistics.null_count) == ("a", "é", 0)
    assert statistics == theirs.row_group(0).column(0).statistics


@pytest.mark.parametrize("rows", [1, 3, 5000])
def test_masks_beside_ids(rows: int) -> None:
    """Lists of small numbers come back as int8, whatever array they were given in, and Arrow writes the same schema."""
    schema = schemas.TOKENS.append(pa.field("attention_mask", schemas.TOKEN_MASK))
    lists = [[place % 2, 1, -128, 127][: place % 5] for place in range(rows)]
    columns = {
        "doc_id": [pa.array([f"d{place}" for place in range(rows)])],
        "input_ids": [pa.array(lists, pa.large_list(pa.int32()))],
        "attention_mask": [pa.array([[0], *lists, [1]], pa.large_list(pa.int8())).slice(1, rows)],
    }
    ours, theirs = io.BytesIO(), io.BytesIO()
    file = open_file(ours, schema, METADATA)
    assert isinstance(file, TokenFile)
    file.write_row_group(columns)
    file.close()
    table = pq.read_table(ours)
    table.validate(full=True)
    assert table.schema.equals(schema)
    assert table.schema.metadata == schema.with_metadata(METADATA).metadata
    assert table["input_ids"].to_pylist() == table["attention_mask"].to_pylist() == lists
    pq.write_table(table, theirs)
    assert pq.ParquetFile(ours).metadata.schema.equals(pq.ParquetFile(theirs).metadata.schema)


def test_other_columns_go_through_arrow() -> None:
    schema = pa.schema([*schemas.TOKENS, pa.field("score", pa.float64()), pa.field("names", pa.list_(pa.string()))])
    output = io.BytesIO()
    file = open_file(output, schema, METADATA)
    assert isinstance(file, ArrowFile)
    rows = {"doc_id": ["a", "b"], "input_ids": [[1, 2], []], "score": [0.5, None], "names": [["x"], []]}
    lists = pa.array(rows["input_ids"], pa.large_list(pa.int32()))
    for _ in range(2):
        file.write_row_group({name: [lists if name == "input_ids" else pa.array(values)] for name, values in rows.items()})
    file.close()
    found = pq.ParquetFile(output)
    assert found.num_row_groups == 2 and found.metadata.row_group(0).column(1).compression == "ZSTD"
    assert found.schema_arrow.equals(schema)
    assert found.schema_arrow.metadata == schema.with_metadata(METADATA).metadata
    assert found.read().slice(2).to_pydict() == rows


def test_long_ids_have_no_extremes() -> None:
    assert not check([[("x" * 5000, [1])]]).metadata.row_group(0).column(0).statistics.has_min_max


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (thrift.i32(0), "00"),
        (thrift.i32(-1), "01"),
        (thrift.i64(150), "ac02"),
        (thrift.i16(-64), "7f"),
        (thrift.binary(b"ab"), "026162"),
        (thrift.array([thrift.i32(1), thrift.i32(2)]), "250204"),
        (thrift.array([thrift.binary(b"")] * 15), "f80f" + "00" * 15),
        (thrift.struct({1: thrift.i32(3), 4: thrift.binary(b"ab")}), "15063802616200"),
        (thrift.struct({2: thrift.struct({}), 3: thrift.i64(-2), 4: thrift.TRUE}), "2c0016031100"),
    ],
)
def test_compact_protocol(value: thrift.Value, content: str) -> None:
    assert value[1].hex() == content


@settings(deadline=None)
@given(rows=st.lists(st.integers(1, 300) | st.integers(1, 1 << 20), max_size=20), before=st.integers(0, 200))
@example(rows=[], before=1)
@example(rows=[64, 65, 8192, 8193], before=63)
def test_row_starts_are_runs(rows: list[int], before: int) -> None:
    ends = before + np.cumsum([0, *rows], dtype=np.int64)
    target = np.full((2 * len(rows) + 1) * MOST_RUN_BYTES, 0xEE, np.uint8)
    size = put_row_starts(ends[:-1], int(ends[-1]), target)
    runs = [(before, 1), *(run for row in rows for run in ((1, 0), (row - 1, 1)))]
    assert target[:size].tobytes() == b"".join(thrift.varint(length << 1) + bytes([level]) for length, level in runs if length)
    assert (target[size:] == 0xEE).all()


@settings(deadline=None)
@given(strings=st.lists(st.binary(max_size=9) | st.just(b"x" * 300), max_size=8))
def test_lengths_stand_before_strings(strings: list[bytes]) -> None:
    data, ends = np.frombuffer(b"".join(strings), np.uint8), np.cumsum([len(string) for string in strings], dtype=np.int64)
    target = np.zeros(data.size + 4 * len(strings), np.uint8)
    put_lengths_first(data, ends, target)
    assert target.tobytes() == b"".join(len(string).to_bytes(4, "little") + string for string in strings)
