"""Pipelines as a user runs them: whole commands, imports and start-up included, files to files.

tokenmill's shards must hold the ids of the script that is written by hand, and as many tokens as the others write.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.corpora import CORPORA
from benchmarks.corpus_files import load_texts, write_repeated
from benchmarks.errors import BenchmarkError
from benchmarks.results import save_result
from benchmarks.settings import ROOT, Settings
from benchmarks.vocabularies import build_gpt2

MEGABYTES = 1000.0
#: For the slow ones.
SLICE_MEGABYTES = 32.0
FORMATS = ("jsonl", "parquet")
ROUNDS = 2
TIMEOUT_SECONDS = 900


def run(settings: Settings) -> None:
    """Both formats, then counting."""
    vocabulary = build_gpt2(settings.vocabularies / "gpt2")
    for format in FORMATS:
        compare_pipelines(settings, vocabulary, format)
    measure_counting(settings)


def mixed_corpus(settings: Settings, megabytes: float, format: str, *, file_megabytes: float = 64.0) -> tuple[Path, int]:
    """A folder with text of all three corpora, as long as asked for, and its bytes of text."""
    size = settings.scale(megabytes)
    folder = settings.folder / "grown" / f"{format}-{size:g}-{file_megabytes:g}"
    if (folder / "bytes.txt").exists():
        return folder, int((folder / "bytes.txt").read_text())
    texts = [text for corpus in CORPORA for text in load_texts(settings, corpus)]
    return folder, write_repeated(folder, texts, size, file_megabytes=file_megabytes, format=format)


def compare_pipelines(settings: Settings, vocabulary: Path, format: str) -> None:
    """One table: everyone from files of one format to files of ids."""
    whole, size = mixed_corpus(settings, MEGABYTES, format)
    # Two files, so that everybody can use two cores.
    part, part_size = mixed_corpus(settings, SLICE_MEGABYTES, format, file_megabytes=settings.scale(SLICE_MEGABYTES) / 2)
    rows: dict[str, list[dict[str, Any]]] = {}
    hashes: dict[str, Any] = {}
    for turn in range(1 if settings.quick else ROUNDS):
        for name in ("tokenmill", "gigatoken", "datasets", "datatrove"):
            slow = name in ("datasets", "datatrove")
            if slow and turn > 0:
                continue
            target = fresh_folder(settings, f"{name}-{format}")
            source = part if slow else whole
            measured = watch(settings, pipeline_command(settings, name, source, target, vocabulary, format))
            hashes[name] = count_datatrove(target) if name == "datatrove" else hash_ids(target)
            rows.setdefault(name, []).append({**measured, "bytes": part_size if slow else size})
            print(f"  {format}: {name} {measured['seconds']:.1f} s", flush=True)
    small = fresh_folder(settings, f"small-{format}")
    watch(settings, pipeline_command(settings, "tokenmill", part, small, vocabulary, format))
    _check(hashes, hash_ids(small))
    shutil.rmtree(settings.work, ignore_errors=True)
    save_result(settings, f"pipelines-{format}", {"format": format, "workers": settings.cores, "rows": rows})


def pipeline_command(settings: Settings, name: str, source: Path, target: Path, vocabulary: Path, format: str) -> list[str]:
    """The command of one pipeline."""
    if name == "tokenmill":
        options = ["--tokenizer", str(vocabulary / "tokenmill.json"), "--output", str(target), "--id-column", "id", "--quiet"]
        return [*tool(settings), "encode", f"{source}/*.{format}", *options, "--workers", str(settings.cores)]
    options = ["--tokenizer", str(vocabulary / "huggingface.json"), "--format", format, "--cores", str(settings.cores)]
    return [str(settings.peers_python), "-m", "benchmarks.scripts", name, str(source), str(target), *options]


def measure_counting(settings: Settings) -> None:
    """`tokenmill count` over the same files."""
    rows = {}
    for format in FORMATS:
        source, size = mixed_corpus(settings, MEGABYTES, format)
        target = fresh_folder(settings, f"count-{format}")
        command = [*tool(settings), "count", f"{source}/*.{format}", "--pretokenizer", "gpt2", "--output", str(target), "--quiet"]
        measured = watch(settings, [*command, "--workers", str(settings.cores)])
        print(f"  count, {format}: {measured['seconds']:.1f} s", flush=True)
        rows[format] = [{**measured, "bytes": size}]
    shutil.rmtree(settings.work, ignore_errors=True)
    save_result(settings, "counting", {"workers": settings.cores, "rows": rows})


def tool(settings: Settings) -> list[str]:
    """tokenmill's command line, of this checkout."""
    return [str(settings.our_python), "-m", "tokenmill"]


def watch(settings: Settings, command: list[str]) -> dict[str, Any]:
    """Run a command under `benchmarks.processes` and read its measurements.

    Raises BenchmarkError for a command that fails or takes too long.
    """
    watcher = [*settings.prefix, str(settings.peers_python), "-m", "benchmarks.processes", *command]
    try:
        done = subprocess.run(watcher, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"not done after {TIMEOUT_SECONDS} s: {' '.join(command)}") from None
    if done.returncode:
        raise BenchmarkError(done.stderr.strip()[-500:] or f"exit code {done.returncode}: {' '.join(command)}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def fresh_folder(settings: Settings, name: str) -> Path:
    """A path below the work folder where nothing stands."""
    folder = settings.work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def hash_ids(folder: Path) -> tuple[int, int, str]:
    """Documents, ids, and the sha256 of all ids of a folder's Parquet files, in the order of their names."""
    digest, documents, tokens = hashlib.sha256(), 0, 0
    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["input_ids"]):
            ids = batch["input_ids"].flatten().cast(pa.int32()).to_numpy()
            digest.update(ids.data)
            documents += len(batch)
            tokens += ids.size
    return documents, tokens, digest.hexdigest()


def count_datatrove(folder: Path) -> int:
    """Tokens that datatrove wrote: two bytes each, since the vocabulary has fewer than 65,536."""
    return sum(path.stat().st_size for path in folder.glob("*.ds")) // 2


def _check(hashes: dict[str, Any], small: tuple[int, int, str]) -> None:
    """Everyone wrote the ids that tokenmill wrote, datatrove as many."""
    if hashes["gigatoken"] != hashes["tokenmill"]:
        raise BenchmarkError(f"gigatoken's files hold {hashes['gigatoken']}, tokenmill's {hashes['tokenmill']}")
    if hashes["datasets"] != small:
        raise BenchmarkError(f"the files of datasets hold {hashes['datasets']}, tokenmill's {small}")
    if hashes["datatrove"] != small[1]:
        raise BenchmarkError(f"datatrove wrote {hashes['datatrove']:,} tokens, tokenmill {small[1]:,}")
