"""The native tokenizer.json.

The file is one JSON object. It always has the keys `merge_rules` and `vocab`, in a form that programs can use which read only
these two. A file with only these two keys is a `char-bpe` model with the pre-tokenizer `wordpunct`. The file contains no
timestamps and no paths: equal tokenizers have equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tokenmill import schemas
from tokenmill.encoding.decoders import Decoder
from tokenmill.encoding.templates import Template
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import refuse_added, refuse_parts
from tokenmill.formats.json_text import excerpt, parse_object, strings_to_json, to_json
from tokenmill.models.base import CommonFields, Model
from tokenmill.models.kinds import kind_of, list_file_keys
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

#: The keys that a file can have for any kind of model, and the types of their values.
_KEYS = {
    "format": str,
    "version": int,
    "model": str,
    "normalizer": (str, dict, list),
    "postprocessor": dict,
    "pretokenizer": (str, dict),
    "special_tokens": list,
    "added_tokens": list,
    "token_flags": dict,
    "decoder": list,
    "unk": (str, type(None)),
    "unicode": str,
    "training": dict,
    "merge_rules": list,
    "vocab": dict,
}


#: The kind of model if a file does not state it.
DEFAULT_MODEL = "char-bpe"


def dumps(tokenizer: Tokenizer) -> bytes:
    """Write a tokenizer file: UTF-8, with one merge rule or vocabulary entry per line, so that a diff is readable."""
    model = tokenizer.model
    head = {
        "format": schemas.TOKENIZER_FORMAT,
        "version": schemas.TOKENIZER_VERSION,
        "model": model.name,
        "normalizer": tokenizer.normalizer.spec,
        "pretokenizer": tokenizer.pretokenizer.spec,
        "special_tokens": list(model.special_tokens),
        **({"added_tokens": list(model.added_tokens)} if model.added_tokens else {}),
        **({"token_flags": {token: list(flags) for token, flags in model.token_flags.items()}} if model.token_flags else {}),
        "unk": model.unk_token,
        "unicode": tokenizer.pretokenizer.unicode_version,
        "training": tokenizer.training,
        **({} if tokenizer.template.spec is None else {"postprocessor": tokenizer.template.spec}),
        **({} if tokenizer.decoder is None else {"decoder": tokenizer.decoder.spec}),
        **model.describe_fields(),
    }
    return _write(head, model)


def dumps_two_keys(tokenizer: Tokenizer) -> bytes:
    """Write a file with only `merge_rules` and `vocab`, for readers that reject other keys.

    Raises `UsageError` for a tokenizer that these keys cannot describe: a model or pre-tokenizer other than `char-bpe` with
    `wordpunct`, or one with special tokens.
    """
    model, pretokenizer = tokenizer.model, tokenizer.pretokenizer
    if (model.name, pretokenizer.spec) != ("char-bpe", "wordpunct"):
        raise UsageError(
            "a file of two keys stands for char-bpe behind wordpunct, "
            f"this is {model.name} behind {pretokenizer}; use --to native"
        )
    refuse_parts(tokenizer, "a file of two keys")
    if told := model.describe_fields():
        raise UsageError(f"a file of two keys cannot say {next(iter(told))}; use --to native")
    refuse_added(tokenizer, "a file of two keys")
    if model.special_tokens:
        raise UsageError(f"a file of two keys cannot say that {model.special_tokens[0]!r} is a special token; use --to native")
    return _write({}, model)


def _write(head: dict[str, Any], model: Model) -> bytes:
    lines = [f"  {to_json(key)}: {to_json(value)}," for key, value in head.items()]
    tokens = iter(strings_to_json([token for rule in model.merge_rules for token in rule]))
    rules = _block("[", [f"[{left}, {right}]" for left, right in zip(tokens, tokens, strict=True)], "]")
    ordered = sorted(model.listed_vocab.items(), key=lambda item: item[1])
    names = strings_to_json([token for token, _ in ordered])
    vocab = _block("{", [f"{name}: {token_id}" for name, (_, token_id) in zip(names, ordered, strict=True)], "}")
    return "\n".join(["{", *lines, f'  "merge_rules": {rules},', f'  "vocab": {vocab}', "}", ""]).encode("utf-8")


def loads(content: bytes) -> Tokenizer:
    """Read a tokenizer from the bytes of its file. Raises `TokenizerFileError`, which names the key and the wrong entry."""
    return from_document(parse_object(content))


def from_document(document: dict[str, Any]) -> Tokenizer:
    """As `loads`, but from the parsed JSON object."""
    _check_keys(document)
    pretokenizer = _named(PreTokenizer.of, document, "pretokenizer", "wordpunct")
    _check_unicode(document, pretokenizer)
    model = _read_model(document, marks_spaces=pretokenizer.marks_spaces)
    normalizer = _named(Normalizer.of, document, "normalizer", "identity")
    template = _named(Template.of, document, "postprocessor", None)
    decoder = _named(Decoder.of, document, "decoder", None)
    parts = {"pretokenizer": pretokenizer, "normalizer": normalizer, "template": template, "decoder": decoder}
    try:
        return Tokenizer(model, **parts, training=document.get("training", {}))
    except UsageError as error:
        raise TokenizerFileError(f"postprocessor: {error}") from None


def _read_tokens(document: dict[str, Any], key: str) -> tuple[str, ...]:
    """Read `special_tokens` or `added_tokens`."""
    return tuple(_check_string(f"{key}[{place}]", token) for place, token in enumerate(document.get(key, [])))


def _read_flags(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Read `token_flags`, the names of flags by token. The model checks that the names are known."""
    for token, flags in document.get("token_flags", {}).items():
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise TokenizerFileError(f"token_flags: {token!r} has {excerpt(flags)}; a list of names belongs there")
    return {token: tuple(flags) for token, flags in document.get("token_flags", {}).items()}


def _read_model(document: dict[str, Any], *, marks_spaces: bool) -> Model:
    """Read the model of the kind that the file names, from the keys of this kind."""
    kind = _named(kind_of, document, "model", DEFAULT_MODEL)
    for key in document:
        if key not in _KEYS and key not in kind.file_keys:
            raise TokenizerFileError(f"{key}: a {kind.name} model has none; leave it out")
    common = CommonFields(
        document["vocab"],
        _check_rules(document["merge_rules"]),
        _read_tokens(document, "special_tokens"),
        document.get("unk"),
        _read_tokens(document, "added_tokens"),
        _read_flags(document),
    )
    fields = {key: document[key] for key in kind.file_keys if key in document}
    model: Model = kind.load_model().of_fields(kind.name, common, marks_spaces=marks_spaces, **fields)
    return model


def _check_keys(document: dict[str, Any]) -> None:
    for key in ("merge_rules", "vocab"):
        if key not in document:
            raise TokenizerFileError(f"the key {key!r} is missing; a native tokenizer.json holds merge_rules and vocab")
    known: dict[str, Any] = {**_KEYS, **list_file_keys()}
    for key, value in document.items():
        if key not in known:
            raise TokenizerFileError(f"the key {key!r} is not known; this is no native tokenizer.json")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not bool):
            raise TokenizerFileError(f"{key}: {type(value).__name__} found where {_names(known[key])} belongs")
    if document.get("format", schemas.TOKENIZER_FORMAT) != schemas.TOKENIZER_FORMAT:
        raise TokenizerFileError(
            f"format: {document['format']!r} is not {schemas.TOKENIZER_FORMAT!r}; give a file of that format"
        )
    if document.get("version", schemas.TOKENIZER_VERSION) != schemas.TOKENIZER_VERSION:
        raise TokenizerFileError(
            f"version: {document['version']} is not known here ({schemas.TOKENIZER_VERSION}); update tokenmill"
        )


def _check_unicode(document: dict[str, Any], pretokenizer: PreTokenizer) -> None:
    """Raise `TokenizerFileError` for another Unicode version, which could cut other words and silently produce other ids."""
    version = document.get("unicode", pretokenizer.unicode_version)
    if version != pretokenizer.unicode_version:
        here = pretokenizer.unicode_version
        raise TokenizerFileError(f"unicode: words were cut by the tables of Unicode {version}, here they are {here}; train again")


def _names(types: Any) -> str:
    return " or ".join(one.__name__ for one in (types if isinstance(types, tuple) else (types,)))


def _check_rules(rules: list[Any]) -> tuple[tuple[str, str], ...]:
    """Check that rules are pairs of tokens. A fast check looks at all rules at once; only if it fails, each rule is checked."""
    pairs = set(map(type, rules)) <= {list} and set(map(len, rules)) <= {2}
    if pairs and set(map(type, chain.from_iterable(rules))) <= {str} and all(chain.from_iterable(rules)):
        return tuple(map(tuple, rules))
    return tuple(_check_rule(place, rule) for place, rule in enumerate(rules))


def _check_rule(place: int, rule: Any) -> tuple[str, str]:
    if not isinstance(rule, list) or len(rule) != 2 or not all(isinstance(token, str) and token for token in rule):
        raise TokenizerFileError(f"merge_rules[{place}]: {excerpt(rule)} is no pair of tokens")
    return rule[0], rule[1]


def _check_string(place: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TokenizerFileError(f"{place}: {excerpt(value)} is no token")
    return value


def _named(kind: Any, document: dict[str, Any], key: str, default: str | None) -> Any:
    try:
        return kind(document.get(key, default))
    except UsageError as error:
        raise TokenizerFileError(f"{key}: {error}") from None


def _block(opening: str, entries: Sequence[str], closing: str) -> str:
    return f"{opening}\n    {_NEXT_ENTRY.join(entries)}\n  {closing}" if entries else f"{opening}{closing}"


_NEXT_ENTRY = ",\n    "
