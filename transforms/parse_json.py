"""One line of JSONL: the text and the id in it, or the reason why there is none. It has the last word on every line.

What is in order never comes here: `tokenmill.kernels.json_lines` reads it, a hundred times as fast, and gives the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tokenmill.transforms.column_paths import SEPARATOR, split_path
from tokenmill.transforms.splits import ReadOptions
from tokenmill.unicode_text import SURROGATE


class RejectedLineError(Exception):
    """A line that is not a document; the message is the reason that goes into the rejects."""


class NoColumnError(RejectedLineError):
    """A line that lacks a column."""


class DamagedTextError(RejectedLineError):
    """A line whose text holds what is not Unicode: the policy for invalid text says whether it may be rejected."""


@dataclass(frozen=True)
class Parsed:
    """What a line gives: `id` and `pair` (the second text) are None unless their columns are asked for; `replaced`: U+FFFD
    stands in for invalid text.
    """

    text: str
    id: str | None
    replaced: bool = False
    pair: str | None = None


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its keys, also those that stand twice."""


class _Number(str):
    """A JSON number as it was written."""


class LineParser:
    """Parses lines for one set of options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._columns = [column for column in (*options.text_columns, options.id_column) if column is not None]

    def parse(self, line: bytes) -> Parsed:
        """One line, not blank. Raises `RejectedLineError` with the reason, `DamagedTextError` for invalid text left as it is."""
        pairs = _load_object(_decode(line, self._options.invalid_utf8))
        values = {column: _find_value(pairs, column) for column in self._columns}
        for column in self._options.text_columns:
            values[column] = _join_strings(values[column], column)
        record_id = None if self._options.id_column is None else _id_of_value(values[self._options.id_column])
        texts, replaced = [], False
        for column, name in zip(self._options.text_columns, ("text", "second text"), strict=False):
            text, changed = self._repair(values[column], line, name)
            texts.append(text)
            replaced |= changed
        if self._options.invalid_utf8 != "replace":
            _check_utf8(line)
        return Parsed(texts[0], record_id, replaced, *texts[1:])

    def _repair(self, text: str, line: bytes, name: str) -> tuple[str, bool]:
        """A text without surrogates, and whether U+FFFD stands in for something now."""
        if not (found := SURROGATE.search(text)):
            return text, "\ufffd" in text and not _is_utf8(line)
        if self._options.invalid_utf8 != "replace":
            raise DamagedTextError(_describe_damage(found, line, name))
        return SURROGATE.sub("\ufffd", text), True


def _decode(line: bytes, policy: str) -> str:
    """Text of a line that may not be UTF-8. Damage is only marked here, so that the reason can say which text it is in."""
    return line.decode("utf-8", "replace" if policy == "replace" else "surrogateescape")


def _check_utf8(line: bytes) -> None:
    """Damage outside the wanted texts: a line that is not UTF-8 is not JSON."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedTextError(f"invalid UTF-8: byte {error.start} of the line is 0x{line[error.start]:02x}") from None


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _load_object(content: str) -> _Pairs:
    value = load_json(content)
    if not isinstance(value, _Pairs):
        raise RejectedLineError(f"not a JSON object but {_describe(value)}")
    return value


def load_json(content: str) -> Any:
    """A JSON value with objects as lists of pairs and numbers as written. NaN and Infinity, which Python writes, are let through.

    Raises `RejectedLineError` for anything else that is not JSON.
    """
    try:
        return json.loads(content, object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except json.JSONDecodeError as error:
        raise RejectedLineError(f"malformed JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise RejectedLineError("JSON nested too deeply") from error


def column_names(value: Any) -> list[str] | None:
    """The keys of a value from `load_json`, None if it is no object."""
    return [name for name, _ in value] if isinstance(value, _Pairs) else None


def is_array_of_objects(value: Any) -> bool:
    """Whether a value from `load_json` looks like a whole corpus in one JSON array."""
    return type(value) is list and bool(value) and all(isinstance(element, _Pairs) for element in value)


class _Elements(list[Any]):
    """What a path through lists leads to."""


def has_column(value: Any, column: str) -> bool:
    """Whether a value from `load_json` is an object with this column, which may be a path (`transforms/column_paths.py`)."""
    try:
        _find_value(value, column)
    except NoColumnError:
        return False
    except RejectedLineError:
        return True
    return True


def _find_value(pairs: _Pairs, column: str, *, path: str | None = None) -> Any:
    """The value of a column. `path` is the part of its name that leads on from here."""
    for key, depth, rest in split_path(column if path is None else path):
        values = [value for name, value in pairs if name == key]
        if len(values) > 1:
            raise RejectedLineError(f"column {column!r} stands {len(values)} times")
        if values:
            return _go_down(values[0], column, depth=depth, rest=rest)
    raise NoColumnError(f"no column {column!r}")


def _go_down(value: Any, column: str, *, depth: int, rest: str) -> Any:
    if depth:
        if type(value) is not list:
            raise RejectedLineError(f"column {column!r} leads to {_describe(value)}, not to a list")
        found = (_go_down(element, column, depth=depth - 1, rest=rest) for element in value)
        return _Elements(leaf for one in found for leaf in (one if isinstance(one, _Elements) else [one]))
    if rest:
        if not isinstance(value, _Pairs):
            raise RejectedLineError(f"column {column!r} leads to {_describe(value)}, not to an object")
        return _find_value(value, column, path=rest)
    return value


def _join_strings(value: Any, column: str) -> str:
    """A text, or the texts of a list joined. Raises `RejectedLineError` for anything else."""
    if type(value) is str:
        return value
    if not isinstance(value, _Elements):
        raise RejectedLineError(f"column {column!r} holds {_describe(value)}, not a string")
    for place, element in enumerate(value):
        if type(element) is not str:
            raise RejectedLineError(f"element {place} of column {column!r} holds {_describe(element)}, not a string")
    return SEPARATOR.join(value)


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a number" if isinstance(value, _Number) else "a string"
    return "an object" if isinstance(value, _Pairs) else "a list"


def _describe_damage(found: re.Match[str], line: bytes, name: str) -> str:
    code = ord(found.group())
    if 0xDC80 <= code <= 0xDCFF and not _is_utf8(line):
        return f"invalid UTF-8: character {found.start()} of the {name} is the byte 0x{code - 0xDC00:02x}"
    return f"invalid UTF-8: character {found.start()} of the {name} is the lone surrogate U+{code:04X}"


def _id_of_value(value: Any) -> str:
    if value is None or isinstance(value, list):
        raise RejectedLineError(f"the id is {_describe(value)}")
    if isinstance(value, bool):
        return "true" if value else "false"
    if SURROGATE.search(value):
        raise RejectedLineError("the id is not valid Unicode")
    return str(value)
