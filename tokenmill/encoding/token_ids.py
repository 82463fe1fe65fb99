"""Reads token ids in the forms that callers have: lists, NumPy, torch, JAX and Arrow arrays, and cells of a shard."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa


def list_ids(ids: Any) -> list[int]:
    """Convert ids to a list of int: `list_ids(pa.scalar([1, 2]))` is `[1, 2]`.

    A null cell gives an empty list. Raises TypeError for anything that is not a sequence of integers.
    """
    if isinstance(ids, pa.Scalar | pa.Array | pa.ChunkedArray):
        values = ids.as_py() if isinstance(ids, pa.Scalar) else ids.to_pylist()
        ids = [] if values is None else values
    elif not isinstance(ids, list) and hasattr(ids, "tolist"):  # NumPy, torch, JAX
        ids = ids.tolist()
    if isinstance(ids, str | bytes | dict) or not isinstance(ids, Iterable):
        raise TypeError(f"ids is a {type(ids).__name__}; give token ids, such as [17, 4] or a cell of the column input_ids")
    return [_to_number(one) for one in ids]


def _to_number(one: Any) -> int:
    if type(one) is int:
        return one
    value = one.as_py() if isinstance(one, pa.Scalar) else one
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        raise TypeError("ids has rows; give one row of token ids, or use decode_batch")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{value!r} is no token id; give whole numbers") from None
