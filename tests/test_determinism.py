"""Same texts and options, same bytes: whatever the workers, the runner, the batches, the splits or the hash seed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill.pipeline import driver
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms.splits import ReadOptions

SPLIT_BYTES = 20_000
OPTIONS = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=600, special_tokens=("<|end|>",))


@pytest.fixture(scope="module")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(3):
        write_jsonl(folder / f"part{number}.jsonl", make_texts(300, seed=number))
    return folder


def run_everything(corpus: Corpus, output: Path, *, workers: int = 1, beam_args: tuple[str, ...] = ()) -> dict[str, str]:
    """Count, train and encode; gives the hashes of all that was written."""
    run = Execution(reporter(quiet=True), workers, beam_args)
    driver.count_corpus(corpus, OPTIONS.pretokenizer, str(output / "counts"), run)
    driver.train_on_counts(str(output / "counts"), OPTIONS, str(output / "tokenizer.json"), run)
    driver.encode_corpus(corpus, str(output / "tokenizer.json"), str(output / "tokens"), run)
    return hash_folder(output)


@pytest.fixture(scope="module")
def expected(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    hashes = run_everything(make_corpus(corpus_folder), tmp_path_factory.mktemp("expected"))
    assert len([name for name in hashes if name.startswith("tokens/part-")]) > 5, "the corpus must be cut into several splits"
    return hashes


def make_corpus(folder: Path) -> Corpus:
    return Corpus((str(folder),), split_bytes=SPLIT_BYTES)


@pytest.mark.parametrize("batch_bytes", [1, 700, 1 << 20])
def test_batch_size_changes_no_byte(corpus_folder: Path, expected: dict[str, str], tmp_path: Path, batch_bytes: int) -> None:
    corpus = replace(make_corpus(corpus_folder), read=ReadOptions(batch_bytes=batch_bytes))
    assert run_everything(corpus, tmp_path) == expected


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("workers", [2, 3])
def test_worker_processes_change_no_byte(corpus_folder: Path, expected: dict[str, str], tmp_path: Path, workers: int) -> None:
    assert run_everything(make_corpus(corpus_folder), tmp_path, workers=workers) == expected


@pytest.mark.slow
@pytest.mark.jit
def test_portable_runner_changes_no_byte(
    corpus_folder: Path,
    expected: dict[str, str],
    tmp_path: Path,
    portable_args: list[str],
) -> None:
    assert run_everything(make_corpus(corpus_folder), tmp_path, beam_args=tuple(portable_args)) == expected


def test_split_size_changes_shard_boundaries_alone(corpus_folder: Path, expected: dict[str, str], tmp_path: Path) -> None:
    hashes = run_everything(replace(make_corpus(corpus_folder), split_bytes=1 << 25), tmp_path)
    for name in ("counts/manifest.json", "counts/part-00000-of-00001.parquet", "tokenizer.json"):
        assert hashes[name] == expected[name]
    assert [name for name in hashes if name.startswith("tokens/part-")] == ["tokens/part-00000-of-00001.parquet"]


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("seed", ["0", "4242"])
def test_hash_seed_changes_no_byte(corpus_folder: Path, expected: dict[str, str], tmp_path: Path, seed: str) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.test_determinism import make_corpus, run_everything;"
        "run_everything(make_corpus(Path(sys.argv[1])), Path(sys.argv[2]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, "-c", code, str(corpus_folder), str(tmp_path)], check=True, env=environment, cwd=ROOT)
    assert hash_folder(tmp_path) == expected


def test_order_of_documents_and_files_changes_no_tokenizer_with_ties_smallest(
    corpus_folder: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    texts = [text for number in range(3) for text in make_texts(300, seed=number)]
    random.Random(7).shuffle(texts)
    shuffled = tmp_path / "shuffled"
    shuffled.mkdir()
    for number in range(4):
        write_jsonl(shuffled / f"other{number}.jsonl", texts[number::4])
    hashes = run_everything(make_corpus(shuffled), tmp_path / "out")
    assert hashes["tokenizer.json"] == expected["tokenizer.json"]
    assert hashes["counts/part-00000-of-00001.parquet"] != expected["counts/part-00000-of-00001.parquet"], "first_seen differs"


def test_order_of_arguments_is_corpus_order(corpus_folder: Path, tmp_path: Path) -> None:
    paths = [str(corpus_folder / f"part{number}.jsonl") for number in (2, 0)]
    manifest = driver.encode_corpus(
        Corpus(tuple(paths)), str(train_once(corpus_folder, tmp_path)), str(tmp_path / "tokens"), Execution(reporter(quiet=True))
    )
    assert [file["name"] for file in manifest["files"]] == ["part2.jsonl", "part0.jsonl"]


def train_once(corpus_folder: Path, folder: Path) -> Path:
    driver.train_on_corpus(make_corpus(corpus_folder), OPTIONS, str(folder / "tokenizer.json"), Execution(reporter(quiet=True)))
    return folder / "tokenizer.json"


ROOT = Path(__file__).resolve().parents[1]
