"""Pre-tokenizers: how a document is cut into words before a model sees it.

    none        a document is one word
    whitespace  ` ?\\S+|\\s+(?!\\S)|\\s+`, lossless
    wordpunct   `\\w+(?:'\\w+)?|[^\\w\\s]`; a word that follows whitespace has a marker in front, other whitespace is dropped
    gpt2        the pattern that GPT-2 was published with, lossless

`PreTokenizer(name).blocks(text, doc_ends)` is the form for machines, `pretokenize(text)` the form for people. A further
pre-tokenizer is one more scanner in `kernels/scan.py`, one more entry in `_SCANNERS` and its plain form in `reference_words.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenmill.alphabets import MARKER
from tokenmill.arrow import read_only
from tokenmill.data import UNICODE_VERSION, load_class_table
from tokenmill.errors import InvalidTextError, UsageError

#: Words of a block by default: their ends take 256 KiB, so that scanner and consumer share them in the processor's cache.
BLOCK_WORDS = 32768

# Scanner in kernels/scan.py, and whether the words tile the text.
_SCANNERS = {
    "none": ("scan_none", True),
    "whitespace": ("scan_whitespace", True),
    "wordpunct": ("scan_wordpunct", False),
    "gpt2": ("scan_gpt2", True),
}

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


def names() -> list[str]:
    """The names that `PreTokenizer` takes: `["none", "whitespace", "wordpunct", "gpt2"]`."""
    return list(_SCANNERS)


@dataclass(frozen=True)
class PreTokenizer:
    """A named pre-tokenizer, as stored in the tokenizer file. Raises UsageError for an unknown name."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in _SCANNERS:
            raise UsageError(f"unknown pre-tokenizer {self.name!r}; known are: {', '.join(_SCANNERS)}")

    @property
    def lossless(self) -> bool:
        """Whether the words, one after another, are the text: true for `gpt2`, false for `wordpunct`."""
        return _SCANNERS[self.name][1]

    @property
    def marks_spaces(self) -> bool:
        """Whether a character model shows a space as `Ġ`: every pre-tokenizer that cuts at spaces does."""
        return self.name != "none"

    @property
    def unicode_version(self) -> str:
        """The version of the class table that words are cut by."""
        return UNICODE_VERSION

    def scanner(self, *, block_words: int = BLOCK_WORDS) -> WordScanner:
        """A scanner with scratch memory of its own, for one thread, to be used for batch after batch."""
        return WordScanner(self, block_words=block_words)

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray, *, block_words: int = BLOCK_WORDS) -> Iterator[Block]:
        """The words of a batch as blocks of at most `block_words`; see `WordScanner.blocks`."""
        return self.scanner(block_words=block_words).blocks(text, doc_ends)

    def pretokenize(self, text: str) -> list[str]:
        """The words of one document for people to read: under wordpunct `Hi, I'm` gives `Hi`, `,`, `ĠI'm`.

        Raises InvalidTextError for a lone surrogate, which UTF-8 cannot hold.
        """
        encoded = np.frombuffer(_encode(text), dtype=np.uint8)
        words = []
        for block in self.blocks(encoded, np.array([encoded.size])):
            start = block.first
            for end in block.word_ends.tolist():
                words.append(self._show(block.text[start:end].tobytes()))
                start = end
        return words

    def _show(self, word: bytes) -> str:
        shown = word.decode()
        return MARKER + shown[1:] if not self.lossless and shown[0] == " " else shown


class WordScanner:
    """Runs one pre-tokenizer over batches, in scratch memory that is allocated once (about 0.8 MiB, more for very long words).

    Not for use by two threads at once. Raises UsageError when `block_words` is below 1.
    """

    def __init__(self, pretokenizer: PreTokenizer, *, block_words: int = BLOCK_WORDS) -> None:
        if block_words < 1:
            raise UsageError(f"a block must hold at least 1 word, not {block_words}")
        self.pretokenizer = pretokenizer
        self._scan = _load_scanner(pretokenizer.name)
        self._classes = load_class_table()
        self._word_ends = np.empty(block_words, dtype=np.int64)
        self._doc_words = np.empty(block_words, dtype=np.int64)
        self._marked = np.empty(0 if pretokenizer.lossless else block_words * _MARKED_BYTES_PER_WORD, dtype=np.uint8)

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        """The words of a batch of documents, block by block.

        `text` is uint8[n], the UTF-8 of all documents end to end; `doc_ends` int64[d], where each ends, ascending, the last at n.
        Invalid UTF-8 is let through: a bad byte is a character of no class. Raises UsageError for arrays of another form.

        For `a b` and `c` under gpt2: one block, word_ends 1, 3, 4 and doc_words 2, 3.
        """
        _check_batch(text, doc_ends)
        return self._scan_blocks(read_only(text), read_only(np.ascontiguousarray(doc_ends, dtype=np.int64)))

    def _scan_blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        cursor = np.zeros(2, dtype=np.int64)
        while cursor[0] < doc_ends.size:
            first = int(cursor[1])
            words, documents = self._scan(text, doc_ends, self._classes, cursor, self._word_ends, self._doc_words, self._marked)
            if words or documents:
                yield self._block(text, first, words, documents)
            else:
                self._marked = np.empty(min(4 * self._marked.size, text.size), dtype=np.uint8)

    def _block(self, text: np.ndarray, first: int, words: int, documents: int) -> Block:
        word_ends, doc_words = read_only(self._word_ends[:words]), read_only(self._doc_words[:documents])
        if self.pretokenizer.lossless:
            return Block(text, first, word_ends, doc_words)
        return Block(read_only(self._marked), 0, word_ends, doc_words)


def _load_scanner(name: str) -> Callable[..., tuple[int, int]]:
    from tokenmill.kernels import scan

    return getattr(scan, _SCANNERS[name][0])


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidTextError(
            f"the text holds the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}, "
            "which UTF-8 cannot hold; replace it with U+FFFD"
        ) from None


def _check_batch(text: np.ndarray, doc_ends: np.ndarray) -> None:
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
