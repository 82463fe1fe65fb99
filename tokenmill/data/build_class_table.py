"""Build the Unicode class table: `python -m tokenmill.data.build_class_table [FILE]` (needs `unicodedata2==16.0.0`).

Python, `regex`, tiktoken and Hugging Face have tables of different Unicode versions, so this project uses one table of one
version. The file has runs of equal code points (about 3,500). It is not compressed, so the same version always gives the same
bytes.
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
#: The blocks that BERT's tokenizer treats as Chinese.
_BERT_CHINESE = (
    *(range(0x4E00, 0xA000), range(0x3400, 0x4DC0), range(0x20000, 0x2A6E0), range(0x2A700, 0x2B740), range(0x2B740, 0x2B820)),
    *(range(0x2B820, 0x2CEB0), range(0xF900, 0xFB00), range(0x2F800, 0x2FA20)),
)
_WORD_CATEGORIES = frozenset(["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"])
#: Characters that are in `\w` by another property: circled and squared letters (Other_Alphabetic), and the two joiners.
_OTHER_WORD = (
    *(range(0x24B6, 0x24EA), range(0x1F130, 0x1F14A), range(0x1F150, 0x1F16A), range(0x1F170, 0x1F18A)),
    range(0x200C, 0x200E),
)


def classify(code_point: int, *, unicode_data: ModuleType) -> int:
    """The class bits of one code point: `classify(0x41, ...)` is LETTER | RE_WORD | UPPER.

    White_Space is not a category. It consists of the category Z and the controls TAB to CR and NEL (U+200B is Cf since Unicode
    4).
    """
    category = unicode_data.category(chr(code_point))
    found = _CATEGORY_BITS.get(category, 0) | _MAJOR_CATEGORY_BITS.get(category[0], 0)
    if 0x09 <= code_point <= 0x0D or code_point == 0x85:
        found |= bits.WHITESPACE | bits.RE_SPACE
    if 0x1C <= code_point <= 0x1F:
        found |= bits.RE_SPACE
    if code_point == ord("_"):
        found |= bits.RE_WORD
    if category[0] == "P" or (code_point < 0x80 and category[0] == "S") or _is_in(code_point, _BERT_CHINESE):
        found |= bits.BERT_ALONE
    if category in _WORD_CATEGORIES or _is_in(code_point, _OTHER_WORD):
        found |= bits.UNICODE_WORD
    return found


def _is_in(code_point: int, ranges: tuple[range, ...]) -> bool:
    return any(code_point in one for one in ranges)


def build_class_table(unicode_data: ModuleType) -> bytes:
    """Build the bytes of the table file, an .npz without pickles.

    It has `starts` uint32[r] and `bits` uint16[r] of the runs, and `version` str.

    Raises UsageError if `unicode_data` has another Unicode version than the project.
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
