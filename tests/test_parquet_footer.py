"""Footers of Parquet files: read as Arrow reads them, and refused before it where it would end the process."""

from __future__ import annotations

import base64
import contextlib
import io
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.footers import RIGHT, WRONG, in_file
from tokenmill.errors import UnreadableFileError
from tokenmill.kernels import thrift_fields
from tokenmill.parquet.fields import FIELDS, DamagedFooter, FooterFields, scan_fields
from tokenmill.parquet.footer import ParquetFooter, open_parquet, read_table
from tokenmill.parquet.thrift import TRUE, array, i8, i64, struct, varint
from tokenmill.pipeline.counts_folder import read_counts, read_pretokenizer
from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.pipeline.tokenize_command import read_shard
from tokenmill.reference import thrift as reference_thrift
from tokenmill.transforms.read import read_split
from tokenmill.transforms.splits import ReadOptions

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_footer_that_contradicts_itself_is_refused(wrong: str) -> None:
    content, message = WRONG[wrong]
    with pytest.raises(DamagedFooter, match=message):
        ParquetFooter(content)
    ParquetFooter(RIGHT)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are too few"),
        (b"PAR1" + b"\0" * 20, "does not end as Parquet does"),
        (b"PAR1\xff\xff\xff\x7fPAR1", "a footer of 2,147,483,647 bytes cannot be in 12"),
        (b"PAR1" + b"\0" * 8 + b"PARE", "it is encrypted, and there is no key"),
    ],
)
def test_what_has_no_footer_is_refused(content: bytes, message: str) -> None:
    for stream in (io.BytesIO(content), pa.BufferReader(content)):
        with pytest.raises(DamagedFooter, match=message):
            open_parquet(stream)


class Short(io.BytesIO):
    """A file whose end is gone by the time that it is read."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size)[:-1]


def test_a_file_that_got_shorter_is_refused() -> None:
    with pytest.raises(DamagedFooter, match="115 bytes where 116 should be"):
        open_parquet(Short(in_file(b"\0" * 4)))


def test_a_footer_larger_than_what_is_read_first() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": ["a"] * 3}).replace_schema_metadata({"more": "x" * 200_000}), sink)
    file, ours = open_parquet(sink)
    assert file.read().num_rows == ours.rows.sum() == 3


class Keys(encryption.KmsClient):
    """Keys that hide nothing."""

    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def write_encrypted(path: Path, *, plaintext_footer: bool) -> None:
    about = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["secret"]}, plaintext_footer=plaintext_footer
    )
    keys = encryption.CryptoFactory(Keys).file_encryption_properties(encryption.KmsConnectionConfig(), about)
    table = pa.table({"text": ["a", "b"], "secret": ["x", "y"]})
    with pq.ParquetWriter(path, table.schema, encryption_properties=keys) as writer:
        writer.write_table(table)


def read_texts(path: Path, **options: str) -> list[str]:
    asked = ReadOptions(**options)  # type: ignore[arg-type]
    splits = plan_splits(resolve_inputs([str(path)]), options=asked)
    return [text for split in splits for batch in read_split(split, asked) for text in batch.documents["text"].to_pylist()]


def test_an_encrypted_column_does_not_hinder_the_others(tmp_path: Path) -> None:
    write_encrypted(tmp_path / "a.parquet", plaintext_footer=True)
    assert read_texts(tmp_path / "a.parquet") == ["a", "b"]
    for options in ({"text_column": "secret"}, {"id_column": "secret"}):
        with pytest.raises(
            UnreadableFileError, match=r"a\.parquet: cannot be .* column 'secret' is encrypted, and there is no key; make it anew"
        ):
            read_texts(tmp_path / "a.parquet", **options)


def test_a_file_that_is_encrypted_is_refused(tmp_path: Path) -> None:
    write_encrypted(tmp_path / "a.parquet", plaintext_footer=False)
    with pytest.raises(
        UnreadableFileError,
        match=r"a\.parquet: cannot be read as parquet: it is encrypted, and there is no key; make it anew, or leave it out",
    ):
        read_texts(tmp_path / "a.parquet")


# --- as Arrow reads them --------------------------------------------------------------------------------------------------------

NESTED = pa.table(
    {
        "text": ["a", None, "é"],
        "lists": [[1, None], [], None],
        "structs": [{"a": ["x"], "b": [[1.5], []]}, {"a": None, "b": None}, None],
        "maps": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "more": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)
WRITERS: list[dict[str, Any]] = [
    {},
    {"write_statistics": False, "compression": "none"},
    {"write_page_index": True, "row_group_size": 2, "use_dictionary": False, "compression": "zstd"},
    {"store_schema": False, "row_group_size": 1, "data_page_version": "2.0", "compression": "gzip"},
    {"version": "1.0", "use_compliant_nested_type": False},
]


@pytest.mark.parametrize("how", WRITERS, ids=str)
@pytest.mark.parametrize("rows", [0, 3])
def test_a_footer_says_what_arrow_finds_in_it(how: dict[str, Any], rows: int) -> None:
    sink = io.BytesIO()
    pq.write_table(NESTED.slice(0, rows), sink, **how)
    file, ours = open_parquet(io.BytesIO(sink.getvalue()))
    theirs = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    assert file.read().to_pylist() == NESTED.slice(0, rows).to_pylist()
    assert ours.rows.tolist() == [theirs.row_group(number).num_rows for number in range(theirs.num_row_groups)]
    for place, leaf in enumerate(ours.leaves):
        column = theirs.schema.column(place)
        assert (".".join(leaf.path), leaf.repetition, leaf.definition) == (
            *(column.path, column.max_repetition_level),
            column.max_definition_level,
        )
        assert ours.find_leaves(column.path) == [place]
        for number, group in enumerate(theirs.row_group(number) for number in range(theirs.num_row_groups)):
            chunk = group.column(place)
            grids = (ours.values, ours.raw_sizes, ours.sizes, ours.offsets, ours.has_dictionary())
            assert [grid[number, place] for grid in grids] == [
                *(chunk.num_values, chunk.total_uncompressed_size, chunk.total_compressed_size),
                *(chunk.data_page_offset, chunk.has_dictionary_page),
            ]
            assert ours.codecs()[number][place] == chunk.compression
    assert ours.find_leaves("text.x") == ours.find_leaves("none") == []


def test_smallest_and_largest_texts() -> None:
    sink = io.BytesIO()
    table = pa.table({"n": [1, 2, 3, 4], "text": ["b", "a", None, None]})
    pq.write_table(table, sink, row_group_size=2)
    _, ours = open_parquet(sink)
    assert ours.text_ranges(1) == [("a", "b"), None]


# --- the pass over the bytes ----------------------------------------------------------------------------------------------------


def wanted_of(fields: list[reference_thrift.Field], path: tuple[int, ...]) -> list[tuple[int, Any]]:
    """What the reference finds of FIELDS: state and value, in the order of the bytes. Raises Refused for another type."""
    found: list[tuple[int, Any]] = []
    for number, kind, value in fields:
        states = [(state, wanted) for state, (place, wanted) in enumerate(FIELDS.values(), 1) if place == (*path, number)]
        if not states:
            continue
        state, wanted = states[0]
        if kind != (thrift_fields.LIST if wanted in (thrift_fields.STRUCTS, thrift_fields.NUMBERS) else wanted):
            raise reference_thrift.Refused("another type")
        if wanted in (thrift_fields.STRUCTS, thrift_fields.NUMBERS):
            elements, element = value
            if elements and element != (thrift_fields.STRUCT if wanted == thrift_fields.STRUCTS else thrift_fields.I64):
                raise reference_thrift.Refused("another type")
            if wanted == thrift_fields.NUMBERS:
                found.append((state, len(elements)))
                continue
        else:
            elements = [value] if wanted == thrift_fields.STRUCT else []
        if wanted not in (thrift_fields.STRUCT, thrift_fields.STRUCTS):
            found.append((state, value))
        for inner in elements:
            found += [(state, 0), *wanted_of(inner, (*path, number))]
    return found


def check_scan(content: bytes) -> bool:
    """The kernel finds what the reference does; whether there was something."""
    try:
        reader = reference_thrift.Reader(content, thrift_fields.DEEPEST)
        expected: Any = wanted_of(reader.read_struct(), ())
    except reference_thrift.Refused:
        expected = None
    try:
        nodes = scan_fields(content).T.tolist()
    except DamagedFooter:
        assert expected is None
        return False
    kinds = {state: kind for state, (_, kind) in enumerate(FIELDS.values(), 1)}
    assert expected == [
        (state, content[value : value + size] if kinds[state] == thrift_fields.BINARY else value) for state, value, size in nodes
    ]
    return True


#: Every type that there is, in fields that nobody wants.
STRANGE = struct(
    {
        5: (thrift_fields.MAP, varint(2) + b"\x85" + b"\1a\2" + b"\0\4"),
        6: (thrift_fields.MAP, b"\0"),
        7: (thrift_fields.SET, b"\x21\1\2"),
        8: (thrift_fields.UUID, b"\x1c" * 16),
        9: (thrift_fields.DOUBLE, b"\x1c" * 8),
        10: i8(-1),
        11: TRUE,
        12: (thrift_fields.FALSE, b""),
        13: array([array([i64(1 << 40)]), array([struct({1: TRUE})])]),
        14: (thrift_fields.I16, varint(0xFFFF)),
        15: (thrift_fields.LIST, b"\xfd\x0f" + b"\x1c" * 240),
    }
)[1]


def test_types_that_no_footer_has_yet_are_passed_over() -> None:
    content = RIGHT[:-1] + b"\x1c" + STRANGE + b"\0"
    assert check_scan(content)
    assert ParquetFooter(content).leaves == ParquetFooter(RIGHT).leaves


def test_a_field_far_from_the_last_one_has_its_number_in_full() -> None:
    content = b"\x05\x06\x02" + RIGHT  # field 3, an int32 where an int64 should be
    assert not check_scan(content)
    assert check_scan(b"\x05\xc8\x01\x02" + b"\x09\x04\x1c\x00\x00")
    assert FooterFields(b"\x05\xc8\x01\x02" + b"\x09\x04\x1c\x00\x00").numbers("column", "column.type", -1).tolist() == [-1]


@given(st.integers(0, 2**32), st.integers(0, 3))
def test_the_kernel_finds_what_the_reference_finds(seed: int, damages: int) -> None:
    chance = random.Random(seed)
    content = chance.choice([RIGHT, STRANGE, *(content for content, _ in WRONG.values() if len(content) < 500)])
    for _ in range(damages):
        place = chance.randrange(len(content) + 1)
        change = chance.choice([chance.randbytes(2), bytes([chance.choice(b"\x1c\x19\x1b\x16\x15\x18\x1c\x00\xff")]), STRANGE])
        content = content[:place] + change + content[place + chance.choice([0, 1, len(change)]) :]
    check_scan(content)


@given(st.binary(max_size=40))
def test_noise_is_refused_by_both_or_by_none(content: bytes) -> None:
    check_scan(content)


# --- what Arrow reads -----------------------------------------------------------------------------------------------------------


def lose_values(content: bytes) -> bytes:
    """The same file, the first chunk of which has no values by its footer."""
    size = int.from_bytes(content[-8:-4], "little")
    right = ParquetFooter(content[-8 - size : -8])
    for place in range(len(content) - 8 - size, len(content) - 8):
        changed = content[:place] + b"\0" + content[place + 1 :]
        with contextlib.suppress(DamagedFooter):
            wrong = ParquetFooter(changed[-8 - size : -8])
            if wrong.values[0, 0] == 0 and wrong.raw_sizes.tolist() == right.raw_sizes.tolist():
                return changed
    raise AssertionError("no byte holds the number of values")


def test_rows_that_arrow_does_not_see_are_missed(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", "b", "c", "d"]}), sink, row_group_size=2)
    content = lose_values(sink.getvalue())
    assert pq.read_table(pa.BufferReader(content)).num_rows == 2, "Arrow says nothing"
    with pytest.raises(DamagedFooter, match="it says 4 rows, there are 2"):
        read_table(pa.BufferReader(content))
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"a\.parquet: cannot be read as parquet: .* 4 rows, there are 2"):
        read_texts(tmp_path / "a.parquet")


def test_ids_of_documents_that_are_no_strings_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc_id": [b"\xff"], "input_ids": [[1]]}), tmp_path / "a.parquet")
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        list(read_shard(str(tmp_path / "a.parquet")))


def test_word_counts_that_are_damaged_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    counts = pa.table({"word": [b"a" * 100], "count": [1]}).replace_schema_metadata({"tokenmill.pretokenizer": b"\xff"})
    pq.write_table(counts, path, compression="gzip", use_dictionary=False)
    with pytest.raises(UnreadableFileError, match=r"a\.parquet: tokenmill\.pretokenizer in its footer is damaged .* count the"):
        read_pretokenizer(str(path))
    assert read_counts(str(path)).num_rows == 1
    path.write_bytes(path.read_bytes().replace(b"\x1f\x8b", b"\x1f\x8c"))
    with pytest.raises(UnreadableFileError, match=r"a\.parquet: not a Parquet file \(GZip.*\); make it again"):
        read_counts(str(path))


# --- whole files, in a process of their own -------------------------------------------------------------------------------------

READ_ALL = """
import random, sys
from pathlib import Path
from tests import fuzzing
from tokenmill.errors import TokenmillError
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        print(path.name, fuzzing.read_file(path, random.Random(1)), flush=True)
    except TokenmillError as error:
        print(path.name, type(error).__name__, error, flush=True)
"""


def run(*arguments: str) -> str:
    """What a process of Python's says; a crash fails here, and not the tests as a whole."""
    ended = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


@pytest.mark.jit
def test_no_footer_ends_the_process(tmp_path: Path) -> None:
    names = list(WRONG)
    for number, name in enumerate(names):
        (tmp_path / f"{number:02}.parquet").write_bytes(in_file(WRONG[name][0]))
    lines = run("-c", READ_ALL, str(tmp_path)).splitlines()
    assert len(lines) == len(names)
    for number, (line, name) in enumerate(zip(lines, names, strict=True)):
        path = tmp_path / f"{number:02}.parquet"
        assert line.startswith(f"{path.name} UnreadableFileError {path}: cannot be read as parquet: "), name
        assert WRONG[name][1] in line, name


@pytest.mark.jit
def test_damage_at_random_in_footers_is_refused_or_does_no_harm() -> None:
    """As `python -m tests.fuzzing`, but nothing else."""
    code = "from tests import fuzzing; fuzzing.KINDS = [fuzzing.fuzz_footers]; print(fuzzing.fuzz(2000, seed=7))"
    assert "refused" in run("-c", code)


def test_a_local_folder_of_datasets_is_looked_at_first(tmp_path: Path) -> None:
    content, message = next(iter(WRONG.values()))
    (tmp_path / "train.parquet").write_bytes(in_file(content))
    with pytest.raises(UnreadableFileError, match=f"train.parquet: cannot be read as parquet: .*{message}"):
        plan_splits(resolve_inputs([f"hf:{tmp_path}"]), options=ReadOptions())
