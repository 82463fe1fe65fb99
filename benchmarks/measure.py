"""One measurement in a process of its own; prints one line of JSON.

    python -m benchmarks.measure encode --peer gigatoken --corpus english.arrow --vocabulary vocabularies/gpt2 --cores 1
    python -m benchmarks.measure train --trainer rustbpe --corpus english.arrow --vocab-size 32000 --cores 2
    python -m benchmarks.measure word --corpus word.txt

Any interpreter that has the peer, numpy and pyarrow can run it; it need not have tokenmill. Imports, loading and the corpus
itself come first and are not timed. Before the clock starts, another instance encodes three words: code is loaded then, caches
are empty still. Cold is the first pass over the corpus, warm the best of the later ones.
"""

from __future__ import annotations

import os
import sys

# Thread pools read these when their libraries are loaded.
CORES = int(sys.argv[sys.argv.index("--cores") + 1]) if "--cores" in sys.argv else 1
os.environ["RAYON_NUM_THREADS"] = str(CORES)
os.environ["TOKENIZERS_PARALLELISM"] = "true" if CORES > 1 else "false"

import argparse  # noqa: E402
import gc  # noqa: E402
import hashlib  # noqa: E402
import importlib.metadata  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import numpy as np  # noqa: E402

WARM_PASSES = 3
#: Warm passes stop when they have taken so long together.
WARM_SECONDS = 6.0
WORD_MERGES = 1000


class Pass(NamedTuple):
    """Wall-clock and processor seconds of one run of something."""

    seconds: float
    cpu_seconds: float


def time_once(run: Any) -> tuple[Pass, Any]:
    """Run and take the time; gives what `run` gives."""
    before, started = _cpu_seconds(), time.perf_counter()
    result = run()
    return Pass(time.perf_counter() - started, _cpu_seconds() - before), result


def measure_encoding(peer_name: str, corpus: Path, vocabulary: Path, slice_bytes: int, *, whole: bool) -> dict[str, Any]:
    """Cold and warm passes over the corpus, or over its first `slice_bytes` when not `whole`."""
    from benchmarks.peers import PEERS

    peer = PEERS[peer_name]
    texts = read_texts(corpus)
    sizes = np.cumsum([len(text.encode()) for text in texts])
    sliced = int(np.searchsorted(sizes, slice_bytes)) + 1
    texts = texts if whole else texts[:sliced]
    encoder, other = peer.encoder(vocabulary, CORES), peer.encoder(vocabulary, CORES)
    other.encode(other.prepare(["one two", "é 1", "\n"] * CORES))
    batch = encoder.prepare(texts)
    gc.collect()
    gc.freeze()

    before = reset_peak()
    cold, result = time_once(lambda: encoder.encode(batch))
    peak = read_peak() - before
    ids, lengths = encoder.flatten(result)
    hashes = [hash_ids(ids, lengths), hash_ids(ids[: lengths[:sliced].sum()], lengths[:sliced])]
    tokens = int(ids.size)
    del result, ids, lengths
    warm: list[Pass] = []
    while len(warm) < WARM_PASSES and sum(one.seconds for one in warm) < WARM_SECONDS:
        warm.append(time_once(lambda: encoder.encode(batch))[0])
    return {
        "peer": peer_name,
        "version": find_version(peer.distribution),
        "bytes": int(sizes[len(texts) - 1]),
        "documents": len(texts),
        "tokens": tokens,
        "cold": cold._asdict(),
        "warm": min(warm)._asdict(),
        "peak_mb": peak,
        "sha256": hashes[0] if whole else None,
        "sha256_slice": hashes[1],
    }


def measure_training(trainer_name: str, corpus: Path, vocab_size: int, tokens_file: Path) -> dict[str, Any]:
    """Train once; the tokens go to a file, so that vocabularies can be compared."""
    from benchmarks.trainers import TRAINERS

    row = TRAINERS[trainer_name]
    trainer = row.trainer
    texts = read_texts(corpus)
    batch = trainer.prepare(texts)
    gc.collect()
    gc.freeze()
    before = reset_peak()
    timed, result = time_once(lambda: trainer.train(batch, vocab_size, CORES))
    peak = read_peak() - before
    tokens = trainer.tokens(result)
    tokens_file.write_text("\n".join(token.hex() for token in tokens) + "\n")
    return {
        "trainer": trainer_name,
        "version": find_version(row.distribution),
        "bytes": sum(len(text.encode()) for text in texts),
        "vocab_size": vocab_size,
        "tokens": len(tokens),
        **timed._asdict(),
        "peak_mb": peak,
        "phases": trainer.phases(result),
    }


def measure_word(path: Path) -> dict[str, Any]:
    """Train 1,000 merges on the one word that a file holds, and encode it with what was learned, both by tokenmill."""
    from benchmarks.vocabularies import count_words
    from tokenmill.training.options import TrainingOptions
    from tokenmill.training.trainers import train_tokenizer

    options = TrainingOptions("byte-bpe", "none", merges=WORD_MERGES)
    train_tokenizer(count_words(["GATTACA"], "none"), options)[0].encode("GATTACA")
    word = path.read_text()
    before = reset_peak()
    trained, (tokenizer, _) = time_once(lambda: train_tokenizer(count_words([word], "none"), options))
    encoded, ids = time_once(lambda: tokenizer.encode(word))
    return {
        "bytes": len(word),
        "tokens": len(ids),
        "train": trained._asdict(),
        "encode": encoded._asdict(),
        "peak_mb": read_peak() - before,
    }


def read_texts(corpus: Path) -> list[str]:
    """The texts of an Arrow file with a column `text`."""
    import pyarrow as pa

    with pa.OSFile(str(corpus)) as file:
        texts: list[str] = pa.ipc.open_file(file).read_all()["text"].to_pylist()
    return texts


def hash_ids(ids: np.ndarray, lengths: np.ndarray) -> str:
    """One sha256 over all ids as int32 and the number of ids of each document as int64."""
    digest = hashlib.sha256(np.ascontiguousarray(ids, np.int32).view(np.uint8).data)
    digest.update(np.ascontiguousarray(lengths, np.int64).view(np.uint8).data)
    return digest.hexdigest()


def find_version(distribution: str) -> str:
    """The installed version; tokenmill runs from this checkout, installed or not."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "this checkout"


def reset_peak() -> float:
    """Resident MB now; the peak is counted from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return _read_status("VmRSS")


def read_peak() -> float:
    """The most resident MB since `reset_peak`."""
    return _read_status("VmHWM")


def _read_status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) * 1024 / 1e6


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("encode", "train", "word"))
    parser.add_argument("--peer")
    parser.add_argument("--trainer")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path)
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--tokens-file", type=Path)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--slice-mb", type=float, default=8.0, help="what is hashed for all, and encoded by the slow ones")
    parser.add_argument("--slice-only", action="store_true")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-CORES:])
    if arguments.what == "encode":
        slice_bytes = int(arguments.slice_mb * 1e6)
        whole = not arguments.slice_only
        result = measure_encoding(arguments.peer, arguments.corpus, arguments.vocabulary, slice_bytes, whole=whole)
    elif arguments.what == "word":
        result = measure_word(arguments.corpus)
    else:
        result = measure_training(arguments.trainer, arguments.corpus, arguments.vocab_size, arguments.tokens_file)
    print(json.dumps({**result, "cores": CORES}))


if __name__ == "__main__":
    main()
