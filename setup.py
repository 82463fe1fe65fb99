"""Packaging of tokenmill. Ranges are those that the tests ran with; each dependency beyond the obvious says why it is there."""

from pathlib import Path

from setuptools import find_packages, setup

DEPENDENCIES = [
    "apache-beam>=2.77,<2.78",
    "datasets>=5.2,<6",
    "pyarrow>=25,<26",
    "click>=8.5,<9",
    "numba>=0.68,<0.69",
    "numpy>=2.2,<2.5",
    "rich>=15,<16",
    "pydantic>=2.14,<3",
    "pyyaml>=6.0.2,<7",
    # Hashes input files at the speed of memory, so that a build knows which are new. `datasets` brings it along anyway.
    "xxhash>=4.1,<5",
    # Windows of zstd files up to 2 GB, which Arrow's decoder refuses. Beam brings it along anyway.
    "zstandard>=0.23,<0.26",
    # Unicode properties in patterns: the plain form of the pre-tokenizers, and custom patterns.
    "regex>=2026.9",
]

EXTRAS = {
    "test": [
        "pytest>=9,<10",
        # The suite on all cores, a file of tests at a time.
        "pytest-xdist>=3.8,<4",
        "hypothesis>=6.170,<7",
        "tokenizers>=0.23,<0.24",
        "tiktoken>=0.14,<0.15",
        # What exported tokenizers are loaded by, most of all.
        "transformers>=5.24,<5.25",
        "psutil>=7,<8",
        # Its StatefulDataLoader keeps a state in each worker; loaders are tested with it. Exact, as torch is.
        "torchdata==0.11.0",
        # Rebuilds the baked Unicode class table and compares it.
        "unicodedata2==16.0.0",
        "ruff>=0.17,<0.18",
        "mypy>=2.4,<3",
        "types-PyYAML>=6.0.12",
        # An S3 server on this machine, for `tests/test_s3.py`.
        "apache-beam[aws]>=2.77,<2.78",
        "moto[server]>=5.2,<6",
    ],
    # The peers that the benchmarks compare with, in the versions that they were written for.
    "bench": [
        "bpeasy==0.1.6",
        "datatrove==0.10.1",
        "fastokens==0.3.5",
        "gigatoken==0.10.0",
        "orjson>=3.11,<4",
        # Exact, as below: a loader to compare with.
        "torch==2.13.0",
        "psutil>=7,<8",
        "rustbpe==0.1.0",
        "sentencepiece==0.2.3",
        "tiktoken>=0.14,<0.15",
        "tokenizers>=0.23,<0.24",
        "tokie==0.1.4",
    ],
    # Exact: the release that the test of the Embedding layer ran with, and whose CPU build is small.
    "torch": ["torch==2.13.0"],
    # Releases for Python 3.10 (0.6) to 3.13 (0.8): examples/embedding_jax.py and `TokenDataset.to_jax`.
    "jax": ["jax>=0.6.2,<0.9"],
    # Beam's own extras: gs:// and Dataflow, s3://.
    "gcp": ["apache-beam[gcp]>=2.77,<2.78"],
    "aws": ["apache-beam[aws]>=2.77,<2.78"],
}

setup(
    name="tokenmill",
    version="0.1.0",
    author="tokenmill developers",
    license="Apache-2.0",
    license_files=["LICENSE"],
    description="Train subword tokenizers and turn corpora into token-ID Parquet shards, as Apache Beam jobs",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.10,<3.14",
    # `tokenmill/pipeline` and `tokenmill/transforms` are links to the folders at the top.
    packages=find_packages(include=["tokenmill", "tokenmill.*"]),
    package_data={"tokenmill": ["py.typed"], "tokenmill.data": ["*.npz"]},
    install_requires=DEPENDENCIES,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["tokenmill = tokenmill.pipeline.cli.main:run"]},
)
