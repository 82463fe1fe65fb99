"""The `added_tokens` of a Hugging Face tokenizer.json: special tokens, and other tokens that are found in every text.

Hugging Face searches tokens with `normalized` in the normalized text, after all others. Here all tokens are searched together, in
the text before normalizing. So files are accepted only if both find the same tokens: the normalizer must not change or produce
a character of such a token, and no such token may overlap with a token of the other kind.

Ids: Hugging Face uses the id in `model.vocab`. Tokens that are not there are numbered in the order of the list, from the size of
`model.vocab` on, whatever ids the file states. In Hugging Face, the model can also produce an added token in `model.vocab`
itself, if it looks up whole words or characters. The models here never do, so such files are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, typed
from tokenmill.formats.json_text import excerpt
from tokenmill.models.base import Model
from tokenmill.models.bpe import BpeModel
from tokenmill.names import TOKEN_FLAGS
from tokenmill.text.normalizers import Normalizer, find_touched
from tokenmill.tokenizer import Tokenizer

#: The fields of a token, and the accepted values.
_FIELDS: Fields = {
    **dict.fromkeys(("id", "content", "normalized", "special"), ANYTHING),
    **dict.fromkeys(TOKEN_FLAGS, (True, False)),
}
_BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")
#: The largest number of pairs of tokens that are checked for an overlap.
_MOST_PAIRS = 1 << 20


class Tokens(NamedTuple):
    """The vocabulary of a file with its added tokens: which are special, which are not, and the flags for finding them."""

    vocab: dict[str, int]
    specials: tuple[str, ...]
    added: tuple[str, ...]
    flags: dict[str, tuple[str, ...]]


class _Added(NamedTuple):
    """An entry, with its place in the file."""

    where: str
    content: str
    token_id: Any
    special: bool
    normalized: bool
    flags: tuple[str, ...]


# --- import -----------------------------------------------------------------------------------------------------------------


def read_tokens(document: dict[str, Any], model: dict[str, Any]) -> Tokens:
    """Read the tokens of a document. Raises `TokenizerFileError` for tokens that Hugging Face would find differently."""
    held = typed("model.vocab", model.get("vocab"), dict)
    entries = read_entries(document)
    ids = _number_entries(entries, held)
    _check_made(entries, held, model)
    _check_order(entries)
    specials = tuple(entry.content for entry in entries if entry.special)
    added = tuple(entry.content for entry in entries if not entry.special)
    return Tokens({**held, **ids}, specials, added, {entry.content: entry.flags for entry in entries if entry.flags})


def read_entries(document: dict[str, Any]) -> list[_Added]:
    """Read the entries of a document, each token once. Hugging Face ignores repeated tokens."""
    listed = typed("added_tokens", document.get("added_tokens", []), list)
    entries: dict[str, _Added] = {}
    for place, entry in enumerate(listed):
        read = _read_entry(f"added_tokens[{place}]", entry)
        first = entries.setdefault(read.content, read)
        if first._replace(where=read.where) != read:
            raise TokenizerFileError(f"{read.where}: {read.content!r} stands at {first.where} too, with other values; keep one")
    return list(entries.values())


def _read_entry(where: str, entry: Any) -> _Added:
    check_fields(where, typed(where, entry, dict), _FIELDS)
    content = typed(f"{where}.content", entry.get("content"), str)
    if "special" not in entry:
        raise TokenizerFileError(f"{where}.special: it is missing; true or false belongs there")
    special = typed(f"{where}.special", entry["special"], bool)
    normalized = entry.get("normalized", False) if special else typed(f"{where}.normalized", entry.get("normalized"), bool)
    flags = tuple(flag for flag in TOKEN_FLAGS if entry.get(flag, False))
    return _Added(where, content, entry.get("id"), special, bool(normalized), flags)


def _check_made(entries: Sequence[_Added], vocab: Mapping[str, int], model: dict[str, Any]) -> None:
    """Refuse tokens that Hugging Face's model would itself produce from a text."""
    looks_up = model.get("type") != "BPE" or any(
        model.get(field) for field in ("ignore_merges", "end_of_word_suffix", "continuing_subword_prefix")
    )
    for entry in entries:
        stays = not entry.special or "single_word" in entry.flags
        if stays and entry.content in vocab and (looks_up or _is_symbol(entry.content)):
            raise TokenizerFileError(
                f"{entry.where}: {entry.content!r} stands in model.vocab too, where the model finds it; that is not known here"
            )


def _is_symbol(content: str) -> bool:
    """Whether the model can produce a token by lookup, without a merge."""
    return len(content) < 2 or _BYTE_TOKEN.fullmatch(content) is not None


def _number_entries(entries: Sequence[_Added], vocab: Mapping[str, int]) -> dict[str, int]:
    """The ids that Hugging Face assigns. Raises `TokenizerFileError` if the file states another one."""
    ids: dict[str, int] = {}
    following = len(vocab)
    for entry in entries:
        if entry.content in vocab:
            ids[entry.content], told = vocab[entry.content], f"{entry.content!r} has the id {vocab[entry.content]} in model.vocab"
        else:
            ids[entry.content], told = following, f"by its order Hugging Face gives {entry.content!r} the id {following}"
            following += 1
        if ids[entry.content] != entry.token_id or isinstance(entry.token_id, bool):
            raise TokenizerFileError(f"{entry.where}.id: {excerpt(entry.token_id)}, but {told}; write the id that it is to have")
    return ids


def _check_order(entries: Sequence[_Added]) -> None:
    """Refuse tokens that Hugging Face would find differently because it searches some after others, not all together."""
    late = [entry for entry in entries if entry.normalized]
    early = [entry for entry in entries if not entry.normalized]
    pairs = ((one, other) for one in late for other in early)
    if len(late) * len(early) > _MOST_PAIRS:
        raise TokenizerFileError(f"{late[0].where}.normalized: true and false are not known here for so many tokens together")
    for one, other in pairs:
        if _can_overlap(one, other):
            raise TokenizerFileError(
                f"{one.where}.normalized: true is not known here for {one.content!r}, which can overlap with {other.content!r}"
            )
    strips = next((entry for entry in entries if "rstrip" in entry.flags), None)
    begins = next((entry for entry in entries if entry.content[:1].isspace()), None)
    if strips and begins:
        raise TokenizerFileError(
            f"{strips.where}.rstrip: true is not known here beside {begins.content!r}, which begins with whitespace"
        )


def check_normalized(document: dict[str, Any], normalizer: Normalizer) -> None:
    """Raise `TokenizerFileError` for tokens that normalizing could produce, hide or change."""
    late = [entry for entry in read_entries(document) if entry.normalized]
    if normalizer.is_identity or not late:
        return
    touched = find_touched(normalizer)
    for entry in late:
        if entry.flags:
            raise TokenizerFileError(
                f"{entry.where}.normalized: true is not known here with {entry.flags[0]} before a normalizer"
            )
        wrong = _find_unstable(entry.content, touched)
        if wrong is not None:
            raise TokenizerFileError(
                f"{entry.where}.normalized: true is not known here for {entry.content!r}, whose {wrong!r} the normalizer "
                f"{normalizer} can make or change; write false if the token is to be found as it is written"
            )


def _find_unstable(content: str, touched: tuple[np.ndarray, np.ndarray] | None) -> str | None:
    """A character of a token that normalizing can affect, or None. `touched` is the result of `find_touched`.

    The characters after it are known inside a token, but not at its end.
    """
    if touched is None or not content:
        return content[:1] or None
    changes, leads = touched
    if leads[ord(content[-1])]:
        return content[-1]
    return next((character for character in content if changes[ord(character)]), None)


def _can_overlap(one: _Added, other: _Added) -> bool:
    """Whether two tokens can share a character in a text: `<a` and `ab` in `<ab`. Whitespace that flags include counts too."""
    left, right = one.content, other.content
    if (one.flags and (not right.strip() or right != right.strip())) or (other.flags and left != left.strip()):
        return True
    if left in right or right in left:
        return True
    sizes = range(1, min(len(left), len(right)))
    return any(left.endswith(right[:size]) or right.endswith(left[:size]) for size in sizes)


# --- export -----------------------------------------------------------------------------------------------------------------


def write_added(model: Model) -> list[dict[str, Any]]:
    """Write the entries of special and added tokens, in order of id."""
    flags = model.token_flags
    specials = frozenset(model.special_tokens)
    ordered = sorted(model.reserved_tokens, key=lambda token: model.vocab[token])
    return [
        {
            "id": model.vocab[token],
            "content": token,
            **{flag: flag in flags.get(token, ()) for flag in ("single_word", "lstrip", "rstrip")},
            "normalized": False,
            "special": token in specials,
        }
        for token in ordered
    ]


def list_vocabulary(tokenizer: Tokenizer) -> list[tuple[str, int]]:
    """The tokens of `model.vocab` with their ids, in order of id.

    Special tokens are included, because only there they keep their ids. If reserved tokens come last, beginning with an added
    one, they are left out and get their ids by their order. Otherwise added tokens are included too; this raises `UsageError` if
    Hugging Face's model could produce one of them itself.
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
