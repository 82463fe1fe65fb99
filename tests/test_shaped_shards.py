"""Rows of documents with special tokens, cut and filled up: what stands in shards and manifest, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.test_cli import call, check_error
from tokenmill.dataset.token_dataset import TokenDataset
from tokenmill.encoding.postprocessors import Padding, Truncation
from tokenmill.errors import UsageError
from tokenmill.pipeline.summary import describe_writing
from tokenmill.tokenizer import Tokenizer
from tokenmill.transforms.shape import RowShape

TEXTS = ["abc", "", "abcdefgh", "a<|end|>b"]
SPECIAL = ("--special", "<s>", "--special", "</s>", "--special", "<pad>", "--special", "<|end|>")
TEMPLATE = ("--template", "<s> $A </s>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`corpus.txt`, and `tokenizer.json` with a template: `<s>` 0, `</s>` 1, `<pad>` 2, `<|end|>` 3, bytes from 4 on."""
    path = tmp_path_factory.mktemp("shaped")
    (path / "corpus.txt").write_text("\n".join(TEXTS) + "\n")
    made = call(
        "train", path / "corpus.txt", "--merges", "0", *SPECIAL, *TEMPLATE, "--output", path / "tokenizer.json", "--quiet"
    )
    assert made.exit_code == 0, made.output
    return path


def encode(folder: Path, output: Path, *options: str) -> tuple[pa.Table, dict[str, Any]]:
    words = ("encode", folder / "corpus.txt", "--tokenizer", folder / "tokenizer.json", "--output", output, *options, "--quiet")
    result = call(*words)
    assert (result.exit_code, result.output) == (0, ""), result.output
    (shard,) = output.glob("part-*.parquet")
    return pq.read_table(shard), json.loads((output / "manifest.json").read_text())


def spell(folder: Path, rows: list[list[int]]) -> list[str]:
    vocab = json.loads((folder / "tokenizer.json").read_text())["vocab"]
    names = {
        token_id: {"<s>": "<", "</s>": ">", "<pad>": "_", "<|end|>": "!"}.get(token, token) for token, token_id in vocab.items()
    }
    return ["".join(names[one] for one in row) for row in rows]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["<abc>", "<>", "<abcdefgh>", "<a<|end|>b>"]),
        (("--no-special-tokens",), ["abc", "", "abcdefgh", "a<|end|>b"]),
        (("--allow-special",), ["<abc>", "<>", "<abcdefgh>", "<a!b>"]),
        (("--allow-special", "--max-length", "5"), ["<abc>", "<>", "<abc>", "<a!b>"]),
        (("--allow-special", "--max-length", "5", "--pad-to", "5", "--pad", "<pad>"), ["<abc>", "<>___", "<abc>", "<a!b>"]),
        (("--allow-special", "--max-length", "5", "--overflow", "rows"), ["<abc>", "<>", "<abc>", "<def>", "<gh>", "<a!b>"]),
        (
            ("--allow-special", "--max-length", "6", "--overflow", "rows", "--stride", "1"),
            ["<abc>", "<>", "<abcd>", "<defg>", "<gh>", "<a!b>"],
        ),
    ],
)
def test_rows(folder: Path, tmp_path: Path, options: tuple[str, ...], expected: list[str]) -> None:
    table, manifest = encode(folder, tmp_path / "tokens", *options)
    assert spell(folder, table["input_ids"].to_pylist()) == expected
    assert manifest["totals"]["documents"] == manifest["totals"]["encoded"] == 4
    (shard,) = manifest["shards"]
    assert (shard["documents"], shard["rows"], manifest["totals"]["rows"]) == (4, len(expected), len(expected))
    assert manifest["totals"].get("special_tokens_found", 0) == ("--allow-special" in options)


def test_what_is_cut_is_counted(folder: Path, tmp_path: Path) -> None:
    _, manifest = encode(folder, tmp_path / "tokens", "--max-length", "5")
    assert (manifest["totals"]["cut_tokens"], manifest["totals"]["cut_documents"]) == (5 + 6, 2)
    assert manifest["rows"] == {"truncation": {"max_length": 5, "stride": 0, "strategy": "longest_first", "side": "right"}}
    _, whole = encode(folder, tmp_path / "whole")
    assert "cut_tokens" not in whole["totals"] and "rows" not in whole


@pytest.mark.parametrize("pretokenizer", ["gpt2", "wordpunct"])
@pytest.mark.parametrize(
    "options",
    [
        ("--max-length", "16"),
        ("--max-length", "16", "--overflow", "rows", "--stride", "5"),
        ("--max-length", "16", "--pad-to", "20", "--pad", "<pad>"),
        ("--max-length", "500", "--pad-to", "600", "--pad", "<pad>"),
    ],
)
def test_bytes_per_token_are_of_the_text_that_is_kept(tmp_path: Path, pretokenizer: str, options: tuple[str, ...]) -> None:
    """Each text begins with short tokens and ends with long ones: what is cut off must not count."""
    texts = [f"{'a b c d ' * 20}{'abcdefgh' * 200}" for _ in range(3)] + ["", "abc"]
    (tmp_path / "corpus.txt").write_text("\n".join(texts) + "\n")
    tokenizer = tmp_path / "tokenizer.json"
    how = ("--pretokenizer", pretokenizer, "--merges", "20", *SPECIAL, *TEMPLATE)
    assert call("train", tmp_path / "corpus.txt", *how, "--output", tokenizer, "--quiet").exit_code == 0
    _, manifest = encode(tmp_path, tmp_path / "tokens", *options)
    made, kept, size = Tokenizer.from_file(tokenizer), 0, 0
    whole = "--overflow" in options or "500" in options
    for text in texts:
        ids = made.encode(text)
        used = ids if whole else ids[:14]
        kept += len(used) + 2
        exact = len(made.decode_bytes(used)) if pretokenizer == "gpt2" else len(text) * len(used) // max(1, len(ids))
        size += len(text) if used == ids else exact
    assert (manifest["totals"]["kept_tokens"], manifest["totals"]["kept_bytes"]) == (kept, size)
    assert f", {size / kept:.2f} bytes of text a token" in describe_writing(manifest, "tokens")


def test_the_summary_says_what_was_cut_and_filled_up(folder: Path, tmp_path: Path) -> None:
    def lines(*options: str) -> list[str]:
        _, manifest = encode(folder, tmp_path / f"tokens-{len(options)}", *options)
        return describe_writing(manifest, "tokens").split("\n")[1:-3]

    assert lines() == []
    assert lines("--max-length", "5") == ["cut      2 documents longer than 5 tokens, 11 tokens dropped"]
    assert lines("--max-length", "5", "--overflow", "rows") == ["cut      2 documents longer than 5 tokens, 8 rows in all"]
    assert lines("--max-length", "5", "--pad-to", "5", "--pad", "<pad>") == [
        "cut      2 documents longer than 5 tokens, 11 tokens dropped",
        "filled   rows, to 5 tokens: the tokens above include padding",
    ]


def test_columns_beside_the_ids(folder: Path, tmp_path: Path) -> None:
    masks = ("--attention-mask", "--token-type-ids", "--special-tokens-mask")
    table, _ = encode(folder, tmp_path / "tokens", "--max-length", "4", "--pad-to", "4", "--pad", "<pad>", *masks)
    assert table.column_names == ["doc_id", "input_ids", "attention_mask", "token_type_ids", "special_tokens_mask"]
    assert [str(kind) for kind in table.schema.types[2:]] == ["list<element: int8>"] * 3
    assert spell(folder, table["input_ids"].to_pylist()) == ["<ab>", "<>__", "<ab>", "<a<>"]
    assert table["attention_mask"].to_pylist() == [[1] * 4, [1, 1, 0, 0], [1] * 4, [1] * 4]
    assert table["special_tokens_mask"].to_pylist() == [[1, 0, 0, 1], [1] * 4, [1, 0, 0, 1], [1, 0, 0, 1]]
    assert table["token_type_ids"].to_pylist() == [[0] * 4] * 4


def test_rows_of_a_document_keep_its_id(folder: Path, tmp_path: Path) -> None:
    table, _ = encode(folder, tmp_path / "tokens", "--max-length", "5", "--overflow", "rows", "--shuffle", "1")
    assert sorted(table["doc_id"].to_pylist()) == sorted(
        ["corpus.txt:0", "corpus.txt:1", *["corpus.txt:2"] * 3, *["corpus.txt:3"] * 3]
    )


FOUND = "found    1 special token inside texts"
OVERFLOW = ("--allow-special", "--max-length", "5", "--overflow", "rows")


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ((), []),
        (("--max-length", "5"), ["cut      2 documents longer than 5 tokens, 11 tokens dropped"]),
        (("--max-length", "5", "--allow-special"), ["cut      1 document longer than 5 tokens, 5 tokens dropped", FOUND]),
        (OVERFLOW, ["cut      1 document longer than 5 tokens, 6 rows in all", FOUND]),
    ],
)
def test_the_summary_says_what_was_cut_and_found(
    folder: Path, tmp_path: Path, options: tuple[str, ...], lines: list[str]
) -> None:
    words = ("encode", folder / "corpus.txt", "--tokenizer", folder / "tokenizer.json", "--output", tmp_path / "tokens", *options)
    printed = call(*words).stdout.splitlines()
    assert [line for line in printed if line.startswith(("cut ", "found "))] == lines


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        (OVERFLOW, lambda made: made["shards"][0].update(documents=6), "6 documents, its files have 4"),
        (OVERFLOW, lambda made: made["shards"][0].update(rows=4), "6 rows, the manifest says 4"),
        (OVERFLOW, lambda made: made["totals"].update(rows=4), "totals: rows is 4, the shards have 6"),
        (OVERFLOW, lambda made: made.update(rows={}), "6 rows of 4 documents"),
        ((), lambda made: made["shards"][0].update(rows=3), "3 rows of 4 documents"),
    ],
)
def test_verify_counts_rows_and_documents(
    folder: Path, tmp_path: Path, options: tuple[str, ...], change: Callable[[dict[str, Any]], None], message: str
) -> None:
    _, manifest = encode(folder, tmp_path / "tokens", *options)
    change(manifest)
    (tmp_path / "tokens" / "manifest.json").write_text(json.dumps(manifest))
    verified = call("verify", tmp_path / "tokens")
    assert verified.exit_code == 3 and message in verified.output


def test_rows_that_overflow_are_all_there(folder: Path, tmp_path: Path) -> None:
    encode(folder, tmp_path / "tokens", *OVERFLOW)
    dataset = TokenDataset(str(tmp_path / "tokens"))
    rows = [dataset.row(number) for number in range(dataset.rows)]
    assert [row["doc_id"][-1] for row in rows] == list("012223")
    assert spell(folder, [row["input_ids"] for row in rows])[4] == "<gh>"


def test_blocks_of_documents_with_special_tokens(folder: Path, tmp_path: Path) -> None:
    table, _ = encode(folder, tmp_path / "tokens", "--block", "6", "--pack", "best-fit", "--pad", "<pad>", "--allow-special")
    rows = spell(folder, table["input_ids"].to_pylist())
    assert "<abcde" in rows and {len(row) for row in rows} == {6}
    assert sorted("".join(rows).replace("_", "")) == sorted("<abc><><abcdefgh><a!b>")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-length", "2"), "rows of 2 tokens, 2 of them special, leave 0 for text: too few; give a larger maximum length"),
        (("--stride", "1"), "--stride says what becomes of what is cut off; give --max-length N too"),
        (("--overflow", "rows"), "--overflow says what becomes of what is cut off; give --max-length N too"),
        (
            ("--max-length", "9", "--stride", "1"),
            "--stride is how much rows of one document have in common; give ",
        ),
        (("--pad-to", "4"), "--pad-to fills rows up with a token: give --pad TOKEN (it has <s>, </s>, <pad>, <|end|>)"),
        (("--pad", "<pad>"), "--pad fills rows up; give --pad-to N, or --block N, too"),
        (("--pad-to", "2147483648", "--pad", "<pad>"), "2147483648 is not in the range 1<=x<=1048576"),
        (("--pad-to", "4", "--pad", "a"), "--pad 'a' is no special token of this tokenizer: it has <s>"),
        (("--block", "4", "--eos", "</s>", "--max-length", "9"), "--max-length is for rows of documents, not for packed blocks"),
        (
            ("--block", "4", "--eos", "</s>", "--attention-mask"),
            "--attention-mask is for rows of documents, not for packed ",
        ),
    ],
)
def test_what_does_not_go_together(folder: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    words = ("encode", folder / "corpus.txt", "--tokenizer", folder / "tokenizer.json", "--output", tmp_path / "tokens")
    check_error(call(*words, *options), 2, message)


def test_tokenize_adds_the_template(folder: Path) -> None:
    words = ("tokenize", "--tokenizer", folder / "tokenizer.json", "a<|end|>")
    assert json.loads(call(*words, "--allow-special").stdout)["tokens"] == ["<s>", "a", "<|end|>", "</s>"]
    assert json.loads(call(*words, "--allow-special", "--no-special-tokens").stdout)["tokens"] == ["a", "<|end|>"]
    assert json.loads(call(*words).stdout)["tokens"] == ["<s>", *"a<|end|>", "</s>"]


def test_convert_gives_a_template(folder: Path, tmp_path: Path) -> None:
    words = ("convert", folder / "tokenizer.json", tmp_path / "t.json", "--to", "native", "--template", "<s> $A")
    assert call(*words).exit_code == 0
    assert json.loads((tmp_path / "t.json").read_text())["postprocessor"] == {"single": "<s> $A"}
    check_error(call(*words[:-1], "<x> $A", "--overwrite"), 2, "template: '<x>' is no special token of this tokenizer")
    check_error(call(*words[:-2], "--pair-template", "$A $B"), 2, "--pair-template is for pairs of what --template is for")


def test_training_with_a_template_of_no_special_token(folder: Path, tmp_path: Path) -> None:
    words = ("train", folder / "corpus.txt", "--merges", "0", *TEMPLATE, "--output", tmp_path / "t.json")
    check_error(call(*words), 2, "template: '<s>' is no special token of this tokenizer; give it one, or take it out")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--allow-special", "--no-special-tokens"),
        ("--max-length", "5", "--overflow", "rows", "--pad-to", "5", "--pad", "<pad>", "--attention-mask", "--shuffle", "1"),
        ("--block", "6", "--eos", "</s>", "--allow-special"),
    ],
)
def test_shaped_rows_can_be_verified_against_their_source(folder: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    encode(folder, tmp_path / "tokens", *options)
    verified = call("verify", tmp_path / "tokens", "--deep", "--source", folder / "corpus.txt")
    assert verified.exit_code == 0, verified.output


def test_shapes_and_what_the_manifest_says_of_them() -> None:
    shape = RowShape(False, True, Truncation(5, 1), True, Padding("<pad>", 5), ("attention_mask",))
    assert RowShape.of(json.loads(json.dumps(shape.describe()))) == shape and RowShape.of({}) == RowShape()
    with pytest.raises(UsageError, match=r"^the manifest's entry rows: .*'colour'; encode the corpus again$"):
        RowShape.of({"colour": 1})
