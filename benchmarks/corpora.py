"""Corpora of any size from what every machine has: the sources of Python's standard library, repeated with variation."""

from __future__ import annotations

import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def read_stdlib() -> list[str]:
    """The sources of the running Python's standard library that are UTF-8."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path for path in root.rglob("*.py") if "site-packages" not in path.parts)
    texts = []
    for path in paths:
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
    return texts


def vary_texts(texts: list[str], seed: int) -> Iterator[str]:
    """The texts in another order, a new word in every fortieth line or so: the vocabulary grows, as in real corpora."""
    source = random.Random(seed)
    for text in source.sample(texts, len(texts)):
        lines = text.split("\n")
        for place in range(source.randrange(40), len(lines), 40):
            lines[place] += " " + "".join(source.choices(_LETTERS, k=source.randint(3, 9)))
        yield "\n".join(lines)


def write_corpus(path: Path, size: int) -> Path:
    """JSON lines of at least `size` bytes, one object a document, with the keys `id` and `text`."""
    texts, written, row, seed = read_stdlib(), 0, 0, 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            for text in vary_texts(texts, seed):
                written += file.write(json.dumps({"id": f"d{row}", "text": text}) + "\n")
                row += 1
                if written >= size:
                    break
            seed += 1
    return path
