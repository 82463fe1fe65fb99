"""`tokenmill plan`: what a build will need, from a share of its splits; and whether this machine has it.

    sample      every n-th quarter of a megabyte (whole files where they cannot be cut), counted, trained on and encoded here
    documents   as many a byte as in the sample, unless the files say it; and so tokens and the bytes of shards
    words       the distinct words grow with the words read as Heaps' law says, V = K N^b; b is that of the later part of the
                sample, taken in a random order, since neighbours are more alike than what comes later
    memory      measured for each distinct word and each process (the constants below), not in this run
    time        processor seconds of the sample, for each byte, shared among the workers

What cannot be known: that the corpus goes on as the sample says. The files are taken in at equal distances for that.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.filesize import decimal as show_bytes

from tokenmill import schemas
from tokenmill.errors import NothingToTrainOnError, UsageError
from tokenmill.pipeline.build import make_corpus, make_training
from tokenmill.pipeline.build_steps import choose_rows
from tokenmill.pipeline.config import BuildConfig
from tokenmill.pipeline.driver import make_encode_options
from tokenmill.pipeline.inputs import pack_ranges
from tokenmill.pipeline.planning import Corpus, count_paying_workers, list_corpus
from tokenmill.pipeline.progress import count_things
from tokenmill.pipeline.recognition import recognise_files
from tokenmill.pipeline.runners import use_beam_options
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer
from tokenmill.training.word_counts import WordCounter, combine_counts, sort_counts
from tokenmill.transforms.count import CountOptions, count_split, warm_up_counting
from tokenmill.transforms.encode import encode_split
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.read import cut_file
from tokenmill.transforms.splits import Split

SAMPLE_BYTES = 256 << 10
LEAST_SAMPLE_BYTES = 4 << 20
POINTS = 16
#: Measured: resident memory of a driver and of a worker that has its tables, and of the driver for each distinct word while it
#: gathers, sorts and trains, beside the bytes of the words themselves, which it holds so many times.
DRIVER_BYTES = 600 << 20
WORKER_BYTES = 420 << 20
WORD_BYTES, WORD_COPIES = 150, 4
#: Seconds until the first split begins: imports, planning a file, starting workers.
START_SECONDS = 3.0


@dataclass(frozen=True)
class Sample:
    """What the sample has come to. `curve` holds (words read, distinct words) at growing shares of it."""

    bytes: int
    units: int
    documents: int
    rejected: int
    curve: list[tuple[int, int]]
    word_bytes: float
    group_bytes: int
    encoded_bytes: int
    tokens: int
    shard_bytes: int
    count_seconds: float
    train_seconds: float
    encode_seconds: float


@dataclass(frozen=True)
class Estimate:
    """What a whole build will come to: bytes, counts and seconds."""

    files: int
    bytes: int
    splits: int
    workers: int
    documents: int
    words: int
    distinct_words: int
    growth: float
    tokens: int
    driver_memory: int
    worker_memory: int
    disk: int
    shard_bytes: int
    count_seconds: float
    train_seconds: float
    encode_seconds: float

    @property
    def memory(self) -> int:
        return self.driver_memory + (self.workers * self.worker_memory if self.workers > 1 else 0)


def estimate_build(config: BuildConfig, share: float) -> tuple[Estimate, Sample]:
    """Sample the corpus of a configuration and reckon what building it takes. Raises as planning and training do."""
    use_beam_options(config.beam)
    corpus, training = make_corpus(config), make_training(config)
    files = recognise_files(list_corpus(corpus).files, format=corpus.format)
    units = pack_ranges([part for file in files for part in cut_file(file, corpus.read, SAMPLE_BYTES)], SAMPLE_BYTES)
    parts = [part for file in files for part in cut_file(file, corpus.read, corpus.split_bytes)]
    whole = pack_ranges(parts, corpus.split_bytes)
    chosen = choose_units(units, share)
    with tempfile.TemporaryDirectory() as temporary:
        sample = take_sample(chosen, corpus, training, config, temporary)
    size = sum(split.size for split in whole)
    workers = config.workers or count_paying_workers(size, len(whole))
    estimate = extrapolate(sample, files=len(files), size=size, splits=len(whole), workers=workers)
    known = [part.rows for part in parts]
    return (estimate if None in known else replace(estimate, documents=sum(filter(None, known)))), sample


def choose_units(units: Sequence[Split], share: float) -> list[Split]:
    """So many units that they hold the share, and 4 MB at least, at equal distances over the corpus."""
    size = sum(unit.size for unit in units)
    wanted = max(share, min(1.0, LEAST_SAMPLE_BYTES / max(1, size)))
    number = min(len(units), max(1, math.ceil(len(units) * wanted)))
    places = sorted({(2 * place + 1) * len(units) // (2 * number) for place in range(number)})
    random.Random(0).shuffle(places)
    return [replace(units[place], index=index) for index, place in enumerate(places)]


def take_sample(units: Sequence[Split], corpus: Corpus, training: TrainingOptions, config: BuildConfig, temporary: str) -> Sample:
    """Count, train and encode the units in this process."""
    options = CountOptions(corpus.read, PreTokenizer.of(training.pretokenizer), training.normalizer, *[temporary] * 4)
    warm_up_counting(options.pretokenizer, options.normalizer)
    counts, curve, counted, count_seconds = _count(units, options)
    if not counts.num_rows:
        raise NothingToTrainOnError("nothing to train on: the sample holds no word; give a larger --sample")
    began = time.process_time()
    tokenizer, _ = train_tokenizer(sort_counts(counts), replace(training, strict=False))
    train_seconds = time.process_time() - began
    encoded = {"bytes": 0, "tokens": 0, "shard": 0, "seconds": 0.0}
    if config.encode.enabled:
        encoded = _encode(units, corpus, tokenizer, config, temporary)
    return Sample(
        bytes=max(1, sum(unit.size for unit in units)),
        units=len(units),
        curve=curve,
        word_bytes=pc.mean(pc.binary_length(counts["word"])).as_py(),
        **counted,
        encoded_bytes=int(encoded["bytes"]),
        tokens=int(encoded["tokens"]),
        shard_bytes=int(encoded["shard"]),
        count_seconds=count_seconds,
        train_seconds=train_seconds,
        encode_seconds=float(encoded["seconds"]),
    )


def _count(units: Sequence[Split], options: CountOptions) -> tuple[pa.Table, list[tuple[int, int]], dict[str, int], float]:
    counter, counts = WordCounter(options.pretokenizer, options.normalizer), schemas.WORD_COUNTS.empty_table()
    curve, words, waiting = [], 0, [counts]
    counted = {"documents": 0, "rejected": 0, "group_bytes": 0}
    began = time.process_time()
    for number, unit in enumerate(units, start=1):
        waiting += [table for _, table in count_split(unit, counter, options, len(units))]
        words += counter.words
        if number * POINTS // len(units) > (number - 1) * POINTS // len(units):
            counts, waiting = combine_counts(waiting), []
            waiting.append(counts)
            curve.append((words, counts.num_rows))
    seconds = time.process_time() - began
    for record in Journal(options.journal_folder).records().values():
        counted["documents"] += sum(account["documents"] for account in record["files"].values())
        counted["rejected"] += sum(account["rejected"] for account in record["files"].values())
        counted["group_bytes"] += record["group"]["bytes"]
    return counts, curve, counted, seconds


def _encode(units: Sequence[Split], corpus: Corpus, tokenizer: Tokenizer, config: BuildConfig, temporary: str) -> dict[str, Any]:
    options = make_encode_options(corpus, tokenizer, choose_rows(config))
    options = replace(options, shards_folder=temporary, journal_folder=temporary, rejects_folder=temporary)
    tokenizer.encode(" ")
    whole = Split(0, tuple(part for unit in units for part in unit.ranges), sum(unit.size for unit in units))
    began = time.process_time()
    record = encode_split(whole, tokenizer, options, 1)
    seconds = time.process_time() - began
    written = sum(shard.get("bytes", 0) for shard in record["shards"])
    return {"bytes": whole.size, "tokens": record["tokens"], "shard": written, "seconds": seconds}


def extrapolate(sample: Sample, *, files: int, size: int, splits: int, workers: int) -> Estimate:
    """From the sample to the whole. A sample that is the whole is its own estimate."""
    factor = size / max(1, sample.bytes)
    words, distinct = sample.curve[-1]
    growth = measure_growth(sample.curve)
    vocabulary = int(distinct * factor**growth)
    encode_factor = size / max(1, sample.encoded_bytes) if sample.encoded_bytes else 0.0
    part_bytes = int(vocabulary * (sample.word_bytes + 8))
    shard_bytes = int(sample.shard_bytes * encode_factor)
    # The words of a split grow with its size as those of the corpus do.
    unit_bytes, split_bytes = sample.bytes / sample.units, size / max(1, splits)
    groups = int(splits * sample.group_bytes / sample.units * (split_bytes / unit_bytes) ** growth)
    return Estimate(
        files=files,
        bytes=size,
        splits=splits,
        workers=workers,
        documents=int(sample.documents * factor),
        words=int(words * factor),
        distinct_words=vocabulary,
        growth=growth,
        tokens=int(sample.tokens * encode_factor),
        driver_memory=int(DRIVER_BYTES + vocabulary * (WORD_BYTES + WORD_COPIES * sample.word_bytes)),
        worker_memory=WORKER_BYTES,
        disk=shard_bytes + groups + part_bytes,
        shard_bytes=shard_bytes,
        count_seconds=START_SECONDS + sample.count_seconds * factor / workers,
        train_seconds=sample.train_seconds * vocabulary / max(1, distinct),
        encode_seconds=sample.encode_seconds * encode_factor / workers,
    )


def measure_growth(curve: Sequence[tuple[int, int]]) -> float:
    """The exponent of Heaps' law over the later three quarters of the curve: `[(100, 10), (400, 20)]` gives 0.5. From 0 to 1."""
    points = [point for point in curve if 4 * point[0] >= curve[-1][0] and point[1]]
    if len(points) < 2 or points[0][0] >= points[-1][0]:
        return 1.0
    texts, words = np.log(np.array(points, np.float64)).T
    slope = np.polyfit(texts, words, 1)[0]
    return float(min(1.0, max(0.0, slope)))


def check_machine(estimate: Estimate, output: str) -> None:
    """Raise UsageError, with the figures, for a build that this machine has no memory or no disk for."""
    memory, disk = measure_memory(), measure_disk(output)
    if memory is not None and estimate.memory > memory:
        raise UsageError(
            f"the build needs about {show_bytes(estimate.memory)} of memory: {show_bytes(estimate.driver_memory)} for the driver "
            f"with {estimate.distinct_words:,} distinct words, "
            f"{estimate.workers} x {show_bytes(estimate.worker_memory)} for workers; "
            f"{show_bytes(memory)} are there; give fewer workers, a pre-tokenizer with fewer words, or a larger machine"
        )
    if disk is not None and estimate.disk > disk:
        raise UsageError(
            f"the build needs about {show_bytes(estimate.disk)} of disk in {output}, and {show_bytes(disk)} are free; "
            "make room there, or choose another folder"
        )


def measure_memory() -> int | None:
    """Bytes of memory that programs can still have, None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None


def measure_disk(output: str) -> int | None:
    """Bytes that are free where a local folder is or will be, None elsewhere."""
    if "://" in output:
        return None
    path = os.path.abspath(output)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return shutil.disk_usage(path).free


def describe_estimate(estimate: Estimate, sample: Sample, config: BuildConfig) -> str:
    """The figures, for people."""
    seconds = estimate.count_seconds + estimate.train_seconds + estimate.encode_seconds
    curve = ", ".join(
        f"{distinct:,} in {words:,}" for words, distinct in sample.curve[-1 :: -max(1, len(sample.curve) // 4)][::-1]
    )
    workers = f", {estimate.workers} workers of {show_bytes(estimate.worker_memory)}" if estimate.workers > 1 else ""
    lines = [
        f"sample   {show_bytes(sample.bytes)} of {show_bytes(estimate.bytes)} in {count_things(estimate.files, 'file')}: "
        f"{sample.documents:,} documents, {sample.rejected:,} rejected",
        f"words    {curve} words; grows with exponent {estimate.growth:.2f}",
        f"about    {estimate.documents:,} documents, {estimate.words:,} words, {estimate.distinct_words:,} of them distinct",
    ]
    if config.encode.enabled:
        lines.append(
            f"         {estimate.tokens:,} tokens in {count_things(estimate.splits, 'shard')}, {show_bytes(estimate.shard_bytes)}"
        )
    return "\n".join(
        [
            *lines,
            f"memory   {show_bytes(estimate.memory)}: driver {show_bytes(estimate.driver_memory)}{workers}",
            f"disk     {show_bytes(estimate.disk)} in {config.output.folder}",
            f"time     {seconds:,.0f} s: count {estimate.count_seconds:,.0f}, train {estimate.train_seconds:,.0f}, "
            f"encode {estimate.encode_seconds:,.0f}",
        ]
    )
