"""tokenmill alone: every pre-tokenizer, model and option beside byte-level BPE under GPT-2's pattern, in one process.

Everybody takes a turn in each round and the best of the rounds counts, so that a slow minute of the machine falls on all. Each
vocabulary has 32,000 tokens (or what the model has) and is trained on the very texts, of which a quarter is encoded.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from benchmarks.corpora import CORPORA
from benchmarks.corpus_files import load_texts
from benchmarks.results import save_result
from benchmarks.settings import Settings
from tokenmill import Tokenizer
from tokenmill.names import PRETOKENIZERS
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer
from tokenmill.training.word_counts import count_corpus

BASE = "byte-bpe, gpt2"
TOKENS = 32_000
SHARE = 4
_BERT = Normalizer.of(["bert_clean", "strip_accents", "lowercase"])
#: A custom pattern is matched in Python, and `none` makes a word of each document: neither is meant to be compared.
_PRESETS = [name for name in PRETOKENIZERS if name not in ("gpt2", "regex", "none")]

CASES: dict[str, dict[str, Any]] = {
    BASE: {},
    **{f"byte-bpe, {name}": {"pretokenizer": name} for name in _PRESETS},
    "byte-bpe, gpt2, digits in threes": {"pretokenizer": PreTokenizer("gpt2", 3)},
    "byte-bpe, gpt2, digits singly": {"pretokenizer": PreTokenizer("gpt2", 1)},
    "byte-bpe, gpt2, nfc": {"normalizer": Normalizer.of(["nfc"])},
    "byte-bpe, gpt2, at most 8 bytes a token": {"max_token_length": 8},
    "byte-bpe, gpt2, </w>": {"end_of_word_suffix": "</w>"},
    "char-bpe, wordpunct": {"model": "char-bpe", "pretokenizer": "wordpunct"},
    "char-bpe, gpt2, byte fallback, alphabet of 500": {"model": "char-bpe", "byte_fallback": True, "limit_alphabet": 500},
    "wordpiece, bert": {"model": "wordpiece", "pretokenizer": "bert", "unk_token": "[UNK]"},
    "wordpiece, bert, bert_clean and lowercase": {
        "model": "wordpiece",
        "pretokenizer": "bert",
        "unk_token": "[UNK]",
        "normalizer": _BERT,
    },
    "byte-wordpiece, gpt2": {"model": "byte-wordpiece"},
    "char, gpt2": {"model": "char"},
    "char, code points": {"model": "char", "ids": "codepoint"},
}


def run(settings: Settings) -> None:
    """One table a corpus."""
    for corpus in CORPORA:
        texts = pa.array(load_texts(settings, corpus), pa.large_string())
        part = texts.slice(0, max(1, len(texts) // SHARE))
        measured = compare_cases({name: train_case(texts, **case) for name, case in CASES.items()}, part, settings.rounds)
        size = sum(len(text.as_py().encode()) for text in part)
        print(f"  {corpus}: {describe_slowest(measured)}", flush=True)
        save_result(settings, f"models-{corpus}", {"corpus": corpus, "bytes": size, "rows": measured})


def train_case(
    texts: pa.Array,
    *,
    model: str = "byte-bpe",
    pretokenizer: PreTokenizer | str = "gpt2",
    normalizer: Normalizer | None = None,
    **options: Any,
) -> Tokenizer:
    """A tokenizer of one case."""
    normalizer = normalizer or Normalizer()
    counts = count_corpus([texts], PreTokenizer.of(pretokenizer), normalizer)
    size = None if options.get("ids") == "codepoint" or model == "char" else TOKENS
    return train_tokenizer(counts, TrainingOptions(model, pretokenizer, size, normalizer=normalizer, **options))[0]


def compare_cases(tokenizers: dict[str, Tokenizer], texts: pa.Array, rounds: int) -> dict[str, dict[str, float]]:
    """CPU seconds of each, cold (an empty word cache) and warm."""
    seconds: dict[str, dict[str, float]] = {name: {"cold": float("inf"), "warm": float("inf")} for name in tokenizers}
    for _ in range(rounds):
        for name, tokenizer in tokenizers.items():
            fresh = Tokenizer(
                tokenizer.model, pretokenizer=tokenizer.pretokenizer, normalizer=tokenizer.normalizer, training=tokenizer.training
            )
            fresh.encode("kernels from the cache")
            for kind in ("cold", "warm"):
                seconds[name][kind] = min(seconds[name][kind], _time_encoding(fresh, texts))
    return seconds


def _time_encoding(tokenizer: Tokenizer, texts: pa.Array) -> float:
    started = time.process_time()
    tokenizer.encode_batch(texts)
    return time.process_time() - started


def describe_slowest(measured: dict[str, dict[str, float]]) -> str:
    """Which case is the slowest of all when warm, as a share of the first one's speed."""
    name = max(measured, key=lambda case: measured[case]["warm"])
    return f"slowest is {name}, {measured[BASE]['warm'] / measured[name]['warm']:.2f} of {BASE}"
