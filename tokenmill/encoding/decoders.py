"""Decoders of imported tokenizers: turn tokens into text step by step, as Hugging Face's decoders do.

Each step turns a list of strings into another list. After the last step, the strings are joined to the text:

    byte_fallback   turns runs of tokens such as `<0xE2>` into characters; if a run is not UTF-8, each token becomes U+FFFD
    fuse            joins all strings into one
    strip           removes a character from the start and the end of each string, at most `start` and `end` times
    replace         replaces a text, or the matches of a pattern, with another text in each string
    metaspace       replaces a mark with a space; with `prepend`, removes it from the first string
    wordpiece       removes the prefix, or puts a space before a string without it; `cleanup` removes spaces before punctuation
    bpe_suffix      replaces the suffix with a space; removes it from the last string
    byte_level      turns visible bytes into text; a string with any other character is not changed
    join            joins the strings with a text between them

`Decoder.of([{"name": "bpe_suffix", "suffix": "</w>"}]).decode(["lo", "w</w>", "b</w>"])` is `low b`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.errors import UsageError
from tokenmill.models.alphabets import visible_bytes
from tokenmill.text.patterns import compile_pattern, find_matches
from tokenmill.unicode_text import check_unicode

_BYTE = re.compile(r"<0x(\+?[0-9A-Fa-f]{1,2})>")
#: The replacements of `cleanup`, in order.
_CLEANUP = (
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    *((f" {ending}", ending) for ending in ("'s", "'ve", "'re")),
)
#: The largest number of steps of a decoder, and the factor by which a replacement can lengthen a text at most.
MOST_STEPS, MOST_GROWTH = 20, 1000


@dataclass(frozen=True)
class Decoder:
    """A sequence of steps, each a name with options. Raises `UsageError` for an unknown step or invalid options."""

    steps: tuple[tuple[str, Mapping[str, Any]], ...]

    def __post_init__(self) -> None:
        if len(self.steps) > MOST_STEPS:
            raise UsageError(f"a decoder of {len(self.steps):,} steps; at most {MOST_STEPS} are allowed")
        for name, options in self.steps:
            _check_step(name, options)

    @classmethod
    def of(cls, spec: Sequence[Any] | None) -> Decoder | None:
        """Parse a decoder from a file: a list of objects with `name` and options, or None for no decoder. Raises `UsageError`."""
        if spec is None:
            return None
        for step in spec:
            if not isinstance(step, Mapping) or not isinstance(step.get("name"), str):
                raise UsageError(f"{str(step)[:80]} is no step of a decoder; give an object with a name")
        return cls(tuple((step["name"], {key: value for key, value in step.items() if key != "name"}) for step in spec))

    @property
    def spec(self) -> list[dict[str, Any]]:
        """The form for files, which `of` parses."""
        return [{"name": name, **options} for name, options in self.steps]

    def decode(self, tokens: list[str]) -> str:
        """Decode tokens to text. Raises InvalidTextError if a pattern takes too long."""
        for name, options in self.steps:
            tokens = _STEPS[name][0](tokens, **options)
        return "".join(tokens)


def _check_step(name: str, options: Mapping[str, Any]) -> None:
    if name not in _STEPS:
        raise UsageError(f"decoder step {name!r} is not known; known are {', '.join(_STEPS)}")
    kinds = _STEPS[name][1]
    if options.keys() != kinds.keys():
        raise UsageError(
            f"decoder step {name!r} has the options {', '.join(kinds) or 'none'}, not {', '.join(options) or 'none'}"
        )
    for option, kind in kinds.items():
        if type(options[option]) is not kind:
            raise UsageError(f"{option} of decoder step {name!r}: {str(options[option])[:80]!r} is no {kind.__name__}; give one")
        if kind is str:
            check_unicode(options[option], name=f"{option} of decoder step {name!r}")
    if name == "replace":
        _check_replace(**options)
    if name in ("strip", "metaspace") and len(options.get("character", options.get("mark"))) != 1:
        raise UsageError(f"decoder step {name!r} takes one character; give one")
    if any(options.get(option, 0) < 0 for option in ("start", "end")):
        raise UsageError(f"decoder step {name!r} takes off {options}; give numbers of 0 or more")


def _check_replace(pattern: str, content: str, is_regex: bool) -> None:
    if not pattern:
        raise UsageError("decoder step 'replace': there is nothing to replace; give a text or a pattern")
    if len(content) > MOST_GROWTH:
        raise UsageError(f"decoder step 'replace': content of {len(content):,} characters; at most {MOST_GROWTH:,} are allowed")
    if is_regex:
        compile_pattern(pattern)


def _spell_bytes(tokens: list[str]) -> list[str]:
    return list(_join_bytes(tokens))


def _join_bytes(tokens: list[str]) -> Iterator[str]:
    run = bytearray()
    for token in tokens:
        found = _BYTE.fullmatch(token) if len(token) == 6 else None
        if found:
            run.append(int(found[1], 16))
            continue
        yield from _end_run(run)
        yield token
    yield from _end_run(run)


def _end_run(run: bytearray) -> Iterator[str]:
    if run:
        try:
            yield run.decode("utf-8")
        except UnicodeDecodeError:
            yield from "\ufffd" * len(run)
        run.clear()


def _fuse(tokens: list[str]) -> list[str]:
    return ["".join(tokens)]


def _strip(tokens: list[str], character: str, start: int, end: int) -> list[str]:
    return [_strip_token(token, character, start, end) for token in tokens]


def _strip_token(token: str, character: str, start: int, end: int) -> str:
    first = min(start, len(token) - len(token.lstrip(character)))
    last = len(token) - min(end, len(token) - len(token.rstrip(character)))
    return token[first : max(first, last)]


def _replace(tokens: list[str], pattern: str, content: str, is_regex: bool) -> list[str]:
    if not is_regex:
        return [token.replace(pattern, content) for token in tokens]
    return [_replace_matches(_compile(pattern), token, content) for token in tokens]


def _replace_matches(pattern: Any, token: str, content: str) -> str:
    parts, done = [], 0
    for start, end in find_matches(pattern, token):
        parts += [token[done:start], content]
        done = end
    return "".join([*parts, token[done:]])


@functools.lru_cache(maxsize=16)
def _compile(pattern: str) -> Any:
    return compile_pattern(pattern)


def _show_spaces(tokens: list[str], mark: str, prepend: bool) -> list[str]:
    return [token.replace(mark, "" if prepend and not place else " ") for place, token in enumerate(tokens)]


def _join_wordpieces(tokens: list[str], prefix: str, cleanup: bool) -> list[str]:
    joined = [_join_one(token, prefix) if place else token for place, token in enumerate(tokens)]
    return [functools.reduce(lambda text, change: text.replace(*change), _CLEANUP, one) for one in joined] if cleanup else joined


def _join_one(token: str, prefix: str) -> str:
    return token[len(prefix) :] if token.startswith(prefix) else f" {token}"


def _end_words(tokens: list[str], suffix: str) -> list[str]:
    last = len(tokens) - 1
    return [token.replace(suffix, " " if place < last else "") for place, token in enumerate(tokens)]


def _join_visible(tokens: list[str]) -> list[str]:
    return [b"".join(map(_bytes_of, tokens)).decode("utf-8", "replace")]


def _bytes_of(token: str) -> bytes:
    shown = _byte_of_visible()
    if all(character in shown for character in token):
        return bytes(shown[character] for character in token)
    return token.encode()


@functools.lru_cache(maxsize=1)
def _byte_of_visible() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(visible_bytes())}


def _join(tokens: list[str], content: str) -> list[str]:
    return [content.join(tokens)]


#: The function of each step, and the types of its options.
_STEPS: dict[str, tuple[Callable[..., list[str]], dict[str, type]]] = {
    "byte_fallback": (_spell_bytes, {}),
    "fuse": (_fuse, {}),
    "strip": (_strip, {"character": str, "start": int, "end": int}),
    "replace": (_replace, {"pattern": str, "content": str, "is_regex": bool}),
    "metaspace": (_show_spaces, {"mark": str, "prepend": bool}),
    "wordpiece": (_join_wordpieces, {"prefix": str, "cleanup": bool}),
    "bpe_suffix": (_end_words, {"suffix": str}),
    "byte_level": (_join_visible, {}),
    "join": (_join, {"content": str}),
}
