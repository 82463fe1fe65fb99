"""The table of input formats: what it promises, and that a row is all that a new format needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from tests.reading import documents_of, read_all, write
from tokenmill.names import INPUT_FORMATS
from tokenmill.pipeline.cli.main import main
from tokenmill.transforms.decompress import read_blocks
from tokenmill.transforms.input_formats import FORMATS, InputFormat
from tokenmill.transforms.read_batches import DocumentBatch, Records, finish_batch, name_rows
from tokenmill.transforms.read_lines import LineCount
from tokenmill.transforms.splits import Range, ReadOptions, SizedRange, SourceFile


def cut_paragraphs(file: SourceFile, options: ReadOptions, split_bytes: int) -> list[SizedRange]:
    return [SizedRange(Range(file, 0, file.size), None, file.size)]


def read_paragraphs(part: Range, options: ReadOptions) -> Iterator[DocumentBatch]:
    found = list_paragraphs(part)[: part.rows]
    rows = np.arange(len(found))
    records = Records(name_rows(part.file.name, rows), pa.array(found, pa.large_string()), rows)
    yield finish_batch(records, part.file, options, first_row=0)


def count_paragraphs(part: Range, limit: int | None) -> LineCount:
    found = len(list_paragraphs(part))
    return LineCount(found, found)


def list_paragraphs(part: Range) -> list[str]:
    return b"".join(read_blocks(part.file)).removeprefix(b"#paragraphs\n").decode().strip().split("\n\n")


TOY = InputFormat(
    "paragraphs",
    cut_paragraphs,
    read_paragraphs,
    extensions=(".para",),
    magic=(b"#paragraphs\n",),
    has_columns=False,
    count_records=count_paragraphs,
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> InputFormat:
    """A format that has nothing but its row."""
    monkeypatch.setitem(FORMATS, "paragraphs", TOY)
    return TOY


def test_a_row_is_all_that_a_new_format_needs(toy: InputFormat, tmp_path: Path) -> None:
    path = write(tmp_path, b"#paragraphs\na\nb\n\nc\n\nd\n", name="x.para")
    assert documents_of(read_all(path)) == [("x.para:0", "a\nb"), ("x.para:1", "c"), ("x.para:2", "d")]
    assert documents_of(read_all(path, limit=2)) == [("x.para:0", "a\nb"), ("x.para:1", "c")]


def test_commands_read_a_new_format(toy: InputFormat, tmp_path: Path) -> None:
    write(tmp_path, b"#paragraphs\na\nb\n\nc\n", name="x.para")
    done = CliRunner().invoke(main, ["count", str(tmp_path / "x.para"), "--output", str(tmp_path / "counts")])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "counts" / "manifest.json").read_bytes())
    assert manifest["totals"]["documents"] == 2


def test_options_name_the_formats_of_files() -> None:
    assert set(INPUT_FORMATS) == {"auto", *FORMATS} - {"dataset"}


def test_no_ending_and_no_first_bytes_stand_for_two_formats() -> None:
    endings = [ending for row in FORMATS.values() for ending in row.extensions]
    magic = [first for row in FORMATS.values() for first in row.magic]
    assert len(set(endings)) == len(endings)
    assert not [(one, other) for one in magic for other in magic if one is not other and one.startswith(other)]
