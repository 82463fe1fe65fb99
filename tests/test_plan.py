"""`tokenmill plan`: its figures against those of the build, and its refusals."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import make_texts, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import estimate
from tokenmill.pipeline.config import BuildConfig, parse_config

ROOT = Path(__file__).resolve().parents[1]
CORPUS_BYTES = 100_000_000
#: The largest process of a command, in KiB; asked by a small process, since a child counts what its parent had when it was made.
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def configure(inputs: list[str], output: Path, **changes: Any) -> BuildConfig:
    config = {
        "input": {"inputs": inputs, **changes.pop("input", {})},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": changes.pop("vocab_size", 300)},
        "output": {"folder": str(output)},
        **changes,
    }
    return parse_config(json.dumps(config))


def gather_sources(folder: Path) -> int:
    """Links to Python sources of the packages that are installed here, 100 MB of them, in no order; returns their size."""
    total = 0
    sources = sorted(Path(sysconfig.get_path("purelib")).rglob("*.py"))
    random.Random(1).shuffle(sources)
    for number, path in enumerate(sources):
        if total < CORPUS_BYTES:
            total += path.stat().st_size
            (folder / f"{number:06}.txt").symlink_to(path)
    return total


@pytest.mark.slow
@pytest.mark.jit
def test_estimates_from_five_percent_are_within_a_quarter(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    size = gather_sources(tmp_path / "corpus")
    assert size > CORPUS_BYTES / 2, "the packages that the tests need hold more than that"
    config = configure([str(tmp_path / "corpus")], tmp_path / "out", input={"document": "file"}, vocab_size=8000, workers=2)
    reckoned, sample = estimate.estimate_build(config, 0.05)
    assert 0.03 * size < sample.bytes < 0.08 * size
    (tmp_path / "build.yaml").write_text(config.model_dump_json())
    command = [
        sys.executable,
        "-c",
        "from tokenmill.pipeline.cli.main import run; run()",
        "build",
        str(tmp_path / "build.yaml"),
        "--quiet",
    ]
    measured = subprocess.run([sys.executable, "-c", MEASURE, *command], cwd=ROOT, check=True, capture_output=True, text=True)
    peak = int(measured.stdout) << 10
    counts = json.loads((tmp_path / "out/word-counts/manifest.json").read_text())["totals"]
    tokens = json.loads((tmp_path / "out/tokens/manifest.json").read_text())["totals"]
    disk = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    found = {
        "documents": (reckoned.documents, counts["documents"]),
        "words": (reckoned.words, counts["words"]),
        "distinct words": (reckoned.distinct_words, counts["distinct_words"]),
        "tokens": (reckoned.tokens, tokens["tokens"]),
        "disk": (reckoned.disk, disk),
        "memory of the largest process": (max(reckoned.driver_memory, reckoned.worker_memory), peak),
    }
    assert {name: pair for name, pair in found.items() if abs(pair[0] / pair[1] - 1) > 0.25} == {}
    assert reckoned.splits == tokens["shards"]


def test_a_corpus_that_is_sampled_whole_is_known(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", make_texts(300))
    config = configure([str(tmp_path / "a.jsonl")], tmp_path / "out", split_mb=0.02)
    reckoned, sample = estimate.estimate_build(config, 0.05)
    assert (reckoned.documents, reckoned.distinct_words, reckoned.bytes) == (
        300,
        sample.curve[-1][1],
        os.path.getsize(tmp_path / "a.jsonl"),
    )
    text = estimate.describe_estimate(reckoned, sample, config)
    assert "300 documents, 0 rejected" in text and "memory " in text and "in 2 shards" in text
    assert not (tmp_path / "out").exists()


def test_growth_is_that_of_heaps_law() -> None:
    assert estimate.measure_growth([(100, 10), (400, 20)]) == pytest.approx(0.5)
    assert estimate.measure_growth([(words, round(7 * words**0.6)) for words in range(1000, 17_000, 1000)]) == pytest.approx(
        0.6, abs=0.01
    )
    assert estimate.measure_growth([(100, 10)]) == 1.0 and estimate.measure_growth([(100, 10), (200, 10)]) == 0.0


def test_what_the_machine_cannot_do_is_refused_with_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / "a.jsonl", make_texts(50))
    reckoned, _ = estimate.estimate_build(configure([str(tmp_path)], tmp_path / "out", workers=3), 0.05)
    estimate.check_machine(reckoned, str(tmp_path / "not" / "there" / "yet"))
    monkeypatch.setattr(estimate, "measure_memory", lambda: 2_000_000)
    with pytest.raises(errors.UsageError, match=r"about 2\.0 GB of memory: .* 3 x 440\.4 MB for workers; 2\.0 MB are there"):
        estimate.check_machine(reckoned, str(tmp_path))
    monkeypatch.setattr(estimate, "measure_memory", lambda: None)
    monkeypatch.setattr(estimate, "measure_disk", lambda _: 10)
    with pytest.raises(errors.UsageError, match=r"of disk in .*, and 10 bytes are free; make room there"):
        estimate.check_machine(reckoned, str(tmp_path))


def test_nothing_to_train_on_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n")
    with pytest.raises(errors.NothingToTrainOnError, match="the sample holds no word"):
        estimate.estimate_build(configure([str(tmp_path)], tmp_path / "out"), 0.05)
