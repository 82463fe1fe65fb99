"""The pre-tokenizers of a Hugging Face tokenizer.json, and which of ours cut the same words."""

from __future__ import annotations

from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, refuse_others, steps, typed
from tokenmill.formats.json_text import excerpt
from tokenmill.reference_words import PATTERNS

#: The fields of ByteLevel and Split, and the values that are taken.
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

#: Our pre-tokenizers as patterns of Hugging Face's engine, in which `$` is the end of a line and `\z` that of the text.
_SPLITS = {name: pattern.replace(r"\s+$", r"\s+\z") for name, pattern in PATTERNS.items()}
_NAMES = {pattern: name for name, pattern in _SPLITS.items()}


def read_pretokenizer(document: dict[str, Any]) -> str:
    """The name of the pre-tokenizer of ours that cuts the same words."""
    parts = steps("pre_tokenizer", document.get("pre_tokenizer"), "pretokenizers")
    for place, step in parts:
        refuse_others(place, step, {"Split", "ByteLevel"})
        check_fields(place, step, _SPLIT if step["type"] == "Split" else BYTE_LEVEL)
    kinds = [step["type"] for _, step in parts]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]):
        raise TokenizerFileError(f"pre_tokenizer: {', '.join(kinds) or 'none'}; ByteLevel alone or after one Split is known here")
    place, byte_level = parts[-1]
    if "add_prefix_space" not in byte_level:
        raise TokenizerFileError(f"{place}.add_prefix_space: it is missing; false belongs there")
    cuts = byte_level.get("use_regex", True)
    if kinds == ["ByteLevel"]:
        return "gpt2" if cuts else "none"
    if cuts:
        raise TokenizerFileError(f"{place}.use_regex: true after a Split cuts twice; that is not known here")
    return _read_split(*parts[0])


def _read_split(place: str, split: dict[str, Any]) -> str:
    pattern = typed(f"{place}.pattern", split.get("pattern"), dict).get("Regex")
    if not isinstance(pattern, str) or pattern not in _NAMES:
        raise TokenizerFileError(f"{place}.pattern: {excerpt(split['pattern'])} is none of those of {', '.join(_NAMES.values())}")
    # The matches of these patterns tile the text: to remove what is between them is to keep all.
    if (split.get("behavior"), split.get("invert")) not in (("Isolated", False), ("Isolated", True), ("Removed", True)):
        raise TokenizerFileError(f"{place}: behavior {split.get('behavior')!r} would drop the words")
    return _NAMES[pattern]


def write_pretokenizer(name: str) -> dict[str, Any]:
    """The component that cuts as our pre-tokenizer does, with bytes made visible."""
    if name in ("gpt2", "none"):
        return write_byte_level(use_regex=name == "gpt2")
    if name not in _SPLITS:
        raise UsageError(f"Hugging Face has no pre-tokenizer that cuts just as {name} does; use --to native")
    split = {"type": "Split", "pattern": {"Regex": _SPLITS[name]}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, write_byte_level(use_regex=False)]}


def write_byte_level(*, use_regex: bool) -> dict[str, Any]:
    """The component ByteLevel, as pre-tokenizer and as decoder."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
