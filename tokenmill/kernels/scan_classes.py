"""What the scanners know about a character: one bit per class, 16 bits per code point in one flat table.

`tokenmill/data/build_class_table.py` bakes the table; the kernels read it as `classes[code_point] & LETTER`. The two `RE_` bits
are what Python's `re` means by `\\w` and `\\s`, which differs from the Unicode properties of nearly the same name. Three bits are
free. They are int64, not int: numba compiles a kernel anew for each literal int that it is called with.
"""

from __future__ import annotations

import numpy as np

LETTER = np.int64(1)  # \p{L}
NUMBER = np.int64(2)  # \p{N}
WHITESPACE = np.int64(4)  # the White_Space property: \s of most regex engines
RE_WORD = np.int64(8)  # \w of Python's re: L, N and the underscore
RE_SPACE = np.int64(16)  # \s of Python's re: White_Space and the separators 1C-1F
MARK = np.int64(32)  # \p{M}
UPPER = np.int64(64)  # \p{Lu}, \p{Lt}
LOWER = np.int64(128)  # \p{Ll}
OTHER_LETTER = np.int64(256)  # \p{Lm}, \p{Lo}: letters without case
DECIMAL = np.int64(512)  # \p{Nd}
PUNCTUATION = np.int64(1024)  # \p{P}
BERT_ALONE = np.int64(2048)  # a word by itself to BERT: P, ASCII symbols, Chinese characters
UNICODE_WORD = np.int64(4096)  # \w of UTS #18 and most regex engines: Alphabetic, M, Nd, Pc, Join_Control
NO_CLASS = np.int64(0)

CODE_POINTS = 0x110000
