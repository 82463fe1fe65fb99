"""Build the table of the normalizers: `python -m tokenmill.data.build_normalization_table [FILE]` (needs `unicodedata2==16.0.0`).

The table has decompositions, combining classes, compositions, lower case and two groups of categories, all of the Unicode version
of the class table. Hangul syllables are omitted, because they are computed by arithmetic. The file is not compressed, so the same
version always gives the same bytes.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tokenmill.data import NORMALIZATION_FILE, UNICODE_VERSION
from tokenmill.errors import UsageError
from tokenmill.kernels.normalize import CONTROL, NONSPACING
from tokenmill.kernels.scan_classes import CODE_POINTS
from tokenmill.unicode_text import SURROGATES

_HANGUL = range(0xAC00, 0xD7A4)
_KINDS = {"Mn": NONSPACING, "Cc": CONTROL, "Cf": CONTROL, "Co": CONTROL}
#: Pairs of Unicode 16 that `str.lower` does not know before Python 3.14: (first, last, first lower case letter).
_LOWER_SINCE_14 = (
    *((0x1C89, 0x1C89, 0x1C8A), (0xA7CB, 0xA7CB, 0x264), (0xA7CC, 0xA7CC, 0xA7CD), (0xA7DA, 0xA7DA, 0xA7DB)),
    *((0xA7DC, 0xA7DC, 0x19B), (0x10D50, 0x10D65, 0x10D70)),
)


def build_normalization_table(unicode_data: ModuleType) -> bytes:
    """Build the bytes of the table file, an .npz without pickles.

    `combining_*` and `kinds_*`: runs of equal code points, `starts` uint32[r] and values uint8[r]. `canonical_*`, `compatible_*`
    and `lower_*`: `from` uint32[k], the code points that change, and what they become end to end in `to` uint32[n], each up to
    `ends` uint32[k]. `pairs`: uint32[p, 3], first, second, composite. Raises UsageError for another Unicode version.
    """
    if unicode_data.unidata_version != UNICODE_VERSION:
        raise UsageError(
            f"the table is of Unicode {UNICODE_VERSION}, but this module holds {unicode_data.unidata_version}; "
            f"install unicodedata2=={UNICODE_VERSION}"
        )
    normalize = unicode_data.normalize
    canonical = _find_changes(lambda character: normalize("NFD", character))
    compatible = _find_changes(lambda character: normalize("NFKD", character))
    lower = _find_changes(lambda character: _lower(character) if unicode_data.category(character) != "Cn" else character)
    columns: dict[str, Any] = {
        **_name_runs("combining", lambda character: unicode_data.combining(character)),
        **_name_runs("kinds", lambda character: _KINDS.get(unicode_data.category(character), 0)),
        **_name_changes("canonical", canonical),
        **_name_changes("compatible", {place: text for place, text in compatible.items() if canonical.get(place) != text}),
        **_name_changes("lower", lower),
        "pairs": np.array(_list_pairs(unicode_data, canonical), "<u4"),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **columns, version=np.array(UNICODE_VERSION))
    return buffer.getvalue()


def _find_changes(change: Callable[[str], str]) -> dict[int, str]:
    """The code points that `change` changes, except Hangul syllables."""
    points = (point for point in range(CODE_POINTS) if point not in _HANGUL and point not in SURROGATES)
    return {point: text for point in points if (text := change(chr(point))) != chr(point)}


def _lower(character: str) -> str:
    """The lower case of a single character: `Σ` gives `σ`, its form inside words, and `İ` gives `i` and U+0307."""
    for first, last, target in _LOWER_SINCE_14:
        if first <= ord(character) <= last:
            return chr(target + ord(character) - first)
    return character.lower()


def _list_pairs(unicode_data: ModuleType, canonical: Mapping[int, str]) -> list[tuple[int, int, int]]:
    """The pairs that compose: the one-step decompositions that NFC reverses."""
    pairs = []
    for point in canonical:
        parts = [int(part, 16) for part in unicode_data.decomposition(chr(point)).split()]
        if len(parts) == 2 and unicode_data.normalize("NFC", chr(point)) == chr(point):
            pairs.append((parts[0], parts[1], point))
    return sorted(pairs)


def _name_runs(name: str, value_of: Callable[[str], int]) -> dict[str, np.ndarray]:
    table = np.fromiter((value_of(chr(point)) for point in range(CODE_POINTS)), np.uint8, CODE_POINTS)
    starts = np.flatnonzero(np.diff(table, prepend=~table[0])).astype("<u4")
    return {f"{name}_starts": starts, name: table[starts]}


def _name_changes(name: str, changes: Mapping[int, str]) -> dict[str, np.ndarray]:
    texts = list(changes.values())
    return {
        f"{name}_from": np.array(list(changes), "<u4"),
        f"{name}_ends": np.cumsum([len(text) for text in texts]).astype("<u4"),
        f"{name}_to": np.array([ord(character) for text in texts for character in text], "<u4"),
    }


def main(path: Path) -> None:
    """Write the table file to `path`."""
    import unicodedata2

    path.write_bytes(build_normalization_table(unicodedata2))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else NORMALIZATION_FILE)
