"""Where tokens come from, as columns of shards: by hand, with special tokens inside texts, and as Hugging Face has it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.test_cli import call, check_error
from tests.training import few_cases, train
from tokenmill import Tokenizer
from tokenmill.encoding.templates import Template
from tokenmill.text.normalizers import Normalizer

SPECIALS = ("<s>", "</s>", "<pad>", "<|end|>")
TEXTS = ["aé b", "", "é<|end|>ab"]
#: What normalizing makes longer and shorter: three characters of which one remains, one that becomes two.
ODD = ["ﬁé\u0301x", "E\u0301"]


def make(path: Path, normalizer: str, texts: list[str]) -> None:
    """`corpus.jsonl`, and a `tokenizer.json` with the template `<s> $A </s>` and bytes as tokens."""
    (path / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    words = ["train", path / "corpus.jsonl", "--merges", "0", "--normalizer", normalizer, "--output", path / "tokenizer.json"]
    words += [word for token in SPECIALS for word in ("--special", token)]
    made = call(*words, "--template", "<s> $A </s>", "--quiet")
    assert made.exit_code == 0, made.output


def encode(path: Path, *options: str) -> tuple[pa.Table, dict[str, Any]]:
    words = ("encode", path / "corpus.jsonl", "--tokenizer", path / "tokenizer.json", "--output", path / "tokens", "--overwrite")
    result = call(*words, *options, "--quiet")
    assert (result.exit_code, result.output) == (0, ""), result.output
    (shard,) = (path / "tokens").glob("part-*.parquet")
    return pq.read_table(shard), json.loads((path / "tokens" / "manifest.json").read_text())


def places(table: pa.Table) -> list[list[tuple[int, int]]]:
    rows = zip(table["offset_starts"].to_pylist(), table["offset_ends"].to_pylist(), strict=True)
    return [list(zip(*row, strict=True)) for row in rows]


S = (0, 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--offsets", "bytes", "--allow-special"),
            [[S, (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), S], [S, S], [S, (0, 1), (1, 2), (2, 9), (9, 10), (10, 11), S]],
        ),
        (
            ("--offsets", "characters", "--allow-special"),
            [[S, (0, 1), (1, 2), (1, 2), (2, 3), (3, 4), S], [S, S], [S, (0, 1), (0, 1), (1, 8), (8, 9), (9, 10), S]],
        ),
        (
            ("--offsets", "characters", "--no-special-tokens", "--max-length", "3", "--pad-to", "3", "--pad", "<pad>"),
            [[(0, 1), (1, 2), (1, 2)], [S, S, S], [(0, 1), (0, 1), (1, 2)]],
        ),
        (
            ("--offsets", "bytes", "--allow-special", "--max-length", "5", "--overflow", "rows", "--stride", "1"),
            [
                *([S, (0, 1), (1, 2), (2, 3), S], [S, (2, 3), (3, 4), (4, 5), S]),
                [S, S],
                *([S, (0, 1), (1, 2), (2, 9), S], [S, (2, 9), (9, 10), (10, 11), S]),
            ],
        ),
    ],
)
def test_places_by_hand(tmp_path: Path, options: tuple[str, ...], expected: list[list[tuple[int, int]]]) -> None:
    make(tmp_path, "identity", TEXTS)
    table, manifest = encode(tmp_path, *options)
    assert table.column_names == ["doc_id", "input_ids", "offset_starts", "offset_ends"]
    assert places(table) == expected and manifest["rows"]["offsets"] == options[1]
    assert call("verify", tmp_path / "tokens", "--deep", "--source", tmp_path / "corpus.jsonl").exit_code == 0


def test_places_are_those_of_the_text_before_normalizing(tmp_path: Path) -> None:
    make(tmp_path, "nfkc", ODD)
    table, _ = encode(tmp_path, "--offsets", "characters", "--no-special-tokens")
    #  f, i (of the ligature), e-acute of 2 bytes with an acute on top of 2 bytes, x; E-acute of 2 bytes out of two characters
    assert places(table) == [[(0, 1), (0, 1), (1, 2), (1, 2), (2, 3), (2, 3), (3, 4)], [(0, 2), (0, 2)]]
    table, _ = encode(tmp_path, "--offsets", "bytes", "--no-special-tokens")
    assert places(table) == [[(0, 3), (0, 3), (3, 5), (3, 5), (5, 7), (5, 7), (7, 8)], [(0, 3), (0, 3)]]


def test_documents_that_are_rejected_take_their_places_along(tmp_path: Path) -> None:
    made = train(["ab"], model="char-bpe", pretokenizer="none", merges=0)
    made.save(tmp_path / "tokenizer.json")
    (tmp_path / "corpus.jsonl").write_text('{"text": "zab"}\n{"text": "aab"}\n{"text": "az"}\n{"text": "b"}\n')
    table, manifest = encode(tmp_path, "--offsets", "bytes")
    assert places(table) == [[(0, 1), (1, 2), (2, 3)], [(0, 1)]] and manifest["totals"]["rejected"] == 2


def test_datasets_and_torch_read_them(tmp_path: Path) -> None:
    make(tmp_path, "identity", TEXTS)
    encode(tmp_path, "--offsets", "bytes", "--allow-special")
    files = str(tmp_path / "tokens" / "part-*.parquet")
    data = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    row = data.with_format("torch")[2]
    assert row["offset_starts"].tolist() == [0, 0, 1, 2, 9, 10, 0] and row["offset_ends"].shape == row["input_ids"].shape


def test_packed_blocks_have_no_places(tmp_path: Path) -> None:
    make(tmp_path, "identity", TEXTS)
    words = ("encode", tmp_path / "corpus.jsonl", "--tokenizer", tmp_path / "tokenizer.json", "--output", tmp_path / "tokens")
    message = "--offsets is for rows of documents, not for packed blocks; leave out one of both"
    check_error(call(*words, "--block", "4", "--eos", "</s>", "--offsets", "bytes"), 2, message)


# --- with special tokens inside texts, as Hugging Face has it -------------------------------------------------------------


@functools.cache
def with_specials(normalizer: str, model: str) -> tuple[Tokenizer, Any]:
    base = train(["ab ab é"] * 3, model=model, pretokenizer="gpt2", merges=4, special_tokens=SPECIALS)
    template = Template.of({"single": "<s> $A </s>", "pair": "<s> $A </s> $B:1 </s>:1"})
    ours = Tokenizer(base.model, pretokenizer=base.pretokenizer, normalizer=Normalizer.of([normalizer]), template=template)
    theirs = tokenizers.Tokenizer.from_str(ours.to_format("huggingface")["tokenizer.json"].decode())
    # What it writes does not look for special tokens in texts; here it should.
    theirs.add_special_tokens([tokenizers.AddedToken(token, normalized=False, special=True) for token in SPECIALS])
    return ours, theirs


parts = st.lists(st.sampled_from([*SPECIALS, "<|end", "ab", " ab", "é", "\n", "b", "😀", "E\u0301", ""]), max_size=6).map("".join)


@few_cases(60, without=3)
@given(
    pairs=st.lists(st.tuples(parts, parts), min_size=1, max_size=4), normalizer=st.sampled_from(["identity", "nfd", "lowercase"])
)
def test_special_tokens_have_places_as_in_hugging_face(pairs: list[tuple[str, str]], normalizer: str) -> None:
    ours, theirs = with_specials(normalizer, "byte-bpe")
    found = ours.process_batch(*zip(*pairs, strict=True), unit="characters", allow_special=True)
    expected = theirs.encode_batch(pairs)
    edges = found.rows.offsets.tolist()
    spans, words = found.offsets().tolist(), found.word_ids().tolist()
    for row, one in enumerate(expected):
        inside = slice(edges[row], edges[row + 1])
        assert found.rows.arrays.ids[inside].tolist() == one.ids
        assert [tuple(span) for span in spans[inside]] == one.offsets
        assert [None if word < 0 else word for word in words[inside]] == one.word_ids
        assert found.rows.arrays.special[inside].tolist() == one.special_tokens_mask


@few_cases(60, without=3)
@given(texts=st.lists(parts, max_size=5), unit=st.sampled_from(["bytes", "characters"]))
def test_places_spell_the_text(texts: list[str], unit: str) -> None:
    """The places of all tokens, cut out of the text, are the text: also around special tokens."""
    ours, _ = with_specials("identity", "byte-bpe")
    made, trace = ours.trace_batch(pa.array(texts, pa.large_string()), unit, allow_special=True)
    assert made.ids == ours.encode_batch(texts, allow_special=True)
    edges = made.ids.offsets.to_pylist()
    for place, text in enumerate(texts):
        whole: str | bytes = text.encode() if unit == "bytes" else text
        spans = sorted({tuple(span) for span in trace.spans[edges[place] : edges[place + 1]].tolist()})
        joined = [whole[start:end] for start, end in spans]
        assert (b"".join(joined) if unit == "bytes" else "".join(joined)) == whole  # type: ignore[arg-type]


def test_a_worked_example() -> None:
    ours, _ = with_specials("identity", "byte-bpe")
    encoding = ours.process("a<|end|>b", add_special_tokens=False, allow_special=True)
    assert encoding.tokens == ["a", "<|end|>", "b"]
    assert (encoding.offsets, encoding.word_ids) == ([(0, 1), (1, 8), (8, 9)], [0, 1, 2])
    assert encoding.special_tokens_mask == [0, 0, 0]
