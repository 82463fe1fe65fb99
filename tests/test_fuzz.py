"""Some of the random hostile inputs of `tests/fuzzing.py`; `python -m tests.fuzzing 100000` is the long run of the same."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests import fuzzing
from tokenmill import errors

INPUTS = 1_000


@pytest.mark.jit
def test_hostile_inputs_are_read_whole_or_refused_in_one_line() -> None:
    ends = fuzzing.fuzz(INPUTS, seed=20261130)
    assert sum(ends.values()) == INPUTS
    kinds = {kind.__name__ for kind in fuzzing.KINDS}
    assert {end.split(":")[0] for end, times in ends.items() if times > INPUTS // 100} == kinds, "each kind is tried"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda *_: 1 / 0, "ZeroDivisionError"),
        (lambda *_: refuse("two\nlines"), "not one line"),
        (lambda *_: "read", None),
        (lambda *_: refuse("a line"), None),
    ],
)
def test_the_fuzzer_tells_a_fault_from_a_refusal(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[..., str], message: str | None
) -> None:
    fault.__name__ = "fault"
    monkeypatch.setattr(fuzzing, "KINDS", [fault])
    if message is None:
        assert fuzzing.fuzz(3).total() == 3
        return
    with pytest.raises(AssertionError, match=rf"input 0 of seed 0 \(fault\): .*{message}"):
        fuzzing.fuzz(3)


def refuse(text: str) -> str:
    raise errors.DataError(text)


def test_the_fuzzer_sees_a_record_that_is_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzzing, "KINDS", [fuzzing.fuzz_lines])
    read = fuzzing.read_file
    monkeypatch.setattr(fuzzing, "read_file", lambda path, chance: (read(path, chance)[0], 0))
    with pytest.raises(AssertionError, match=r"documents and 0 rejects of"):
        fuzzing.fuzz(50)


@pytest.mark.parametrize("offsets", [[0, 9, -5, 3], [0, 1, 2, 900_000]])
def test_arrow_offsets_beyond_their_buffer_are_refused(tmp_path: Path, offsets: list[int]) -> None:
    sink = io.BytesIO()
    table = pa.table({"text": pa.array(["a", "b", "c"], pa.string())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    right, wrong = (np.array(numbers, np.int32).tobytes() for numbers in ([0, 1, 2, 3], offsets))
    assert sink.getvalue().count(right) == 1
    (tmp_path / "a.arrow").write_bytes(sink.getvalue().replace(right, wrong))
    with pytest.raises(errors.UnreadableFileError, match=r"a\.arrow: cannot be read as arrow"):
        fuzzing.read_file(tmp_path / "a.arrow", random.Random(1))


def test_a_column_name_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    sink = io.BytesIO()
    table = pa.table({"text": pa.array(["a"], pa.string())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "a.arrow").write_bytes(sink.getvalue().replace(b"text", b"t\xffxt"))
    with pytest.raises(errors.UnreadableFileError, match=r"a\.arrow: the name of a column is not UTF-8; the file is damaged"):
        fuzzing.read_file(tmp_path / "a.arrow", random.Random(1))
