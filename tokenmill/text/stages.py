"""The stages of a normalizer, which take the bytes of a batch of documents and return the changed bytes.

`MapStage` changes single characters, including those that are replaced. `FormStage` converts to a Unicode form. `ReplaceStage`
replaces longer texts and patterns; it uses Arrow if no origins are needed and the text is not a pattern.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow.compute as pc

from tokenmill.arrow import read_only, text_buffers, wrap_binary
from tokenmill.data import load_normalization_table
from tokenmill.kernels import character_map, compose, forms, normalize
from tokenmill.kernels.scan_classes import CODE_POINTS
from tokenmill.text.character_maps import DECOMPOSING, Changes, Step, build_map, decompose_letters, is_map
from tokenmill.text.patterns import compile_pattern, find_matches

#: int64[m, 2]: where the source of each byte begins and ends. None: each byte is its own source.
Alignment = np.ndarray | None
Batch = tuple[np.ndarray, np.ndarray]

_NO_ORIGINS = np.empty((0, 2), np.int64)
_STRETCH = 256
_HANGUL = slice(0xAC00, 0xD7A4)
#: The vowels and final consonants of Hangul, which Unicode composes by arithmetic with the characters before them.
_JAMO = (slice(0x1161, 0x1176), slice(0x11A8, 0x11C3))
_LEADS_JAMO, _SYLLABLES_WITHOUT_TAIL = slice(0x1100, 0x1113), slice(0xAC00, 0xD7A4, 28)


class Stage(Protocol):
    """A step of a normalizer with its scratch memory."""

    def run(self, text: np.ndarray, doc_ends: np.ndarray) -> Batch:
        """Normalize a batch. Returns the same arrays if nothing changes. The result is valid until the next call."""

    def align(self, text: np.ndarray, doc_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, Alignment]:
        """As `run`; also returns the origins of all bytes."""


def build_stages(names: tuple[Step, ...], *, fused: bool) -> Iterator[Stage]:
    """The stages for names of `NORMALIZERS` and replaced characters, in order.

    Consecutive steps that look at single characters become one stage. With `fused`, a decomposing form can be part of it; such
    stages support only `run`.
    """
    for group in _group_names(names, fused=fused):
        if is_map(group[0]) or (fused and group[0] in DECOMPOSING):
            yield MapStage(group)
        else:
            yield FormStage(build_form(str(group[0])))


def _group_names(names: tuple[Step, ...], *, fused: bool) -> Iterator[tuple[Step, ...]]:
    """Group steps into stages: `nfc`, `lowercase`, `strip_accents` give (nfc), (lowercase, nfd, strip_nonspacing).

    If not `fused`, each form is a group of its own.
    """
    forms = DECOMPOSING if fused else ()
    group: tuple[Step, ...] = ()
    for name in _split_names(names):
        twice = name in DECOMPOSING and not {*group}.isdisjoint(DECOMPOSING)
        if group and (twice or not all(is_map(one) or one in forms for one in (*group, name))):
            yield group
            group = ()
        group += (name,)
    if group:
        yield group


def _split_names(names: tuple[Step, ...]) -> Iterator[Step]:
    """Split `strip_accents` into its two steps."""
    for name in names:
        yield from ("nfd", "strip_nonspacing") if name == "strip_accents" else (name,)


class _KernelStage:
    """Runs a kernel over a batch, and gives it more room until it is done."""

    def __init__(self) -> None:
        self._out = np.empty(0, np.uint8)

    def run(self, text: np.ndarray, doc_ends: np.ndarray) -> Batch:
        return (text, doc_ends) if self._leaves(text, doc_ends) else self._rewrite(text, doc_ends, None)[:2]

    def align(self, text: np.ndarray, doc_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, Alignment]:
        if self._leaves(text, doc_ends):
            return text, doc_ends, None
        return self._rewrite(text, doc_ends, np.empty((_first_room(text), 2), np.int64))

    def _leaves(self, text: np.ndarray, doc_ends: np.ndarray) -> bool:
        raise NotImplementedError

    def _call(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, *target: np.ndarray) -> None:
        raise NotImplementedError

    def _go_on(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, out_ends: np.ndarray) -> None:
        """Handle a request of the kernel other than more room for the text."""
        raise NotImplementedError

    def _rewrite(self, text: np.ndarray, doc_ends: np.ndarray, origins: Alignment) -> tuple[np.ndarray, np.ndarray, Alignment]:
        text, doc_ends = read_only(text), read_only(np.ascontiguousarray(doc_ends, np.int64))
        self._make_room(_first_room(text))
        out_ends, state = np.empty(doc_ends.size, np.int64), _start_at(0, 0, 0)
        while state[normalize.DOCUMENT] < doc_ends.size:
            self._call(text, doc_ends, state, self._out, out_ends, _NO_ORIGINS if origins is None else origins)
            missing = int(state[normalize.MISSING])
            if missing < 0:
                self._go_on(text, doc_ends, state, out_ends)
            elif missing:
                needed = int(state[normalize.WRITTEN]) + missing
                self._make_room(needed)
                origins = origins if origins is None or len(origins) >= needed else _grow(origins, needed)
        written = int(state[normalize.WRITTEN])
        return read_only(self._out[:written]), read_only(out_ends), None if origins is None else origins[:written]

    def _make_room(self, size: int) -> None:
        if self._out.size < size:
            self._out = _grow(self._out, size)


def _first_room(text: np.ndarray) -> int:
    """The initial room, which is enough for most texts."""
    return int(text.size + text.size // 8 + normalize.BLOCK)


def _start_at(document: int, position: int, written: int) -> np.ndarray:
    """Make the `state` of a kernel."""
    state = np.zeros(normalize.STATE_SIZE, np.int64)
    state[normalize.DOCUMENT], state[normalize.POSITION], state[normalize.WRITTEN] = document, position, written
    state[character_map.MARKS_END] = -1
    return state


def _grow(array: np.ndarray, size: int) -> np.ndarray:
    """Copy an array to a larger one."""
    larger = np.empty((max(size, len(array) + len(array) // 2), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class MapStage(_KernelStage):
    """Maps each character on its own; `names` are the steps, as for `build_map`.

    If marks are not in canonical order, the table cannot be used. From there on, the stages of the single steps handle one
    document the first time, then two, four, eight. Rare cases cost almost nothing, and a corpus full of them costs no more than
    these stages.
    """

    def __init__(self, names: tuple[Step, ...]) -> None:
        super().__init__()
        self._names, self._table = names, build_map(names)

    @functools.cached_property
    def _unfused(self) -> list[Stage]:
        return list(build_stages(self._names, fused=False))

    def _leaves(self, text: np.ndarray, doc_ends: np.ndarray) -> bool:
        keeps_ascii = not self._table.shift and not self._table.cleans and not self._table.others.size
        return keeps_ascii and not character_map.changes_any(self._table, read_only(text))

    def _rewrite(self, text: np.ndarray, doc_ends: np.ndarray, origins: Alignment) -> tuple[np.ndarray, np.ndarray, Alignment]:
        self._documents = 1
        return super()._rewrite(text, doc_ends, origins)

    def _call(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, *target: np.ndarray) -> None:
        character_map.map_characters(self._table, text, doc_ends, state, *target)

    def _go_on(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, out_ends: np.ndarray) -> None:
        first, written = (int(state[place]) for place in (character_map.RUN_POSITION, character_map.RUN_WRITTEN))
        document = int(state[normalize.DOCUMENT])
        ends = doc_ends[document : document + self._documents]
        part, part_ends = text[first : ends[-1]], ends - first
        for stage in self._unfused:
            part, part_ends = stage.run(part, part_ends)
        self._make_room(written + part.size)
        self._out[written : written + part.size] = part
        out_ends[document : document + ends.size] = written + part_ends
        state[:] = _start_at(document + ends.size, int(ends[-1]), written + part.size)
        self._documents *= 2


class FormStage(_KernelStage):
    """Converts to one of the Unicode forms."""

    def __init__(self, tables: compose.FormTables) -> None:
        super().__init__()
        self._tables = tables
        self._stretch, self._spare = np.empty((_STRETCH, 4), np.int64), np.empty((_STRETCH, 4), np.int64)

    def _leaves(self, text: np.ndarray, doc_ends: np.ndarray) -> bool:
        ends = read_only(np.ascontiguousarray(doc_ends, np.int64))
        return bool(forms.is_in_form(self._tables.flags, self._tables.combining, read_only(text), ends))

    def _call(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, *target: np.ndarray) -> None:
        forms.apply_form(self._tables, text, doc_ends, state, self._stretch, self._spare, *target)

    def _go_on(self, text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, out_ends: np.ndarray) -> None:
        rows = -int(state[normalize.MISSING])
        self._stretch, self._spare = np.empty((rows, 4), np.int64), np.empty((rows, 4), np.int64)


class ReplaceStage:
    """Replaces each occurrence of a text, or each match of a pattern, with another text."""

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
        """The spans of the occurrences, in bytes."""
        if self._matcher is None:
            yield from (match.span() for match in re.finditer(re.escape(self._pattern.encode()), document))
            return
        text, place, done = document.decode("utf-8", "surrogateescape"), 0, 0
        for start, end in find_matches(self._matcher, text):
            first = place + _count_bytes(text[done:start])
            place, done = first + _count_bytes(text[start:end]), end
            yield first, place


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _place_characters(text: np.ndarray) -> np.ndarray:
    """int64[n, 2]: where the character that each byte belongs to begins and ends."""
    leads = np.flatnonzero((text & 0xC0) != 0x80)
    edges = np.unique(np.concatenate([np.zeros(1, np.int64), leads, np.array([text.size])]))
    return np.repeat(np.stack([edges[:-1], edges[1:]], axis=1), np.diff(edges), axis=0)


# --- tables -----------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def build_form(name: str) -> compose.FormTables:
    """Build the tables of `nfc`, `nfd`, `nfkc` or `nfkd`."""
    table = load_normalization_table()
    decompositions = decompose_letters(name)
    pairs = table.pairs[np.lexsort((table.pairs[:, 1], table.pairs[:, 0]))].astype(np.int64)
    entries = {entry: number for number, entry in enumerate(dict.fromkeys(decompositions.values()))}
    lengths = [len(entry) for entry in entries]
    index = np.full(CODE_POINTS, -1, np.int32)
    index[list(decompositions)] = [entries[entry] for entry in decompositions.values()]
    return compose.FormTables(
        flags=_flag_characters(decompositions, composes=name.endswith("c")),
        combining=table.combining,
        decompositions=index,
        data=np.array([point for entry in entries for point in entry], np.int32),
        starts=np.cumsum([0, *lengths], dtype=np.int64),
        pairs=np.stack([pairs[:, 0] << 32 | pairs[:, 1], pairs[:, 2]], axis=1)[: len(pairs) if name.endswith("c") else 0],
    )


def find_joining(steps: Sequence[object]) -> tuple[np.ndarray, np.ndarray]:
    """The characters that the Unicode forms among the steps can join, as two arrays bool[0x110000].

    The first has the characters that can be reordered or joined with the character before, the second those that can be joined
    with the character after.
    """
    table = load_normalization_table()
    joins, leads = np.zeros(CODE_POINTS, np.bool_), np.zeros(CODE_POINTS, np.bool_)
    if {"nfc", "nfd", "nfkc", "nfkd", "strip_accents"}.isdisjoint(step for step in steps if isinstance(step, str)):
        return joins, leads
    joins |= table.combining > 0
    joins[table.pairs[:, 1]] = leads[table.pairs[:, 0]] = True
    for jamo in (_LEADS_JAMO, *_JAMO, _HANGUL):
        joins[jamo] = True
    return joins, leads


def _flag_characters(decompositions: Changes, *, composes: bool) -> np.ndarray:
    """Build `flags` of `compose.FormTables`."""
    table = load_normalization_table()
    follows, leads, changes = (np.zeros(CODE_POINTS, np.bool_) for _ in range(3))
    changes[list(decompositions)] = True
    if composes:
        follows[table.pairs[:, 1]] = leads[table.pairs[:, 0]] = True
        for jamo in _JAMO:
            follows[jamo] = True
        leads[_LEADS_JAMO] = leads[_SYLLABLES_WITHOUT_TAIL] = True
        stays = [point for point in table.pairs[:, 2].tolist() if decompositions[point] == table.canonical[point]]
        leads[stays], changes[stays] = True, False
    else:
        changes[_HANGUL] = True
    begins = (table.combining == 0) & ~follows
    starts = begins.copy()
    starts[list(decompositions)] = begins[[entry[0] for entry in decompositions.values()]]
    follows |= ~starts & (table.combining == 0)
    bits = {compose.STARTS: starts, compose.CHANGES: changes, compose.FOLLOWS: follows, compose.LEADS: leads}
    flags = np.zeros(CODE_POINTS, np.uint8)
    for bit, found in bits.items():
        flags[found] |= bit
    return flags
