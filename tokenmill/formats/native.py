"""The native tokenizer.json.

One JSON object; `merge_rules` and `vocab` are always there in a shape that a plain reader of those two keys can use. A file that
holds only those two keys is a `char-bpe` model behind the `wordpunct` pre-tokenizer. No timestamps, no paths: equal tokenizers
are equal bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tokenmill import schemas
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.models import BpeModel, alphabet_of
from tokenmill.normalizers import Normalizer
from tokenmill.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

_KEYS = {
    "format": str,
    "version": int,
    "model": str,
    "normalizer": str,
    "pretokenizer": (str, dict),
    "special_tokens": list,
    "unk": (str, type(None)),
    "unicode": str,
    "training": dict,
    "merge_rules": list,
    "vocab": dict,
}


def dumps(tokenizer: Tokenizer) -> bytes:
    """The file of a tokenizer: UTF-8, one merge rule and one vocabulary entry a line, so that versions can be compared by eye."""
    model = tokenizer.model
    head = {
        "format": schemas.TOKENIZER_FORMAT,
        "version": schemas.TOKENIZER_VERSION,
        "model": model.name,
        "normalizer": tokenizer.normalizer.name,
        "pretokenizer": tokenizer.pretokenizer.spec,
        "special_tokens": list(model.special_tokens),
        "unk": model.unk_token,
        "unicode": tokenizer.pretokenizer.unicode_version,
        "training": tokenizer.training,
    }
    lines = [f"  {_json(key)}: {_json(value)}," for key, value in head.items()]
    rules = _block("[", (_json(list(rule)) for rule in model.merge_rules), "]")
    vocab = _block(
        "{", (f"{_json(token)}: {token_id}" for token, token_id in sorted(model.vocab.items(), key=lambda item: item[1])), "}"
    )
    return "\n".join(["{", *lines, f'  "merge_rules": {rules},', f'  "vocab": {vocab}', "}", ""]).encode("utf-8")


def loads(content: bytes) -> Tokenizer:
    """A tokenizer from the bytes of its file; `TokenizerFileError` names the key and the entry that is wrong."""
    document = _parse(content)
    _check_keys(document)
    _refuse_surrogates(content, document)
    pretokenizer = _named(PreTokenizer.of, document, "pretokenizer", "wordpunct")
    rules = tuple(_check_rule(place, rule) for place, rule in enumerate(document["merge_rules"]))
    specials = tuple(
        _check_string(f"special_tokens[{place}]", token) for place, token in enumerate(document.get("special_tokens", []))
    )
    name = document.get("model", "char-bpe")
    try:
        alphabet = alphabet_of(name, marks_spaces=pretokenizer.marks_spaces)
    except UsageError as error:
        raise TokenizerFileError(f"model: {error}") from None
    _check_unicode(document, pretokenizer)
    model = BpeModel(name, alphabet, document["vocab"], rules, specials, document.get("unk"))
    normalizer = _named(Normalizer, document, "normalizer", "identity")
    return Tokenizer(model, pretokenizer=pretokenizer, normalizer=normalizer, training=document.get("training", {}))


def _parse(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content.decode("utf-8"), object_pairs_hook=_unique_keys)
    except UnicodeDecodeError as error:
        raise TokenizerFileError(f"not UTF-8 at byte {error.start}; a tokenizer.json is UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise TokenizerFileError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise TokenizerFileError("not a tokenizer: nested too deeply") from None
    except ValueError as error:
        raise TokenizerFileError(f"not a tokenizer: {error}") from None
    if not isinstance(document, dict):
        raise TokenizerFileError(f"not a tokenizer: a JSON object is needed, this is a {type(document).__name__}")
    return document


def _refuse_surrogates(content: bytes, document: dict[str, Any]) -> None:
    """Text that JSON can escape but UTF-8 cannot hold; looked for only where the file escapes something of the kind."""
    if not re.search(rb"\\u[dD][89a-fA-F]", content):
        return
    try:
        _json(document).encode("utf-8")
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.start + 1].encode("unicode_escape").decode()
        raise TokenizerFileError(f"the lone surrogate {text} is no character; tokens are Unicode text") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise TokenizerFileError(f"the key {twice!r} stands twice in one object")
    return entries


def _check_keys(document: dict[str, Any]) -> None:
    for key in ("merge_rules", "vocab"):
        if key not in document:
            raise TokenizerFileError(f"the key {key!r} is missing; a native tokenizer.json holds merge_rules and vocab")
    for key, value in document.items():
        if key not in _KEYS:
            raise TokenizerFileError(f"the key {key!r} is not known; this is no native tokenizer.json")
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):  # type: ignore[arg-type]
            raise TokenizerFileError(f"{key}: {type(value).__name__} found where {_names(_KEYS[key])} belongs")
    if document.get("format", schemas.TOKENIZER_FORMAT) != schemas.TOKENIZER_FORMAT:
        raise TokenizerFileError(f"format: {document['format']!r} is not {schemas.TOKENIZER_FORMAT!r}")
    if document.get("version", schemas.TOKENIZER_VERSION) != schemas.TOKENIZER_VERSION:
        raise TokenizerFileError(
            f"version: {document['version']} is not known here ({schemas.TOKENIZER_VERSION}); update tokenmill"
        )


def _check_unicode(document: dict[str, Any], pretokenizer: PreTokenizer) -> None:
    """Other tables would cut other words out of the same text, and give other ids in silence."""
    version = document.get("unicode", pretokenizer.unicode_version)
    if version != pretokenizer.unicode_version:
        here = pretokenizer.unicode_version
        raise TokenizerFileError(f"unicode: words were cut by the tables of Unicode {version}, here they are {here}; train again")


def _names(types: Any) -> str:
    return " or ".join(one.__name__ for one in (types if isinstance(types, tuple) else (types,)))


def _check_rule(place: int, rule: Any) -> tuple[str, str]:
    if not isinstance(rule, list) or len(rule) != 2 or not all(isinstance(token, str) and token for token in rule):
        raise TokenizerFileError(f"merge_rules[{place}]: {_json(rule)[:80]} is no pair of tokens")
    return rule[0], rule[1]


def _check_string(place: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TokenizerFileError(f"{place}: {_json(value)[:80]} is no token")
    return value


def _named(kind: Any, document: dict[str, Any], key: str, default: str) -> Any:
    try:
        return kind(document.get(key, default))
    except UsageError as error:
        raise TokenizerFileError(f"{key}: {error}") from None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=isinstance(value, dict))


def _block(opening: str, entries: Iterable[str], closing: str) -> str:
    body = ",\n".join(f"    {entry}" for entry in entries)
    return f"{opening}\n{body}\n  {closing}" if body else f"{opening}{closing}"
