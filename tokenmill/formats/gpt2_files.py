"""GPT-2's files: `vocab.json` (tokens to ids), `merges.txt` (one rule per line), and optionally `special_tokens_map.json`.

They do not state the pre-tokenizer, which is taken to be GPT-2's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import (
    Rule,
    bpe_model_of,
    build_tokenizer,
    refuse_added,
    refuse_characters,
    refuse_marks,
    refuse_options,
    refuse_parts,
)
from tokenmill.formats.json_text import excerpt, parse_object
from tokenmill.tokenizer import Tokenizer

VOCAB, MERGES, SPECIALS = "vocab.json", "merges.txt", "special_tokens_map.json"
#: The special token in GPT-2's vocab.json, which the file does not mark as special.
_END = "<|endoftext|>"
_HEADER = "#version"
#: The end-of-word suffix in the files of CLIP and others.
_SUFFIX = "</w>"


def loads(files: Mapping[str, bytes]) -> Tokenizer:
    """Read a tokenizer from the files of a folder, by name. `TokenizerFileError` names the file and the line or entry.

    The special tokens are those of `special_tokens_map.json` or, without this file, `<|endoftext|>` if it is in the vocabulary.
    """
    for name in (VOCAB, MERGES):
        if name not in files:
            raise TokenizerFileError(f"{name}: it is missing; {VOCAB} and {MERGES} belong together")
    vocab = _parse(files, VOCAB)
    lines = _parse_merges(files[MERGES])
    for number, (_, right) in lines:
        if right.endswith(_SUFFIX):
            raise TokenizerFileError(
                f"{MERGES}, line {number}: {excerpt(right)} ends a word, as the tokens of CLIP do and none of GPT-2; what else "
                "that tokenizer does these files do not say: give its tokenizer.json"
            )
    specials = read_specials(_parse(files, SPECIALS)) if SPECIALS in files else [_END] * (_END in vocab)
    return build_tokenizer(
        vocab,
        [rule for _, rule in lines],
        pretokenizer="gpt2",
        special_tokens=specials,
        rule_place=lambda rank: f"{MERGES}, line {lines[rank][0]}",
    )


def dumps(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Write the files, by name. Raises `UsageError` if programs that read them would not produce the same ids."""
    model = bpe_model_of(tokenizer, MERGES)
    for place, rule in enumerate(model.merge_rules):
        if any(character.isspace() for character in rule[0] + rule[1]):
            raise UsageError(
                f"{MERGES} puts a space between two tokens, and rule {place}, {rule}, holds one itself; use --to native"
            )
        if rule[0].startswith(_HEADER):
            raise UsageError(f"{MERGES} passes over lines that begin with {_HEADER}, as rule {place} would; use --to huggingface")
    refuse_characters(tokenizer, VOCAB)
    refuse_options(tokenizer, f"{VOCAB} and {MERGES}")
    refuse_parts(tokenizer, f"{VOCAB} and {MERGES}")
    refuse_added(tokenizer, f"{VOCAB} and {MERGES}")
    refuse_marks(model, f"{VOCAB} and {MERGES}")
    if tokenizer.pretokenizer.name != "gpt2":
        raise UsageError(
            f"{VOCAB} and {MERGES} stand for the pre-tokenizer gpt2, not {tokenizer.pretokenizer.name}; use --to huggingface"
        )
    if model.ignore_merges and model.unmerged.ids.size:
        token = model.token_of_id[int(model.unmerged.ids[0])]
        raise UsageError(f"{MERGES} cannot say that {token!r} is one token, which no rules make; use --to huggingface")
    vocab = dict(sorted(model.vocab.items(), key=lambda entry: entry[1]))
    rules = "".join(f"{left} {right}\n" for left, right in model.merge_rules)
    specials = {"additional_special_tokens": list(model.special_tokens)}
    return {
        VOCAB: json.dumps(vocab, ensure_ascii=False).encode("utf-8"),
        MERGES: f"{_HEADER}: 0.2\n{rules}".encode(),
        SPECIALS: json.dumps(specials, ensure_ascii=False).encode("utf-8"),
    }


def _parse(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        return parse_object(files[name])
    except TokenizerFileError as error:
        raise TokenizerFileError(f"{name}: {error}") from None


def _parse_merges(content: bytes) -> list[tuple[int, Rule]]:
    """Parse the rules, with their line numbers. Empty lines and lines that begin with `#version` are skipped."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerFileError(f"{MERGES}: not UTF-8 at byte {error.start}; it is UTF-8 text") from None
    rules = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line or line.startswith(_HEADER):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise TokenizerFileError(
                f"{MERGES}, line {number}: {excerpt(line)} is no pair of tokens; write two with a space between them"
            )
        rules.append((number, (parts[0], parts[1])))
    return rules


def read_specials(document: dict[str, Any]) -> list[str]:
    """The special tokens of special_tokens_map.json. A value is a token, an object with it as `content`, or a list of these."""
    found: dict[str, None] = {}
    for key, value in document.items():
        for entry in value if isinstance(value, list) else [value]:
            token = entry.get("content") if isinstance(entry, dict) else entry
            if not isinstance(token, str) or not token:
                raise TokenizerFileError(f"{SPECIALS}: {key}: {excerpt(entry)} is no token")
            found[token] = None
    return list(found)
