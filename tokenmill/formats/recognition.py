"""Recognises the format of a tokenizer file by its content, never by its name, and writes formats by name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import gpt2_files, huggingface, native, tiktoken, transformers_files, vocab_txt
from tokenmill.formats.json_text import parse_object
from tokenmill.names import TOKENIZER_FORMATS
from tokenmill.tokenizer import Tokenizer

#: The first line of a rank file: a token in base64 and a rank.
_RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?(?:\n|\Z)")
#: The longest message, in characters.
_MOST_CHARACTERS = 400
#: The files of a folder that are read; all others are ignored.
FOLDER_FILES = (
    *("tokenizer.json", gpt2_files.VOCAB, gpt2_files.MERGES, gpt2_files.SPECIALS, vocab_txt.NAME),
    *(transformers_files.CONFIG, transformers_files.ADDED),
)


def loads(content: bytes, *, pretokenizer: str | None = None, special_tokens: Mapping[str, int] | None = None) -> Tokenizer:
    """Read a tokenizer from a file of any format. `pretokenizer` and `special_tokens` are for rank files, which contain neither.

    Raises `TokenizerFileError`, which gives the place of the error, and `UsageError` if an argument is missing or not allowed.
    """
    with _brief_messages():
        if _RANK_LINE.match(content):
            return tiktoken.loads(content, pretokenizer=pretokenizer, special_tokens=special_tokens)
        if pretokenizer is not None or special_tokens is not None:
            raise UsageError("only tiktoken rank files leave pre-tokenizer and special tokens open; this file says them itself")
        if not content.lstrip().startswith(b"{") and vocab_txt.is_vocabulary(content):
            return vocab_txt.loads(content)
        if content.startswith(b"#version"):
            raise TokenizerFileError(f"this is {gpt2_files.MERGES} alone; give the folder that holds {gpt2_files.VOCAB} too")
        return _from_document(parse_object(content))


def loads_folder(files: Mapping[str, bytes]) -> Tokenizer:
    """Read a tokenizer from those of `FOLDER_FILES` that a folder has: tokenizer.json, GPT-2's files, or a vocab.txt."""
    if "tokenizer.json" in files:
        return loads(files["tokenizer.json"])
    if not {gpt2_files.VOCAB, gpt2_files.MERGES} & files.keys():
        if vocab_txt.NAME in files:
            with _brief_messages():
                return transformers_files.load_bert(files)
        raise TokenizerFileError(
            f"the folder holds neither tokenizer.json nor {vocab_txt.NAME} nor {gpt2_files.VOCAB} and {gpt2_files.MERGES}"
        )
    with _brief_messages():
        transformers_files.check_gpt2(files)
        return gpt2_files.loads(files)


@contextlib.contextmanager
def _brief_messages() -> Iterator[None]:
    """Shorten long messages in the middle. Messages quote the file, whose content can be of any length."""
    try:
        yield
    except (TokenizerFileError, UsageError) as error:
        message = str(error)
        if len(message) <= _MOST_CHARACTERS:
            raise
        half = _MOST_CHARACTERS // 2
        raise type(error)(f"{message[:half]} ... {message[-half:]}") from None


def dumps(tokenizer: Tokenizer, target: str) -> dict[str, bytes]:
    """Write the files of a format, one of `TOKENIZER_FORMATS`. Raises `UsageError` if the export would not be exact."""
    if target == "gpt2":
        return gpt2_files.dumps(tokenizer)
    writers = {
        "native": ("tokenizer.json", native.dumps),
        "two-key": ("tokenizer.json", native.dumps_two_keys),
        "huggingface": ("tokenizer.json", huggingface.dumps),
        "tiktoken": ("ranks.tiktoken", tiktoken.dumps),
        "vocab-txt": (vocab_txt.NAME, vocab_txt.dumps),
    }
    if target not in writers:
        raise UsageError(f"format {target!r} is not known; choose one of {', '.join(TOKENIZER_FORMATS)}")
    name, write = writers[target]
    return {name: write(tokenizer)}


def _from_document(document: dict[str, Any]) -> Tokenizer:
    if isinstance(document.get("model"), dict):
        return huggingface.from_document(document)
    if document and "merge_rules" not in document and all(isinstance(value, int) for value in document.values()):
        raise TokenizerFileError(f"this is {gpt2_files.VOCAB} alone; give the folder that holds {gpt2_files.MERGES} too")
    return native.from_document(document)
