"""How long tokenmill takes to start: imports, compilation of kernels, kernels from Numba's cache, workers."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from benchmarks.errors import BenchmarkError
from benchmarks.pipelines import fresh_folder, tool
from benchmarks.results import save_result
from benchmarks.settings import ROOT, Settings
from benchmarks.vocabularies import build_gpt2

REPEATS = 5

#: Every kernel of training and encoding with one pre-tokenizer, in one process.
_ALL_KERNELS = """
from tokenmill import Tokenizer
from tokenmill.training.trainers import train_tokenizer
from tokenmill.training.options import TrainingOptions
from benchmarks.vocabularies import count_words
counts = count_words(["one two three two three three"])
train_tokenizer(counts, TrainingOptions("byte-bpe", "gpt2", vocab_size=260))[0].encode("one two")
"""


def run(settings: Settings) -> None:
    """Measure every start, each as often as makes sense, the best counts."""
    vocabulary = build_gpt2(settings.vocabularies / "gpt2") / "tokenmill.json"
    python = str(settings.our_python)
    settings.work.mkdir(parents=True, exist_ok=True)
    line = settings.work / "line.txt"
    line.write_text("one two three\n")
    cache = fresh_folder(settings, "kernels")
    compiling = {"NUMBA_CACHE_DIR": str(cache)}
    encode = [*tool(settings), "encode", str(line), "--tokenizer", str(vocabulary), "--overwrite", "--quiet"]
    encode += ["--output", str(settings.work / "start"), "--workers"]
    tokenize = [*tool(settings), "tokenize", "--tokenizer", str(vocabulary), "one two"]
    cases: dict[str, tuple[list[str], dict[str, str], int]] = {
        "python -c pass": ([python, "-c", "pass"], {}, REPEATS),
        "import tokenmill": ([python, "-c", "import tokenmill"], {}, REPEATS),
        "tokenmill --help": ([*tool(settings), "--help"], {}, REPEATS),
        "all kernels compiled: train and encode three words": ([python, "-c", _ALL_KERNELS], compiling, 1),
        "the same, kernels from Numba's cache": ([python, "-c", _ALL_KERNELS], compiling, REPEATS),
        "tokenmill tokenize, one line (GPT-2)": (tokenize, {}, REPEATS),
        "tokenmill encode, one line, 1 worker": ([*encode, "1"], {}, 3),
        "tokenmill encode, one line, 2 workers": ([*encode, "2"], {}, 3),
    }
    subprocess.run(tokenize, cwd=ROOT, capture_output=True, check=False)  # fills the cache of this checkout
    rows: dict[str, Any] = {}
    for name, (command, environment, repeats) in cases.items():
        rows[name] = min(time_command(settings, command, environment) for _ in range(repeats))
        print(f"  {name}: {rows[name]:.2f} s", flush=True)
    shutil.rmtree(settings.work, ignore_errors=True)
    save_result(settings, "start", {"rows": rows})


def time_command(settings: Settings, command: list[str], environment: dict[str, str]) -> float:
    """Wall-clock seconds of a command, from its start to its end. Raises BenchmarkError for one that fails."""
    timer = ["-c", "import subprocess, sys, time; t = time.perf_counter(); c = subprocess.run(sys.argv[1:], capture_output=True)"]
    timer[1] += "; print(time.perf_counter() - t); sys.stderr.buffer.write(c.stderr); sys.exit(c.returncode)"
    started = [*settings.prefix, str(settings.our_python), *timer, *command]
    full = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(started, cwd=ROOT, env=full, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return float(done.stdout.split()[-1])
