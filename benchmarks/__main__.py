"""Speed of tokenmill and of its peers, and the report of it in docs/benchmarks.md.

    python -m benchmarks                 every part, then the report
    python -m benchmarks encode train    some parts, then the report
    python -m benchmarks --quick         small sizes and one round: to see that everything runs

Parts: corpora, encode, models, train, pipelines, growth, loaders, start, report. Results stand in out/bench/results, a JSON file
a table; the report is written from them, so a part can be run again alone.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import corpus_files, encode, growth, loaders, models, pipelines, report, start, train
from benchmarks.errors import BenchmarkError
from benchmarks.settings import Settings

PARTS: dict[str, Callable[[Settings], None]] = {
    "corpora": corpus_files.run,
    "encode": encode.run,
    "models": models.run,
    "train": train.run,
    "pipelines": pipelines.run,
    "growth": growth.run,
    "loaders": loaders.run,
    "start": start.run,
    "report": report.run,
}


def main() -> None:
    """Run the parts that are asked for."""
    arguments = _parse_arguments()
    settings = Settings(
        folder=arguments.folder.resolve(),
        quick=arguments.quick,
        megabytes=arguments.megabytes,
        prefix=tuple(shlex.split(arguments.prefix)),
        our_python=arguments.our_python,
        peers_python=arguments.peers_python,
        next_python=arguments.next_python,
        loaders_python=arguments.loaders_python,
    )
    for name in [part for part in PARTS if part in arguments.parts or part == "report"]:
        print(f"{name}:", flush=True)
        started = time.monotonic()
        PARTS[name](settings)
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)


def _parse_arguments() -> argparse.Namespace:
    defaults = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes and one round; nothing in it is a figure to quote")
    parser.add_argument("--folder", type=Path, default=defaults.folder, help="corpora, vocabularies, results (out/bench)")
    parser.add_argument("--megabytes", type=float, help="size of each corpus; without it 124 English, 60 multilingual, 60 code")
    parser.add_argument("--prefix", default="", help="a command to run every measurement under, such as 'chrt -f 50'")
    parser.add_argument("--our-python", type=Path, default=defaults.our_python)
    parser.add_argument("--peers-python", type=Path, default=defaults.peers_python)
    parser.add_argument("--next-python", type=Path, default=defaults.next_python, help="has tokenizers 1.0")
    parser.add_argument("--loaders-python", type=Path, default=defaults.loaders_python, help="has mosaicml-streaming")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    return arguments


if __name__ == "__main__":
    try:
        main()
    except BenchmarkError as error:
        sys.exit(f"benchmarks: {error}")
