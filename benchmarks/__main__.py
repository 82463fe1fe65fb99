"""Speed of training and encoding against peers, in one process, one after the other, on the sources of the standard library.

    python -m benchmarks [--megabytes 30]

Before anything is timed the peers must give the same merge rules and the same ids. A ratio above 1 says that tokenmill is faster.
Cold is the first pass of a new tokenizer, warm the best of three more.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks.corpora import read_stdlib
from tokenmill import Tokenizer
from tokenmill.alphabets import ByteAlphabet
from tokenmill.pretokenizers import PreTokenizer
from tokenmill.trainers import TrainingOptions, train_tokenizer
from tokenmill.word_counts import WordCounter, combine_counts, sort_counts

VOCAB_SIZE = 8192
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def train_ours(texts: Sequence[str]) -> Tokenizer:
    """Count and merge, in this process."""
    counter = WordCounter(PreTokenizer("gpt2"))
    counter.begin_split(0)
    parts = [*counter.count(pa.array(texts, pa.large_string())), *counter.drain()]
    counts = sort_counts(combine_counts(table for _, table in parts))
    return train_tokenizer(counts, TrainingOptions("byte-bpe", "gpt2", vocab_size=VOCAB_SIZE))[0]


def train_tokenizers(texts: Sequence[str]) -> Any:
    """The same with Hugging Face tokenizers."""
    import tokenizers

    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCAB_SIZE, show_progress=False, initial_alphabet=alphabet)
    peer.train_from_iterator(texts, trainer)
    return peer


def make_tiktoken(tokenizer: Tokenizer) -> Any:
    """Our vocabulary in tiktoken: ids by rank are its ranks."""
    import tiktoken

    ranks = {ByteAlphabet().spell(token): token_id for token, token_id in tokenizer.vocab.items()}
    return tiktoken.Encoding("ours", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})


def measure_seconds(run: Callable[[], Any], repeats: int) -> float:
    """The best of some runs."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def check_ids(texts: Sequence[str], ours: Tokenizer, peers: dict[str, Callable[[Sequence[str]], list[list[int]]]]) -> None:
    """Every peer gives our ids for every text."""
    expected = ours.encode_batch(texts).to_pylist()
    for name, encode in peers.items():
        wrong = [place for place, ids in enumerate(encode(texts)) if ids != expected[place]]
        if wrong:
            raise SystemExit(f"{name} gives other ids for {len(wrong)} texts, the first is text {wrong[0]}")


def print_table(size: int, rows: dict[str, float], *, ours: str) -> None:
    """MB/s of each row, and our speed as a multiple of it."""
    print(f"\n| | MB/s | {ours} is faster by |\n|---|---|---|")
    for name, seconds in rows.items():
        print(f"| {name} | {size / 1e6 / seconds:.1f} | {seconds / rows[ours]:.2f} |")


def read_texts(limit: float) -> tuple[list[str], int]:
    """Sources of about `limit` bytes, and how many bytes they are."""
    texts: list[str] = []
    size = 0
    for text in read_stdlib():
        if size < limit:
            texts.append(text)
            size += len(text.encode())
    return texts, size


def compare_training(texts: Sequence[str], size: int) -> tuple[Tokenizer, Any]:
    """Train with both, hold the vocabularies against each other, and print the table."""
    ours, theirs = train_ours(texts), train_tokenizers(texts)
    if ours.vocab != theirs.get_vocab():
        raise SystemExit("tokenizers trains another vocabulary")
    rows = {
        "tokenmill": measure_seconds(partial(train_ours, texts), 2),
        "tokenizers": measure_seconds(partial(train_tokenizers, texts), 1),
    }
    print(f"Training, vocabulary {VOCAB_SIZE:,}, {size / 1e6:.0f} MB")
    print_table(size, rows, ours="tokenmill")
    return ours, theirs


def compare_encoding(texts: Sequence[str], size: int, ours: Tokenizer, theirs: Any) -> None:
    """Hold the ids of all peers against ours, and print the table."""
    encode_tokenizers = partial(encode_with_tokenizers, theirs)
    encode_tiktoken = partial(encode_with_tiktoken, make_tiktoken(ours))
    check_ids(texts, ours, {"tokenizers": encode_tokenizers, "tiktoken": encode_tiktoken})
    array = pa.array(texts, pa.large_string())
    fresh = Tokenizer(ours.model, pretokenizer=ours.pretokenizer)
    rows = {
        "tokenmill cold": measure_seconds(partial(fresh.encode_batch, array), 1),
        "tokenmill warm": measure_seconds(partial(fresh.encode_batch, array), 3),
        "tiktoken": measure_seconds(partial(encode_tiktoken, texts), 1),
        "tokenizers": measure_seconds(partial(encode_tokenizers, texts), 1),
    }
    print("\nEncoding, one core")
    print_table(size, rows, ours="tokenmill warm")


def encode_with_tokenizers(peer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Ids of Hugging Face tokenizers."""
    return [encoding.ids for encoding in peer.encode_batch(texts)]


def encode_with_tiktoken(peer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Ids of tiktoken."""
    return [peer.encode_ordinary(text) for text in texts]


def main() -> None:
    """Train and encode with everyone, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=30.0)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts, size = read_texts(parser.parse_args().megabytes * 1e6)
    compare_encoding(texts, size, *compare_training(texts, size))


if __name__ == "__main__":
    main()
