"""Words to base symbols: the ids of their bytes or characters, in the form that they have at their place in the word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import part

UNKNOWN = -1
#: Which symbols of a word have the second form: none; all but the first (a continuation prefix); the last (a suffix).
PLAIN, LATER, LAST = range(3)
BYTES, CODE_POINTS = 256, 0x110000


class WordForms(NamedTuple):
    """What a model makes of a word beside looking its symbols up.

    `marking`: PLAIN, or which symbols are looked up in the second half of the tables; `ending`: the id of a symbol behind the
    last, or UNKNOWN; `fallback`: int32[256], the ids that spell an unknown character byte by byte, or empty; `fuses_unknown`:
    whether unknown characters side by side are one symbol.
    """

    marking: np.int64
    ending: np.int64
    fallback: np.ndarray
    fuses_unknown: np.bool_


@part
def sequence_length(lead):
    """Bytes of the UTF-8 sequence that a lead byte announces: 0xE4 gives 3."""
    if lead < 0xC0:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4


@part
def code_point_at(text, position, length):
    """Decode one UTF-8 sequence of valid text."""
    if length == 1:
        return np.int64(text[position])
    value = np.int64(text[position]) & (0x7F >> length)
    for follower in range(1, length):
        value = value << 6 | (np.int64(text[position + follower]) & 0x3F)
    return value


@part
def look_up_symbols(tables, text, start, end, symbols, first):
    """Write the base symbols of a word into `symbols[first:]`; returns how many.

    Each byte of the word makes one symbol at most, and the ending is one more.
    """
    if tables.byte_ids.size:
        size = look_up_bytes(tables, text, start, end, symbols, first)
    else:
        size = look_up_characters(tables, text, start, end, symbols, first)
    if tables.forms.ending != UNKNOWN:
        symbols[first + size] = tables.forms.ending
        size += 1
    return size


@part
def look_up_bytes(tables, text, start, end, symbols, first):
    """The symbols of a word in a byte model."""
    marking = tables.forms.marking
    later = BYTES if marking == LATER else 0
    for position in range(start, end):
        symbols[first + position - start] = tables.byte_ids[np.int64(text[position]) + (later if position > start else 0)]
    if marking == LAST:
        symbols[first + end - 1 - start] = tables.byte_ids[np.int64(text[end - 1]) + BYTES]
    return end - start


@part
def look_up_characters(tables, text, start, end, symbols, first):
    """The symbols of a word in a character model: one an unknown character, unless bytes spell it or the one before is joined."""
    forms, character_ids = tables.forms, tables.character_ids
    half = np.int64(character_ids.size) if forms.marking == PLAIN else np.int64(character_ids.size) // 2
    size, position, after_unknown = np.int64(0), start, False
    while position < end:
        length = min(sequence_length(text[position]), end - position)
        code_point, symbol = code_point_at(text, position, length), np.int32(UNKNOWN)
        if code_point < half:
            marked = (forms.marking == LATER and position > start) or (forms.marking == LAST and position + length == end)
            symbol = character_ids[code_point + half] if marked else character_ids[code_point]
        unknown = symbol == UNKNOWN
        if unknown and forms.fallback.size:
            for offset in range(length):
                symbols[first + size + offset] = forms.fallback[text[position + offset]]
            size += length
        elif not (unknown and after_unknown and forms.fuses_unknown):
            symbols[first + size] = tables.unknown if unknown else symbol
            size += 1
        after_unknown = unknown
        position += length
    return size
