"""The examples run, at a small size: a model learns from the shards, and JAX looks vectors up."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.corpora import make_texts, write_jsonl
from tokenmill.pipeline import driver
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.training.options import TrainingOptions

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
RUN = Execution(reporter(quiet=True), workers=1)


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus as `documents` and as `blocks` of 16."""
    folder = tmp_path_factory.mktemp("examples")
    corpus = Corpus((str(write_jsonl(folder / "corpus.jsonl", make_texts(300))),))
    options = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=300, special_tokens=("<eos>",))
    driver.train_on_corpus(corpus, options, str(folder / "tokenizer.json"), RUN)
    rows: dict[str, Any] = {"documents": None, "blocks": RowOptions(block=16, eos="<eos>")}
    for name, how in rows.items():
        driver.encode_corpus(corpus, str(folder / "tokenizer.json"), str(folder / name), RUN, rows=how)
    return folder


@pytest.mark.parametrize("name", ["documents", "blocks"])
def test_a_model_learns(root: Path, name: str) -> None:
    losses = load_example("tiny_lm").train(str(root / name), steps=40, batch_size=8, block=16, width=16, heads=2)
    assert abs(losses[0] - np.log(300)) < 0.3
    assert np.mean(losses[-5:]) < losses[0] - 0.5


def test_jax_looks_vectors_up(root: Path) -> None:
    pytest.importorskip("jax")
    assert load_example("embedding_jax").run(str(root / "blocks"), batches=2, width=4) == [(8, 16, 4)] * 2
