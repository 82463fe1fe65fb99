"""The largest document that is read: `--max-document-mb`. A larger one becomes a reject that says its size, in bounded memory.

The default is 128 MB. No book and hardly a log file is longer, and a process encodes a document of that size within about 1.5 GB.

How a reader keeps to `ReadOptions.max_document_bytes`:

- Lines: `read_line_blocks(part, block_bytes, most)` gives a `LongLine` in place of a block for a line that it did not keep.
  `reject_line` makes a reject of it. `count_rows` counts it as one line and one record.
- Texts in Arrow arrays: `finish_batch` rejects those that are too long; a reader that ends in it has nothing to do.
- Anything else that grows while it is read (a file as one document, a field of a CSV file): stop keeping bytes behind the limit,
  go on counting them, and give `reject_long(name, row, offset, size, head, most)`.

A normalizer can make texts longer than they were read: `transforms/growth.py` rejects those that it takes above the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokenmill.arrow import text_buffers
from tokenmill.transforms.splits import Reject

#: How much of a record that is too long is kept for its reject.
HEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class LongLine:
    r"""A line that was read over: its size in bytes without `\n` or `\r\n`, and its first bytes."""

    size: int
    head: bytes


def reject_long(file: str, row: int, offset: int, size: int, head: bytes, most: int) -> Reject:
    """The reject for a record of `size` bytes, of which `head` are the first, in a file of this name."""
    return Reject(file, row, offset, describe_long(size, most), head[: min(size, HEAD_BYTES)], size)


def describe_long(size: int, most: int) -> str:
    """Why a document of `size` bytes is rejected.

    >>> describe_long(3 << 20, 2 << 20)
    'has 3,145,728 bytes, more than the 2 MB of --max-document-mb; cut it into documents, or give a larger number'
    """
    return (
        f"has {size:,} bytes, more than the {most / (1 << 20):,.6g} MB of --max-document-mb; "
        "cut it into documents, or give a larger number"
    )


def find_long(texts: tuple[pa.LargeStringArray, ...], most: int) -> npt.NDArray[np.int64] | None:
    """int64[d]: the bytes of each document, of all its texts together; None where none can have more than `most`."""
    arrays = [text_buffers(text) for text in texts]
    if sum(text.size for text, _ in arrays) <= most:
        return None
    sizes: npt.NDArray[np.int64] = np.sum([np.diff(ends, prepend=0) for _, ends in arrays], axis=0, dtype=np.int64)
    return sizes if np.any(sizes > most) else None
