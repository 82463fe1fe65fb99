"""The model BPE of a Hugging Face tokenizer.json: the vocabulary, the merges, and other fields that affect encoding.

Tokens have the same visible form as here, except for spaces in files that do not show them as `Ġ`. `end_of_word_suffix` is a
suffix attached to the last symbol of a word; `continuing_subword_prefix` is the continuation prefix.
"""

from __future__ import annotations

from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import Rule, name_rule
from tokenmill.formats.huggingface_cutting import Cutting, shows_spaces
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, typed
from tokenmill.formats.huggingface_tokens import Tokens, list_vocabulary
from tokenmill.formats.json_text import excerpt
from tokenmill.models.alphabets import MARKER
from tokenmill.models.bpe import BpeModel, alphabet_of
from tokenmill.models.marks import WordMarks
from tokenmill.tokenizer import Tokenizer

#: The fields of the model, and the accepted values.
_FIELDS: Fields = {
    **dict.fromkeys(("type", "vocab", "merges", "unk_token", "ignore_merges", "fuse_unk", "byte_fallback"), ANYTHING),
    **dict.fromkeys(("continuing_subword_prefix", "end_of_word_suffix"), ANYTHING),
    "dropout": (None, 0.0),
}


# --- import -----------------------------------------------------------------------------------------------------------------


def read_model(model: dict[str, Any], cutting: Cutting, tokens: Tokens) -> BpeModel:
    """Read the model. Raises `TokenizerFileError`, which names merges by their place in the file."""
    check_fields("model", model, _FIELDS)
    rules = read_rules(model)
    names = ("ignore_merges", "fuse_unk", "byte_fallback")
    flags = {name: typed(f"model.{name}", model.get(name, False), bool) for name in names}
    of_bytes, fallback = cutting.symbols == "bytes", flags["byte_fallback"]
    marks = _read_marks(model)
    if of_bytes and marks.text:
        raise TokenizerFileError(f"model: {excerpt(marks.text)} marks words; behind ByteLevel that is not known here")
    shown = _show_spaces(cutting, tokens, fallback=fallback)
    unk = _read_unk(model, tokens, of_bytes=of_bytes)
    more = [] if unk is None or unk in tokens.specials else [unk]
    name, spaces = "byte-bpe" if of_bytes else "char-bpe", cutting.pretokenizer.marks_spaces
    try:
        return BpeModel(
            name,
            alphabet_of(name, marks_spaces=spaces, marks=marks, byte_fallback=fallback and not of_bytes),
            {shown.get(token, token): token_id for token, token_id in tokens.vocab.items()},
            tuple((shown.get(left, left), shown.get(right, right)) for _, (left, right) in rules),
            (*tokens.specials, *more),
            unk,
            ignore_merges=flags["ignore_merges"],
            # If all 256 bytes are tokens, nothing is unknown.
            fuse_unk=flags["fuse_unk"] and not of_bytes,
            added_tokens=tokens.added,
            token_flags=tokens.flags,
        )
    except UsageError as error:
        raise TokenizerFileError(f"model: {error}") from None
    except TokenizerFileError as error:
        raise TokenizerFileError(name_rule(str(error), lambda rank: f"model.merges[{rules[rank][0]}]")) from None


def read_rules(model: dict[str, Any]) -> list[tuple[int, Rule]]:
    """Read the merges, each with its place in the file."""
    merges = typed("model.merges", model.get("merges"), list)
    return [(place, rule) for place, merge in enumerate(merges) if (rule := _read_rule(place, merge))]


def _read_rule(place: int, merge: Any) -> Rule | None:
    """Read `"a b"` or `["a", "b"]`. Strings that begin with `#version` are skipped, as in Hugging Face."""
    if isinstance(merge, str):
        if merge.startswith("#version"):
            return None
        merge = merge.split(" ")
    if isinstance(merge, list) and len(merge) == 2 and all(isinstance(token, str) and token for token in merge):
        return merge[0], merge[1]
    raise TokenizerFileError(f"model.merges[{place}]: {excerpt(merge)} is no pair of tokens")


def _read_marks(model: dict[str, Any]) -> WordMarks:
    suffix, prefix = (
        typed(f"model.{name}", model.get(name) or "", str) for name in ("end_of_word_suffix", "continuing_subword_prefix")
    )
    try:
        return WordMarks(suffix, prefix, attached=bool(suffix))
    except UsageError as error:
        raise TokenizerFileError(f"model: {error}") from None


def _read_unk(model: dict[str, Any], tokens: Tokens, *, of_bytes: bool) -> str | None:
    """The unk token, or None for one that is never used: without an id, or in a byte model and not special."""
    unk = model.get("unk_token")
    known = isinstance(unk, str) and (unk in tokens.specials if of_bytes else unk in tokens.vocab)
    return unk if known else None


def _show_spaces(cutting: Cutting, tokens: Tokens, *, fallback: bool) -> dict[str, str]:
    """The visible form of tokens with spaces, where a space is `Ġ`. Without byte fallback, a `Ġ` of the text becomes one too."""
    if cutting.symbols != "plain" or not cutting.pretokenizer.marks_spaces:
        return {}
    if not fallback:
        raise TokenizerFileError(
            f"pre_tokenizer: spaces stay as they are behind {cutting.pretokenizer}; that is known here with byte_fallback alone"
        )
    ordinary = tokens.vocab.keys() - {*tokens.specials, *tokens.added}
    for token in ordinary:
        if MARKER in token:
            raise TokenizerFileError(f"model.vocab: {excerpt(token)} holds {MARKER}, which stands for a space here")
    return {token: token.replace(" ", MARKER) for token in ordinary if " " in token}


# --- export -----------------------------------------------------------------------------------------------------------------


def write_model(tokenizer: Tokenizer, model: BpeModel) -> dict[str, Any]:
    """Write the component. Special tokens are in its vocabulary too, because only there they keep their ids.

    Raises `UsageError` for a suffix that is a symbol of its own, which Hugging Face does not support.
    """
    if model.marks.has_ending:
        raise UsageError(
            f"Hugging Face has no symbol behind the last of a word, as {model.marks.suffix!r} is, only a suffix; use --to native"
        )
    if model.takes_any_bytes and model.marks.text:
        raise UsageError(f"Hugging Face's ByteLevel cannot say that {model.marks.text!r} marks words; use --to native")
    kept = not model.takes_any_bytes and tokenizer.pretokenizer.marks_spaces and not shows_spaces(tokenizer)
    reserved = model.reserved_tokens

    def show(token: str) -> str:
        return token.replace(MARKER, " ") if kept and token not in reserved else token

    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.unk_token,
        "continuing_subword_prefix": model.marks.prefix or None,
        "end_of_word_suffix": model.marks.suffix or None,
        "fuse_unk": model.fuse_unk,
        "byte_fallback": model.alphabet.byte_fallback,
        "ignore_merges": model.ignore_merges,
        "vocab": {show(token): token_id for token, token_id in list_vocabulary(tokenizer)},
        "merges": [[show(left), show(right)] for left, right in model.merge_rules],
    }
