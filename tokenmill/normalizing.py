"""Normalizers at work on batches of documents: stages that take arrays of bytes and give arrays of bytes.

Each character by itself: `MapStage`. Unicode forms: `FormStage`. Replacing: `ReplaceStage`, through Arrow where nobody asks for
origins and the text is no pattern.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow.compute as pc

from tokenmill.arrow import read_only, text_buffers, wrap_binary
from tokenmill.data import load_class_table, load_normalization_table
from tokenmill.kernels import compose, normalize
from tokenmill.kernels.scan_classes import CODE_POINTS, MARK, WHITESPACE
from tokenmill.patterns import compile_pattern

#: int64[m, 2]: where the source of each byte begins and ends; None: each byte is its own.
Alignment = np.ndarray | None
Batch = tuple[np.ndarray, np.ndarray]
#: Code points that change, and what becomes of each.
Changes = dict[int, tuple[int, ...]]

_NO_ORIGINS = np.empty((0, 2), np.int64)
_PIECE = 256
_HANGUL = slice(0xAC00, 0xD7A4)
#: What Unicode 16 composes by arithmetic: vowels and final consonants of Hangul.
_JAMO = (slice(0x1161, 0x1176), slice(0x11A8, 0x11C3))


class Stage(Protocol):
    """A step of a normalizer with its scratch memory."""

    def run(self, text: np.ndarray, doc_ends: np.ndarray) -> Batch:
        """The batch normalized; the same arrays where nothing changes. Valid until the next call."""

    def align(self, text: np.ndarray, doc_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, Alignment]:
        """As `run`, with the origins of all bytes."""


def build_stages(names: tuple[str, ...]) -> Iterator[Stage]:
    """Stages for names of `NORMALIZERS` in order; maps of single characters that follow each other become one map."""
    waiting: tuple[str, ...] = ()
    for name in names:
        if name in _MAPS:
            waiting += (name,)
            continue
        yield from _map_stages(waiting)
        waiting = ()
        yield FormStage(build_form("nfd" if name == "strip_accents" else name))
        if name == "strip_accents":
            waiting = ("strip_nonspacing",)
    yield from _map_stages(waiting)


def _map_stages(names: tuple[str, ...]) -> Iterator[Stage]:
    if names:
        yield MapStage(build_map(names))


class _KernelStage:
    """Runs a kernel over a batch, giving it more room until it is done."""

    def __init__(self) -> None:
        self._out = np.empty(0, np.uint8)

    def run(self, text: np.ndarray, doc_ends: np.ndarray) -> Batch:
        return (text, doc_ends) if self._leaves(text, doc_ends) else self._rewrite(text, doc_ends, None)[:2]

    def align(self, text: np.ndarray, doc_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, Alignment]:
        if self._leaves(text, doc_ends):
            return text, doc_ends, None
        return self._rewrite(text, doc_ends, np.empty((text.size + text.size // 8 + normalize.BLOCK, 2), np.int64))

    def _leaves(self, text: np.ndarray, doc_ends: np.ndarray) -> bool:
        raise NotImplementedError

    def _call(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, *target: np.ndarray) -> None:
        raise NotImplementedError

    def _grow_scratch(self, rows: int) -> None:
        raise NotImplementedError

    def _rewrite(self, text: np.ndarray, doc_ends: np.ndarray, origins: Alignment) -> tuple[np.ndarray, np.ndarray, Alignment]:
        text, doc_ends = read_only(text), read_only(np.ascontiguousarray(doc_ends, np.int64))
        room = text.size + text.size // 8 + normalize.BLOCK
        if self._out.size < room:
            self._out = np.empty(room, np.uint8)
        out_ends, state = np.empty(doc_ends.size, np.int64), np.zeros(4, np.int64)
        while state[normalize.DOCUMENT] < doc_ends.size:
            self._call(text, doc_ends, state, self._out, out_ends, _NO_ORIGINS if origins is None else origins)
            missing = int(state[normalize.MISSING])
            if missing < 0:
                self._grow_scratch(-missing)
            elif missing:
                self._out = _grow(self._out, missing)
            if origins is not None and origins.shape[0] < self._out.size:
                origins = _grow(origins, self._out.size - origins.shape[0])
        written = int(state[normalize.WRITTEN])
        return read_only(self._out[:written]), read_only(out_ends), None if origins is None else origins[:written]


def _grow(array: np.ndarray, missing: int) -> np.ndarray:
    """A larger array with the same beginning."""
    larger = np.empty((len(array) + len(array) // 2 + missing, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class MapStage(_KernelStage):
    """What becomes of each character by itself."""

    def __init__(self, table: normalize.CharacterMap) -> None:
        super().__init__()
        self._table = table

    def _leaves(self, text: np.ndarray, doc_ends: np.ndarray) -> bool:
        return bool(self._table.keeps_ascii) and not normalize.changes_any(self._table.entries, read_only(text))

    def _call(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, *target: np.ndarray) -> None:
        normalize.map_characters(self._table, text, doc_ends, state, *target)


class FormStage(_KernelStage):
    """One of the Unicode forms."""

    def __init__(self, tables: compose.FormTables) -> None:
        super().__init__()
        self._tables = tables
        self._grow_scratch(_PIECE)

    def _leaves(self, text: np.ndarray, doc_ends: np.ndarray) -> bool:
        ends = read_only(np.ascontiguousarray(doc_ends, np.int64))
        return bool(compose.is_in_form(self._tables.flags, self._tables.combining, read_only(text), ends))

    def _call(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, *target: np.ndarray) -> None:
        compose.apply_form(self._tables, text, doc_ends, state, self._piece, self._spare, *target)

    def _grow_scratch(self, rows: int) -> None:
        self._piece, self._spare = np.empty((rows, 4), np.int64), np.empty((rows, 4), np.int64)


class ReplaceStage:
    """Each occurrence of a text, or each match of a pattern, by another text."""

    def __init__(self, pattern: str, content: str, *, is_regex: bool) -> None:
        self._pattern, self._content = pattern, content
        self._matcher = compile_pattern(pattern) if is_regex else None

    def run(self, text: np.ndarray, doc_ends: np.ndarray) -> Batch:
        if self._matcher is not None:
            return self.align(text, doc_ends)[:2]
        offsets = np.concatenate([np.zeros(1, np.int64), doc_ends])
        texts = wrap_binary(np.ascontiguousarray(text), offsets)
        return text_buffers(pc.replace_substring(texts, self._pattern.encode(), self._content.encode()))

    def align(self, text: np.ndarray, doc_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, Alignment]:
        whole: list[bytes] = []
        parts: list[bytes] = []
        origins, ends, start = [_NO_ORIGINS], [0], 0
        for end in doc_ends.tolist():
            document, done = text[start:end].tobytes(), 0
            characters = _place_characters(text[start:end])
            for first, last in [*self._find(document), (len(document), None)]:
                parts.append(document[done:first])
                origins.append(start + characters[done:first])
                if last is not None:
                    parts.append(self._content.encode())
                    origins.append(np.tile(np.array([start + first, start + last], np.int64), (len(parts[-1]), 1)))
                    done = last
            start = end
            ends.append(ends[-1] + sum(map(len, parts)))
            whole.append(b"".join(parts))
            parts.clear()
        data, places = np.frombuffer(b"".join(whole), np.uint8), np.array(ends[1:], np.int64)
        return read_only(data), read_only(places), np.concatenate(origins)

    def _find(self, document: bytes) -> Iterator[tuple[int, int]]:
        """Where the occurrences begin and end, in bytes."""
        if self._matcher is None:
            yield from (match.span() for match in re.finditer(re.escape(self._pattern.encode()), document))
            return
        text, place, done = document.decode("utf-8", "surrogateescape"), 0, 0
        for match in self._matcher.finditer(text):
            first = place + _count_bytes(text[done : match.start()])
            place, done = first + _count_bytes(match.group()), match.end()
            if place > first:
                yield first, place


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _place_characters(text: np.ndarray) -> np.ndarray:
    """int64[n, 2]: where the character of each byte begins and ends."""
    leads = np.flatnonzero((text & 0xC0) != 0x80)
    edges = np.unique(np.concatenate([np.zeros(1, np.int64), leads, np.array([text.size])]))
    return np.repeat(np.stack([edges[:-1], edges[1:]], axis=1), np.diff(edges), axis=0)


# --- tables -----------------------------------------------------------------------------------------------------------------


def _lowercase() -> Changes:
    return load_normalization_table().lower


def _strip_nonspacing() -> Changes:
    return dict.fromkeys(np.flatnonzero(load_normalization_table().kinds & normalize.NONSPACING).tolist(), ())


def _strip_marks() -> Changes:
    return dict.fromkeys(np.flatnonzero(load_class_table() & MARK).tolist(), ())


def _bert_clean() -> Changes:
    """Tab, line feed and carriage return are no controls to BERT, but whitespace."""
    space = (ord(" "),)
    changes: Changes = dict.fromkeys(np.flatnonzero(load_class_table() & WHITESPACE).tolist(), space)
    changes |= dict.fromkeys(np.flatnonzero(load_normalization_table().kinds & normalize.CONTROL).tolist(), ())
    changes |= {0xFFFD: (), **dict.fromkeys(b"\t\n\r", space)}
    del changes[ord(" ")]
    return changes


_MAPS: dict[str, Callable[[], Changes]] = {
    "lowercase": _lowercase,
    "strip_nonspacing": _strip_nonspacing,
    "strip_marks": _strip_marks,
    "bert_clean": _bert_clean,
}


@functools.lru_cache(maxsize=8)
def build_map(names: tuple[str, ...]) -> normalize.CharacterMap:
    """The table of several maps, applied one after the other."""
    changes = _MAPS[names[0]]()
    for name in names[1:]:
        changes = _follow(changes, _MAPS[name]())
    entries = {entry: number for number, entry in enumerate(dict.fromkeys(changes.values()))}
    texts = ["".join(map(chr, entry)).encode() for entry in entries]
    ascii_map = np.full(256, normalize.LOOK, np.uint8)
    for point in range(0x80):
        target = changes.get(point, (point,))
        ascii_map[point] = target[0] if len(target) == 1 and target[0] < 0x80 else normalize.LOOK
    return normalize.CharacterMap(
        ascii=ascii_map,
        entries=_index_of(changes, entries),
        data=np.frombuffer(b"".join(texts), np.uint8),
        starts=np.cumsum([0, *map(len, texts)], dtype=np.int64),
        keeps_ascii=np.bool_(min(changes, default=0x80) >= 0x80),
        longest=np.int64(max(4, *map(len, texts))),
    )


def _follow(first: Changes, second: Changes) -> Changes:
    """What two maps make of a character, one after the other."""
    both = {point: tuple(new for old in entry for new in second.get(old, (old,))) for point, entry in first.items()}
    return {**second, **both}


def _index_of(changes: Changes, entries: dict[tuple[int, ...], int]) -> np.ndarray:
    index = np.full(CODE_POINTS, -1, np.int32)
    index[list(changes)] = [entries[entry] for entry in changes.values()]
    return index


@functools.lru_cache(maxsize=4)
def build_form(name: str) -> compose.FormTables:
    """The tables of `nfc`, `nfd`, `nfkc` or `nfkd`."""
    table = load_normalization_table()
    decompositions = {**table.canonical, **(table.compatible if "k" in name else {})}
    pairs = table.pairs[np.lexsort((table.pairs[:, 1], table.pairs[:, 0]))].astype(np.int64)
    entries = {entry: number for number, entry in enumerate(dict.fromkeys(decompositions.values()))}
    lengths = [len(entry) for entry in entries]
    return compose.FormTables(
        flags=_flag_characters(decompositions, composes=name.endswith("c")),
        combining=table.combining,
        decompositions=_index_of(decompositions, entries),
        data=np.array([point for entry in entries for point in entry], np.int32),
        starts=np.cumsum([0, *lengths], dtype=np.int64),
        pairs=np.stack([pairs[:, 0] << 32 | pairs[:, 1], pairs[:, 2]], axis=1)[: len(pairs) if name.endswith("c") else 0],
    )


def _flag_characters(decompositions: Changes, *, composes: bool) -> np.ndarray:
    """What `compose.FormTables` calls `flags`."""
    table = load_normalization_table()
    follows = np.zeros(CODE_POINTS, np.bool_)  # can be joined to the character before
    if composes:
        follows[table.pairs[:, 1]] = True
        for jamo in _JAMO:
            follows[jamo] = True
    begins = (table.combining == 0) & ~follows
    changes = follows.copy()
    changes[list(decompositions)] = True
    if composes:
        stays = [point for point in table.pairs[:, 2].tolist() if decompositions[point] == table.canonical[point]]
        changes[stays] = follows[stays]
    else:
        changes[_HANGUL] = True
    starts = begins.copy()
    starts[list(decompositions)] = begins[[entry[0] for entry in decompositions.values()]]
    return starts.astype(np.uint8) * compose.STARTS | changes.astype(np.uint8) * compose.CHANGES
