"""Pairs of texts: read from every format that has columns, encoded with the pair template, accounted for to the last record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.reading import read_all, rejects_of, write
from tests.test_cli import call, check_error
from tests.training import few_cases
from tokenmill import Tokenizer
from tokenmill.encoding.postprocessors import Truncation, find_crowded
from tokenmill.errors import InvalidTextError, MissingColumnError
from tokenmill.transforms.read_batches import DocumentBatch

SPECIALS = ("[CLS]", "[SEP]", "[PAD]", "<|end|>")
PAIRS = [("ab", "c"), ("", ""), ("abc", "defgh"), ("a<|end|>b", "")]
MASKS = ("--token-type-ids", "--attention-mask", "--special-tokens-mask")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pairs.jsonl`, and `tokenizer.json`: `[CLS]` 0, `[SEP]` 1, `[PAD]` 2, `<|end|>` 3, bytes from 4 on, no merges."""
    path = tmp_path_factory.mktemp("pairs")
    (path / "corpus.txt").write_text("".join(map("".join, PAIRS)))
    (path / "pairs.jsonl").write_text("".join(json.dumps({"text": a, "b": b}) + "\n" for a, b in PAIRS))
    words = ["train", path / "corpus.txt", "--merges", "0", "--output", path / "tokenizer.json", "--quiet"]
    words += [word for token in SPECIALS for word in ("--special", token)]
    words += ["--template", "[CLS] $A [SEP]", "--pair-template", "[CLS] $A [SEP] $B:1 [SEP]:1"]
    made = call(*words)
    assert made.exit_code == 0, made.output
    return path


def encode(folder: Path, output: Path, *options: str, source: Path | str | None = None) -> tuple[pa.Table, dict[str, Any]]:
    words = ("encode", source or folder / "pairs.jsonl", "--tokenizer", folder / "tokenizer.json", "--output", output)
    result = call(*words, "--pair-column", "b", *options, "--quiet")
    assert (result.exit_code, result.output) == (0, ""), result.output
    (shard,) = output.glob("part-*.parquet")
    return pq.read_table(shard), json.loads((output / "manifest.json").read_text())


def spell(folder: Path, table: pa.Table) -> list[str]:
    vocab = json.loads((folder / "tokenizer.json").read_text())["vocab"]
    short = {"[CLS]": "<", "[SEP]": "|", "[PAD]": "_", "<|end|>": "!"}
    names = {token_id: short.get(token, token) for token, token_id in vocab.items()}
    return ["".join(names[one] for one in row) for row in table["input_ids"].to_pylist()]


# --- rows by hand ---------------------------------------------------------------------------------------------------------


def test_rows_of_pairs(folder: Path, tmp_path: Path) -> None:
    table, manifest = encode(folder, tmp_path / "tokens", *MASKS)
    assert spell(folder, table) == ["<ab|c|", "<||", "<abc|defgh|", "<a<|end|>b||"]
    assert table["token_type_ids"].to_pylist()[:2] == [[0, 0, 0, 0, 1, 1], [0, 0, 1]]
    assert table["special_tokens_mask"].to_pylist()[:2] == [[1, 0, 0, 1, 0, 1], [1, 1, 1]]
    assert manifest["reading"]["pair_column"] == "b" and manifest["rows"]["pair"] is True
    (file,) = manifest["files"]
    assert (file["documents"], file["encoded"], file["empty"]) == (4, 4, 1)
    assert file["bytes"] == sum(len(a) + len(b) for a, b in PAIRS)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--allow-special", "--no-special-tokens"), ["abc", "", "abcdefgh", "a!b"]),
        (("--allow-special", "--max-length", "7"), ["<ab|c|", "<||", "<ab|de|", "<a!b||"]),
        (("--max-length", "8", "--truncate", "only_second"), ["<ab|c|", "<||", "<abc|de|"]),
        (
            ("--allow-special", "--max-length", "8", "--truncate", "only_second", "--overflow", "rows", "--stride", "1"),
            ["<ab|c|", "<||", "<abc|de|", "<abc|ef|", "<abc|fg|", "<abc|gh|", "<a!b||"],
        ),
        (
            ("--allow-special", "--max-length", "7", "--pad-to", "7", "--pad", "[PAD]"),
            ["<ab|c|_", "<||____", "<ab|de|", "<a!b||_"],
        ),
        (
            ("--block", "8", "--pack", "best-fit", "--pad", "[PAD]", "--allow-special"),
            ["<a!b||__", "<abc|def", "<ab|c|__", "<||gh|__"],
        ),
    ],
)
def test_pairs_are_cut_filled_up_and_packed(folder: Path, tmp_path: Path, options: tuple[str, ...], expected: list[str]) -> None:
    table, manifest = encode(folder, tmp_path / "tokens", *options)
    rows = spell(folder, table)
    assert (sorted(rows) if "--block" in options else rows) == expected
    totals = manifest["totals"]
    assert totals["documents"] == totals["encoded"] + totals["rejected"] == 4
    assert call("verify", tmp_path / "tokens", "--deep", "--source", folder / "pairs.jsonl").exit_code == 0


def test_pairs_that_cannot_be_cut_are_rejects(folder: Path, tmp_path: Path) -> None:
    _, manifest = encode(folder, tmp_path / "tokens", "--max-length", "8", "--truncate", "only_second")
    assert manifest["totals"]["rejected"] == 1
    (line,) = (tmp_path / "tokens" / "rejects").glob("*.jsonl")
    reject = json.loads(line.read_text())
    assert (reject["file"], reject["row"]) == ("pairs.jsonl", 3)
    assert reject["reason"] == (
        "document pairs.jsonl:3: its first text has 9 tokens and leaves 0 of --max-length 8 for the other; "
        "give --truncate longest_first, or --max-length 13 or more"
    )


@pytest.mark.parametrize(
    ("stride", "reason"),
    [
        (
            "2",
            "too few for --stride 2; give --stride 1 or less, or --max-length 9 or more",
        ),
        (
            "4",
            "too few for --stride 4; give --stride 1 or less, or --max-length 11 or more",
        ),
    ],
)
def test_a_stride_without_room_is_named(folder: Path, tmp_path: Path, stride: str, reason: str) -> None:
    """What is told to give works: the smaller stride, and the longer rows."""
    how = ("--truncate", "only_second", "--overflow", "rows")
    _, manifest = encode(folder, tmp_path / "tokens", *how, "--max-length", "8", "--stride", stride)
    (line,) = (tmp_path / "tokens" / "rejects").glob("*.jsonl")
    reasons = [json.loads(text)["reason"] for text in line.read_text().splitlines()]
    text = "document pairs.jsonl:2: its first text has 3 tokens and leaves 2 of --max-length 8 for the other"
    assert reasons[0] == f"{text}, {reason}"
    longer = reason.split()[-3]
    for way in (("--max-length", "8", "--stride", "1"), ("--max-length", longer, "--stride", stride)):
        _, better = encode(folder, tmp_path / f"tokens{way[1]}", *how, *way)
        assert better["totals"]["rejected"] < manifest["totals"]["rejected"]


@given(
    first=st.integers(0, 9),
    second=st.integers(0, 9),
    room=st.integers(1, 9),
    stride=st.integers(0, 3),
    strategy=st.sampled_from(["only_first", "only_second"]),
)
def test_which_pairs_cannot_be_cut(first: int, second: int, room: int, stride: int, strategy: str) -> None:
    whole = second if strategy == "only_first" else first
    truncation = Truncation(room + 3, stride, strategy)
    (found,) = find_crowded(np.array([first]), np.array([second]), truncation, 3)
    assert found == (first + second > room and room - whole <= stride)
    assert not find_crowded(np.array([first]), np.array([second]), Truncation(room + 3), 3).any()


@few_cases(20, without=4)
@given(pairs=st.lists(st.tuples(st.text("ab é<|", max_size=9), st.text("ab é<|", max_size=9)), max_size=5))
def test_rows_are_those_of_hugging_face(folder: Path, pairs: list[tuple[str, str]]) -> None:
    ours = Tokenizer.from_file(folder / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_str(ours.to_format("huggingface")["tokenizer.json"].decode())
    theirs.enable_truncation(7)
    columns = ours.process_batch(*zip(*pairs, strict=True), truncation=Truncation(7)).columns() if pairs else {}
    expected = theirs.encode_batch(pairs)
    assert [one.ids for one in expected] == (columns["input_ids"].to_pylist() if pairs else [])
    assert [one.type_ids for one in expected] == (columns["token_type_ids"].to_pylist() if pairs else [])


# --- reading --------------------------------------------------------------------------------------------------------------


def pairs_of(batches: list[DocumentBatch]) -> list[tuple[str, str, str]]:
    return [tuple(row.values()) for batch in batches for row in batch.documents.to_pylist()]  # type: ignore[misc]


LINES = [
    b'{"text": "a", "b": "x", "id": 1}',
    b"",
    b'{"text": "a", "id": 2}',
    b'{"text": "a", "b": null, "id": 3}',
    b'{"text": "a", "b": 5, "id": 4}',
    b'{"text": "a", "b": ["x"], "id": 5}',
    b'{"b": "x", "id": 6}',
    b'{"text": 7, "b": 8, "id": 7}',
    b'{"text": "a", "b": "x", "b": "y", "id": 8}',
    b'{"text": "a", "b": "x"}',
    b'{"b": "\\u00e9", "te\\u0078t": "\\n", "id": 9}',
    b'{"b": "", "text": "", "id": 10}',
]


def test_json_lines(tmp_path: Path) -> None:
    batches = read_all(write(tmp_path, b"\n".join(LINES), name="a.jsonl"), pair_column="b", id_column="id")
    assert pairs_of(batches) == [("1", "a", "x"), ("9", "\n", "é"), ("10", "", "")]
    rejects = rejects_of(batches)
    assert [(reject.row, reject.reason) for reject in rejects] == [
        (2, "no column 'b'"),
        (3, "column 'b' holds null, not a string"),
        (4, "column 'b' holds a number, not a string"),
        (5, "column 'b' holds a list, not a string"),
        (6, "no column 'text'"),
        (7, "column 'text' holds a number, not a string"),
        (8, "column 'b' stands 2 times"),
        (9, "no column 'id'"),
    ]
    assert [reject.raw for reject in rejects] == LINES[2:10]


@few_cases(20, without=4)
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=12),
    limit=st.none() | st.integers(1, 12),
    batch_bytes=st.sampled_from([1, 60, 1 << 20]),
    policy=st.sampled_from(["reject", "replace"]),
)
def test_each_line_is_read_as_alone(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], limit: int | None, batch_bytes: int, policy: str
) -> None:
    """Whatever stands around a line, and however blocks are cut, the same documents and rejects come out."""
    folder = tmp_path_factory.mktemp("lines")
    content = b"\n".join([LINES[0], *lines])
    options: dict[str, Any] = {"pair_column": "b", "invalid_utf8": policy}
    path = write(folder, content, name="a.jsonl")
    batches = read_all(path, limit=limit, batch_bytes=batch_bytes, **options)
    found = {row: document[1:] for batch in batches for row, document in zip(batch.rows.tolist(), pairs_of([batch]), strict=True)}
    expected: dict[int, tuple[str, ...]] = {}
    for row, line in [(row, line) for row, line in enumerate([LINES[0], *lines]) if line][:limit]:
        alone = read_all(write(folder, LINES[0] + b"\n" + line, name="b.jsonl"), **options)
        expected.update((row, document[1:]) for document in pairs_of(alone)[1:])
    assert found == expected


@pytest.mark.parametrize("policy", ["error", "replace", "reject"])
def test_a_damaged_second_text(tmp_path: Path, policy: str) -> None:
    jsonl = write(tmp_path, b'{"text": "a", "b": "x"}\n{"text": "a", "b": "\\ud83d"}\n', name="a.jsonl")
    table = pa.table({"text": ["a", "a"], "b": pa.array([b"x", b"\xff"]).view(pa.string())})
    pq.write_table(table, tmp_path / "a.parquet")
    for path in (jsonl, tmp_path / "a.parquet"):
        if policy == "error":
            with pytest.raises(InvalidTextError, match=r"row 1: .*second text"):
                read_all(path, pair_column="b", invalid_utf8=policy)
            continue
        batches = read_all(path, pair_column="b", invalid_utf8=policy)
        assert [pair for *_, pair in pairs_of(batches)] == (["x", "\ufffd"] if policy == "replace" else ["x"])
        assert [len(batch.replaced) for batch in batches] == [int(policy == "replace")]
        assert ["of the second text is" in reject.reason for reject in rejects_of(batches)] == [True] * (policy == "reject")


TABLE = pa.table({"b": ["x", None, "y", "z"], "text": ["a", "a", None, "é"], "n": [1, 2, 3, 4]})


def write_table(folder: Path, kind: str) -> str:
    if kind == "parquet":
        pq.write_table(TABLE, folder / "a.parquet")
    elif kind == "arrow":
        with pa.ipc.new_file(folder / "a.arrow", TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=2)
    else:
        datasets.Dataset(TABLE).save_to_disk(folder / "a")
        return f"disk:{folder / 'a'}"
    return str(folder / f"a.{kind}")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "disk"])
def test_columns(tmp_path: Path, kind: str) -> None:
    batches = read_all(write_table(tmp_path, kind), pair_column="b", batch_bytes=4)
    assert [document[1:] for document in pairs_of(batches)] == [("a", "x"), ("é", "z")]
    assert [(reject.row, reject.reason, reject.raw) for reject in rejects_of(batches)] == [
        (1, "column 'b' is null", b"a"),
        (2, "column 'text' is null", b""),
    ]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "disk"])
def test_pairs_from_columns_are_encoded(folder: Path, tmp_path: Path, kind: str) -> None:
    source = write_table(tmp_path, kind)
    table, manifest = encode(folder, tmp_path / "tokens", source=source)
    assert spell(folder, table) == ["<a|x|", "<Ã©|z|"] and manifest["totals"]["rejected"] == 2
    assert call("verify", tmp_path / "tokens", "--deep", "--source", source).exit_code == 0


def test_columns_that_are_not_there_or_no_text(tmp_path: Path) -> None:
    path = write_table(tmp_path, "parquet")
    with pytest.raises(MissingColumnError, match=r"no column 'c'; the columns there are: b, text, n"):
        read_all(path, pair_column="c")
    with pytest.raises(MissingColumnError, match=r"column 'n' holds int64, not text; the columns that hold text are: b, text"):
        read_all(path, pair_column="n")
    with pytest.raises(MissingColumnError, match=r"no column 'c' in its first records"):
        read_all(write(tmp_path, b"\n".join(LINES), name="a.jsonl"), pair_column="c")


# --- options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pair-column", "text"), "the pair column and the text column are both 'text'; name two columns"),
        (
            ("--truncate", "only_first", "--max-length", "9"),
            "--truncate says which text of a pair is cut; give --pair-column COL too",
        ),
        (
            ("--pair-column", "b", "--truncate", "only_first"),
            "--truncate says what becomes of what is cut off; give --max-length N too",
        ),
        (
            ("--pair-column", "b", "--max-length", "9", "--overflow", "rows"),
            "--overflow rows cuts one text of a pair: say which, with --truncate only_first or only_second",
        ),
        (("--pair-column", "b", "--max-length", "3"), "rows of 3 tokens, 3 of them special, leave 0 for text: too few"),
        (
            ("--pair-column", "b", "--block", "4", "--eos", "[SEP]", "--truncate", "only_first"),
            "--truncate is for rows of documents",
        ),
    ],
)
def test_what_does_not_go_together(folder: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    words = ("encode", folder / "pairs.jsonl", "--tokenizer", folder / "tokenizer.json", "--output", tmp_path / "tokens")
    check_error(call(*words, *options), 2, message)


def test_a_text_file_has_no_second_column(folder: Path, tmp_path: Path) -> None:
    words = ("encode", folder / "corpus.txt", "--tokenizer", folder / "tokenizer.json", "--output", tmp_path / "tokens")
    message = "corpus.txt: a text file has no column 'b'; write JSON lines, an object with both texts each (--format jsonl where"
    check_error(call(*words, "--pair-column", "b"), 2, message)


def test_a_build_learns_from_both_texts(tmp_path: Path) -> None:
    lines = [{"text": "aab", "b": "xyz"}] * 9 + [{"text": "lonely"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = f"""
input: {{inputs: [{tmp_path / "a.jsonl"}]}}
train: {{model: byte-bpe, pretokenizer: gpt2, merges: 4}}
encode: {{pair_column: b, offsets: characters}}
output: {{folder: {tmp_path / "out"}}}
"""
    (tmp_path / "c.yaml").write_text(config)
    built = call("build", tmp_path / "c.yaml", "--quiet")
    assert built.exit_code == 0, built.output
    vocab = json.loads((tmp_path / "out" / "tokenizer.json").read_text())["vocab"]
    assert {"aab", "xyz"} <= vocab.keys()
    (shard,) = (tmp_path / "out" / "tokens").glob("part-*.parquet")
    table = pq.read_table(shard)
    assert table["input_ids"].to_pylist() == [[vocab["aab"], vocab["xyz"]]] * 9
    assert table["offset_ends"].to_pylist() == [[3, 3]] * 9
    assert call("verify", tmp_path / "out", "--deep").exit_code == 0
