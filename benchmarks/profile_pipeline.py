"""Where the time of `tokenmill encode` goes, step by step.

    python -m benchmarks.profile_pipeline CORPUS.jsonl --tokenizer tokenizer.json --id-column id --workers 2

Times the whole command, and the command over two lines with as many workers: that is its start. The steps of a split are timed
in this process, over every fourth split, and counted up to all of them, shared by the workers. What then is left of the whole
command (publishing, one worker waiting for the other, two cores in each other's way) is the rest.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.tokenizer import Tokenizer
from tokenmill.transforms.accounts import SplitAccount
from tokenmill.transforms.line_blocks import read_line_blocks
from tokenmill.transforms.memory import keep_freed_memory
from tokenmill.transforms.read import read_split
from tokenmill.transforms.splits import ReadOptions, Split
from tokenmill.transforms.write import ShardWriter

#: One split of so many is timed.
STEP = 4
LINES = ('{"id": "a", "text": "' + "a" * 1000 + '"}\n') * 2


class Stopwatch:
    """Seconds by the name of the step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextlib.contextmanager
    def time(self, step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[step] += time.perf_counter() - started


def time_command(words: list[str]) -> float:
    """Seconds a command takes."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tokenmill", *words, "--quiet"], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def time_split(split: Split, options: ReadOptions, tokenizer: Tokenizer, folder: str, watch: Stopwatch) -> int:
    """Do what a worker does with a split, and count the token ids."""
    account = SplitAccount(split, made_ids=options.id_column is None)
    if split.ranges[0].file.format in ("text", "jsonl"):
        with watch.time("read"):
            for part in split.ranges:
                for _ in read_line_blocks(part, options.batch_bytes):
                    pass
    with watch.time("write"):
        writer = ShardWriter(os.path.join(folder, f"{split.index}.parquet"), {})
    with writer:
        batches = read_split(split, options)
        while True:
            with watch.time("read and parse"):
                batch = next(batches, None)
            if batch is None:
                break
            with watch.time("account and fingerprint"):
                account.add_batch(batch)
            with watch.time("encode"):
                encoded, _ = tokenizer.encode_known(batch.documents["text"])
            with watch.time("write"):
                writer.write({"doc_id": batch.documents["doc_id"], "input_ids": encoded})
    return writer.tokens


def profile_steps(path: str, options: ReadOptions, tokenizer: Tokenizer) -> tuple[dict[str, float], int]:
    """Seconds by step, and how many token ids there are: of all splits, as every fourth of them tells."""
    splits = plan_splits(resolve_inputs([path]), options=options)
    keep_freed_memory()
    tokenizer.encode_known(pa.array([" "], pa.large_string()))
    watch, tokens, taken = Stopwatch(), 0, splits[::STEP]
    with tempfile.TemporaryDirectory() as folder:
        time_split(splits[0], options, tokenizer, folder, Stopwatch())
        for split in taken:
            tokens += time_split(split, options, tokenizer, folder, watch)
    share = sum(split.size for split in splits) / sum(split.size for split in taken)
    steps = {name: seconds * share for name, seconds in watch.seconds.items()}
    steps["parse"] = steps.pop("read and parse") - steps.get("read", 0.0)
    return steps, int(tokens * share)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--id-column")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    common = ["--tokenizer", given.tokenizer, "--workers", str(given.workers)]
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines.jsonl")
        lines.write_text(LINES)
        names = ["--id-column", given.id_column] if given.id_column else []
        start = min(
            time_command(["encode", str(lines), *common, "--split-mb", "0.001", "--output", f"{folder}/{i}"]) for i in range(3)
        )
        whole = time_command(["encode", given.corpus, *common, *names, "--output", f"{folder}/tokens"])
    steps, tokens = profile_steps(given.corpus, ReadOptions(id_column=given.id_column), Tokenizer.from_file(given.tokenizer))
    rows = {"start": start} | {name: seconds / given.workers for name, seconds in steps.items()}
    rows["rest"] = whole - sum(rows.values())
    size = os.path.getsize(given.corpus)
    speed = f"{whole:.1f} s, {size / whole / 1e6:.0f} MB/s"
    print(f"{size / 1e6:.0f} MB, {tokens / 1e6:.0f} million ids, {given.workers} workers: {speed}")
    for name, seconds in rows.items():
        print(f"{name:24} {seconds:6.2f} s  {100 * seconds / whole:3.0f} %")


if __name__ == "__main__":
    main()
