"""Time and memory as the corpus grows, and inputs of the worst kind.

Sizes of 10 MB to 4 GB run through `tokenmill count` and `tokenmill encode`; the resident memory of every process is sampled.
The worst inputs are one word of random letters, one run of a single character, and one document on one line.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from benchmarks.encode import run_measurement
from benchmarks.pipelines import fresh_folder, mixed_corpus, tool, watch
from benchmarks.results import save_result
from benchmarks.settings import Settings
from benchmarks.vocabularies import build_gpt2

MEGABYTES = (10.0, 100.0, 1000.0, 4000.0)
LETTERS = (20_000, 80_000, 320_000, 1_300_000)
CARETS = 1_000_000
LONG_LINE_MEGABYTES = 100.0


def run(settings: Settings) -> None:
    """Growing corpora, hard words, a long line."""
    vocabulary = build_gpt2(settings.vocabularies / "gpt2") / "tokenmill.json"
    measure_growth(settings, vocabulary)
    measure_hard_words(settings)
    measure_long_line(settings, vocabulary)
    shutil.rmtree(settings.work, ignore_errors=True)


def measure_growth(settings: Settings, vocabulary: Path) -> None:
    """Both commands over every size."""
    rows: dict[str, list[dict[str, Any]]] = {"count": [], "encode": []}
    for megabytes in MEGABYTES:
        source, size = mixed_corpus(settings, megabytes, "jsonl")
        for command in rows:
            measured = {**watch_tool(settings, command, f"{source}/*.jsonl", vocabulary), "bytes": size}
            print(f"  {command}, {size / 1e6:,.0f} MB: {measured['seconds']:.1f} s", flush=True)
            rows[command].append(measured)
    save_result(settings, "growth", {"workers": settings.cores, "rows": rows})


def watch_tool(settings: Settings, command: str, source: str, vocabulary: Path) -> dict[str, Any]:
    """One run of `tokenmill count` or `tokenmill encode`, all cores."""
    options = ["--pretokenizer", "gpt2"] if command == "count" else ["--tokenizer", str(vocabulary)]
    target = fresh_folder(settings, command)
    options += ["--output", str(target), "--workers", str(settings.cores), "--quiet"]
    return watch(settings, [*tool(settings), command, source, *options])


def measure_hard_words(settings: Settings) -> None:
    """Training and encoding of one word, in memory on one core."""
    cases = {f"{letters:,} random letters A C G T": make_word(int(settings.scale(letters))) for letters in LETTERS}
    cases[f"{CARETS:,} times ^"] = "^" * int(settings.scale(CARETS))
    settings.work.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name, word in cases.items():
        path = settings.work / "word.txt"
        path.write_text(word)
        rows[name] = run_measurement(settings, settings.our_python, ["word", "--corpus", str(path)])
        print(f"  {name}: {rows[name]}", flush=True)
    save_result(settings, "words", {"rows": rows})


def make_word(length: int) -> str:
    """Random letters, always the same ones."""
    return "".join(random.Random(length).choices("ACGT", k=length))


def measure_long_line(settings: Settings, vocabulary: Path) -> None:
    """A document of 100 MB on one line of a text file."""
    source, _ = mixed_corpus(settings, LONG_LINE_MEGABYTES, "jsonl")
    path = settings.folder / "grown" / f"line-{settings.scale(LONG_LINE_MEGABYTES):g}.txt"
    if not path.exists():
        with path.open("w", encoding="utf-8") as file:
            for part in sorted(source.glob("*.jsonl")):
                file.writelines(line.replace("\n", " ") for line in part.open(encoding="utf-8"))
    rows = {}
    for command in ("count", "encode"):
        rows[command] = {**watch_tool(settings, command, str(path), vocabulary), "bytes": path.stat().st_size}
        print(f"  {command}, one line: {rows[command]['seconds']:.1f} s", flush=True)
    save_result(settings, "line", {"workers": settings.cores, "rows": rows})
