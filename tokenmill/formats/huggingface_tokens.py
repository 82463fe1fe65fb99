"""The `added_tokens` of a Hugging Face tokenizer.json: special tokens, and others that are found in every text.

Both are found before the text is normalized and cut, unless `normalized` is true. Where there is no normalizer that is the same,
as long as no token of the one kind can overlap with one of the other: Hugging Face looks for those that are not normalized first.

Ids: Hugging Face takes that of `model.vocab`, or the next one behind it. A token that stands in `model.vocab` can come out of the
model too, where that looks whole words or characters up; ours never does, so such files are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, typed
from tokenmill.formats.json_text import excerpt
from tokenmill.models import BpeModel, Model
from tokenmill.tokenizer import Tokenizer

#: The fields of a token, and the values that are taken.
_FIELDS: Fields = {
    **dict.fromkeys(("id", "content", "normalized", "special"), ANYTHING),
    **dict.fromkeys(("single_word", "lstrip", "rstrip"), (False,)),
}
_BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")
#: How many pairs of tokens are tried for an overlap.
_MOST_PAIRS = 1 << 20


class Tokens(NamedTuple):
    """The vocabulary of a file, added tokens too, and which of these are special and which are not."""

    vocab: dict[str, int]
    specials: tuple[str, ...]
    added: tuple[str, ...]


class _Added(NamedTuple):
    """An entry, with its place in the file."""

    where: str
    content: str
    token_id: Any
    special: bool
    normalized: bool


# --- import -----------------------------------------------------------------------------------------------------------------


def read_tokens(document: dict[str, Any], model: dict[str, Any]) -> Tokens:
    """The tokens of a document. Raises `TokenizerFileError` for those that cannot be found here as Hugging Face does."""
    held = typed("model.vocab", model.get("vocab"), dict)
    listed = typed("added_tokens", document.get("added_tokens", []), list)
    entries = [_read_entry(f"added_tokens[{place}]", entry) for place, entry in enumerate(listed)]
    vocab = dict(held)
    for entry in entries:
        if vocab.setdefault(entry.content, entry.token_id) != entry.token_id:
            raise TokenizerFileError(
                f"{entry.where}.id: {excerpt(entry.token_id)}, but {entry.content!r} has the id {vocab[entry.content]} "
                "in model.vocab"
            )
    plain = [entry for entry in entries if not entry.special]
    if plain:
        _check_made(plain, held, model)
        _check_ids(entries, held)
        _check_order(entries, document)
    return Tokens(vocab, tuple(entry.content for entry in entries if entry.special), tuple(entry.content for entry in plain))


def _read_entry(where: str, entry: Any) -> _Added:
    check_fields(where, typed(where, entry, dict), _FIELDS)
    content = typed(f"{where}.content", entry.get("content"), str)
    if "special" not in entry:
        raise TokenizerFileError(f"{where}.special: it is missing; true or false belongs there")
    special = typed(f"{where}.special", entry["special"], bool)
    normalized = entry.get("normalized", False) if special else typed(f"{where}.normalized", entry.get("normalized"), bool)
    return _Added(where, content, entry.get("id"), special, bool(normalized))


def _check_made(plain: Sequence[_Added], vocab: Mapping[str, int], model: dict[str, Any]) -> None:
    """Tokens that the model there would make of a text by itself."""
    looks_up = model.get("type") != "BPE" or any(
        model.get(field) for field in ("ignore_merges", "end_of_word_suffix", "continuing_subword_prefix")
    )
    for entry in plain:
        if entry.content in vocab and (looks_up or _is_symbol(entry.content)):
            raise TokenizerFileError(
                f"{entry.where}: {entry.content!r} stands in model.vocab too, where the model finds it; that is not known here"
            )


def _is_symbol(content: str) -> bool:
    """Whether a token can be looked up without a merge that makes it."""
    return len(content) < 2 or _BYTE_TOKEN.fullmatch(content) is not None


def _check_ids(entries: Sequence[_Added], vocab: Mapping[str, int]) -> None:
    """Hugging Face numbers tokens that are not in model.vocab by their order, whatever the file says."""
    given: dict[str, int] = {}
    last = len(vocab) - 1
    for entry in entries:
        if entry.content not in given:
            given[entry.content] = vocab.get(entry.content, last + 1)
            last = max(last, given[entry.content])
        if not entry.special and given[entry.content] != entry.token_id:
            raise TokenizerFileError(
                f"{entry.where}.id: {excerpt(entry.token_id)}, but by its order Hugging Face gives {entry.content!r} the id "
                f"{given[entry.content]}"
            )


def _check_order(entries: Sequence[_Added], document: dict[str, Any]) -> None:
    """Tokens that are looked for after others, which here are looked for together."""
    late = [entry for entry in entries if entry.normalized]
    early = [entry for entry in entries if not entry.normalized]
    for entry in late:
        if not entry.special and document.get("normalizer") is not None:
            raise TokenizerFileError(f"{entry.where}.normalized: true is not known here before a normalizer")
    pairs = ((one, other) for one in late for other in early if not (one.special and other.special))
    if len(late) * len(early) > _MOST_PAIRS:
        raise TokenizerFileError(f"{late[0].where}.normalized: true and false are not known here for so many tokens together")
    for one, other in pairs:
        if _can_overlap(one.content, other.content):
            raise TokenizerFileError(
                f"{one.where}.normalized: true is not known here for {one.content!r}, which can overlap with {other.content!r}"
            )


def _can_overlap(left: str, right: str) -> bool:
    """Whether a text can hold both with a character in common: `<a` and `ab` in `<ab`."""
    if left in right or right in left:
        return True
    sizes = range(1, min(len(left), len(right)))
    return any(left.endswith(right[:size]) or right.endswith(left[:size]) for size in sizes)


# --- export -----------------------------------------------------------------------------------------------------------------


def write_added(model: Model) -> list[dict[str, Any]]:
    """The entries of special and added tokens, by id."""
    switches = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    specials = frozenset(model.special_tokens)
    ordered = sorted(model.reserved_tokens, key=lambda token: model.vocab[token])
    return [{"id": model.vocab[token], "content": token, **switches, "special": token in specials} for token in ordered]


def list_vocabulary(tokenizer: Tokenizer) -> list[tuple[str, int]]:
    """The tokens of model.vocab with their ids, by id.

    Special tokens stand there, for there alone do they keep their ids, and so do added ones, if the model there makes none of
    them by itself. Where they are the last ones, added tokens get their ids by their order, and are left out. Raises `UsageError`
    where they would get others.
    """
    model = tokenizer.model
    ordered = sorted(model.vocab.items(), key=lambda entry: entry[1])
    if not model.added_tokens:
        return ordered
    first = min(model.vocab[token] for token in model.added_tokens)
    behind = [token for token, token_id in ordered if token_id >= first]
    held = [entry for entry in ordered if entry[1] < first]
    follow = first == len(held) and model.embedding_rows == len(ordered)
    if follow and model.reserved_tokens.issuperset(behind) and model.unk_token not in behind:
        return held
    looks_up = not isinstance(model, BpeModel) or model.ignore_merges or bool(model.marks.text)
    for token in model.added_tokens:
        if looks_up or _is_symbol(token):
            raise UsageError(
                f"Hugging Face would not give the added token {token!r} the id {model.vocab[token]}, or find it inside words; "
                "use --to native"
            )
    return ordered
