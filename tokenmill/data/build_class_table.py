"""Bake the Unicode class table: `python -m tokenmill.data.build_class_table [FILE]` (needs `unicodedata2==16.0.0`).

Python, `regex`, tiktoken and Hugging Face each carry tables of another Unicode version, so the classes of this project come from
one file of one version. It is stored as runs of equal code points (about 3,500), not compressed, so that the same version always
gives the same bytes.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from tokenmill.data import CLASS_TABLE_FILE, UNICODE_VERSION
from tokenmill.errors import UsageError
from tokenmill.kernels import scan_classes as bits

_CATEGORY_BITS = {
    "Lu": bits.UPPER,
    "Lt": bits.UPPER,
    "Ll": bits.LOWER,
    "Lm": bits.OTHER_LETTER,
    "Lo": bits.OTHER_LETTER,
    "Nd": bits.DECIMAL,
}
_MAJOR_CATEGORY_BITS = {
    "L": bits.LETTER | bits.RE_WORD,
    "N": bits.NUMBER | bits.RE_WORD,
    "M": bits.MARK,
    "P": bits.PUNCTUATION,
    "Z": bits.WHITESPACE | bits.RE_SPACE,
}


def classify(code_point: int, *, unicode_data: ModuleType) -> int:
    """The class bits of one code point: `classify(0x41, ...)` is LETTER | RE_WORD | UPPER.

    White_Space is no category: it is Z and the controls TAB to CR and NEL. Z holds nothing else (U+200B is Cf since Unicode 4).
    """
    category = unicode_data.category(chr(code_point))
    found = _CATEGORY_BITS.get(category, 0) | _MAJOR_CATEGORY_BITS.get(category[0], 0)
    if 0x09 <= code_point <= 0x0D or code_point == 0x85:
        found |= bits.WHITESPACE | bits.RE_SPACE
    if 0x1C <= code_point <= 0x1F:
        found |= bits.RE_SPACE
    if code_point == ord("_"):
        found |= bits.RE_WORD
    return found


def build_class_table(unicode_data: ModuleType) -> bytes:
    """The table file's bytes, an .npz without pickles: `starts` uint32[r] and `bits` uint16[r] of the runs, `version` str.

    Raises UsageError when `unicode_data` is of another Unicode version than the one the project is fixed to.
    """
    if unicode_data.unidata_version != UNICODE_VERSION:
        raise UsageError(
            f"the class table is of Unicode {UNICODE_VERSION}, but this module holds {unicode_data.unidata_version}; "
            f"install unicodedata2=={UNICODE_VERSION}"
        )
    found = (classify(code_point, unicode_data=unicode_data) for code_point in range(bits.CODE_POINTS))
    table = np.fromiter(found, dtype=np.uint16, count=bits.CODE_POINTS)
    starts = np.flatnonzero(np.diff(table, prepend=~table[0])).astype("<u4")
    buffer = io.BytesIO()
    np.savez(buffer, starts=starts, bits=table[starts].astype("<u2"), version=np.array(UNICODE_VERSION))
    return buffer.getvalue()


def main(path: Path) -> None:
    """Write the table file to `path`."""
    import unicodedata2

    path.write_bytes(build_class_table(unicodedata2))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CLASS_TABLE_FILE)
