"""Maps normalizers and post-processors of a Hugging Face tokenizer.json to those of this project that do the same.

Each program has its own Unicode tables, so they differ for characters newer than the older tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill.encoding.templates import FIRST, MOST_TYPE, SECOND, TOKEN, Element, Elements, Template
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, refuse_others, steps, typed
from tokenmill.formats.huggingface_patterns import read_kind, write_pattern
from tokenmill.formats.huggingface_tokens import check_normalized
from tokenmill.formats.json_text import excerpt
from tokenmill.text.normalizers import Normalizer, Replace, Step
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

_FORMS = {"NFC": "nfc", "NFD": "nfd", "NFKC": "nfkc", "NFKD": "nfkd", "Lowercase": "lowercase", "StripAccents": "strip_marks"}
_NAMES = {ours: theirs for theirs, ours in _FORMS.items()}
_FLAGS = (True, False)
_BERT: Fields = {
    "type": ANYTHING,
    "clean_text": _FLAGS,
    "handle_chinese_chars": _FLAGS,
    "strip_accents": (None, *_FLAGS),
    "lowercase": _FLAGS,
}
_BERT_STEPS = {"bert_clean": "clean_text", "strip_accents": "strip_accents", "lowercase": "lowercase"}
_REPLACE: Fields = dict.fromkeys(("type", "pattern", "content"), ANYTHING)
_TEMPLATE: Fields = dict.fromkeys(("type", "single", "pair", "special_tokens"), ANYTHING)
_PROCESSING: Fields = dict.fromkeys(("type", "sep", "cls", "trim_offsets", "add_prefix_space"), ANYTHING)
_BYTE_LEVEL: Fields = dict.fromkeys(("type", "add_prefix_space", "trim_offsets", "use_regex"), ANYTHING)
_PAIRS = {"BertProcessing": "{0} $A {1} $B:1 {1}:1", "RobertaProcessing": "{0} $A {1} {1} $B {1}"}
_SEQUENCES = {"A": FIRST, "B": SECOND}


def read_parts(document: dict[str, Any], tokenizer: Tokenizer) -> Tokenizer:
    """Add the normalizer and the post-processor of a document to a tokenizer."""
    normalizer = read_normalizer(document.get("normalizer"), tokenizer.pretokenizer)
    template = read_template(document.get("post_processor"), tokenizer.model.vocab)
    check_normalized(document, normalizer)
    parts: dict[str, Any] = {"pretokenizer": tokenizer.pretokenizer, "normalizer": normalizer, "template": template}
    try:
        return Tokenizer(tokenizer.model, **parts, decoder=tokenizer.decoder, training=tokenizer.training)
    except UsageError as error:
        raise TokenizerFileError(f"post_processor: {error}") from None


# --- normalizers ------------------------------------------------------------------------------------------------------------


def read_normalizer(component: Any, pretokenizer: PreTokenizer) -> Normalizer:
    """Read the normalizer that does the same as the component. The pre-tokenizer bert takes care of `handle_chinese_chars`."""
    found: list[Step] = []
    spaces_chinese = False
    for place, step in steps("normalizer", component, "normalizers"):
        refuse_others(place, step, {*_FORMS, "BertNormalizer", "Replace"})
        kind = step["type"]
        if kind == "Replace":
            found.append(_read_replace(place, step))
        elif kind == "BertNormalizer":
            found += _read_bert(place, step)
            spaces_chinese |= step.get("handle_chinese_chars", True)
        else:
            check_fields(place, step, {"type": ANYTHING})
            found.append(_FORMS[kind])
    if spaces_chinese != (pretokenizer.name == "bert"):
        raise TokenizerFileError(
            f"normalizer.handle_chinese_chars: {str(spaces_chinese).lower()} is not known before {pretokenizer.name}; "
            "words are cut around Chinese characters by BertNormalizer and BertPreTokenizer together"
        )
    return Normalizer(tuple(found))


def _read_bert(place: str, step: dict[str, Any]) -> list[Step]:
    check_fields(place, step, _BERT)
    lowers = step.get("lowercase", True)
    strips = lowers if step.get("strip_accents") is None else step["strip_accents"]
    given = {"bert_clean": step.get("clean_text", True), "strip_accents": strips, "lowercase": lowers}
    return [name for name, is_on in given.items() if is_on]


def _read_replace(place: str, step: dict[str, Any]) -> Replace:
    check_fields(place, step, _REPLACE)
    content = typed(f"{place}.content", step.get("content"), str)
    kind, text = read_kind(f"{place}.pattern", step.get("pattern"))
    try:
        return Replace(text, content, is_regex=kind == "Regex")
    except UsageError as error:
        raise TokenizerFileError(f"{place}: {error}") from None


def write_normalizer(normalizer: Normalizer, pretokenizer: PreTokenizer) -> dict[str, Any] | None:
    """Write the component that does the same as the normalizer. For bert, it also puts spaces around Chinese characters."""
    parts: list[dict[str, Any]] = []
    for step in normalizer.steps:
        if isinstance(step, Replace):
            pattern = {"Regex": write_pattern(step.pattern)} if step.is_regex else {"String": step.pattern}
            parts.append({"type": "Replace", "pattern": pattern, "content": step.content})
        elif step in _NAMES and not (step == "lowercase" and parts and _joins(parts[-1], step)):
            parts.append({"type": _NAMES[step]})
        elif parts and _joins(parts[-1], step):
            parts[-1][_BERT_STEPS[step]] = True
        else:
            parts.append(_write_bert(step))
    if pretokenizer.name == "bert":
        bert = next((part for part in parts if part["type"] == "BertNormalizer"), None)
        if bert is None:
            parts.append(bert := _write_bert(None))
        bert["handle_chinese_chars"] = True
    return parts[0] if len(parts) == 1 else ({"type": "Sequence", "normalizers": parts} if parts else None)


def _write_bert(step: str | None) -> dict[str, Any]:
    flags = {
        name: name == _BERT_STEPS.get(step or "") for name in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
    }
    return {"type": "BertNormalizer", **flags}


def _joins(part: dict[str, Any], step: str) -> bool:
    """Whether a step can become part of the BertNormalizer before it, which applies its steps in a fixed order."""
    later = list(_BERT_STEPS)[list(_BERT_STEPS).index(step) :]
    return part["type"] == "BertNormalizer" and not any(part[_BERT_STEPS[name]] for name in later)


# --- post-processors --------------------------------------------------------------------------------------------------------


def read_template(component: Any, vocab: Mapping[str, int]) -> Template:
    """Read the template that adds the same tokens as the component. ByteLevel adds none."""
    found = Template()
    for place, step in steps("post_processor", component, "processors"):
        refuse_others(place, step, {"ByteLevel", "TemplateProcessing", *_PAIRS})
        if step["type"] == "ByteLevel":
            check_fields(place, step, _BYTE_LEVEL)
            continue
        if not found.is_empty:
            raise TokenizerFileError(f"{place}: {step['type']} adds to what another post-processor added; that is not known here")
        found = _read_processing(place, step, vocab) if step["type"] in _PAIRS else _read_elements(place, step, vocab)
    return found


def _read_processing(place: str, step: dict[str, Any], vocab: Mapping[str, int]) -> Template:
    check_fields(place, step, _PROCESSING)
    tokens = []
    for name in ("cls", "sep"):
        entry = typed(f"{place}.{name}", step.get(name), list)
        if len(entry) != 2 or not isinstance(entry[0], str):
            raise TokenizerFileError(f"{place}.{name}: {excerpt(entry)} is no token and its id")
        _check_id(f"{place}.{name}", entry[0], entry[1], vocab)
        tokens.append(f"{entry[0]}:0")
    single = f"{tokens[0]} $A {tokens[1]}"
    pair = _PAIRS[step["type"]].format(*(token.removesuffix(":0") for token in tokens))
    return Template.of({"single": single, "pair": pair})


def _read_elements(place: str, step: dict[str, Any], vocab: Mapping[str, int]) -> Template:
    check_fields(place, step, _TEMPLATE)
    for name, entry in typed(f"{place}.special_tokens", step.get("special_tokens", {}), dict).items():
        ids = typed(f"{place}.special_tokens", entry, dict).get("ids")
        if not isinstance(ids, list) or len(ids) != 1:
            raise TokenizerFileError(f"{place}.special_tokens: {name!r} stands for {excerpt(ids)}; one id is known here")
        _check_id(f"{place}.special_tokens", name, ids[0], vocab)
    sides = {key: _read_side(f"{place}.{key}", step.get(key)) for key in ("single", "pair")}
    try:
        return Template(**sides)
    except UsageError as error:
        raise TokenizerFileError(f"{place}: {error}") from None


def _read_side(place: str, value: Any) -> Elements:
    elements = []
    for number, element in enumerate(typed(place, value, list)):
        where = f"{place}[{number}]"
        ((kind, content),) = (
            typed(where, element, dict).items() if isinstance(element, dict) and len(element) == 1 else [("", {})]
        )
        name, type_id = (content.get("id"), content.get("type_id")) if isinstance(content, dict) else (None, None)
        known = kind == "SpecialToken" or (kind == "Sequence" and name in _SEQUENCES)
        if not known or not isinstance(name, str) or not isinstance(type_id, int) or not 0 <= type_id <= MOST_TYPE:
            raise TokenizerFileError(f"{where}: {excerpt(element)} is neither SpecialToken nor Sequence with id and type_id")
        elements.append(
            Element(name, TOKEN, type_id) if kind == "SpecialToken" else Element(f"${name}", _SEQUENCES[name], type_id)
        )
    return tuple(elements)


def _check_id(place: str, token: str, token_id: Any, vocab: Mapping[str, int]) -> None:
    if vocab.get(token) != token_id:
        raise TokenizerFileError(
            f"{place}: {token!r} has the id {excerpt(token_id)} there and {vocab.get(token)} in the vocabulary"
        )


def write_template(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Write a TemplateProcessing if the tokenizer has a template."""
    template, vocab = tokenizer.template, tokenizer.model.vocab
    if template.is_empty:
        return None
    tokens = {token: {"id": token, "ids": [vocab[token]], "tokens": [token]} for token in sorted(template.tokens)}
    sides = {"single": _write_side(template.single), "pair": _write_side(template.pair)}
    return {"type": "TemplateProcessing", **sides, "special_tokens": tokens}


def _write_side(elements: Elements) -> list[dict[str, Any]]:
    names = {FIRST: "A", SECOND: "B"}
    return [
        {"SpecialToken": {"id": element.token, "type_id": element.type_id}}
        if element.sequence == TOKEN
        else {"Sequence": {"id": names[element.sequence], "type_id": element.type_id}}
        for element in elements
    ]
