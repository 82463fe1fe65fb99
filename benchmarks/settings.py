"""What a run of the benchmarks is told: where things lie, how large, and which interpreters."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Settings:
    """`folder` takes corpora, vocabularies and results; `prefix` is put before every command that is measured (chrt ...).

    `our_python` and `peers_python` are the same unless told otherwise. `next_python` is the interpreter of the environment with
    tokenizers 1.0, which cannot live beside 0.23; `loaders_python` that of the one with mosaicml-streaming, which wants an older
    NumPy. `quick` takes small sizes and one round: to try the benchmarks, not to measure. `megabytes` is the size of each corpus,
    None for their own sizes.
    """

    folder: Path = ROOT / "out" / "bench"
    quick: bool = False
    megabytes: float | None = None
    prefix: tuple[str, ...] = ()
    our_python: Path = Path(sys.executable)
    peers_python: Path = Path(sys.executable)
    next_python: Path = ROOT / ".venv" / "next" / "bin" / "python"
    loaders_python: Path = ROOT / ".venv" / "loaders" / "bin" / "python"

    @property
    def rounds(self) -> int:
        """How often each measurement is taken."""
        return 1 if self.quick else 3

    @property
    def cores(self) -> int:
        """Cores that this process may use."""
        return len(os.sched_getaffinity(0))

    def scale(self, megabytes: float) -> float:
        """A size, or a fiftieth of it in a quick run."""
        return megabytes / 50 if self.quick else megabytes

    @property
    def results(self) -> Path:
        """Where results stand, a folder for each kind of run."""
        return self.folder / ("results-quick" if self.quick else "results")

    @property
    def corpora(self) -> Path:
        """Where corpora stand; those of a quick run are small."""
        return self.folder / ("corpora-quick" if self.quick else "corpora")

    @property
    def vocabularies(self) -> Path:
        """Where vocabularies stand: one is trained on a corpus, so they go with the corpora."""
        return self.folder / ("vocabularies-quick" if self.quick else "vocabularies")

    @property
    def work(self) -> Path:
        """Room for outputs that are thrown away."""
        return self.folder / "work"
