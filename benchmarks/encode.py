"""Encoding from memory to memory, on one core and on all.

Every measurement is a process of its own (`benchmarks.measure`). Everybody takes a turn in each round, so that a slow minute of
the machine falls on all. Slow peers encode the first few megabytes only, once. Ids are compared by their sha256 in every
measurement; who gives other ids than tokenmill gets no figures.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.corpora import CORPORA
from benchmarks.corpus_files import corpus_file, load_texts
from benchmarks.errors import BenchmarkError
from benchmarks.peers import PEERS
from benchmarks.results import save_result
from benchmarks.settings import ROOT, Settings
from benchmarks.vocabularies import build_gpt2, build_trained

SLICE_MEGABYTES = 8.0
TIMEOUT_SECONDS = 600


def run(settings: Settings) -> None:
    """Every corpus with both vocabularies on one core, with GPT-2's on all cores."""
    for corpus in CORPORA:
        gpt2 = build_gpt2(settings.vocabularies / "gpt2")
        trained = build_trained(settings.vocabularies / f"{corpus}-32k", load_texts(settings, corpus))
        compare_peers(settings, corpus, gpt2, cores=1)
        compare_peers(settings, corpus, trained, cores=1)
        if settings.cores > 1:
            compare_peers(settings, corpus, gpt2, cores=settings.cores)


def compare_peers(settings: Settings, corpus: str, vocabulary: Path, *, cores: int) -> None:
    """One table: all peers over one corpus with one vocabulary."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in PEERS}
    missing: dict[str, str] = {}
    for turn in range(settings.rounds):
        for name, peer in PEERS.items():
            if name in missing or (peer.slow and turn > 0):
                continue
            try:
                rows[name].append(measure_peer(settings, name, corpus, vocabulary, cores))
            except BenchmarkError as error:
                missing[name] = str(error)
                print(f"  {name}: {error}")
                continue
            print(f"  {_describe(name, rows[name][-1])}")
    if not rows["tokenmill"]:
        raise BenchmarkError(f"tokenmill itself could not be measured: {missing['tokenmill']}")
    others = find_other_ids(rows)
    kind = "trained" if vocabulary.name.endswith("32k") else vocabulary.name
    save_result(
        settings,
        f"encode-{corpus}-{kind}-{cores}",
        {"corpus": corpus, "vocabulary": kind, "cores": cores, "rows": rows, "missing": missing, "other_ids": others},
    )


def measure_peer(settings: Settings, name: str, corpus: str, vocabulary: Path, cores: int) -> dict[str, Any]:
    """One measurement of one peer."""
    peer = PEERS[name]
    python = settings.next_python if peer.environment == "next" else settings.peers_python
    if peer.distribution == "tokenmill":
        python = settings.our_python
    options = ["--peer", name, "--corpus", str(corpus_file(settings, corpus)), "--vocabulary", str(vocabulary)]
    options += ["--cores", str(cores), "--slice-mb", str(1.0 if settings.quick else SLICE_MEGABYTES)]
    if peer.slow:
        options.append("--slice-only")
    return run_measurement(settings, python, ["encode", *options])


def run_measurement(settings: Settings, python: Path, options: list[str]) -> dict[str, Any]:
    """Run `benchmarks.measure` and read what it prints. Raises `BenchmarkError` where it ended with an error or took too long."""
    if not python.exists():
        raise BenchmarkError(f"no interpreter at {python}; `make bench` sets it up")
    command = [*settings.prefix, str(python), "-m", "benchmarks.measure", *options]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"not done after {TIMEOUT_SECONDS} s") from None
    if done.returncode:
        last_line = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"exit code {done.returncode}: {last_line}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def find_other_ids(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Who gave other ids than tokenmill: over the whole corpus, or over the slice where no more was encoded."""
    ours = rows["tokenmill"][0]
    others = []
    for name, measured in rows.items():
        if any(row["sha256_slice"] != ours["sha256_slice"] or row["sha256"] not in (None, ours["sha256"]) for row in measured):
            others.append(name)
    return others


def _describe(name: str, row: dict[str, Any]) -> str:
    megabytes = row["bytes"] / 1e6
    cold, warm = megabytes / row["cold"]["seconds"], megabytes / row["warm"]["seconds"]
    return f"{name}: {megabytes:.0f} MB, cold {cold:.1f} MB/s, warm {warm:.1f} MB/s, peak {row['peak_mb']:.0f} MB"
