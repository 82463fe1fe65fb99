"""Blocks of documents that a template begins or ends: one end each, and everybody agrees on which tokens are the document's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.corpora import write_jsonl
from tokenmill import TokenDataset, errors
from tokenmill.dataset.packing import Packing
from tokenmill.encoding.templates import Template
from tokenmill.pipeline import driver, summary
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions, choose_packing
from tokenmill.pipeline.tokenize_command import read_rows
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.trainers import TrainingOptions

RUN = Execution(reporter(quiet=True), workers=1)
TEXTS = ["low lower", "", "the quick brown fox"]


@pytest.fixture(scope="module")
def mill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokenizers with special tokens `<s>` 0, `</s>` 1, `<pad>` 2: `both.json`, `first.json` and `last.json` have a template."""
    folder = tmp_path_factory.mktemp("mill")
    corpus = Corpus((str(write_jsonl(folder / "in.jsonl", TEXTS * 4)),))
    for name, template in {"none": "$A", "both": "<s> $A </s>", "first": "<s> $A", "last": "$A </s>"}.items():
        pair = "<s> $A </s> $B </s>" if name == "both" else None
        options = TrainingOptions(
            model="byte-bpe",
            pretokenizer="gpt2",
            vocab_size=280,
            special_tokens=("<s>", "</s>", "<pad>"),
            template=Template.of({"single": template, "pair": pair}),
        )
        driver.train_on_corpus(corpus, options, str(folder / f"{name}.json"), RUN)
    return folder


def encode(mill: Path, output: Path, name: str, texts: list[str] = TEXTS, **rows: Any) -> dict[str, Any]:
    corpus = Corpus((str(write_jsonl(mill / "in.jsonl", texts)),))
    options = RowOptions(**{"block": 16, **rows})
    return driver.encode_corpus(corpus, str(mill / f"{name}.json"), str(output), RUN, rows=options, overwrite=True)


def tokens_of(output: Path) -> list[int]:
    """All tokens of all blocks, without padding."""
    table = pq.read_table(output / "part-00000-of-00001.parquet")
    return [token for row in table["input_ids"].to_pylist() for token in row if token != 2]


def wrap(mill: Path, name: str, text: str, *, special: bool = True) -> list[int]:
    tokenizer = Tokenizer.from_file(mill / f"{name}.json")
    return tokenizer.wrap(tokenizer.encode(text)) if special else tokenizer.encode(text)


CASES: list[tuple[str, dict[str, Any], list[int]]] = [
    ("both", {"eos": "</s>", "pad": "<pad>"}, []),
    ("both", {"pad": "<pad>"}, []),
    ("both", {"tail": "keep"}, []),
    ("both", {"eos": "</s>", "pad": "<pad>", "shuffle": 3}, []),
    ("both", {"eos": "</s>", "pad": "<pad>", "pack": "best-fit"}, []),
    ("both", {"eos": "</s>", "pad": "<pad>", "pack": "none"}, []),
    ("last", {"eos": "</s>", "pad": "<pad>"}, []),
    ("first", {"pad": "<pad>"}, []),
    ("first", {"eos": "<s>", "pad": "<pad>"}, []),
    ("first", {"eos": "</s>", "pad": "<pad>"}, [1]),
    ("none", {"eos": "</s>", "pad": "<pad>"}, [1]),
    ("both", {"eos": "</s>", "pad": "<pad>", "special_tokens": False}, [1]),
]


@pytest.mark.parametrize(("name", "rows", "ends"), CASES)
def test_each_document_has_one_end(mill: Path, tmp_path: Path, name: str, rows: dict[str, Any], ends: list[int]) -> None:
    """`ends` is what `--eos` puts behind a document; what the template adds is the document's own."""
    manifest = encode(mill, tmp_path, name, **rows)
    documents = [wrap(mill, name, text, special=rows.get("special_tokens", True)) for text in TEXTS]
    if "pack" not in rows and "shuffle" not in rows:
        assert tokens_of(tmp_path) == [token for document in documents for token in [*document, *ends]]
    assert sorted(tokens_of(tmp_path)) == sorted(token for document in documents for token in [*document, *ends])
    totals, shard = manifest["totals"], manifest["shards"][0]
    assert totals["tokens"] == sum(map(len, documents)) and totals["eos"] == shard["eos"] == len(ends) * len(TEXTS)
    assert manifest["packing"].get("bounded", False) is (not ends)
    table = pq.read_table(tmp_path / shard["path"])
    assert sum(length for row in table["doc_lengths"].to_pylist() for length in row) == totals["tokens"]
    dataset = TokenDataset(str(tmp_path))
    found = [dataset.document(f"in.jsonl:{row}") for row in range(len(TEXTS))]
    assert [ids.tolist() for ids in found] == documents
    assert dict(read_rows(str(tmp_path))) == {f"in.jsonl:{row}": ids for row, ids in enumerate(documents)}
    if "attention_mask" in table.schema.names:
        assert np.array(table["attention_mask"].to_pylist()).any(axis=1).all()
    assert proof.verify(str(tmp_path), deep=True, source=[str(mill / "in.jsonl")])
    assert ("documents end by the template" in summary.describe_packing(manifest)) is (not ends)


def test_both_texts_of_a_pair(mill: Path, tmp_path: Path) -> None:
    """The template of pairs counts: without one a pair has no end."""
    (tmp_path / "in.jsonl").write_text('{"text": "low", "more": "lower"}\n')
    for name, bounded in (("both", True), ("last", False)):
        tokenizer = Tokenizer.from_file(mill / f"{name}.json")
        packing = choose_packing(RowOptions(block=8, eos="</s>"), tokenizer, pair=True)
        assert packing is not None and packing.bounded is bounded and (packing.eos is None) is bounded


@pytest.mark.parametrize("name", ["none", "both"])
def test_joining_without_an_end_is_refused(mill: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(errors.UsageError, match=r"give --eos TOKEN .*, a tokenizer with a template, or --pack best-fit"):
        encode(mill, tmp_path / "out", name, special_tokens=False)


def test_other_datasets_say_nothing_of_it() -> None:
    assert "bounded" not in Packing(8, eos=("<s>", 0), pad=("<s>", 0)).describe()
    assert Packing(8, bounded=True, pad=("<s>", 0)).describe()["bounded"] is True


@pytest.mark.parametrize("rows", [{"pack": "none"}, {"pack": "best-fit"}])
def test_documents_without_a_token_have_no_block(mill: Path, tmp_path: Path, rows: dict[str, Any]) -> None:
    manifest = encode(mill, tmp_path, "none", texts=["", "low", "", ""], pad="<pad>", **rows)
    table = pq.read_table(tmp_path / "part-00000-of-00001.parquet")
    assert table["doc_ids"].to_pylist() == [["in.jsonl:1"]]
    assert np.array(table["attention_mask"].to_pylist()).any(axis=1).all()
    assert manifest["totals"]["empty_documents"] == 3 and manifest["totals"]["empty"] == 3
    assert "3 documents without a token: in no block" in summary.describe_packing(manifest)
    proof.verify(str(tmp_path), deep=True, source=[str(mill / "in.jsonl")])
