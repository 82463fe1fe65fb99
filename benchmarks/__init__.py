"""Benchmarks: `python -m benchmarks NAME`. They measure; nothing here is part of the product."""
