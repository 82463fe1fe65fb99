"""Rows for a model out of token ids: special tokens around them, masks, types and padding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tokenmill.kernels.compiling import kernel, part
from tokenmill.kernels.intrinsics import borrow

KIND, ID, TYPE = 0, 1, 2
#: Columns of `windows`.
FIRST_START, FIRST_END, SECOND_START, SECOND_END = 0, 1, 2, 3


class RowArrays(NamedTuple):
    """What is written of each token of each row, end to end.

    `ids`: int32[n]; `types`, `special`, `attention`: int8[n]; `sources`: int64[n], the place of the token among those of the
    texts, or -1.
    """

    ids: np.ndarray
    types: np.ndarray
    special: np.ndarray
    attention: np.ndarray
    sources: np.ndarray


@part
def write_padding(rows, at, count, pad):
    """Padding, `count` tokens of it; returns where it ends."""
    for place in range(at, at + count):
        rows.ids[place], rows.types[place], rows.special[place] = pad[0], pad[1], 1
        rows.attention[place], rows.sources[place] = 0, -1
    return at + count


@kernel
def write_rows(ids, windows, elements, pad, pads_left, row_ends, rows):
    """Write each row as the template says, filled up to where it ends.

    `ids`: int32[t], tokens of all texts; `windows`: int64[r, 4], the tokens of the first and of the second text in each row;
    `elements`: int64[e, 3], kind (0 a token, 1 and 2 a text), id and type; `pad`: int64[2], id and type; `row_ends`: int64[r].
    """
    ids, windows, elements = borrow(ids), borrow(windows), borrow(elements)
    pad, row_ends, rows = borrow(pad), borrow(row_ends), borrow(rows)
    at = np.int64(0)
    for row in range(row_ends.size):
        tokens = windows[row, FIRST_END] - windows[row, FIRST_START] + windows[row, SECOND_END] - windows[row, SECOND_START]
        for element in range(elements.shape[0]):
            tokens += elements[element, KIND] == 0
        padding = row_ends[row] - at - tokens
        if pads_left:
            at = write_padding(rows, at, padding, pad)
        for element in range(elements.shape[0]):
            kind, type_ = elements[element, KIND], elements[element, TYPE]
            if kind == 0:
                rows.ids[at], rows.types[at], rows.special[at] = elements[element, ID], type_, 1
                rows.attention[at], rows.sources[at] = 1, -1
                at += 1
                continue
            for place in range(windows[row, 2 * kind - 2], windows[row, 2 * kind - 1]):
                rows.ids[at], rows.types[at], rows.special[at] = ids[place], type_, 0
                rows.attention[at], rows.sources[at] = 1, place
                at += 1
        if not pads_left:
            at = write_padding(rows, at, padding, pad)
