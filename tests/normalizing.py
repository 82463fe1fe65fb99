"""Normalizers as a few plain lines over `unicodedata2`: the reference that the kernels are held against."""

from __future__ import annotations

import itertools
import re

import numpy as np
import regex
import unicodedata2

from tokenmill.text.normalizers import Normalizer, Replace

#: Characters that `str.lower` of older Pythons does not know.
NEW_PAIRS = {0x1C89: 0x1C8A, 0xA7CB: 0x264, 0xA7CC: 0xA7CD, 0xA7DA: 0xA7DB, 0xA7DC: 0x19B}
NEW_PAIRS |= {0x10D50 + place: 0x10D70 + place for place in range(22)}


def apply_step(step: str | Replace, text: str) -> str:
    if isinstance(step, Replace):
        pattern = regex.compile(step.pattern if step.is_regex else re.escape(step.pattern))
        return pattern.sub(lambda match: step.content * bool(match.group()), text)
    if step == "lowercase":
        return "".join(chr(NEW_PAIRS[ord(one)]) if ord(one) in NEW_PAIRS else one.lower() for one in text)
    if step == "strip_accents":
        return "".join(one for one in unicodedata2.normalize("NFD", text) if unicodedata2.category(one) != "Mn")
    if step == "strip_marks":
        return "".join(one for one in text if unicodedata2.category(one)[0] != "M")
    if step == "bert_clean":
        return "".join(map(clean_character, text))
    return unicodedata2.normalize(step.upper(), text)


def clean_character(character: str) -> str:
    if character in "\t\n\r" or unicodedata2.category(character)[0] == "Z":
        return " "
    return "" if character == "\ufffd" or unicodedata2.category(character) in ("Cc", "Cf", "Co") else character


def normalize_plainly(normalizer: Normalizer, text: str) -> str:
    for step in normalizer.steps:
        text = apply_step(step, text)
    return text


def run_batch(normalizer: Normalizer, texts: list[str], *, align: bool = False) -> tuple[list[str], np.ndarray | None]:
    """The normalized texts of a batch, and the origins of their bytes where asked for."""
    documents = [text.encode() for text in texts]
    ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    runner, origins = normalizer.runner(), None
    if align:
        out, out_ends, origins = runner.align(np.frombuffer(b"".join(documents), np.uint8), ends)
    else:
        out, out_ends = runner.normalize(np.frombuffer(b"".join(documents), np.uint8), ends)
    edges = [0, *out_ends.tolist()]
    return [out[start:end].tobytes().decode() for start, end in itertools.pairwise(edges)], origins
