"""Between Arrow arrays and the flat NumPy arrays that kernels take, without copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tokenmill.errors import UsageError
from tokenmill.unicode_text import SURROGATE, encode_text


def large_strings(texts: pa.Array | pa.ChunkedArray | Sequence[str]) -> pa.LargeStringArray:
    """Texts as one large_string array: a list of str, or string, large_string, string_view or dictionary arrays."""
    if isinstance(texts, str | bytes):
        raise UsageError("one text is no batch of texts; put it into a list, or use encode")
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        return _from_strings(texts)
    if not holds_strings(texts.type):
        raise UsageError(f"texts of type {texts.type} cannot be encoded; give an array of strings")
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    return texts if texts.type == pa.large_string() else texts.cast(pa.large_string())


def holds_strings(kind: pa.DataType) -> bool:
    """Whether arrays of a type are texts: string, large_string, string_view, a dictionary of them, or nulls alone."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def _from_strings(texts: Sequence[str]) -> pa.LargeStringArray:
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        place = next(place for place, text in enumerate(texts) if SURROGATE.search(text))
        encode_text(texts[place], name=f"text {place}")
        raise
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise UsageError(f"texts must be str: {error}; convert them first") from None


def text_buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """`(text, ends)` of a large_string or large_binary array: uint8[n], int64[d] where each item ends.

    `text` is a read-only view of the array's own buffer; items lie end to end in it, from 0 to n. A null counts as empty.
    """
    if texts.null_count:
        texts = texts.fill_null("" if pa.types.is_large_string(texts.type) else b"")
    _, offsets_buffer, data_buffer = texts.buffers()
    if len(texts) == 0 or offsets_buffer is None:
        return _NO_TEXT, _NO_ENDS
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None and data_buffer.size else _NO_TEXT
    ends = offsets[1:] if offsets[0] == 0 else offsets[1:] - offsets[0]
    return read_only(data[offsets[0] : offsets[-1]]), read_only(ends)


def read_only(array: np.ndarray) -> np.ndarray:
    """A read-only view: kernels are compiled once for each array type, and read-only arrays are a type of their own."""
    view = array.view()
    view.flags.writeable = False
    return view


def wrap_binary(data: np.ndarray, offsets: np.ndarray) -> pa.LargeBinaryArray:
    """A large_binary array over `data` (uint8[n]) and `offsets` (int64[w + 1])."""
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def wrap_lists(ids: np.ndarray, offsets: np.ndarray) -> pa.LargeListArray:
    """A large_list array over `ids` (int32[n] or int8[n]) and `offsets` (int64[d + 1]). (`pa.array` imports pandas: 0.3 s.)"""
    values = pa.Array.from_buffers(pa.from_numpy_dtype(ids.dtype), ids.size, [None, pa.py_buffer(ids)])
    kind = pa.large_list(values.type)
    return pa.LargeListArray.from_buffers(kind, offsets.size - 1, [None, pa.py_buffer(offsets)], children=[values])


_NO_TEXT = np.frombuffer(b"", np.uint8)
_NO_ENDS = read_only(np.empty(0, np.int64))
