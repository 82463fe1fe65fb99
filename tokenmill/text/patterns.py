"""Custom patterns: cut words with any pattern of the `regex` package. Slow, because every match is found in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenmill.arrow import read_only
from tokenmill.errors import InvalidTextError, UsageError
from tokenmill.text.scanners import BLOCK_WORDS, Block, Scanner, check_batch

#: Limits on the length of a pattern in characters, and on its items once counted repeats are expanded, as `regex` does.
LONGEST_PATTERN = 10_000
MOST_ITEMS = 100_000

#: The time limit for one document: a base, and an addition per million characters. Reasonable patterns need a fraction of it.
SECONDS, SECONDS_A_MILLION = 10.0, 30.0

_ITEM = re.compile(r"\\[pPN]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:[^]]*:\]|[^\]\\])*\]|\{(\d*),?(\d*)\}|.", re.DOTALL)


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern with `regex`. Raises UsageError for a pattern that is invalid or too large."""
    import regex

    if not pattern:
        raise UsageError("the pattern is empty; give one that matches words, such as \\w+|[^\\w\\s]+")
    if len(pattern) > LONGEST_PATTERN:
        raise UsageError(f"the pattern has {len(pattern):,} characters; the most is {LONGEST_PATTERN:,}")
    if count_items(pattern) > MOST_ITEMS:
        raise UsageError(f"pattern {pattern[:80]!r}: its counted repeats are too large; use + or * instead of {{m,n}}")
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise UsageError(
            f"pattern {pattern[:80]!r}: {error.msg} at character {error.pos}; it must be a pattern of regex"
        ) from None
    except (RecursionError, OverflowError, ValueError) as error:
        raise UsageError(f"pattern {pattern[:80]!r}: {error}; write it with fewer nested groups") from None


def count_items(pattern: str) -> int:
    """The approximate number of items of a pattern with counted repeats expanded: `(ab){3}c{2}` has 8."""
    totals, last = [0], 0
    for item in _ITEM.finditer(pattern):
        if item.group() == "(":
            totals.append(0)
            last = 0
        elif item.group() == ")" and len(totals) > 1:
            last = totals.pop()
            totals[-1] += last
        elif item.lastindex:
            least, most = item.group(1), item.group(2)
            repeats = max(int(number) for number in (least, most, "1") if number)
            totals[-1] += last * (repeats - 1)
            last *= repeats
        else:
            last = 1
            totals[-1] += 1
    return sum(totals)


def regex_unicode_version() -> str:
    """The Unicode version of the installed `regex`, such as `18.0.0`. Only its package description states it."""
    from importlib.metadata import metadata

    found = metadata("regex")
    told = re.search(r"supports Unicode (\d+\.\d+\.\d+)", str(found.json.get("description", "")))
    return told[1] if told else f"of regex {found['Version']}"


class PatternScanner:
    """Like `WordScanner`, but with a pattern: its matches and the texts between them are the words, so they cover the text.

    Empty matches are not words. The pattern sees each byte that is not UTF-8 as one character (a surrogate). If digits are cut
    out first, `segments` is a scanner whose words are the texts that the pattern is applied to.
    """

    def __init__(self, pattern: str, *, segments: Scanner | None = None, block_words: int = BLOCK_WORDS) -> None:
        if block_words < 1:
            raise UsageError(f"a block must hold at least 1 word, not {block_words}")
        self._pattern, self._segments = compile_pattern(pattern), segments
        self._word_ends = np.empty(block_words, dtype=np.int64)
        self._doc_words = np.empty(block_words, dtype=np.int64)

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        """As `WordScanner.blocks`. While iterating, raises InvalidTextError if the pattern takes too long for a document."""
        check_batch(text, doc_ends)
        return self._scan_blocks(read_only(text), np.ascontiguousarray(doc_ends, dtype=np.int64))

    def _scan_blocks(self, text: np.ndarray, doc_ends: np.ndarray) -> Iterator[Block]:
        first, start, words, documents = 0, 0, 0, 0
        for end in doc_ends.tolist():
            for length in self._word_lengths(text[start:end].tobytes()):
                if words == self._word_ends.size:
                    yield self._block(text, first, words, documents)
                    first, words, documents = start, 0, 0
                start += length
                self._word_ends[words] = start
                words += 1
            self._doc_words[documents] = words
            documents += 1
            if documents == self._doc_words.size:
                yield self._block(text, first, words, documents)
                first, words, documents = end, 0, 0
        if words or documents:
            yield self._block(text, first, words, documents)

    def _block(self, text: np.ndarray, first: int, words: int, documents: int) -> Block:
        return Block(text, first, read_only(self._word_ends[:words]), read_only(self._doc_words[:documents]))

    def _word_lengths(self, document: bytes) -> Iterator[int]:
        """The lengths of the words of a document, in bytes."""
        for segment in self._cut(document):
            text = segment.decode("utf-8", "surrogateescape")
            for word in split_by_pattern(self._pattern, text):
                yield len(word) if text.isascii() else len(word.encode("utf-8", "surrogateescape"))

    def _cut(self, document: bytes) -> Iterator[bytes]:
        if self._segments is None:
            yield document
            return
        start = 0
        for block in self._segments.blocks(np.frombuffer(document, np.uint8), np.array([len(document)])):
            for end in block.word_ends.tolist():
                yield document[start:end]
                start = end


def split_by_pattern(pattern: Any, text: str) -> Iterator[str]:
    """The matches of a compiled pattern and the texts between them: `\\w+` cuts `Hi, you` into `Hi`, `, `, `you`."""
    done = 0
    for start, end in find_matches(pattern, text):
        if start > done:
            yield text[done:start]
        yield text[start:end]
        done = end
    if done < len(text):
        yield text[done:]


def find_matches(pattern: Any, text: str) -> Iterator[tuple[int, int]]:
    """The spans of the non-empty matches of a compiled pattern.

    Raises InvalidTextError if the pattern takes too long, because patterns can come from untrusted files.
    """
    seconds, done = SECONDS + SECONDS_A_MILLION * len(text) / 1e6, 0
    try:
        for match in pattern.finditer(text, timeout=seconds):
            start, end = match.span()
            if start < end:
                yield start, end
                done = end
    except TimeoutError:
        raise InvalidTextError(
            f"pattern {pattern.pattern[:80]!r} was not done with a document of {len(text):,} characters in {seconds:.0f} seconds "
            f"(at character {done:,}: {text[done : done + 20]!r}); it backtracks too much: use possessive quantifiers, such as ++"
        ) from None
