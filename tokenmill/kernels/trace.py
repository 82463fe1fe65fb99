"""Where tokens stand in a text: words are found again, and cut at the lengths of their tokens."""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow
from tokenmill.kernels.scan_bytes import decode_character

#: The length of a token that stands for what has none.
UNKNOWN_LENGTH = -1
_SPACE = 0x20


@part
def stands_at(text, position, word, start, end):
    """Whether word[start:end] stands in the text at `position`."""
    if position + end - start > text.size:
        return False
    for place in range(start, end):
        if text[position + place - start] != word[place]:
            return False
    return True


@kernel
def place_words(text, position, words, word_ends, marks, spans):
    """Where in `text`, from `position` on, words stand of which whitespace was dropped between; returns the end of the last.

    `words`: uint8, the words end to end, ending at `word_ends` (int64[w]); with `marks` a space in front of one stands for the
    whitespace character that is there. `spans`: int64[w, 2], out.
    """
    text, words, word_ends, spans = borrow(text), borrow(words), borrow(word_ends), borrow(spans)
    start = np.int64(0)
    for word in range(min(word_ends.size, spans.shape[0])):
        end = word_ends[word]
        marked = marks and end > start and words[start] == _SPACE
        first = start + 1 if marked else start
        while position < text.size and not stands_at(text, position, words, first, end):
            position += 1
        begin = position
        if marked:
            begin -= 1
            while begin > 0 and text[begin] & 0xC0 == 0x80:
                begin -= 1
        spans[word, 0], spans[word, 1] = begin, position + end - first
        position, start = spans[word, 1], end
    return position


@part
def unknown_length(text, position, end, known, fuses):
    """Bytes of the unknown character at `position`, with `fuses` of all of them that follow each other."""
    start = position
    while position < end:
        point, length = np.int64(text[position]), np.int64(1)
        if point >= 0x80:
            point, length = decode_character(text, position, end)
        if point >= 0 and known[point] and position > start:
            break
        position += length
        if not fuses:
            break
    return position - start


@kernel
def place_tokens(text, word_spans, token_ends, ids, lengths, known, fuses, spans):
    """Where tokens stand: each word, text[word_spans[w, 0] : word_spans[w, 1]], is cut at the lengths of its tokens.

    `token_ends`: int64[w], how many `ids` (int32) there are behind each word; `lengths`: int64, bytes of each id, or
    UNKNOWN_LENGTH; `known`: bool[0x110000], characters that have ids. `spans`: int64[t, 2], out. Where lengths do not add up,
    tokens have the whole word.
    """
    text, word_spans, token_ends, ids = borrow(text), borrow(word_spans), borrow(token_ends), borrow(ids)
    lengths, known, spans = borrow(lengths), borrow(known), borrow(spans)
    first = np.int64(0)
    for word in range(token_ends.size):
        last, start, end = min(token_ends[word], spans.shape[0]), word_spans[word, 0], word_spans[word, 1]
        total, unknown = np.int64(0), np.int64(0)
        for token in range(first, last):
            length = lengths[ids[token]]
            total, unknown = total + max(length, 0), unknown + (length == UNKNOWN_LENGTH)
        rest, position = end - start - total, start
        for token in range(first, last):
            length = lengths[ids[token]]
            if length == UNKNOWN_LENGTH:
                length = rest if unknown == 1 else unknown_length(text, position, end, known, fuses)
            elif token == first and not unknown:
                length += rest  # the mark of whitespace that is longer than a space
            spans[token, 0], spans[token, 1] = position, position + length
            position += length
        if position != end or (rest < 0 and last > first):
            for token in range(first, last):
                spans[token, 0], spans[token, 1] = start, end
        first = last
