"""Tables of normalizers that look at single characters. Several normalizers in a row become one map.

One of them can be a decomposing form (NFD, NFKD): except for the order of marks, it looks at single characters too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from tokenmill.data import load_class_table, load_normalization_table
from tokenmill.kernels import character_map, normalize
from tokenmill.kernels.scan_classes import CODE_POINTS, MARK, WHITESPACE

#: The code points that change, and what each becomes.
Changes = dict[int, tuple[int, ...]]
#: The bytes of a character, and the combining classes of its first and last code point.
Entry = tuple[bytes, int, int]

#: A step of a map: a name, or a character and its replacement.
Step = str | tuple[str, str]

#: The names that `build_map` takes, with at most one of `DECOMPOSING`.
MAPS = ("lowercase", "strip_nonspacing", "strip_marks", "bert_clean")
DECOMPOSING = ("nfd", "nfkd")
_FEW_BYTES = 5


def _lowercase() -> Changes:
    return load_normalization_table().lower


def _strip_nonspacing() -> Changes:
    return dict.fromkeys(np.flatnonzero(load_normalization_table().kinds & normalize.NONSPACING).tolist(), ())


def _strip_marks() -> Changes:
    return dict.fromkeys(np.flatnonzero(load_class_table() & MARK).tolist(), ())


def _bert_clean() -> Changes:
    """BERT treats tab, line feed and carriage return as whitespace, not as control characters."""
    space = (ord(" "),)
    changes: Changes = dict.fromkeys(np.flatnonzero(load_class_table() & WHITESPACE).tolist(), space)
    changes |= dict.fromkeys(np.flatnonzero(load_normalization_table().kinds & normalize.CONTROL).tolist(), ())
    changes |= {0xFFFD: (), **dict.fromkeys(b"\t\n\r", space)}
    del changes[ord(" ")]
    return changes


def decompose_letters(name: str) -> Changes:
    """The decompositions of all characters except Hangul syllables, for `nfc` and `nfd`, or for `nfkc` and `nfkd`."""
    table = load_normalization_table()
    return {**table.canonical, **(table.compatible if "k" in name else {})}


def _decompose_syllables() -> Iterator[tuple[int, tuple[int, ...]]]:
    """Decompose Hangul syllables by arithmetic: a lead, a vowel and, except for every 28th syllable, a tail."""
    for number in range(19 * 21 * 28):
        lead, vowel, tail = 0x1100 + number // (21 * 28), 0x1161 + number // 28 % 21, 0x11A7 + number % 28
        yield 0xAC00 + number, (lead, vowel, tail)[: 2 + (number % 28 > 0)]


def _decompose(name: str) -> Changes:
    return {**decompose_letters(name), **dict(_decompose_syllables())}


_CHANGES: dict[str, Callable[[], Changes]] = {
    "lowercase": _lowercase,
    "strip_nonspacing": _strip_nonspacing,
    "strip_marks": _strip_marks,
    "bert_clean": _bert_clean,
    "nfd": functools.partial(_decompose, "nfd"),
    "nfkd": functools.partial(_decompose, "nfkd"),
}


def is_map(step: Step) -> bool:
    """Whether a step looks only at single characters."""
    return not isinstance(step, str) or step in MAPS


@functools.lru_cache(maxsize=8)
def build_map(names: tuple[Step, ...]) -> character_map.CharacterMap:
    """Build the table of `names`, applied in order: any of MAPS, replaced characters, and at most one of DECOMPOSING."""
    middle = next((place for place, name in enumerate(names) if name in DECOMPOSING), len(names))
    changes, after = _chain(names[: middle + 1]), _chain(names[middle + 1 :])
    classes = _list_classes() if middle < len(names) else {}
    for point in {*after, *classes} - changes.keys():
        changes[point] = (point,)
    entry_of = {points: _enter(points, after, classes) for points in set(changes.values())}
    rules = (0x20 if "lowercase" in names else 0, "bert_clean" in names)
    return _fill_tables({point: entry_of[points] for point, points in changes.items()}, *rules)


def _list_classes() -> dict[int, int]:
    """The combining classes of marks."""
    combining = load_normalization_table().combining
    points = np.flatnonzero(combining)
    return dict(zip(points.tolist(), combining[points].tolist(), strict=True))


def _chain(names: tuple[Step, ...]) -> Changes:
    """Combine several maps, applied in order, into one."""
    changes: Changes = {}
    for name in names:
        second = _CHANGES[name]() if isinstance(name, str) else {ord(name[0]): tuple(map(ord, name[1]))}
        become = {points: tuple(new for old in points for new in second.get(old, (old,))) for points in set(changes.values())}
        changes = {**second, **{point: become[points] for point, points in changes.items()}}
    return changes


def _enter(points: tuple[int, ...], after: Changes, classes: Mapping[int, int]) -> Entry:
    """Apply `after` to a decomposed character: with strip_nonspacing, `e` and U+0301 give (b"e", 0, 0)."""
    ordered = list(points)
    for place, point in enumerate(points):
        while place > 0 and classes.get(point, 0) and classes.get(ordered[place - 1], 0) > classes[point]:
            ordered[place - 1 : place + 1] = ordered[place - 1 : place + 1][::-1]
            place -= 1
    kept = [point for point in ordered if after.get(point, True)]
    ends = (classes.get(kept[0], 0), classes.get(kept[-1], 0)) if kept else (0, 0)
    return (_spell(new for point in kept for new in after.get(point, (point,))), *ends)


def _spell(points: Iterable[int]) -> bytes:
    return "".join(map(chr, points)).encode("utf-8", "surrogatepass")


def _fill_tables(entry_of: dict[int, Entry], shift: int, cleans: bool) -> character_map.CharacterMap:
    entries = {entry: number for number, entry in enumerate(sorted(set(entry_of.values())))}
    index = np.full(CODE_POINTS, -1, np.int32)
    index[np.fromiter(entry_of, np.int64)] = np.fromiter(map(entries.__getitem__, entry_of.values()), np.int32)
    lengths = [len(entry[0]) for entry in entries]
    return character_map.CharacterMap(
        entries=index,
        data=np.frombuffer(b"".join(entry[0] for entry in entries) + bytes(character_map.ENTRY_BYTES), np.uint8),
        starts=np.cumsum([0, *lengths], dtype=np.int64),
        classes=np.array([entry[1:] for entry in entries], np.uint8),
        quick=_fill_quick(index[:0x10000], list(entries)),
        shift=np.int64(shift),
        cleans=np.bool_(cleans),
        others=np.array([point for point in range(0x80) if not _is_ruled(point, entry_of, shift, cleans)], np.int64),
        longest=np.int64(max(4, *lengths)),
    )


def _is_ruled(point: int, entry_of: dict[int, Entry], shift: int, cleans: bool) -> bool:
    """Whether `map_block` treats an ASCII character as its entry says, or stops at it anyway."""
    data = entry_of[point][0] if point in entry_of else bytes([point])
    if cleans and (point < 0x20 or point == 0x7F):
        return point not in b"\t\n\r" or data == b" "
    return data == (bytes([point + shift]) if 0x41 <= point <= 0x5A else bytes([point]))


def _fill_quick(index: np.ndarray, entries: list[Entry]) -> np.ndarray:
    """Build `quick` of `CharacterMap` from the entries of the code points."""
    points = np.arange(index.size, dtype=np.int64)
    last = 0x80 | points & 0x3F
    two = 0xC0 | points >> 6 | last << 8 | 2 << character_map.LENGTH_BIT
    three = 0xE0 | points >> 12 | (0x80 | points >> 6 & 0x3F) << 8 | last << 16 | 3 << character_map.LENGTH_BIT
    quick = np.where(points < 0x800, two, three)
    quick[:0x80] = quick[0xD800:0xE000] = character_map.CAREFUL
    changed = np.flatnonzero(index >= 0)
    quick[changed] = np.array([_pack(number, *entry) for number, entry in enumerate(entries)], np.int64)[index[changed]]
    return quick


def _pack(number: int, data: bytes, first: int, last: int) -> int:
    """An item of `quick`, with at most five bytes of data. Thus all Hangul syllables take the same, predictable branch."""
    if len(data) <= _FEW_BYTES and not first and not last:
        return int.from_bytes(data, "little") | len(data) << character_map.LENGTH_BIT
    return -1 - number if len(data) <= character_map.ENTRY_BYTES else int(character_map.CAREFUL)
