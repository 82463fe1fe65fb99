"""The Beam graphs. This is all the assembly there is: what the steps do stands in `transforms/`, who runs them in
`runners.py`.

count:   Create(splits) -> CountWords        -> partition files of word counts, and a journal
encode:  Create(splits) -> EncodeDocuments   -> token shards, and a journal
report:  Create(splits) -> MeasureDocuments  -> a file of sums, and a journal

watch:   files as they come -> windows -> PlanFile -> EncodeDocuments -> records of a window, under one key -> PublishFiles
                                             `--------- plans ------------^
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, GlobalWindows

from tokenmill.pipeline.stream_steps import OPEN_END, PlanFile, PublishFiles, StreamOptions
from tokenmill.transforms.coders import register_coders
from tokenmill.transforms.count import CountOptions, CountWords
from tokenmill.transforms.encode import EncodeDocuments, EncodeOptions
from tokenmill.transforms.report import MeasureDocuments, ReportOptions
from tokenmill.transforms.splits import Split

BuildGraph = Callable[[beam.Pipeline], None]

#: A file that comes late is published late: ten years are never, and what Beam drops would be lost without a word.
LATENESS_SECONDS = 10 * 365 * 24 * 3600


def largest_first(splits: Sequence[Split]) -> list[Split]:
    """Splits in the order in which they are handed out.

    A local run deals them to its workers in turn, and so gives all of them about as much to do; with other runners what is left
    for the end is small. What comes out is the same in any order.
    """
    return sorted(splits, key=lambda split: -split.size)


def count_graph(splits: Sequence[Split], options: CountOptions) -> BuildGraph:
    """The graph that counts the words of `splits`."""

    def build(pipeline: beam.Pipeline) -> None:
        register_coders()
        pipeline | "Splits" >> beam.Create(largest_first(splits), reshuffle=False) | CountWords(options, len(splits))

    return build


def encode_graph(splits: Sequence[Split], options: EncodeOptions, total: int) -> BuildGraph:
    """The graph that encodes `splits`, which are those still to be done of `total`."""

    def build(pipeline: beam.Pipeline) -> None:
        pipeline | "Splits" >> beam.Create(largest_first(splits), reshuffle=False) | EncodeDocuments(options, total)

    return build


def report_graph(splits: Sequence[Split], options: ReportOptions) -> BuildGraph:
    """The graph that measures the documents of `splits` under the tokenizers of the options."""

    def build(pipeline: beam.Pipeline) -> None:
        register_coders()
        pipeline | "Splits" >> beam.Create(largest_first(splits), reshuffle=False) | MeasureDocuments(options)

    return build


def watch_graph(files: beam.PTransform, options: StreamOptions, seconds: float) -> Callable[[beam.Pipeline], beam.PCollection]:
    """The graph that encodes files as they come, and publishes those of each window of `seconds` when it is over, late ones
    when they are there. It ends in descriptions of what was published.

    `files` gives `FileMetadata` without an end, as `MatchContinuously` does.
    """

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        windows = beam.WindowInto(
            FixedWindows(seconds),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=LATENESS_SECONDS,
        )
        plans = pipeline | "Files" >> files | "Windows" >> windows | "Plan" >> beam.ParDo(PlanFile(options))
        splits = plans | "Splits" >> beam.FlatMap(lambda plan: plan.splits).with_output_types(Split)
        records = splits | EncodeDocuments(options.encode, OPEN_END)
        return (
            (plans, records)
            | "Plans and records" >> beam.Flatten()
            | "One key" >> beam.Map(lambda entry: ("dataset", entry)).with_output_types(tuple[str, Any])
            | "Records of a window" >> beam.GroupByKey()
            | "State of all windows" >> beam.WindowInto(GlobalWindows())
            | "Publish" >> beam.ParDo(PublishFiles(options)).with_output_types(dict[str, Any])
        )

    return build
