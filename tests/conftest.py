"""Fixtures and markers that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import fencing
from tests.portable import portable_args

__all__ = ["portable_args"]

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT") == "1"


if fencing.is_wanted():
    fencing.fence_kernels()  # before any test module imports a kernel


def pytest_configure(config: pytest.Config) -> None:
    """Kernels reckon modulo 2^64; as plain Python, NumPy warns of each overflow."""
    if JIT_DISABLED:
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the JIT a kernel is plain Python: tests of real sizes (marker `jit`) would take hours."""
    if not JIT_DISABLED:
        return
    skip = pytest.mark.skip(reason="needs the JIT")
    for item in items:
        if "jit" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real texts and vocabularies beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder ../shared/data is absent")
    return SHARED_DATA


@pytest.fixture(scope="session")
def ewt_texts(shared_data: Path) -> list[str]:
    """The 12,544 training sentences of UD English EWT, in treebank order."""
    import pyarrow.parquet as pq

    texts: list[str] = pq.read_table(shared_data / "ewt" / "train.parquet", columns=["text"])["text"].to_pylist()
    return texts
