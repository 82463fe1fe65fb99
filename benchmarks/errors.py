"""The one error of the benchmarks: what is missing or differs, said in a sentence."""


class BenchmarkError(Exception):
    """A benchmark that cannot be run, or whose sides do not give the same result."""
