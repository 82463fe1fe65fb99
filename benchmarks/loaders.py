"""Loaders of packed blocks: reading in order and shuffled, writing, and bytes on the disk, with vocabularies of three sizes.

The text is that of Python's standard library, in blocks of 2,048 tokens; everybody gets the same blocks. Each measurement is a
process of its own (`benchmarks.load_once`), one after the other; reading is the best of three passes over files in memory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.errors import BenchmarkError
from benchmarks.load_once import LOADERS
from benchmarks.results import save_result
from benchmarks.settings import ROOT, Settings
from tokenmill import TokenDataset

BLOCK = 2048
VOCABULARIES = (8_192, 32_768, 131_072)
TIMEOUT_SECONDS = 300


def run(settings: Settings) -> None:
    """A result for each vocabulary."""
    for size in VOCABULARIES[: 1 if settings.quick else None]:
        folder = settings.work / f"loaders-{size}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        compare_loaders(settings, size, folder, write_blocks(settings, size, folder))
        shutil.rmtree(folder)


def write_blocks(settings: Settings, size: int, folder: Path) -> dict[str, Any]:
    """Train, and encode to packed blocks, which are `blocks.npy` as well; returns what the manifest says in total."""
    limit = ["--limit", "100"] if settings.quick else []
    command = [str(settings.our_python), "-m", "tokenmill"]
    train = [
        "train",
        "stdlib",
        *limit,
        "--vocab-size",
        str(size),
        "--special",
        "<eos>",
        "--output",
        str(folder / "tokenizer.json"),
    ]
    encode = ["encode", "stdlib", *limit, "--tokenizer", str(folder / "tokenizer.json"), "--output", str(folder / "tokenmill")]
    for words in (train, [*encode, "--block", str(BLOCK), "--eos", "<eos>", "--tail", "drop"]):
        done = subprocess.run([*command, *words, "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"{words[0]}: {done.stderr.strip()}")
    dataset = TokenDataset(str(folder / "tokenmill"))
    np.save(folder / "blocks.npy", np.concatenate([batch["input_ids"] for batch in dataset]))
    totals: dict[str, Any] = dataset.manifest["totals"] | {"size": sum(shard["bytes"] for shard in dataset.manifest["shards"])}
    return totals


def compare_loaders(settings: Settings, size: int, folder: Path, totals: dict[str, Any]) -> None:
    """One table: all loaders over the same blocks."""
    rows: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for name, loader in LOADERS.items():
        python = settings.loaders_python if loader.distribution == "mosaicml-streaming" else settings.our_python
        ours = loader.distribution == "tokenmill"
        place = folder / ("tokenmill" if ours else name)
        try:
            found = {} if ours else {"write": measure(python, ["write", name, "--tokens", str(folder / "blocks.npy")], place)}
            found["read"] = measure(python, ["read", name], place)
            found["shuffled"] = measure(python, ["read", name, "--shuffle"], place)
        except BenchmarkError as error:
            missing[name] = str(error)
            print(f"  {name}: {error}")
            continue
        rows[name] = found
        speeds = [found[kind]["tokens"] * 4 / found[kind]["seconds"] / 1e6 for kind in ("read", "shuffled")]
        print(f"  {size} {name}: {speeds[0]:.0f} MB/s in order, {speeds[1]:.0f} shuffled", flush=True)
    save_result(settings, f"loaders-{size}", {"vocabulary": size, "rows": rows, "missing": missing, "totals": totals})


def measure(python: Path, words: list[str], folder: Path) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [str(python), "-m", "benchmarks.load_once", *words, "--folder", str(folder)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(str(error)) from None
    if done.returncode:
        raise BenchmarkError((done.stderr.strip().splitlines() or ["no output"])[-1])
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
