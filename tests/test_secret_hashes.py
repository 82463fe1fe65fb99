"""Tables hash with a secret of their own: nobody can crowd them on purpose, and no result depends on where an entry stands."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.test_tables import fold, insert
from tests.training import count_parts, train
from tokenmill.kernels import hashing, rules, tables
from tokenmill.models import token_trees
from tokenmill.training import merge_loop

Secret = tuple[np.uint64, np.uint64]
#: What an attacker knows: constants in the source, say.
KNOWN = (np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F))
#: Under each of these the order of a table is another one.
SECRETS = [(np.uint64(0), np.uint64(1)), KNOWN, (np.uint64(2**64 - 1), np.uint64(2**64 - 1))]
CORPUS = [
    "low low lower lowest newest widest",
    "the thinker thinks abababab é 你好 你好",
    "x" * 40 + " " + "y" * 17 + " " + "x" * 40,
]


def home_of(word: bytes, secret: Secret, entries: int) -> int:
    """The entry where the search for a word of eight bytes begins."""
    low, high = int.from_bytes(word, "little"), 8 << 56
    return (fold(low ^ int(secret[0]), high ^ int(secret[1])) & (entries - 2) * 4) >> 2


def crowd(secret: Secret, count: int, entries: int) -> Iterator[bytes]:
    """Words that all belong into the first 64th of a table whose secret is known."""
    letters, made = random.Random(1), 0
    while made < count:
        word = letters.randbytes(4).hex().encode()
        if home_of(word, secret, entries) < entries // 64:
            made += 1
            yield word


def mean_search(table: tables.WordTable, words: list[bytes]) -> float:
    """How many entries the search for a word passes by, on average."""
    entries = table.entries.shape[0]
    passed = [(int(insert(table, word)) - home_of(word, table.secret, entries)) % entries for word in words]
    return sum(passed) / len(passed)


def test_words_that_crowd_one_table_spread_in_another() -> None:
    entries = tables.entries_for(500)
    words = sorted(set(crowd(KNOWN, 300, entries)))
    assert mean_search(tables.allocate_table(500, 0)._replace(secret=KNOWN), words) > 100
    assert mean_search(tables.allocate_table(500, 0), words) < 10


def test_each_table_has_a_secret_of_its_own() -> None:
    secrets = {tables.allocate_table(4, 0).secret for _ in range(8)}
    assert len(secrets) == 8 and all(int(odd) % 2 for _, odd in secrets)


def with_secret(monkeypatch: pytest.MonkeyPatch, secret: Secret, work: Callable[[], Any]) -> Any:
    for module in (hashing, tables, rules, merge_loop, token_trees):
        monkeypatch.setattr(module, "draw_secret", lambda: secret)
    return work()


def count_corpus() -> list[tuple[int, list[Any]]]:
    """Partitions as they travel and stand on disk, from tables that are full now and then."""
    return [(partition, table.to_pylist()) for partition, table in count_parts(CORPUS * 3, "gpt2", table_words=12)]


@pytest.mark.parametrize("model", ["byte-bpe", "char-bpe", "wordpiece"])
def test_nothing_depends_on_the_secret(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    def work() -> list[Any]:
        tokenizer = train(CORPUS, model=model, merges=25, special_tokens=("<s>", "<unk>"), unk_token="<unk>")
        ids = tokenizer.encode_batch([*CORPUS, "low<s>er<s>"], allow_special=True).to_pylist()
        return [count_corpus(), tokenizer.sha256, ids]

    first, *others = (with_secret(monkeypatch, secret, work) for secret in SECRETS)
    assert all(other == first for other in others)
