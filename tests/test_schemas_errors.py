"""The tree of errors as its docstring draws it, and the names and types that other programs read."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import Any

import pyarrow as pa
import pytest

from tokenmill import errors, schemas

CLASSES: dict[str, Any] = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}


def drawn_tree() -> dict[str, tuple[int, int]]:
    """Each name of the docstring's tree with its depth and its exit code."""
    lines = re.findall(r"^ {4}([│├└─ ]*)(\w+Error) +(\d)", str(errors.__doc__), re.MULTILINE)
    return {name: (len(branch) // 4, int(code)) for branch, name, code in lines}


def test_the_drawing_is_the_tree() -> None:
    drawn = drawn_tree()
    assert drawn.keys() == CLASSES.keys()
    for name, (depth, exit_code) in drawn.items():
        assert CLASSES[name].exit_code == exit_code
        assert CLASSES[name].__mro__.index(errors.TokenmillError) == depth


@pytest.mark.parametrize("name", CLASSES)
def test_errors_cross_process_boundaries(name: str) -> None:
    error = pickle.loads(pickle.dumps(CLASSES[name]("corpus.txt, line 3: a message")))
    assert (type(error), str(error)) == (CLASSES[name], "corpus.txt, line 3: a message")


def test_schemas_by_hand() -> None:
    assert schemas.WORD_COUNTS.names == ["word", "count", "first_seen"]
    assert schemas.WORD_COUNTS.types == [pa.large_binary(), pa.int64(), pa.int64()]
    assert schemas.TOKENS.names == ["doc_id", "input_ids"]
    assert schemas.TOKENS.types == [pa.string(), pa.list_(pa.int32())]
    assert schemas.DOCUMENTS.types == [pa.string(), pa.large_string()]


def test_names_of_shards() -> None:
    assert schemas.shard_name(0, 64) == "part-00000-of-00064.parquet"
    assert schemas.shard_name(123456, 200000) == "part-123456-of-200000.parquet"
