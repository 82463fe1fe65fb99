"""Mutations of files: what a fuzzer does to bytes, and to JSON as what it means."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

#: Values that stand where others belong: other types, borders of numbers, text that is none, trees too deep.
STRANGE_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 0.5, 255, 256, 2**31 - 2, 2**31 - 1, 2**31, 2**63, -(2**63), 10**40, 1e308, float("nan")),
    *(float("inf"), "", "a", "Ġ", "##", "\x00", "\ud800", "é" * 300, "<0x41>", "BPE", "gpt2", "(", "(a+)+$", "[UNK]", "the"),
    *([], {}, [[]], [1], ["a", "b"], {"a": 0}, {"": 0}, {"type": "BPE"}, {"name": "gpt2"}, {"type": "Sequence"}, [["a", "b"]]),
]
_STRANGE_BYTES = [b"", b"\x00", b"\xff", b"\xc3", b"{", b"}", b"[", b'"', b":", b",", b"\n", b" ", b"9" * 5000, b"[" * 3000]
_STRANGE_BYTES += [b"\\ud800", b"NaN", b"-", b"1e999", b"\xef\xbb\xbf", b"==", b"\r", b"#version"]


def mutate_json(source: random.Random, content: bytes) -> bytes:
    """One to four changes to what a JSON file says, and now and then one to how it says it."""
    tree = json.loads(content)
    for _ in range(source.randint(1, 4)):
        tree = _mutate_tree(source, tree)
    text = json.dumps(tree, ensure_ascii=source.random() < 0.5)
    if source.random() < 0.1:
        text = _repeat_entry(source, text)
    data = text.encode("utf-8", "surrogatepass")
    return mutate_bytes(source, data) if source.random() < 0.1 else data


def mutate_bytes(source: random.Random, content: bytes) -> bytes:
    """One to four changes to bytes: some replaced, inserted, left out, doubled, or all behind a place cut off."""
    data = bytearray(content)
    for _ in range(source.randint(1, 4)):
        start = source.randrange(len(data) + 1)
        end = min(len(data), start + source.choice((0, 1, 1, 2, 5, 40)))
        change = source.randrange(5)
        if change == 0:
            data[start:end] = source.choice(_STRANGE_BYTES)
        elif change == 1:
            data[start:end] = bytes(source.randrange(256) for _ in range(end - start))
        elif change == 2:
            del data[start:end]
        elif change == 3:
            data[start:start] = data[start:end]
        elif source.random() < 0.3:
            del data[start:]
    return bytes(data)


def _mutate_tree(source: random.Random, tree: Any) -> Any:
    """One change at a random place; the root itself is replaced seldom."""
    places = _list_places(tree)
    if not places or source.random() < 0.01:
        return copy.deepcopy(source.choice(STRANGE_VALUES))
    parent, key = source.choice(places)
    change: Callable[..., None] = source.choice((_replace, _replace, _delete, _nest, _copy_from, _add, _rename))
    change(source, tree, parent, key)
    return tree


def _list_places(tree: Any, *, most: int = 400) -> list[tuple[Any, Any]]:
    """Containers and keys in them, those near the root first and as likely as all others together."""
    found, waiting = [], [tree]
    while waiting and len(found) < most:
        container = waiting.pop(0)
        keys = list(container) if isinstance(container, dict) else range(len(container)) if isinstance(container, list) else ()
        for key in keys:
            found.append((container, key))
            waiting.append(container[key])
    top = found[:12]
    return found + top * (len(found) // max(1, len(top)))


def _replace(source: random.Random, tree: Any, parent: Any, key: Any) -> None:
    parent[key] = copy.deepcopy(source.choice(STRANGE_VALUES))


def _delete(source: random.Random, tree: Any, parent: Any, key: Any) -> None:
    del parent[key]


def _nest(source: random.Random, tree: Any, parent: Any, key: Any) -> None:
    for _ in range(source.choice((1, 1, 2, 150))):
        parent[key] = [parent[key]] if source.random() < 0.5 else {"type": parent[key]}


def _copy_from(source: random.Random, tree: Any, parent: Any, key: Any) -> None:
    """A value from elsewhere in the file."""
    other, name = source.choice(_list_places(tree))
    value = other[name]
    if len(json.dumps(value)) < 4000:
        parent[key] = copy.deepcopy(value)


def _add(source: random.Random, tree: Any, parent: Any, key: Any) -> None:
    value = copy.deepcopy(source.choice(STRANGE_VALUES))
    if isinstance(parent, dict):
        name = source.choice(STRANGE_VALUES)
        parent[name if isinstance(name, str) else f"{key}x"] = value
    else:
        parent.insert(key, value if source.random() < 0.5 else copy.deepcopy(parent[key]))


def _rename(source: random.Random, tree: Any, parent: Any, key: Any) -> None:
    if isinstance(parent, dict):
        names = [name for name in STRANGE_VALUES if isinstance(name, str)] + [f"{key} ", key.upper(), *parent]
        value = parent.pop(key)
        parent[source.choice(names)] = value


def _repeat_entry(source: random.Random, text: str) -> str:
    """An entry of an object twice: behind a comma, the part up to the next one."""
    commas = [place for place, letter in enumerate(text) if letter == ","]
    if len(commas) < 2:
        return text
    at = source.randrange(len(commas) - 1)
    return text[: commas[at]] + text[commas[at] : commas[at + 1]] * 2 + text[commas[at + 1] :]
