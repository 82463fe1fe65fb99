"""Scanners: run a pre-tokenizer over batches of documents. A scanner has its own scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from tokenmill.arrow import read_only
from tokenmill.data import load_class_table
from tokenmill.errors import UsageError

#: The default number of words in a block. Their ends take 256 KiB, so they are still in the CPU cache when they are consumed.
BLOCK_WORDS = 32768

# The room in `marked` for each word of a block. A block with longer words on average has fewer words.
_MARKED_BYTES_PER_WORD = 8


class Block(NamedTuple):
    """Consecutive words of the corpus, and the documents that end among them.

    Word i is text[word_ends[i - 1] : word_ends[i]]; the first word begins at `first`. The k-th document that ends in this block
    has doc_words[k] words of the block before its end. A document may extend over many blocks. All arrays are read-only views of
    scratch memory and valid until the next block is requested. With a lossless pre-tokenizer, `text` is the caller's array.
    """

    text: np.ndarray
    first: int
    word_ends: np.ndarray
    doc_words: np.ndarray


class Scanner(Protocol):
    """The interface of `WordScanner` and `patterns.PatternScanner`."""

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        """Cut a batch into words, block by block; see `WordScanner.blocks`."""


class WordScanner:
    """Runs one scanner kernel over batches, in scratch memory that is allocated once (about 0.8 MiB, more for very long words).

    `scan` is a kernel as described in `kernels/scan.py`; `lossless` says whether its words, joined, are the text. Not
    thread-safe. Raises UsageError if `block_words` is below 1.
    """

    def __init__(self, scan: Callable[..., tuple[int, int]], *, lossless: bool, block_words: int = BLOCK_WORDS) -> None:
        if block_words < 1:
            raise UsageError(f"a block must hold at least 1 word, not {block_words}")
        self._scan = scan
        self._lossless = lossless
        self._classes = load_class_table()
        self._word_ends = np.empty(block_words, dtype=np.int64)
        self._doc_words = np.empty(block_words, dtype=np.int64)
        self._marked = np.empty(0 if lossless else block_words * _MARKED_BYTES_PER_WORD, dtype=np.uint8)

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        """Cut a batch of documents into words, block by block.

        `text` is uint8[n], the UTF-8 of all documents end to end; `doc_ends` int64[d], where each ends, ascending, the last at n.
        Invalid UTF-8 is accepted: a bad byte is a character of no class. Raises UsageError for other arrays.

        For the documents `a b` and `c` with gpt2, there is one block with word_ends 1, 3, 4 and doc_words 2, 3.
        """
        check_batch(text, doc_ends)
        return self._scan_blocks(read_only(text), read_only(np.ascontiguousarray(doc_ends, dtype=np.int64)))

    def _scan_blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        cursor = np.zeros(3, dtype=np.int64)
        while cursor[0] < doc_ends.size:
            first = int(cursor[1])
            words, documents = self._scan(text, doc_ends, self._classes, cursor, self._word_ends, self._doc_words, self._marked)
            if words or documents:
                yield self._block(text, first, words, documents)
            else:
                self._marked = np.empty(min(4 * self._marked.size, text.size), dtype=np.uint8)

    def _block(self, text: np.ndarray, first: int, words: int, documents: int) -> Block:
        word_ends, doc_words = read_only(self._word_ends[:words]), read_only(self._doc_words[:documents])
        if self._lossless:
            return Block(text, first, word_ends, doc_words)
        return Block(read_only(self._marked), 0, word_ends, doc_words)


def check_batch(text: np.ndarray, doc_ends: np.ndarray) -> None:
    """Raise UsageError unless the arrays of a batch are as `WordScanner.blocks` requires."""
    if text.dtype != np.uint8 or text.ndim != 1 or not text.flags.c_contiguous:
        raise UsageError(f"the text of a batch must be a contiguous uint8 array, not {text.ndim}-dimensional {text.dtype}")
    if doc_ends.dtype.kind not in "iu" or doc_ends.ndim != 1:
        raise UsageError(f"document ends must be a 1-dimensional integer array, not {doc_ends.ndim}-dimensional {doc_ends.dtype}")
    last = int(doc_ends[-1]) if doc_ends.size else 0
    if last != text.size:
        raise UsageError(
            f"the last document ends at {last}, but the text has {text.size} bytes; document ends must cover the text"
        )
    falling = np.flatnonzero(np.diff(doc_ends.astype(np.int64), prepend=0) < 0)
    if falling.size:
        raise UsageError(f"document {falling[0]} ends at {doc_ends[falling[0]]}, before it begins; document ends must ascend")
