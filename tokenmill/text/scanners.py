"""Scanners: a pre-tokenizer at work on batches of documents, in scratch memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from tokenmill.arrow import read_only
from tokenmill.data import load_class_table
from tokenmill.errors import UsageError

#: Words of a block by default: their ends take 256 KiB, so that scanner and consumer share them in the processor's cache.
BLOCK_WORDS = 32768

# Room for the words of a block in `marked`, per word. A block whose words are longer on average holds fewer of them.
_MARKED_BYTES_PER_WORD = 8


class Block(NamedTuple):
    """Some words in the order of the corpus, and the documents that end among them.

    Word i is text[word_ends[i - 1] : word_ends[i]], the first one begins at `first`; the k-th document that ends in this block
    ends behind its doc_words[k]-th word. A document may reach over many blocks. All arrays are read-only views of scratch memory,
    valid until the next block is asked for (`text` is the caller's own where the words tile it).
    """

    text: np.ndarray
    first: int
    word_ends: np.ndarray
    doc_words: np.ndarray


class Scanner(Protocol):
    """What finds words: `WordScanner` and `patterns.PatternScanner`."""

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        """The words of a batch, block by block; see `WordScanner.blocks`."""


class WordScanner:
    """Runs one scanner kernel over batches, in scratch memory that is allocated once (about 0.8 MiB, more for very long words).

    `scan` is a kernel as `kernels/scan.py` describes it; `lossless` says whether its words tile the text. Not for use by two
    threads at once. Raises UsageError when `block_words` is below 1.
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
        """The words of a batch of documents, block by block.

        `text` is uint8[n], the UTF-8 of all documents end to end; `doc_ends` int64[d], where each ends, ascending, the last at n.
        Invalid UTF-8 is let through: a bad byte is a character of no class. Raises UsageError for arrays of another form.

        For `a b` and `c` under gpt2: one block, word_ends 1, 3, 4 and doc_words 2, 3.
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
    """Arrays of a batch are as `WordScanner.blocks` says, or UsageError."""
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
