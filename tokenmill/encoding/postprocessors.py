"""Turns batches of token ids into rows for a model: templates, pairs, truncation, padding, masks and type ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenmill.encoding.templates import TOKEN, Elements
from tokenmill.errors import UsageError
from tokenmill.kernels import rows as kernel
from tokenmill.names import TRUNCATIONS

SIDES = ("right", "left")
_EMPTY = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Truncation:
    """Truncation to rows of at most `max_length` tokens, including special tokens.

    If overflow is kept, the tokens cut off become further rows, and each begins with the last `stride` tokens of the row before.
    `strategy`: which of two texts is cut; `side`: at which end. Raises UsageError for invalid values.
    """

    max_length: int
    stride: int = 0
    strategy: str = "longest_first"
    side: str = "right"

    def __post_init__(self) -> None:
        _check_choice("truncation strategy", self.strategy, TRUNCATIONS)
        _check_choice("truncation side", self.side, SIDES)
        if self.max_length < 1 or self.stride < 0:
            raise UsageError(f"a row has 1 token at least and a stride of 0, not {self.max_length} and {self.stride}")


@dataclass(frozen=True)
class Padding:
    """Padding of rows with `token`, to `length` tokens or, if it is None, to the length of the longest row of the batch.

    The length is rounded up to a multiple of `multiple_of`. Longer rows are not changed. Raises UsageError for invalid values.
    """

    token: str
    length: int | None = None
    multiple_of: int = 1
    side: str = "right"
    type_id: int = 0

    def __post_init__(self) -> None:
        _check_choice("padding side", self.side, SIDES)
        if (self.length is not None and self.length < 1) or self.multiple_of < 1:
            raise UsageError(f"rows are padded to 1 token at least, not {self.length}, and to multiples of 1 at least")


class Tokens(NamedTuple):
    """The tokens of the texts of a batch: `ids` int32[t], end to end, and `offsets` int64[d + 1]."""

    ids: np.ndarray
    offsets: np.ndarray


class Rows(NamedTuple):
    """Rows for a model: `offsets` int64[r + 1]; `texts` int64[r], the text of each row; `arrays`, the `RowArrays` of the tokens.

    `cut`: how many tokens of the texts are in no row.
    """

    offsets: np.ndarray
    texts: np.ndarray
    arrays: kernel.RowArrays
    cut: int


def build_rows(
    first: Tokens,
    second: Tokens | None,
    elements: Elements,
    ids: Mapping[str, int],
    *,
    truncation: Truncation | None = None,
    overflow: bool = False,
    padding: Padding | None = None,
) -> Rows:
    """Build the rows of a batch. `elements` are those of a template, `ids` maps their tokens to ids.

    Raises UsageError if a row has no room for any token of a text that must be cut.
    """
    added = sum(element.sequence == TOKEN for element in elements)
    texts, windows = _cut_texts(first, second, truncation, added, overflow=overflow)
    lengths = windows[:, 1] - windows[:, 0] + windows[:, 3] - windows[:, 2] + added
    ends = np.cumsum(_pad_lengths(lengths, padding), dtype=np.int64)
    size = int(ends[-1]) if ends.size else 0
    masks = [np.empty(size, np.int8) for _ in range(3)]
    arrays = kernel.RowArrays(np.empty(size, np.int32), masks[0], masks[1], masks[2], np.empty(size, np.int64))
    tokens = first.ids if second is None else np.concatenate([first.ids, second.ids])
    numbers = np.array([[one.sequence, ids.get(one.token, 0), one.type_id] for one in elements], np.int64).reshape(-1, 3)
    pad = np.array([0, 0] if padding is None else [ids[padding.token], padding.type_id], np.int64)
    pads_left = padding is not None and padding.side == "left"
    kernel.write_rows(tokens.astype(np.int32, copy=False), windows, numbers, pad, pads_left, ends, arrays)
    total = int(first.offsets[-1]) + (0 if second is None else int(second.offsets[-1]))
    kept = total if truncation is None else int(np.count_nonzero(np.bincount(arrays.sources + 1, minlength=1)[1:]))
    return Rows(np.concatenate([_EMPTY, ends]), texts, arrays, total - kept)


def _pad_lengths(lengths: np.ndarray, padding: Padding | None) -> np.ndarray:
    """The lengths of the rows with padding."""
    if padding is None or not lengths.size:
        return lengths
    length = int(lengths.max()) if padding.length is None else padding.length
    return np.maximum(lengths, -(-length // padding.multiple_of) * padding.multiple_of)


def _cut_texts(
    first: Tokens, second: Tokens | None, truncation: Truncation | None, added: int, *, overflow: bool
) -> tuple[np.ndarray, np.ndarray]:
    """`texts` int64[r] and `windows` int64[r, 4]: the range of tokens of the first and of the second text in each row."""
    lengths = np.diff(first.offsets)
    others = np.zeros_like(lengths) if second is None else np.diff(second.offsets)
    texts = np.arange(lengths.size)
    spans, other_spans = _whole(lengths), _whole(others)
    if truncation is not None and np.any(lengths + others + added > truncation.max_length):
        room = find_room(truncation, added)
        if second is None or truncation.strategy == "only_first":
            texts, spans = _window(lengths, room - others, truncation, overflow=overflow)
            other_spans = other_spans[texts]
        elif truncation.strategy == "only_second":
            texts, other_spans = _window(others, room - lengths, truncation, overflow=overflow)
            spans = spans[texts]
        else:
            spans, other_spans = _cut_both(lengths, others, room, truncation, overflow=overflow)
    starts = first.offsets[:-1][texts, None]
    second_starts = np.zeros_like(starts) if second is None else second.offsets[:-1][texts, None] + first.offsets[-1]
    return texts, np.concatenate([spans + starts, other_spans + second_starts], axis=1)


def find_crowded(lengths: np.ndarray, others: np.ndarray, truncation: Truncation | None, added: int) -> np.ndarray:
    """bool[d]: pairs that cannot be cut, because the uncut text leaves no room for a token of the other beyond the stride.

    `lengths` and `others` int64[d]: the tokens of the first and of the second texts; `added`: the special tokens of a row.
    """
    if truncation is None or truncation.strategy == "longest_first":
        return np.zeros(lengths.size, bool)
    room = truncation.max_length - added
    whole = others if truncation.strategy == "only_first" else lengths
    return (lengths + others > room) & (room - whole - truncation.stride < 1)


def find_room(truncation: Truncation, added: int) -> int:
    """How many tokens of texts fit into a row with `added` special tokens. Raises UsageError if they are too few."""
    room = truncation.max_length - added
    if room < 1 or truncation.stride >= room:
        raise UsageError(
            f"rows of {truncation.max_length} tokens, {added} of them special, leave {max(room, 0)} for text: "
            f"too few{f' for a stride of {truncation.stride}' if room >= 1 else ''}; give a larger maximum length"
        )
    return room


def _whole(lengths: np.ndarray) -> np.ndarray:
    return np.stack([np.zeros_like(lengths), lengths], axis=1)


def _window(lengths: np.ndarray, room: np.ndarray, truncation: Truncation, *, overflow: bool) -> tuple[np.ndarray, np.ndarray]:
    """`texts` int64[r] and spans int64[r, 2]: the text of each row and the range of its tokens in the row.

    A text of 10 tokens in windows of 4 with a stride of 1 has the spans `[0, 4)`, `[3, 7)`, `[6, 10)`.
    """
    cut = lengths > room
    step = room - truncation.stride
    if np.any(cut & (step < 1)):
        place = int(np.flatnonzero(cut & (step < 1))[0])
        way_out = "cut the longer of both, or give a larger maximum length"
        if truncation.stride:
            way_out = f"a stride of {truncation.stride} needs more than that: give a smaller one, or a larger maximum length"
        raise UsageError(f"text {place}: its other text leaves no room in rows of {truncation.max_length} tokens; {way_out}")
    counts = np.ones_like(lengths)
    if overflow:
        counts[cut] += -(-(lengths - room)[cut] // step[cut])
    texts = np.repeat(np.arange(lengths.size), counts)
    number = np.arange(texts.size) - np.repeat(np.cumsum(counts) - counts, counts)
    near = number * np.where(cut, step, 0)[texts]
    far = np.minimum(lengths[texts], near + room[texts])
    spans = np.stack([near, far], axis=1)
    return texts, spans if truncation.side == "right" else lengths[texts, None] - spans[:, ::-1]


def _cut_both(
    lengths: np.ndarray, others: np.ndarray, room: int, truncation: Truncation, *, overflow: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The spans of both texts of each row. The longer text is cut to the length of the shorter first, as Hugging Face does."""
    if overflow:
        raise UsageError("what is cut off two texts cannot become rows of its own; truncate only_first or only_second")
    shorter, longer = np.minimum(lengths, others), np.maximum(lengths, others)
    cut = lengths + others > room
    both = cut & (shorter + np.maximum(shorter, room - shorter) > room)
    longer = np.where(both, room // 2 + room % 2, np.where(cut, np.minimum(longer, room - shorter), longer))
    shorter = np.where(both, room // 2, shorter)
    swapped = lengths > others
    kept = (np.where(swapped, longer, shorter), np.where(swapped, shorter, longer))
    pairs = zip((lengths, others), kept, strict=True)
    if truncation.side == "right":
        return _whole(kept[0]), _whole(kept[1])
    first, second = (np.stack([length - left, length], axis=1) for length, left in pairs)
    return first, second


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{what} {value!r} is not known; choose one of {', '.join(choices)}")
