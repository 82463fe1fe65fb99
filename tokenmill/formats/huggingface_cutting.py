"""Maps the pre-tokenizers of a Hugging Face tokenizer.json to pre-tokenizers of this project that cut the same words.

A file has a sequence of steps: a Split may cut out digits; then Split, ByteLevel, Whitespace, BertPreTokenizer or nothing cuts
words. The last step changes characters: ByteLevel makes bytes visible; Metaspace shows spaces as `Ġ`, as character models do
here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, refuse_others, steps, typed
from tokenmill.formats.json_text import excerpt
from tokenmill.models.alphabets import MARKER
from tokenmill.models.bpe import BpeModel
from tokenmill.reference.words import PATTERNS
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

#: The fields of each component, and the accepted values.
BYTE_LEVEL: Fields = {
    "type": ANYTHING,
    "add_prefix_space": (False,),
    "use_regex": (True, False),
    "trim_offsets": ANYTHING,
}
_SPLIT: Fields = {
    "type": ANYTHING,
    "pattern": ANYTHING,
    "behavior": ("Isolated", "Removed"),
    "invert": (True, False),
}
_METASPACE: Fields = {"type": ANYTHING, "replacement": (MARKER,), "prepend_scheme": ("never",), "split": (False,)}
_BARE: Fields = {"type": ANYTHING}
_COMPONENTS = {
    "Split": _SPLIT,
    "ByteLevel": BYTE_LEVEL,
    "Metaspace": _METASPACE,
    "Whitespace": _BARE,
    "BertPreTokenizer": _BARE,
}
#: Hugging Face's pre-tokenizers with a name, and the names here.
_BY_NAME = {"Whitespace": "whitespace-punct", "BertPreTokenizer": "bert"}

#: The pre-tokenizers here as patterns for Hugging Face's engine, where `$` is the end of a line and `\z` the end of the text.
_SPLITS = {name: pattern.replace(r"\s+$", r"\s+\z") for name, pattern in PATTERNS.items()}
_NAMES = {pattern: name for name, pattern in _SPLITS.items()}
#: Decimal digits as single ones, and in groups of three counted from the right. (`Digits` also takes numbers such as `²`.)
_DIGITS = {1: r"\p{Nd}", 3: r"\p{Nd}{1,3}(?=(?:\p{Nd}{3})*(?:\P{Nd}|\z))"}
_DIGIT_GROUPS = {pattern: group for group, pattern in _DIGITS.items()}


class Cutting(NamedTuple):
    """A pre-tokenizer, and the symbols of its words: `bytes`, `marked` characters (a space is `Ġ`) or `plain` characters."""

    pretokenizer: PreTokenizer
    symbols: str


# --- import -----------------------------------------------------------------------------------------------------------------


def read_cutting(document: dict[str, Any]) -> Cutting:
    """Read the steps of the file. Raises `TokenizerFileError` for an unsupported step or sequence of steps."""
    parts = steps("pre_tokenizer", document.get("pre_tokenizer"), "pretokenizers")
    for place, step in parts:
        refuse_others(place, step, _COMPONENTS)
        check_fields(place, step, _COMPONENTS[step["type"]])
        for field in _METASPACE.keys() - step.keys() if step["type"] == "Metaspace" else ():
            raise TokenizerFileError(f"{place}.{field}: it is missing, and what stands for it is not known here")
    left, digits = list(parts), None
    if left and (group := _read_digits(*left[0])):
        digits, left = group, left[1:]
    kinds = [step["type"] for _, step in left]
    if kinds[-1:] == ["ByteLevel"] and kinds[:-1] in ([], ["Split"]):
        name, symbols = _read_byte_level(left), "bytes"
    elif kinds in ([], ["Metaspace"]):
        name, symbols = "none", "marked" if kinds else "plain"
    elif kinds in (["Split"], ["Split", "Metaspace"]):
        name, symbols = _read_split(*left[0]), "marked" if kinds[1:] else "plain"
    elif len(kinds) == 1 and kinds[0] in _BY_NAME:
        name, symbols = _BY_NAME[kinds[0]], "plain"
    else:
        raise TokenizerFileError(
            f"pre_tokenizer: {', '.join(step['type'] for _, step in parts)} one after another are not known here"
        )
    return Cutting(PreTokenizer(name, digits), symbols)


def _read_digits(place: str, step: dict[str, Any]) -> int | None:
    """The size of the groups that a Split cuts digits into, or None if it does something else."""
    pattern = step.get("pattern") if step["type"] == "Split" else None
    found = pattern.get("Regex") if isinstance(pattern, dict) else None
    group = _DIGIT_GROUPS.get(found) if isinstance(found, str) else None
    if group is not None and (step.get("behavior"), step.get("invert")) != ("Isolated", False):
        raise TokenizerFileError(f"{place}: behavior {step.get('behavior')!r} would drop or join digits; Isolated is known here")
    return group


def _read_byte_level(parts: list[tuple[str, dict[str, Any]]]) -> str:
    """The name of the pre-tokenizer that ByteLevel stands for, alone or after a Split."""
    place, byte_level = parts[-1]
    if "add_prefix_space" not in byte_level:
        raise TokenizerFileError(f"{place}.add_prefix_space: it is missing; false belongs there")
    cuts = byte_level.get("use_regex", True)
    if len(parts) == 1:
        return "gpt2" if cuts else "none"
    if cuts:
        raise TokenizerFileError(f"{place}.use_regex: true after a Split cuts twice; that is not known here")
    return _read_split(*parts[0])


def _read_split(place: str, split: dict[str, Any]) -> str:
    pattern = typed(f"{place}.pattern", split.get("pattern"), dict).get("Regex")
    if not isinstance(pattern, str) or pattern not in _NAMES:
        raise TokenizerFileError(f"{place}.pattern: {excerpt(split['pattern'])} is none of those of {', '.join(_NAMES.values())}")
    # The matches of these patterns cover the whole text, so removing the text between them removes nothing.
    if (split.get("behavior"), split.get("invert")) not in (("Isolated", False), ("Isolated", True), ("Removed", True)):
        raise TokenizerFileError(f"{place}: behavior {split.get('behavior')!r} would drop the words")
    return _NAMES[pattern]


# --- export -----------------------------------------------------------------------------------------------------------------


def write_pretokenizer(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Write the component that cuts words as the pre-tokenizer does, and shows bytes or spaces as the model does.

    Raises `UsageError` with the reason if there is none.
    """
    cutter = tokenizer.pretokenizer
    digits = [] if cutter.split_digits is None else [_split(_DIGITS[cutter.split_digits])]
    parts = digits + _write_words(cutter, of_bytes=tokenizer.model.takes_any_bytes) + _write_symbols(tokenizer)
    if len(parts) > 1:
        return {"type": "Sequence", "pretokenizers": parts}
    return parts[0] if parts else None


def shows_spaces(tokenizer: Tokenizer) -> bool:
    """Whether a space is `Ġ` in the file. With byte fallback it stays a space, so a `Ġ` in the text is a different character."""
    return tokenizer.pretokenizer.marks_spaces and not (
        isinstance(tokenizer.model, BpeModel) and tokenizer.model.alphabet.byte_fallback
    )


def write_byte_level(*, use_regex: bool) -> dict[str, Any]:
    """Write the component ByteLevel, the same as pre-tokenizer and as decoder."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _write_words(cutter: PreTokenizer, *, of_bytes: bool) -> list[dict[str, Any]]:
    """Write the steps that cut words. There are none for gpt2, which ByteLevel does itself."""
    if cutter.name in _BY_NAME.values() and not of_bytes:
        return [{"type": next(kind for kind, name in _BY_NAME.items() if name == cutter.name)}]
    if cutter.name == "none" or (cutter.name == "gpt2" and of_bytes):
        return []
    if cutter.name == "regex":
        raise UsageError("Hugging Face's engine of patterns differs from the regex package; use --to native")
    if cutter.name not in _SPLITS:
        raise UsageError(f"Hugging Face has no pre-tokenizer that cuts just as {cutter.name} does; use --to native")
    return [_split(_SPLITS[cutter.name])]


def _write_symbols(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    if tokenizer.model.takes_any_bytes:
        return [write_byte_level(use_regex=tokenizer.pretokenizer.name == "gpt2")]
    return [write_metaspace()] if shows_spaces(tokenizer) else []


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def write_metaspace() -> dict[str, Any]:
    """Write a component Metaspace that only shows a space as `Ġ`, the same as pre-tokenizer and as decoder."""
    return {"type": "Metaspace", "replacement": MARKER, "prepend_scheme": "never", "split": False}
