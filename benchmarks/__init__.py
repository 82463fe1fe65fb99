"""Benchmarks: `make bench`, or `python -m benchmarks PART`.

    corpora, corpus_files, texts, debian    text to measure with
    vocabularies                            what everyone encodes with, in everyone's format
    measure                                 one measurement in one process: a peer of `peers`, a trainer of `trainers`
    processes                               one command, watched: `scripts` are the pipelines of others
    encode, train, pipelines, growth, start the parts: they run measurements in turn, and keep the results
    report, report_runs, tables             docs/benchmarks.md, from the results

They measure; nothing here is part of the product.
"""
