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
def own_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of real sentences, and of vocabularies learned from them, made on the spot."""
    from tests import real_data  # which imports kernels

    return real_data.write_folder(tmp_path_factory.mktemp("own") / "data")


@pytest.fixture(scope="session", params=["own", "published"])
def data_folder(request: pytest.FixtureRequest) -> Path:
    """Real texts and vocabularies: those made on the spot, and the published ones where they lie beside the checkout."""
    if request.param == "own":
        own: Path = request.getfixturevalue("own_data")
        return own
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder ../shared/data is absent")
    return SHARED_DATA


@pytest.fixture(scope="session")
def real_texts(data_folder: Path) -> list[str]:
    """Sentences: 2,500 of Python's documentation, and the 12,544 of the training part of UD English EWT."""
    import pyarrow.parquet as pq

    texts: list[str] = pq.read_table(data_folder / "ewt" / "train.parquet", columns=["text"])["text"].to_pylist()
    return texts
