"""Hugging Face tokenizers' tokenizer.json, for byte-level BPE.

What is read and written: the model BPE; the pre-tokenizer ByteLevel, or a Split by one of the patterns of our pre-tokenizers
followed by ByteLevel; no normalizer; the post-processor ByteLevel, which leaves ids alone, or none; the decoder ByteLevel.
Anything else is refused by its name and place, since it would give other ids in silence.

Two things stay different. Special tokens inside a text: Hugging Face takes them for tokens, here they are plain text. And each
program cuts words by its own Unicode version.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import Rule, build_tokenizer, refuse_characters, refuse_options
from tokenmill.formats.json_text import excerpt, parse_object
from tokenmill.models import BpeModel
from tokenmill.reference_words import PATTERNS
from tokenmill.tokenizer import Tokenizer

_VERSION = "1.0"


class _Anything:
    """A field whose value changes no id."""

    def __contains__(self, value: object) -> bool:
        return True


_ANY = _Anything()
_NONE = (None,)
_NO_AFFIX = (None, "")

#: The fields of each component, and the values that are taken.
_TOP: dict[str, Container[Any]] = {
    **dict.fromkeys(("version", "model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"), _ANY),
    "truncation": _NONE,
    "padding": _NONE,
}
_MODEL: dict[str, Container[Any]] = {
    **dict.fromkeys(("type", "vocab", "merges", "unk_token", "ignore_merges"), _ANY),
    "dropout": (None, 0.0),
    "continuing_subword_prefix": _NO_AFFIX,
    "end_of_word_suffix": _NO_AFFIX,
    # Both say what becomes of bytes without a token: a model of all 256 bytes has none.
    "fuse_unk": _ANY,
    "byte_fallback": _ANY,
}
_BYTE_LEVEL: dict[str, Container[Any]] = {
    "type": _ANY,
    "add_prefix_space": (False,),
    "use_regex": (True, False),
    "trim_offsets": _ANY,
}
_BYTE_LEVEL_AFTERWARDS: dict[str, Container[Any]] = dict.fromkeys(_BYTE_LEVEL, _ANY)
_SPLIT: dict[str, Container[Any]] = {
    "type": _ANY,
    "pattern": _ANY,
    "behavior": ("Isolated", "Removed"),
    "invert": (True, False),
}
_ADDED_TOKEN: dict[str, Container[Any]] = {
    **dict.fromkeys(("id", "content", "normalized"), _ANY),
    "special": (True,),
    **dict.fromkeys(("single_word", "lstrip", "rstrip"), (False,)),
}

#: Our pre-tokenizers as patterns of Hugging Face's engine, in which `$` is the end of a line and `\z` that of the text.
_SPLITS = {name: pattern.replace(r"\s+$", r"\s+\z") for name, pattern in PATTERNS.items()}
_NAMES = {pattern: name for name, pattern in _SPLITS.items()}


# --- import -----------------------------------------------------------------------------------------------------------------


def loads(content: bytes) -> Tokenizer:
    """A tokenizer from the bytes of a tokenizer.json; `TokenizerFileError` names the place of what is wrong or not known here."""
    return from_document(parse_object(content))


def from_document(document: dict[str, Any]) -> Tokenizer:
    """As `loads`, from the object that the file holds."""
    _check_fields("", document, _TOP)
    model = _component(document, "model", {"BPE"})
    if model is None:
        raise TokenizerFileError("model: there is none")
    _check_fields("model", model, _MODEL)
    _refuse_normalizer(document.get("normalizer"))
    pretokenizer = _read_pretokenizer(document)
    _check_post_processor(document.get("post_processor"))
    if _component(document, "decoder", {"ByteLevel"}) is None:
        raise TokenizerFileError("decoder: there is none; ByteLevel belongs there")
    vocab = _typed("model.vocab", model.get("vocab"), dict)
    merges = _typed("model.merges", model.get("merges"), list)
    rules = [(place, rule) for place, merge in enumerate(merges) if (rule := _read_rule(place, merge))]
    vocab, specials = _add_tokens(vocab, _typed("added_tokens", document.get("added_tokens", []), list))
    unk = model.get("unk_token")
    return build_tokenizer(
        vocab,
        [rule for _, rule in rules],
        pretokenizer=pretokenizer,
        special_tokens=specials,
        unk_token=unk if isinstance(unk, str) and unk in specials else None,
        ignore_merges=_typed("model.ignore_merges", model.get("ignore_merges", False), bool),
        rule_place=lambda rank: f"model.merges[{rules[rank][0]}]",
    )


def _read_rule(place: int, merge: Any) -> Rule | None:
    """`"a b"` or `["a", "b"]`; among strings, those that begin with `#version` are passed over, as Hugging Face does."""
    if isinstance(merge, str):
        if merge.startswith("#version"):
            return None
        merge = merge.split(" ")
    if isinstance(merge, list) and len(merge) == 2 and all(isinstance(token, str) and token for token in merge):
        return merge[0], merge[1]
    raise TokenizerFileError(f"model.merges[{place}]: {excerpt(merge)} is no pair of tokens")


def _add_tokens(vocab: dict[str, int], added: list[Any]) -> tuple[dict[str, int], list[str]]:
    """The vocabulary with the added tokens, and those, which are the special ones."""
    vocab, specials = dict(vocab), []
    for place, token in enumerate(added):
        where = f"added_tokens[{place}]"
        _check_fields(where, _typed(where, token, dict), _ADDED_TOKEN)
        content, token_id = _typed(f"{where}.content", token.get("content"), str), token.get("id")
        if "special" not in token:
            raise TokenizerFileError(f"{where}.special: it is missing; {content!r} must be a special token")
        if vocab.setdefault(content, token_id) != token_id:
            raise TokenizerFileError(
                f"{where}.id: {excerpt(token_id)}, but {content!r} has the id {vocab[content]} in model.vocab"
            )
        specials.append(content)
    return vocab, specials


def _refuse_normalizer(normalizer: Any) -> None:
    if normalizer is None or (isinstance(normalizer, dict) and normalizer == {"type": "Sequence", "normalizers": []}):
        return
    raise TokenizerFileError(
        f"normalizer: {_type_of('normalizer', normalizer)} is not known here; only files without one are taken"
    )


def _check_post_processor(processor: Any) -> None:
    for place, step in _steps("post_processor", processor, "processors"):
        _refuse_others(place, step, {"ByteLevel"})
        _check_fields(place, step, _BYTE_LEVEL_AFTERWARDS)


def _read_pretokenizer(document: dict[str, Any]) -> str:
    """The name of the pre-tokenizer of ours that cuts the same words."""
    steps = _steps("pre_tokenizer", document.get("pre_tokenizer"), "pretokenizers")
    for place, step in steps:
        _refuse_others(place, step, {"Split", "ByteLevel"})
        _check_fields(place, step, _SPLIT if step["type"] == "Split" else _BYTE_LEVEL)
    kinds = [step["type"] for _, step in steps]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]):
        raise TokenizerFileError(f"pre_tokenizer: {', '.join(kinds) or 'none'}; ByteLevel alone or after one Split is known here")
    place, byte_level = steps[-1]
    if "add_prefix_space" not in byte_level:
        raise TokenizerFileError(f"{place}.add_prefix_space: it is missing; false belongs there")
    cuts = byte_level.get("use_regex", True)
    if kinds == ["ByteLevel"]:
        return "gpt2" if cuts else "none"
    if cuts:
        raise TokenizerFileError(f"{place}.use_regex: true after a Split cuts twice; that is not known here")
    return _read_split(*steps[0])


def _read_split(place: str, split: dict[str, Any]) -> str:
    pattern = _typed(f"{place}.pattern", split.get("pattern"), dict).get("Regex")
    if not isinstance(pattern, str) or pattern not in _NAMES:
        raise TokenizerFileError(f"{place}.pattern: {excerpt(split['pattern'])} is none of those of {', '.join(_NAMES.values())}")
    # The matches of these patterns tile the text: to remove what is between them is to keep all.
    if (split.get("behavior"), split.get("invert")) not in (("Isolated", False), ("Isolated", True), ("Removed", True)):
        raise TokenizerFileError(f"{place}: behavior {split.get('behavior')!r} would drop the words")
    return _NAMES[pattern]


def _steps(place: str, component: Any, key: str) -> list[tuple[str, dict[str, Any]]]:
    """The parts of a Sequence with their places; a component alone is the only part."""
    if component is None:
        return []
    if _type_of(place, component) != "Sequence":
        return [(place, component)]
    _check_fields(place, component, {"type": _ANY, key: _ANY})
    parts = _typed(f"{place}.{key}", component.get(key), list)
    return [(f"{place}.{key}[{number}]", part) for number, part in enumerate(parts)]


def _component(document: dict[str, Any], place: str, known: Container[str]) -> dict[str, Any] | None:
    component = document.get(place)
    if component is None:
        return None
    _refuse_others(place, component, known)
    checked: dict[str, Any] = component
    return checked


def _refuse_others(place: str, component: Any, known: Container[str]) -> None:
    kind = _type_of(place, component)
    if kind not in known:
        raise TokenizerFileError(f"{place}: {kind} is not known here")


def _type_of(place: str, component: Any) -> str:
    return str(_typed(f"{place}.type", _typed(place, component, dict).get("type"), str))


def _typed(place: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TokenizerFileError(f"{place}: {excerpt(value)} found where {kind.__name__} belongs")
    return value


def _check_fields(place: str, component: dict[str, Any], fields: dict[str, Container[Any]]) -> None:
    for field, value in component.items():
        where = f"{place}.{field}" if place else field
        if field not in fields:
            raise TokenizerFileError(f"{where}: this field is not known here")
        if value not in fields[field]:
            raise TokenizerFileError(f"{where}: {excerpt(value)} is not known here")


# --- export -----------------------------------------------------------------------------------------------------------------


def dumps(tokenizer: Tokenizer) -> bytes:
    """The tokenizer.json of a byte-level tokenizer, byte for byte as Hugging Face saves it.

    Raises `UsageError` where Hugging Face would not give the same ids.
    """
    refuse_characters(tokenizer, "Hugging Face's ByteLevel")
    refuse_options(tokenizer, "a file for Hugging Face")
    pretokenizer = _write_pretokenizer(tokenizer.pretokenizer.name)
    document = {
        "version": _VERSION,
        "truncation": None,
        "padding": None,
        "added_tokens": _write_specials(tokenizer.model),
        "normalizer": None,
        "pre_tokenizer": pretokenizer,
        "post_processor": None,
        "decoder": _byte_level(use_regex=True),
        "model": _write_model(tokenizer.model),
    }
    return json.dumps(document, ensure_ascii=False, indent=2).encode("utf-8")


def _write_pretokenizer(name: str) -> dict[str, Any]:
    if name in ("gpt2", "none"):
        return _byte_level(use_regex=name == "gpt2")
    if name not in _SPLITS:
        raise UsageError(f"Hugging Face has no pre-tokenizer that cuts just as {name} does; use --to native")
    split = {"type": "Split", "pattern": {"Regex": _SPLITS[name]}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, _byte_level(use_regex=False)]}


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _write_specials(model: BpeModel) -> list[dict[str, Any]]:
    switches = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": model.vocab[token], "content": token, **switches} for token in model.special_tokens]


def _write_model(model: BpeModel) -> dict[str, Any]:
    """Special tokens stand in the vocabulary too: there alone do they keep their ids."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.unk_token,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": model.ignore_merges,
        "vocab": dict(sorted(model.vocab.items(), key=lambda entry: entry[1])),
        "merges": [list(rule) for rule in model.merge_rules],
    }
