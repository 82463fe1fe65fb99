"""One measurement of a data loader, in a process of its own: writes blocks in its format, or reads them in batches of eight.

    python -m benchmarks.load_once write mds --tokens blocks.npy --folder out
    python -m benchmarks.load_once read mds --folder out --shuffle

`blocks.npy` is int32[blocks, block]. The last line printed is a JSON object. The formats are imported where they are used:
not all of them live in one environment.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BATCH = 8
Batches = Iterator[Any]


class Loader(NamedTuple):
    """A format: how blocks are written to a folder, and read from it in batches. `reads` may be of another format's folder."""

    distribution: str
    write: Callable[[np.ndarray, Path], None]
    read: Callable[[Path, bool], Batches]


def write_memmap(blocks: np.ndarray, folder: Path) -> None:
    """Raw numbers in a .npy file: uint16 where the vocabulary allows."""
    np.save(folder / "tokens.npy", blocks.astype(np.uint16 if blocks.max() < 1 << 16 else np.uint32))


def read_memmap(folder: Path, shuffle: bool) -> Batches:
    blocks = np.load(folder / "tokens.npy", mmap_mode="r")
    order = np.random.default_rng(1).permutation(len(blocks)) if shuffle else None
    for start in range(0, len(blocks), BATCH):
        rows = slice(start, start + BATCH) if order is None else order[start : start + BATCH]
        yield blocks[rows].astype(np.int32)


def write_datasets(blocks: np.ndarray, folder: Path) -> None:
    import datasets
    import pyarrow as pa

    values = pa.FixedSizeListArray.from_arrays(pa.array(blocks.reshape(-1)), blocks.shape[1])
    datasets.Dataset(pa.table({"input_ids": values})).save_to_disk(str(folder / "saved"))


def read_datasets(kind: str) -> Callable[[Path, bool], Batches]:
    def read(folder: Path, shuffle: bool) -> Batches:
        import datasets

        loaded = datasets.load_from_disk(str(folder / "saved"))
        loaded = loaded.shuffle(seed=1) if shuffle else loaded
        for batch in loaded.with_format(kind).iter(batch_size=BATCH):
            yield batch["input_ids"]

    return read


def write_mds(compression: str | None) -> Callable[[np.ndarray, Path], None]:
    def write(blocks: np.ndarray, folder: Path) -> None:
        from streaming import MDSWriter

        columns = {"input_ids": f"ndarray:int32:{blocks.shape[1]}"}
        with MDSWriter(out=str(folder), columns=columns, compression=compression) as writer:
            for row in blocks:
                writer.write({"input_ids": row})

    return write


def read_mds(folder: Path, shuffle: bool) -> Batches:
    from streaming import StreamingDataset

    samples = iter(StreamingDataset(local=str(folder), shuffle=shuffle, batch_size=BATCH))
    while rows := [sample["input_ids"] for sample in itertools.islice(samples, BATCH)]:
        yield np.stack(rows)


def write_nothing(blocks: np.ndarray, folder: Path) -> None:
    """tokenmill's folder is written by `tokenmill encode`."""


def read_tokenmill(ahead: int) -> Callable[[Path, bool], Batches]:
    def read(folder: Path, shuffle: bool) -> Batches:
        from tokenmill import TokenDataset

        for batch in TokenDataset(str(folder), batch_size=BATCH, shuffle=shuffle, seed=1, read_ahead=ahead):
            yield batch["input_ids"]

    return read


LOADERS = {
    # litdata 0.2.76 is not here: reading what its TokensLoader had written did not end within seven minutes, in one process.
    "tokenmill": Loader("tokenmill", write_nothing, read_tokenmill(2)),
    "tokenmill, no threads": Loader("tokenmill", write_nothing, read_tokenmill(0)),
    "datasets, numpy": Loader("datasets", write_datasets, read_datasets("numpy")),
    "datasets, torch": Loader("datasets", write_datasets, read_datasets("torch")),
    "mds": Loader("mosaicml-streaming", write_mds(None), read_mds),
    "mds, zstd": Loader("mosaicml-streaming", write_mds("zstd:1"), read_mds),
    "numpy memmap": Loader("numpy", write_memmap, read_memmap),
}


def measure_reading(loader: Loader, folder: Path, shuffle: bool, passes: int) -> dict[str, Any]:
    """The best pass over all batches: seconds, and how many batches and tokens."""
    found = []
    for _ in range(passes):
        started, cpu, batches, tokens = time.perf_counter(), time.process_time(), 0, 0
        for batch in loader.read(folder, shuffle):
            batches += 1
            tokens += batch.shape[0] * batch.shape[1]
        seconds = time.perf_counter() - started
        found.append({"seconds": seconds, "cpu_seconds": time.process_time() - cpu, "batches": batches, "tokens": tokens})
    return min(found, key=lambda one: one["seconds"])


def measure_writing(loader: Loader, tokens: Path, folder: Path) -> dict[str, Any]:
    """Seconds, and bytes on the disk."""
    blocks = np.load(tokens)
    folder.mkdir(parents=True)
    started, cpu = time.perf_counter(), time.process_time()
    loader.write(blocks, folder)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "bytes": size, "tokens": int(blocks.size)}


def find_version(distribution: str) -> str:
    """The installed version; tokenmill may run from its sources."""
    return "here" if distribution == "tokenmill" else importlib.metadata.version(distribution)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "read"])
    parser.add_argument("loader", choices=list(LOADERS))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    loader = LOADERS[options.loader]
    if options.action == "write":
        result = measure_writing(loader, options.tokens, options.folder)
    else:
        result = measure_reading(loader, options.folder, options.shuffle, options.passes)
    print(json.dumps({"version": find_version(loader.distribution), **result}))


if __name__ == "__main__":
    main()
