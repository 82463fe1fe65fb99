"""Converts between Arrow arrays and the flat NumPy arrays that kernels take, without copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tokenmill.errors import UsageError
from tokenmill.unicode_text import SURROGATE, encode_text


def large_strings(texts: pa.Array | pa.ChunkedArray | Sequence[str]) -> pa.LargeStringArray:
    """Convert a list of str, or an array whose type `holds_strings`, to one large_string array. Raises `UsageError`."""
    if isinstance(texts, str | bytes):
        raise UsageError("one text is no batch of texts; put it into a list, or use encode")
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        return _from_strings(texts)
    if not holds_strings(texts.type):
        raise UsageError(f"texts of type {texts.type} cannot be encoded; give an array of strings")
    if isinstance(texts, pa.ChunkedArray):  # Each chunk may hold 2 GiB: widen the offsets to 64 bits, then concatenate.
        return pa.concat_arrays([decode_strings(chunk) for chunk in texts.chunks] or [pa.array([], pa.large_string())])
    return decode_strings(texts)


def holds_strings(kind: pa.DataType) -> bool:
    """Whether a type holds texts: string, large_string, string_view or null, also dictionary or run-end encoded."""
    return plain_type(kind) in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values if a type is dictionary or run-end encoded, otherwise the type itself."""
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind


def decode_strings(texts: pa.Array) -> pa.LargeStringArray:
    """Convert strings or bytes of any Arrow layout to large_string. Bytes are not checked, so they may not be UTF-8.

    The result may be larger than 2 GiB: values get 64-bit offsets before they are repeated.
    """
    values, places = split_values(texts)
    return widen_strings(values) if places is None else decode_strings(values).take(places)


def split_values(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Split an encoded array into `(values, places)`: its distinct values, and the index of each row's value.

    For a plain array, `places` is None.

    >>> values, places = split_values(pa.array(["a", "b", "a"]).dictionary_encode())
    >>> values.to_pylist(), places.to_pylist()
    (['a', 'b'], [0, 1, 0])
    """
    if pa.types.is_dictionary(texts.type):
        return texts.dictionary, texts.indices
    if pa.types.is_run_end_encoded(texts.type):
        rows = np.arange(texts.offset, texts.offset + len(texts))
        return texts.values, pa.array(np.searchsorted(texts.run_ends.to_numpy(), rows, side="right"))
    return texts, None


def widen_strings(texts: pa.Array) -> pa.LargeStringArray:
    """Convert a plain array of strings or bytes to large_string; the data is not copied if the layout allows it."""
    if texts.type == pa.large_string():
        return texts
    if texts.type in (pa.string(), pa.string_view(), pa.null()):
        return texts.cast(pa.large_string())
    return texts.cast(pa.large_binary()).view(pa.large_string())


def measure_strings(texts: pa.Array) -> np.ndarray:
    """int64[n]: the number of bytes that each text has once decoded, 0 for a null. Decodes nothing."""
    values, places = split_values(texts)
    if places is not None:
        sizes = np.append(measure_strings(values), 0)
        return sizes[places.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)]
    if texts.type in (pa.string_view(), pa.binary_view()):  # The first of the four numbers of a view is its length.
        views = np.frombuffer(texts.buffers()[1] or b"", np.int32).reshape(-1, 4)
        sizes = views[texts.offset : texts.offset + len(texts), 0].astype(np.int64)
        return sizes if not texts.null_count else np.where(texts.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    _, ends = text_buffers(widen_strings(texts))
    return np.diff(ends, prepend=0)


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
    """The buffers `(text, ends)` of a large_string or large_binary array: uint8[n], and int64[d] with the end of each item.

    `text` is a read-only view of the array's own buffer and holds the items end to end, from 0 to n. A null counts as empty.
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
    """Make a read-only view. Numba compiles a kernel for each array type, and read-only arrays are a separate type."""
    view = array.view()
    view.flags.writeable = False
    return view


def wrap_binary(data: np.ndarray, offsets: np.ndarray) -> pa.LargeBinaryArray:
    """Wrap `data` (uint8[n]) and `offsets` (int64[w + 1]) in a large_binary array."""
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def wrap_lists(ids: np.ndarray, offsets: np.ndarray) -> pa.LargeListArray:
    """Wrap `ids` (int32[n] or int8[n]) and `offsets` (int64[d + 1]) in a large_list array.

    `pa.array` is not used: it imports pandas, which takes 0.3 s.
    """
    values = pa.Array.from_buffers(pa.from_numpy_dtype(ids.dtype), ids.size, [None, pa.py_buffer(ids)])
    kind = pa.large_list(values.type)
    return pa.LargeListArray.from_buffers(kind, offsets.size - 1, [None, pa.py_buffer(offsets)], children=[values])


_NO_TEXT = np.frombuffer(b"", np.uint8)
_NO_ENDS = read_only(np.empty(0, np.int64))
