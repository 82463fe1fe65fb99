"""What the tests of scanners share: batches from documents, words out of blocks, and the comparison with the reference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tokenmill.reference import words as reference_words
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.text.scanners import BLOCK_WORDS, Block


def arrays(documents: Iterable[bytes]) -> tuple[np.ndarray, np.ndarray]:
    documents = list(documents)
    text = np.frombuffer(b"".join(documents), dtype=np.uint8)
    return text, np.cumsum([len(document) for document in documents], dtype=np.int64)


def words_of(blocks: Iterable[Block]) -> list[list[bytes]]:
    """The words of each document that ended in the blocks; checks that none is left over."""
    documents: list[list[bytes]] = []
    current: list[bytes] = []
    for block in blocks:
        raw, starts = block.text.tobytes(), [block.first, *block.word_ends[:-1].tolist()]
        words = [raw[start:end] for start, end in zip(starts, block.word_ends.tolist(), strict=False)]
        done = 0
        for count in block.doc_words.tolist():
            documents.append(current + words[done:count])
            current, done = [], count
        current = current + words[done:]
    assert current == []
    return documents


def scanned(name: str, documents: Iterable[bytes], *, block_words: int = BLOCK_WORDS, **options: Any) -> list[list[bytes]]:
    """The words of each document; `options` are those of the pre-tokenizer."""
    return words_of(PreTokenizer(name, **options).blocks(*arrays(documents), block_words=block_words))


def expected_words(name: str, document: bytes, **options: Any) -> list[bytes]:
    """The reference's words as a scanner writes them: bad bytes as they were, wordpunct's marker as a space."""
    text = document.decode("utf-8", "surrogateescape")
    words = reference_words.cut_words(name, text, marker=" ", **options)
    return [word.encode("utf-8", "surrogateescape") for word in words]


def check_words(name: str, documents: list[bytes], *, block_words: int, **options: Any) -> None:
    expected = [expected_words(name, document, **options) for document in documents]
    assert scanned(name, documents, block_words=block_words, **options) == expected
