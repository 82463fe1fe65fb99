"""The Beam graphs. This is all the assembly there is: what the steps do stands in `transforms/`, who runs them in
`runners.py`.

count:   Create(splits) -> CountWords        -> partition files of word counts, and a journal
encode:  Create(splits) -> EncodeDocuments   -> token shards, and a journal
report:  Create(splits) -> MeasureDocuments  -> a file of sums, and a journal
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apache_beam as beam

from transforms.coders import register_coders
from transforms.count import CountOptions, CountWords
from transforms.encode import EncodeDocuments, EncodeOptions
from transforms.report import MeasureDocuments, ReportOptions
from transforms.splits import Split

BuildGraph = Callable[[beam.Pipeline], None]


def count_graph(splits: Sequence[Split], options: CountOptions) -> BuildGraph:
    """The graph that counts the words of `splits`."""

    def build(pipeline: beam.Pipeline) -> None:
        register_coders()
        pipeline | "Splits" >> beam.Create(splits, reshuffle=False) | CountWords(options, len(splits))

    return build


def encode_graph(splits: Sequence[Split], options: EncodeOptions, total: int) -> BuildGraph:
    """The graph that encodes `splits`, which are those still to be done of `total`."""

    def build(pipeline: beam.Pipeline) -> None:
        pipeline | "Splits" >> beam.Create(splits, reshuffle=False) | EncodeDocuments(options, total)

    return build


def report_graph(splits: Sequence[Split], options: ReportOptions) -> BuildGraph:
    """The graph that measures the documents of `splits` under the tokenizers of the options."""

    def build(pipeline: beam.Pipeline) -> None:
        register_coders()
        pipeline | "Splits" >> beam.Create(splits, reshuffle=False) | MeasureDocuments(options)

    return build
