"""Benchmarks: `python -m benchmarks` (speed against peers) and `python -m benchmarks.memory`.

They measure; nothing here is part of the product.
"""
