"""Small corpora that tests make for themselves, the same every time."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path

_LATIN = [
    "re",
    "do",
    "ma",
    "king",
    "ing",
    "er",
    "ers",
    "the",
    "an",
    "is",
    "to",
    "be",
    "or",
    "not",
    "low",
    "new",
    "wid",
    "est",
    "ést",
]
_OTHERS = ["你", "好", "世界", "нет", "да", "ありがとう", "مرحبا", "😀", "'", "-", "12", "345", ".", ",", "?"]
_SYLLABLES = _LATIN + _OTHERS


def make_texts(documents: int, *, seed: int = 1, words: int = 30) -> list[str]:
    """Documents of words that share syllables, in several scripts; every twentieth is empty."""
    source = random.Random(seed)
    return ["" if number % 20 == 19 else _make_text(source, words) for number in range(documents)]


def _make_text(source: random.Random, words: int) -> str:
    spaces = [" "] * 12 + ["  ", "\t", "\u00a0"]
    made = ["".join(source.choices(_SYLLABLES, k=source.randint(1, 3))) for _ in range(source.randint(1, words))]
    return "".join(word + source.choice(spaces) for word in made).rstrip()


def write_jsonl(path: Path, texts: Sequence[str]) -> Path:
    """One object a line, with the keys `id` and `text`."""
    lines = (json.dumps({"id": f"d{row}", "text": text}, ensure_ascii=False) for row, text in enumerate(texts))
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def hash_folder(folder: Path, pattern: str = "**/*") -> dict[str, str]:
    """sha256 of every file below a folder, by its name."""
    files = sorted(path for path in folder.glob(pattern) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
