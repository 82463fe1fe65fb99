"""JSON of tokenizer files: reads untrusted input, and writes readable output."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tokenmill.errors import TokenizerFileError


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises `TokenizerFileError` for invalid JSON, another type, a repeated key or deep nesting."""
    try:
        document = json.loads(content.decode("utf-8"), object_pairs_hook=_unique_keys)
    except UnicodeDecodeError as error:
        raise TokenizerFileError(f"not UTF-8 at byte {error.start}; a tokenizer.json is UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise TokenizerFileError(
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}; give an undamaged tokenizer file"
        ) from None
    except RecursionError:
        raise TokenizerFileError("not a tokenizer: nested too deeply; give an undamaged tokenizer file") from None
    except ValueError as error:
        raise TokenizerFileError(f"not a tokenizer: {error}") from None
    if not isinstance(document, dict):
        raise TokenizerFileError(f"not a tokenizer: a JSON object is needed, this is a {type(document).__name__}")
    _refuse_surrogates(content, document)
    return document


def to_json(value: Any) -> str:
    """Write a value as one line of JSON, with the keys of an object sorted by code point."""
    return json.dumps(value, ensure_ascii=False, sort_keys=isinstance(value, dict))


def strings_to_json(strings: Sequence[str]) -> list[str]:
    """`to_json` of each string. One call is much faster than many, for vocabularies of a hundred thousand tokens.

    >>> strings_to_json(["a", 'b"'])
    ['"a"', '"b\\\\""']
    """
    if not strings:
        return []
    # The separator is a control character, which JSON escapes inside strings.
    return json.dumps(strings, ensure_ascii=False, separators=("\0", ":"))[1:-1].split("\0")


def excerpt(value: Any) -> str:
    """The first characters of a value, for a message."""
    return to_json(value)[:80]


def _refuse_surrogates(content: bytes, document: dict[str, Any]) -> None:
    """Refuse lone surrogates, which JSON can escape but UTF-8 cannot encode. Searched only if the file has such an escape."""
    if not re.search(rb"\\u[dD][89a-fA-F]", content):
        return
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.start + 1].encode("unicode_escape").decode()
        raise TokenizerFileError(f"the lone surrogate {text} is no character; tokens are Unicode text") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise TokenizerFileError(f"the key {twice!r} stands twice in one object; keep one")
    return entries
