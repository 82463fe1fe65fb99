"""The tree of errors as its docstring draws it, and the names and types that other programs read."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tokenmill import errors, schemas
from tokenmill.pipeline.cli.main import main

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


def test_a_reader_of_the_schemas_gets_what_jobs_write(tmp_path: Path) -> None:
    """Word counts and shards as other programs read them, by the columns and types that `schemas.py` states."""
    (tmp_path / "a.txt").write_text("a b\n\n")
    words = [str(tmp_path / "a.txt"), "--quiet"]
    main(["count", *words, "--output", str(tmp_path / "counts")], standalone_mode=False)
    main(["train", *words, "--merges", "0", "--output", str(tmp_path / "t.json")], standalone_mode=False)
    main(["encode", *words, "--tokenizer", str(tmp_path / "t.json"), "--output", str(tmp_path / "tokens")], standalone_mode=False)
    counts = pq.read_table(next((tmp_path / "counts").glob("part-*.parquet")))
    assert counts.schema.remove_metadata() == schemas.WORD_COUNTS
    assert counts.to_pylist() == [
        {"word": b" b", "count": 1, "first_seen": 1},
        {"word": b"a", "count": 1, "first_seen": 0},
    ]
    tokens = pq.read_table(next((tmp_path / "tokens").glob("part-*.parquet")))
    assert (tokens.schema.names, tokens.schema.types) == (schemas.TOKENS.names, schemas.TOKENS.types)
    assert [row["doc_id"] for row in tokens.to_pylist()] == ["a.txt:0", "a.txt:1"]


def test_names_of_shards() -> None:
    assert schemas.shard_name(0, 64) == "part-00000-of-00064.parquet"
    assert schemas.shard_name(123456, 200000) == "part-123456-of-200000.parquet"
