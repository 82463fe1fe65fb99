"""JSON as tokenizer files hold it: read without trust, written as people read it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tokenmill.errors import TokenizerFileError


def parse_object(content: bytes) -> dict[str, Any]:
    """The object of a JSON file. Raises `TokenizerFileError`: no JSON or no object, a key twice, nested too deeply."""
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
    """One line of JSON; the keys of objects in order of code points."""
    return json.dumps(value, ensure_ascii=False, sort_keys=isinstance(value, dict))


def strings_to_json(strings: Sequence[str]) -> list[str]:
    """`to_json` of each string, a hundred thousand at once.

    >>> strings_to_json(["a", 'b"'])
    ['"a"', '"b\\\\""']
    """
    if not strings:
        return []
    # A control character: inside strings JSON writes it as an escape.
    return json.dumps(strings, ensure_ascii=False, separators=("\0", ":"))[1:-1].split("\0")


def excerpt(value: Any) -> str:
    """The first characters of a value, for a message."""
    return to_json(value)[:80]


def _refuse_surrogates(content: bytes, document: dict[str, Any]) -> None:
    """Text that JSON can escape but UTF-8 cannot hold; looked for only where the file escapes something of the kind."""
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
