"""Packed and shuffled shards: rows worked out by hand, and datasets that `encode --block` writes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import hash_folder, make_texts, write_jsonl
from tests.training import few_cases
from tokenmill import Tokenizer, errors
from tokenmill.dataset.packing import Packing
from tokenmill.pipeline import driver
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.pipeline.tokenize_command import read_rows
from tokenmill.reference import packing as reference_packing
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms import pack, shuffle
from tokenmill.transforms.pack import BlockWriter

RUN = Execution(reporter(quiet=True), workers=1)
EOS, PAD = ("<eos>", 9), ("<pad>", 8)
#: Three documents: 3, 5 and 9 tokens.
THREE = [[10, 11, 12], [20, 21, 22, 23, 24], [30, 31, 32, 33, 34, 35, 36, 37, 38]]


def write_blocks(
    folder: Path, documents: list[list[int]], *, batch: int = 100, seed: tuple[int, ...] | None = None, **packing: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a shard of these documents, and what the manifest would say of it."""
    with BlockWriter(str(folder / "part.parquet"), {}, Packing(**packing), seed) as writer:
        for start in range(0, len(documents), batch):
            part = documents[start : start + batch]
            ids = pa.array([f"d{start + place}" for place in range(len(part))], pa.string())
            writer.write({"doc_id": ids, "input_ids": pa.array(part, pa.large_list(pa.int32()))})
    about = writer.describe()
    if not (folder / "part.parquet").exists():
        return [], about
    table = pq.read_table(folder / "part.parquet")
    table.validate(full=True)
    return table.to_pylist(), about


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_concat_with_a_padded_tail(tmp_path: Path) -> None:
    rows, about = write_blocks(tmp_path, THREE, block=8, eos=EOS, pad=PAD, segment_ids=True, position_ids=True)
    assert column(rows, "input_ids") == [
        [10, 11, 12, 9, 20, 21, 22, 23],
        [24, 9, 30, 31, 32, 33, 34, 35],
        [36, 37, 38, 9, 8, 8, 8, 8],
    ]
    assert column(rows, "attention_mask") == [[1] * 8, [1] * 8, [1, 1, 1, 1, 0, 0, 0, 0]]
    assert column(rows, "segment_ids") == [[1, 1, 1, 1, 2, 2, 2, 2], [1, 1, 2, 2, 2, 2, 2, 2], [1, 1, 1, 1, 0, 0, 0, 0]]
    assert column(rows, "position_ids") == [[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 0, 0, 0, 0]]
    assert column(rows, "doc_ids") == [["d0", "d1"], ["d1", "d2"], ["d2"]]
    assert column(rows, "doc_offsets") == [[0, 4], [0, 2], [0]]
    assert column(rows, "doc_starts") == [[0, 0], [4, 0], [6]]
    assert column(rows, "doc_lengths") == [[3, 4], [1, 6], [3]]
    expected = {"documents": 3, "tokens": 17, "eos": 3, "padding": 4, "dropped_tokens": 0, "dropped_documents": 0, "blocks": 3}
    assert {name: about[name] for name in expected} == expected


def test_concat_with_a_shorter_tail(tmp_path: Path) -> None:
    rows, about = write_blocks(tmp_path, THREE, block=8, eos=EOS, tail="keep", segment_ids=True)
    assert column(rows, "input_ids")[1:] == [[24, 9, 30, 31, 32, 33, 34, 35], [36, 37, 38, 9]]
    assert column(rows, "segment_ids")[-1] == [1, 1, 1, 1]
    assert rows[0].keys().isdisjoint({"attention_mask", "position_ids"})
    assert (about["blocks"], about["tokens"], about["padding"], about["dropped_tokens"]) == (3, 17, 0, 0)


def test_concat_with_a_dropped_tail(tmp_path: Path) -> None:
    rows, about = write_blocks(tmp_path, THREE, block=8, eos=EOS, tail="drop")
    assert column(rows, "input_ids") == [[10, 11, 12, 9, 20, 21, 22, 23], [24, 9, 30, 31, 32, 33, 34, 35]]
    assert (about["blocks"], about["tokens"], about["eos"], about["padding"]) == (2, 14, 2, 0)
    assert (about["dropped_tokens"], about["dropped_documents"]) == (3, 0)
    (tmp_path / "more").mkdir()
    _, about = write_blocks(tmp_path / "more", [[1, 2, 3], [4], []], block=4, eos=EOS, tail="drop")
    assert (about["documents"], about["dropped_tokens"], about["dropped_documents"]) == (1, 1, 2)


def test_best_fit(tmp_path: Path) -> None:
    rows, about = write_blocks(tmp_path, THREE, block=8, mode="best-fit", pad=PAD, position_ids=True)
    assert column(rows, "input_ids") == [
        [10, 11, 12, 20, 21, 22, 23, 24],
        [30, 31, 32, 33, 34, 35, 36, 37],
        [38, 8, 8, 8, 8, 8, 8, 8],
    ]
    assert column(rows, "attention_mask") == [[1] * 8, [1] * 8, [1, 0, 0, 0, 0, 0, 0, 0]]
    assert column(rows, "position_ids")[0] == [0, 1, 2, 0, 1, 2, 3, 4]
    assert column(rows, "doc_ids") == [["d0", "d1"], ["d2"], ["d2"]]
    assert column(rows, "doc_starts") == [[0, 0], [0], [8]]
    assert (about["tokens"], about["eos"], about["padding"]) == (17, 0, 7)


def test_one_document_a_block(tmp_path: Path) -> None:
    rows, about = write_blocks(tmp_path, THREE, block=8, mode="none", eos=EOS, pad=PAD)
    assert column(rows, "input_ids") == [
        [10, 11, 12, 9, 8, 8, 8, 8],
        [20, 21, 22, 23, 24, 9, 8, 8],
        [30, 31, 32, 33, 34, 35, 36, 37],
        [38, 9, 8, 8, 8, 8, 8, 8],
    ]
    assert (about["blocks"], about["padding"], about["documents"]) == (4, 12, 3)


@few_cases(60, 15)
@given(
    lengths=st.lists(st.integers(0, 30), max_size=40),
    block=st.sampled_from([1, 3, 8, 64]),
    mode=st.sampled_from(["concat", "best-fit", "none"]),
    tail=st.sampled_from(["pad", "keep", "drop"]),
    window=st.sampled_from([1, 7, 40, 1 << 24]),
    batch=st.integers(1, 9),
    shuffled=st.booleans(),
    ended=st.booleans(),
)
def test_every_token_is_where_the_row_says(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    block: int,
    mode: str,
    tail: str,
    window: int,
    batch: int,
    shuffled: bool,
    ended: bool,
) -> None:
    """Windows, batches and shuffling lose nothing: tokens that are kept and those that are dropped are all there are."""
    ends = np.cumsum([0, *lengths]).tolist()
    documents = [list(range(100 + begin, 100 + end)) for begin, end in itertools.pairwise(ends)]
    tail = tail if mode == "concat" else "pad"
    folder = tmp_path_factory.mktemp("shard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shuffle, "WINDOW_TOKENS", window)
        patch.setattr(pack, "ROW_GROUP_TOKENS", 64)
        how = {"block": block, "mode": mode, "tail": tail, "eos": EOS if ended else None, "pad": PAD, "bounded": not ended}
        rows, about = write_blocks(folder, documents, batch=batch, seed=(1, 2) if shuffled else None, **how)
    kept = 0
    for row in rows:
        for name, offset, start, length in zip(
            row["doc_ids"], row["doc_offsets"], row["doc_starts"], row["doc_lengths"], strict=True
        ):
            assert row["input_ids"][offset : offset + length] == documents[int(name[1:])][start : start + length]
            kept += length
    everything = [token for row in rows for token in row["input_ids"]]
    assert len({token for token in everything if token >= 100}) == kept == about["tokens"]
    assert kept + about["dropped_tokens"] == sum(lengths)
    assert (everything.count(9), everything.count(8)) == (about["eos"], about["padding"])
    assert all(any(token != 8 for token in row["input_ids"]) for row in rows)
    empty = 0 if ended else lengths.count(0)
    assert about.get("empty_documents", 0) == empty
    assert about["documents"] + about["dropped_documents"] == len(documents) - empty
    assert tail == "drop" or about["eos"] == (len(documents) if ended else 0)
    if not shuffled and window == 1 << 24 and tail == "pad":
        expected = reference_packing.pack(documents, block, mode, 9 if ended else None)
        joined = [[token for _, _, tokens in parts for token in tokens] for parts in expected]
        assert column(rows, "input_ids") == [tokens + [8] * (block - len(tokens)) for tokens in joined]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`corpus.jsonl`, 250 documents, and `tokenizer.json` with two special tokens."""
    folder = tmp_path_factory.mktemp("corpus")
    made = Corpus((str(write_jsonl(folder / "corpus.jsonl", make_texts(250))),))
    options = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=400, special_tokens=("<eos>", "<pad>"))
    driver.train_on_corpus(made, options, str(folder / "tokenizer.json"), RUN)
    return folder


def encode(corpus: Path, output: Path, split_bytes: int = 8_000, run: Execution = RUN, **rows: Any) -> dict[str, Any]:
    made = Corpus((str(corpus / "corpus.jsonl"),), split_bytes=split_bytes)
    return driver.encode_corpus(made, str(corpus / "tokenizer.json"), str(output), run, rows=RowOptions(**rows), overwrite=True)


@pytest.mark.parametrize(
    "rows",
    [
        {"block": 64, "eos": "<eos>"},
        {"block": 64, "eos": "<eos>", "tail": "keep"},
        {"block": 64, "pack": "best-fit", "pad": "<pad>", "shuffle": 3},
        {"block": 64, "pack": "none", "pad": "<pad>"},
        {"block": 1000, "pack": "concat", "eos": "<eos>", "shuffle": 1},
    ],
)
def test_documents_come_back_out_of_blocks(corpus: Path, tmp_path: Path, rows: dict) -> None:
    manifest, tokenizer, texts = encode(corpus, tmp_path, **rows), Tokenizer.from_file(corpus / "tokenizer.json"), make_texts(250)
    found = dict(read_rows(str(tmp_path)))
    assert {name: tokenizer.decode(ids) for name, ids in found.items()} == {
        f"corpus.jsonl:{row}": text for row, text in enumerate(texts) if text or "eos" in rows
    }
    assert manifest["totals"].get("empty_documents", 0) == (0 if "eos" in rows else texts.count(""))
    totals = manifest["totals"]
    assert totals["tokens"] == sum(map(len, found.values())) == sum(map(len, tokenizer.encode_batch(texts).to_pylist()))
    full = totals["blocks"] * rows["block"]
    used = totals["tokens"] + totals["eos"]
    assert used + totals["padding"] == full or rows.get("tail") == "keep"
    assert totals["density"] == round(used / (used + totals["padding"]), 6)
    assert len(manifest["shards"]) > 1 and manifest["packing"]["block"] == rows["block"]


def test_shards_describe_their_packing(corpus: Path, tmp_path: Path) -> None:
    manifest = encode(corpus, tmp_path, block=64, eos="<eos>", pad="<pad>", tail="pad", segment_ids=True)
    file = pq.ParquetFile(tmp_path / manifest["shards"][0]["path"])
    footer = json.loads(file.schema_arrow.metadata[b"tokenmill.packing"])
    expected = {
        "block": 64,
        "pack": "concat",
        "tail": "pad",
        "eos": {"token": "<eos>", "id": 0},
        "pad": {"token": "<pad>", "id": 1},
    }
    assert footer == expected and expected.items() <= manifest["packing"].items()
    assert manifest["packing"]["columns"] == file.schema_arrow.names
    assert file.schema_arrow.field("input_ids").type == pa.list_(pa.field("element", pa.int32(), nullable=False), 64)
    assert "one row a block of 64 tokens" in (tmp_path / "README.md").read_text()


def test_datasets_loads_blocks(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    encode(corpus, tmp_path / "blocks", block=64, eos="<eos>")
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "blocks" / "part-*.parquet"), split="train", cache_dir=str(tmp_path)
    )
    expected = pq.read_table(tmp_path / "blocks" / "part-00000-of-00005.parquet")["input_ids"].to_pylist()[:4]
    assert loaded.with_format("numpy")[:4]["input_ids"].tolist() == expected


def test_a_thousand_documents_shuffled(tmp_path: Path, corpus: Path) -> None:
    write_jsonl(tmp_path / "corpus.jsonl", make_texts(1000, words=5))
    (tmp_path / "tokenizer.json").write_bytes((corpus / "tokenizer.json").read_bytes())
    encode(tmp_path, tmp_path / "plain", split_bytes=1 << 20)
    hashes = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        manifest = encode(tmp_path, tmp_path / name, split_bytes=1 << 20, shuffle=seed)
        assert manifest["shuffle"] == seed
        hashes.append(hash_folder(tmp_path / name, "part-*"))
    assert hashes[0] == hashes[1] != hashes[2]
    plain, shuffled = (pq.read_table(tmp_path / name / "part-00000-of-00001.parquet").to_pylist() for name in ("plain", "a"))
    assert plain != shuffled and sorted(plain, key=str) == sorted(shuffled, key=str)


@pytest.mark.parametrize("rows", [{"block": 64, "eos": "<eos>", "shuffle": 1}, {"block": 64, "pack": "best-fit", "pad": "<pad>"}])
def test_workers_change_no_byte(corpus: Path, tmp_path: Path, rows: dict) -> None:
    for name, workers in (("one", 1), ("two", 2)):
        encode(corpus, tmp_path / name, run=Execution(reporter(quiet=True), workers=workers), **rows)
    assert hash_folder(tmp_path / "one") == hash_folder(tmp_path / "two")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"eos": "<eos>"}, "--eos is for packed blocks; give --block N too"),
        ({"position_ids": True}, "--position-ids is for packed blocks; give --block N too"),
        ({"block": 8}, "give --eos TOKEN (it has <eos>, <pad>), a tokenizer with a template, or --pack best-fit"),
        ({"block": 8, "eos": "</s>"}, "--eos '</s>' is no special token of this tokenizer: it has <eos>, <pad>"),
        ({"block": 8, "eos": "<eos>", "pad": "the"}, "--pad 'the' is no special token"),
        ({"block": 8, "pack": "best-fit"}, "give --pad TOKEN (or --eos TOKEN, which then pads too); it has <eos>, <pad>"),
    ],
)
def test_wrong_options_say_the_way_out(corpus: Path, tmp_path: Path, rows: dict, message: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        encode(corpus, tmp_path / "out", **rows)
    assert message in str(caught.value) and not (tmp_path / "out").exists()
