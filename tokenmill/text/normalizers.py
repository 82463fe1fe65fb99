"""Normalizers: change a text before it is cut into words. They are stored in the tokenizer file, so encoding repeats them.

    nfc, nfd, nfkc, nfkd   converts to a Unicode normalization form
    lowercase              converts to lower case, character by character as Hugging Face's `Lowercase` does: a capital sigma
                           becomes `σ` even at the end of a word. Keeps accents and marks
    strip_accents          NFD, then removes nonspacing marks (Mn), as BERT does: `é` becomes `e`. This also removes vowel signs
                           of Devanagari and Thai, so no other option implies it
    strip_marks            removes marks of any kind (M) without decomposing first: Hugging Face's `StripAccents`
    bert_clean             BERT's clean_text: removes control, format and private use characters and U+FFFD, and turns whitespace
                           into spaces
    replace                replaces all occurrences of a text with another text
    replace_regex          replaces all non-empty matches of a pattern of the `regex` package with a text; slow
    identity               changes nothing

Several normalizers are applied in order. All except `replace_regex` follow Unicode 16.0, whatever the Unicode version of Python
is. Hugging Face has older tables, so it differs for characters added since.

`Normalizer.of(["nfc", "lowercase"]).normalize("É")` is `é`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.errors import UsageError
from tokenmill.kernels.scan_classes import CODE_POINTS
from tokenmill.names import NORMALIZERS
from tokenmill.text.character_maps import Step as CharacterStep
from tokenmill.text.patterns import compile_pattern
from tokenmill.text.stages import Alignment, ReplaceStage, Stage, build_stages, find_joining
from tokenmill.unicode_text import check_unicode, encode_text

_IDENTITY = "identity"
_REPLACING = ("replace", "replace_regex")
#: The largest factor by which replacing may lengthen a text, so that an untrusted tokenizer file cannot exhaust the memory.
MOST_GROWTH = 1000


@dataclass(frozen=True)
class Replace:
    """`replace` and `replace_regex`: replaces each occurrence of `pattern`, from left to right, with the literal `content`."""

    pattern: str
    content: str
    is_regex: bool = False

    def __post_init__(self) -> None:
        for text in (self.pattern, self.content):
            check_unicode(text, name="replace:")
        if not self.pattern:
            raise UsageError("replace: there is nothing to replace; give a text or a pattern")
        if self.is_regex:
            compile_pattern(self.pattern)

    @property
    def growth(self) -> float:
        """The factor by which a text can become longer, at least 1: `replace:ab=>xyz` makes it up to 1.5 times as long."""
        least = 1 if self.is_regex else len(self.pattern.encode())
        return max(1.0, len(self.content.encode()) / least)

    def measure(self, text: bytes) -> int:
        """The number of bytes that a text (UTF-8) has after replacing."""
        added = len(self.content.encode())
        if not self.is_regex:
            pattern = self.pattern.encode()
            return len(text) + text.count(pattern) * (added - len(pattern))
        matches = compile_pattern(self.pattern).finditer(text.decode("utf-8", "surrogateescape"))
        found = (len(match.group().encode("utf-8", "surrogateescape")) for match in matches)
        return len(text) + sum(added - size for size in found if size)

    @property
    def is_character(self) -> bool:
        """Whether the pattern is a single character."""
        return len(self.pattern) == 1 and not self.is_regex

    @property
    def spec(self) -> dict[str, str]:
        """The form for files."""
        return {"name": _REPLACING[self.is_regex], "pattern": self.pattern, "content": self.content}

    def __str__(self) -> str:
        return f"{_REPLACING[self.is_regex]} {self.pattern!r} by {self.content!r}"


Step = str | Replace


@dataclass(frozen=True)
class Normalizer:
    """A sequence of normalizers, applied in order; an empty one is `identity`. Raises UsageError for an unknown name."""

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        for step in self.steps:
            if isinstance(step, str) and (step not in NORMALIZERS or step == _IDENTITY):
                raise UsageError(f"unknown normalizer {step!r}; known are: {', '.join((*NORMALIZERS, *_REPLACING))}")
        if self.growth > MOST_GROWTH:
            raise UsageError(
                f"replace: texts could get {self.growth:,.0f} times as long; at most {MOST_GROWTH:,} times is allowed"
            )

    @classmethod
    def of(cls, spec: Normalizer | str | Mapping[str, Any] | Sequence[Any] | None) -> Normalizer:
        """Parse a normalizer from a file: a name, `{"name": "replace", "pattern": ..., "content": ...}`, or a list of these.

        Raises UsageError for unknown names and keys, and for values of the wrong type.
        """
        if isinstance(spec, Normalizer):
            return spec
        if spec is None:
            return cls()
        parts = [spec] if isinstance(spec, str | Mapping) else spec
        return cls(tuple(step for part in parts for step in _read_step(part)))

    @property
    def spec(self) -> Any:
        """The form for files, which `of` parses: a name or an object for one step, a list for several."""
        specs = [step if isinstance(step, str) else step.spec for step in self.steps]
        return specs[0] if len(specs) == 1 else (specs or _IDENTITY)

    def __str__(self) -> str:
        """For messages: `nfc, lowercase`."""
        return ", ".join(map(str, self.steps)) or _IDENTITY

    @property
    def is_identity(self) -> bool:
        """Whether no text is changed."""
        return not self.steps

    @property
    def growth(self) -> float:
        """The factor by which replacing can lengthen a text, at least 1."""
        return math.prod(step.growth for step in self.steps if isinstance(step, Replace))

    def measure(self, text: bytes, most: int) -> int:
        """The number of bytes of a text (UTF-8) after normalizing, or at the first step where it has more than `most`.

        The size is computed before each replacement, so no longer text is ever made. If `a` becomes `xyz`, the size of `aab` is
        7.
        """
        for step in self.steps:
            size = step.measure(text) if isinstance(step, Replace) else len(text)
            if size > most:
                return size
            data, _ = Normalizer((step,)).runner().normalize(np.frombuffer(text, np.uint8), np.array([len(text)]))
            text = data.tobytes()
        return len(text)

    def runner(self) -> Runner:
        """Make a runner, which normalizes batches with its own scratch memory. A runner is for one thread."""
        return Runner(self)

    def normalize(self, text: str) -> str:
        """Normalize one text. Raises InvalidTextError for a lone surrogate, which UTF-8 cannot encode.

        `Normalizer.of("strip_accents").normalize("été")` is `ete`.
        """
        data = np.frombuffer(encode_text(text), np.uint8)
        normalized, _ = self.runner().normalize(data, np.array([data.size]))
        return normalized.tobytes().decode("utf-8")


def find_touched(normalizer: Normalizer) -> tuple[np.ndarray, np.ndarray] | None:
    """The characters that a normalizer can affect, as two arrays bool[0x110000].

    The first has the characters that normalizing can change, produce, or join with the character before; the second those that it
    can join with the character after. None means all characters: if the normalizer can remove characters, any two texts can
    become adjacent, and if it replaces longer texts, any character can be affected.
    """
    if any(isinstance(step, Replace) and not step.is_character for step in normalizer.steps):
        return None
    points = np.concatenate([np.arange(0xD800), np.arange(0xE000, CODE_POINTS)])
    characters = [chr(point) for point in points.tolist()]
    data = np.frombuffer("".join(characters).encode(), np.uint8)
    normalized, ends = normalizer.runner().normalize(data, np.cumsum([len(one.encode()) for one in characters]))
    text = normalized.tobytes()
    touched = np.zeros(CODE_POINTS, bool)
    for character, start, end in zip(characters, [0, *ends.tolist()], ends.tolist(), strict=False):
        if start == end:
            return None
        if text[start:end] != character.encode():
            touched[[ord(character), *map(ord, text[start:end].decode())]] = True
    joins, leads = find_joining(normalizer.steps)
    return touched | joins, leads


class Runner:
    """Runs a normalizer on batches. The returned arrays are valid until the next call."""

    def __init__(self, normalizer: Normalizer) -> None:
        self.stages = list(_build(normalizer.steps, fused=True))
        self._steps = normalizer.steps

    @functools.cached_property
    def _aligning_stages(self) -> list[Stage]:
        return list(_build(self._steps, fused=False))

    def normalize(self, text: np.ndarray, doc_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normalize documents, given end to end as uint8[n] with ends int64[d]; returns them as uint8[m] with ends int64[d].

        Returns the same arrays if nothing changes.
        """
        for stage in self.stages:
            text, doc_ends = stage.run(text, doc_ends)
        return text, doc_ends

    def align(self, text: np.ndarray, doc_ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, Alignment]:
        """As `normalize`; also returns the origin of each byte, or None if every byte is at its original place."""
        alignment: Alignment = None
        for stage in self._aligning_stages:
            text, doc_ends, origins = stage.align(text, doc_ends)
            alignment = origins if alignment is None else _chain(alignment, origins)
        return text, doc_ends, alignment


def _chain(first: np.ndarray, second: Alignment) -> np.ndarray:
    """Compose two alignments (int64[m, 2]): the origins of the origins."""
    if second is None:
        return first
    return np.stack([first[second[:, 0], 0], first[second[:, 1] - 1, 1]], axis=1)


def _build(steps: Sequence[Step], *, fused: bool) -> Iterator[Stage]:
    """The stages of the steps; `build_stages` combines adjacent ones."""
    names: list[CharacterStep] = []
    for step in steps:
        if isinstance(step, str) or step.is_character:
            names.append(step if isinstance(step, str) else (step.pattern, step.content))
            continue
        yield from build_stages(tuple(names), fused=fused)
        names = []
        yield ReplaceStage(step.pattern, step.content, is_regex=step.is_regex)
    yield from build_stages(tuple(names), fused=fused)


def _read_step(part: Any) -> list[Step]:
    if isinstance(part, str):
        return [] if part == _IDENTITY else [part]
    if not isinstance(part, Mapping) or part.get("name") not in _REPLACING:
        raise UsageError(f"{str(part)[:80]} is no normalizer; give a name, or name replace with pattern and content")
    for key, value in part.items():
        if key not in ("name", "pattern", "content"):
            raise UsageError(f"a normalizer {part['name']} has no option {key!r}; it has pattern and content")
        if not isinstance(value, str):
            raise UsageError(f"{key} of a normalizer: {value!r} is no str; give a text")
    if missing := {"pattern", "content"} - part.keys():
        raise UsageError(f"a normalizer {part['name']} needs {' and '.join(sorted(missing))}")
    return [Replace(part["pattern"], part["content"], is_regex=part["name"] == "replace_regex")]


def parse_option(text: str) -> Any:
    """Parse the value of `--normalizer` for `Normalizer.of`: a name, `replace:OLD=>NEW` or `replace_regex:PATTERN=>NEW`."""
    name, colon, rest = text.partition(":")
    if not colon or name not in _REPLACING:
        return text
    pattern, arrow, content = rest.rpartition("=>")
    if not arrow:
        raise UsageError(f"--normalizer {text!r}: what is put in its place is missing; write {name}:OLD=>NEW")
    return {"name": name, "pattern": pattern, "content": content}
