"""Training from memory to a vocabulary, on one core and on all.

Every training is a process of its own. At 32,000 each is run twice and the better one counts, at other sizes once; slow trainers
learn 32,000 alone, once. Vocabularies are held against tokenmill's: the same tokens in the same order, or how many they have in
common.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.corpora import CORPORA
from benchmarks.corpus_files import corpus_file
from benchmarks.encode import run_measurement
from benchmarks.errors import BenchmarkError
from benchmarks.results import save_result
from benchmarks.settings import Settings
from benchmarks.trainers import TRAINERS, read_tokens

SIZES = (8_000, 32_000, 128_000)
SLOW_SIZE = 32_000
ROUNDS = 2


def run(settings: Settings) -> None:
    """Every corpus, size and number of cores."""
    for corpus in CORPORA:
        for vocab_size in SIZES:
            for cores in sorted({1, settings.cores}):
                compare_trainers(settings, corpus, vocab_size, cores)


def compare_trainers(settings: Settings, corpus: str, vocab_size: int, cores: int) -> None:
    """One table: all trainers, one corpus, one size."""
    rows: dict[str, list[dict[str, Any]]] = {}
    missing: dict[str, str] = {}
    for turn in range(ROUNDS if vocab_size == SLOW_SIZE and not settings.quick else 1):
        for name, row in TRAINERS.items():
            if name in missing or (row.slow and (turn > 0 or vocab_size != SLOW_SIZE)):
                continue
            tokens_file = _tokens_file(settings, name)
            python = settings.our_python if row.distribution == "tokenmill" else settings.peers_python
            options = ["--trainer", name, "--corpus", str(corpus_file(settings, corpus)), "--vocab-size", str(vocab_size)]
            options += ["--tokens-file", str(tokens_file), "--cores", str(cores)]
            try:
                measured = run_measurement(settings, python, ["train", *options])
            except BenchmarkError as error:
                missing[name] = str(error)
                print(f"  {name}: {error}", flush=True)
                continue
            measured["agreement"] = compare_tokens(read_tokens(_tokens_file(settings, "tokenmill")), read_tokens(tokens_file))
            rows.setdefault(name, []).append(measured)
            print(
                f"  {corpus} {vocab_size:,} on {cores}: {name} {measured['seconds']:.1f} s, {measured['agreement']}", flush=True
            )
    content = {"corpus": corpus, "vocab_size": vocab_size, "cores": cores, "rows": rows, "missing": missing}
    save_result(settings, f"train-{corpus}-{vocab_size:06}-{cores}", content)


def compare_tokens(ours: list[bytes], theirs: list[bytes]) -> dict[str, Any]:
    """How far two vocabularies agree: the first rank where they differ (None: nowhere), and the share of ours that they have.

    >>> compare_tokens([b"th", b"the"], [b"th", b"he"])
    {'first_difference': 1, 'common': 0.5}
    """
    differing = (rank for rank, (left, right) in enumerate(zip(ours, theirs, strict=False)) if left != right)
    first = next(differing, None if len(ours) == len(theirs) else min(len(ours), len(theirs)))
    return {"first_difference": first, "common": len(set(ours) & set(theirs)) / max(1, len(set(ours)))}


def _tokens_file(settings: Settings, name: str) -> Path:
    settings.work.mkdir(parents=True, exist_ok=True)
    return settings.work / f"tokens-{name}.txt"
