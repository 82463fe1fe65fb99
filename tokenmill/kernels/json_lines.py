"""Lines of JSONL that are in order, at the speed of memory: their texts and ids, end to end.

A line is taken when it is one JSON object by RFC 8259 in valid UTF-8, with the text's key once and a string under it, the id's
key once and a string, number, true or false under it, and no escapes in the names of its keys. (NaN and Infinity, which Python
writes, are let through outside the wanted values.) Every other line is refused, not judged: `transforms/parse_json.py` has the
last word.
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow
from tokenmill.kernels.json_values import copy_string, skip_colon, skip_scalar, skip_value
from tokenmill.kernels.lines import PADDING, end_of_line, skip_space

#: What becomes of a line.
REFUSED, DOCUMENT, BLANK = 0, 1, 2

_NEWLINE, _QUOTE, _COMMA, _OPEN_OBJECT, _CLOSE_OBJECT, _MINUS, _ZERO, _NINE, _TRUE, _FALSE, _LAST_OF_INFINITY = b'\n",{}-09tfy'


@part
def is_key(block, start, end, key):
    """Whether block[start:end] is the key."""
    if end - start != key.size:
        return False
    for place in range(key.size):
        if block[start + place] != key[place]:
            return False
    return True


@part
def copy_id(block, position, ids, at):
    """Write the id at `position`: a string unescaped, a number or true or false as written. Returns where it ends in both."""
    byte = block[position]
    if byte == _QUOTE:
        return copy_string(block, position, ids, at)
    if byte != _TRUE and byte != _FALSE and byte != _MINUS and not _ZERO <= byte <= _NINE:
        return np.int64(-1), at
    end = skip_scalar(block, position)
    if end < 0 or block[end - 1] == _LAST_OF_INFINITY:
        return np.int64(-1), at
    for place in range(position, end):
        ids[at + place - position] = block[place]
    return end, at + end - position


@part
def read_object(block, position, text_key, id_key, text, ids, used):
    """Read the object that opens at `position`: its text to the end of `text`, its id to that of `ids`.

    Without room in `ids` (uint8[0]) no id is wanted. `used` says how far both are filled. Returns where the object ends, -1 when
    it is refused, and how far both are filled then.
    """
    text_at, id_at = used
    wants_id = ids.size > 0
    has_text, has_id = False, not wants_id
    refused = np.int64(-1), text_at, id_at
    position = skip_space(block, position + 1)
    while block[position] == _QUOTE:
        end, key_at = copy_string(block, position, text, text_at)
        if end < 0 or key_at - text_at != end - position - 2:  # shorter than written: an escape
            return refused
        start, end = position + 1, end - 1
        position = skip_colon(block, end + 1)
        if position < 0:
            return refused
        if is_key(block, start, end, text_key):
            if has_text or block[position] != _QUOTE:
                return refused
            position, text_at = copy_string(block, position, text, text_at)
            has_text = True
        elif wants_id and is_key(block, start, end, id_key):
            if has_id:
                return refused
            position, id_at = copy_id(block, position, ids, id_at)
            has_id = True
        else:
            position = skip_value(block, position, text, text_at)
        if position < 0:
            return refused
        position = skip_space(block, position)
        byte = block[position]
        if byte == _CLOSE_OBJECT and has_text and has_id:
            return position + 1, text_at, id_at
        if byte != _COMMA:
            return refused
        position = skip_space(block, position + 1)
    return refused


@kernel
def read_records(block, keys, sinks, starts, kinds, bounds, most):
    """Read the lines of a block, until there are `most` records (lines that are not blank).

    `keys` are those of text and id (uint8[k]); `sinks` take texts and ids, end to end (uint8[n + 64]; the second is uint8[0]
    where no id is wanted). Of each line, `starts` (int64[l]) gets where it begins and `kinds` (uint8[l]) what becomes of it; of
    each document, bounds[0, 1:] and bounds[1, 1:] (int64[2, l + 1]) get where its text and its id end in the sinks. Returns the
    numbers of lines, of records and of documents.
    """
    block, (text_key, id_key), (text, ids) = borrow(block), borrow(keys), borrow(sinks)
    lines = records = documents = position = text_at = id_at = np.int64(0)
    room = min(starts.size, kinds.size, bounds.shape[1] - 1)
    while position < block.size - PADDING and records < most and lines < room:
        first = skip_space(block, position)
        stop, kind = first, BLANK
        if block[first] != _NEWLINE:
            stop, text_end, id_end = np.int64(-1), text_at, id_at
            if block[first] == _OPEN_OBJECT:
                stop, text_end, id_end = read_object(block, first, text_key, id_key, text, ids, (text_at, id_at))
            stop = skip_space(block, stop) if stop >= 0 else stop
            kind = DOCUMENT if stop >= 0 and block[stop] == _NEWLINE else REFUSED
            records += 1
        if kind == DOCUMENT:
            text_at, id_at = text_end, id_end
            documents += 1
            bounds[0, documents], bounds[1, documents] = text_at, id_at
        elif kind == REFUSED:
            stop = end_of_line(block, position)
        starts[lines], kinds[lines] = position, kind
        lines += 1
        position = stop + 1
    return lines, records, documents
