"""Checks untrusted Hugging Face tokenizer.json files: components, fields and types. Errors name the place in the file."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tokenmill.errors import TokenizerFileError
from tokenmill.formats.json_text import excerpt


class Anything:
    """The values of a field that affects no id: any value is accepted."""

    def __contains__(self, value: object) -> bool:
        return True


ANYTHING = Anything()
#: The fields of a component, and the accepted values.
Fields = dict[str, Container[Any]]


#: The deepest nesting of sequences.
_MOST_DEPTH = 20


def steps(place: str, component: Any, key: str, *, depth: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """The parts of a Sequence, also of nested ones, with their places. A component that is not a Sequence is its only part."""
    if component is None:
        return []
    if type_of(place, component) != "Sequence":
        return [(place, component)]
    if depth == _MOST_DEPTH:
        raise TokenizerFileError(f"{place}: more than {_MOST_DEPTH} sequences stand inside each other; write them as one")
    check_fields(place, component, {"type": ANYTHING, key: ANYTHING})
    parts = typed(f"{place}.{key}", component.get(key), list)
    found = (steps(f"{place}.{key}[{number}]", part, key, depth=depth + 1) for number, part in enumerate(parts))
    return [step for inner in found for step in inner]


def read_component(document: dict[str, Any], place: str, known: Container[str]) -> dict[str, Any] | None:
    """The component under a top-level key, or None."""
    component = document.get(place)
    if component is None:
        return None
    refuse_others(place, component, known)
    checked: dict[str, Any] = component
    return checked


def refuse_others(place: str, component: Any, known: Container[str]) -> None:
    """Raise `TokenizerFileError` for a component of an unknown type."""
    kind = type_of(place, component)
    if kind not in known:
        raise TokenizerFileError(f"{place}: {kind} is not known here")


def type_of(place: str, component: Any) -> str:
    """The type that a component states."""
    return str(typed(f"{place}.type", typed(place, component, dict).get("type"), str))


def typed(place: str, value: Any, kind: type) -> Any:
    """The value, if it has this type; otherwise raises `TokenizerFileError`."""
    if not isinstance(value, kind):
        raise TokenizerFileError(f"{place}: {excerpt(value)} found where {kind.__name__} belongs")
    return value


def check_fields(place: str, component: dict[str, Any], fields: Fields) -> None:
    """Check that every field is known and has an accepted value. Raises `TokenizerFileError`."""
    for field, value in component.items():
        where = f"{place}.{field}" if place else field
        if field not in fields:
            raise TokenizerFileError(f"{where}: this field is not known here; known are {', '.join(fields)}")
        if not _is_among(value, fields[field]):
            raise TokenizerFileError(f"{where}: {excerpt(value)} is not known here")


def _is_among(value: Any, taken: Container[Any]) -> bool:
    """`value in taken`, but without Python's equality of 1 and True, and of 0 and False."""
    if isinstance(taken, tuple) and isinstance(value, bool | int | float):
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in taken)
    return value in taken
