"""The model WordPiece of a Hugging Face tokenizer.json, and the pre-tokenizers that are supported with it."""

from __future__ import annotations

from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import refuse_options
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, read_component, typed
from tokenmill.formats.huggingface_tokens import Tokens, list_vocabulary
from tokenmill.models.continuations import PREFIX
from tokenmill.models.wordpiece import MOST_CHARACTERS, MOST_LIMIT, WordPieceModel, wordpiece_alphabet
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

_MODEL: Fields = dict.fromkeys(("type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"), ANYTHING)
#: Hugging Face's pre-tokenizers and those here. (In Hugging Face, BertNormalizer handles Chinese characters.)
_CUTTERS = {"BertPreTokenizer": "bert", "Whitespace": "whitespace-punct"}
#: The value that means no limit.
_NO_LIMIT = (1 << 63) - 1


def read_tokenizer(document: dict[str, Any], model: dict[str, Any], tokens: Tokens) -> Tokenizer:
    """Read the tokenizer of a document with this model."""
    check_fields("model", model, _MODEL)
    prefix = typed("model.continuing_subword_prefix", model.get("continuing_subword_prefix", PREFIX), str)
    limit = typed("model.max_input_chars_per_word", model.get("max_input_chars_per_word", MOST_CHARACTERS), int)
    unk = typed("model.unk_token", model.get("unk_token", "[UNK]"), str)
    cutter = read_component(document, "pre_tokenizer", set(_CUTTERS))
    if cutter is None:
        raise TokenizerFileError(f"pre_tokenizer: there is none; {' or '.join(_CUTTERS)} belongs there")
    check_fields("pre_tokenizer", cutter, {"type": ANYTHING})
    try:
        alphabet = wordpiece_alphabet("wordpiece", marks_spaces=False, prefix=prefix)
    except UsageError as error:
        raise TokenizerFileError(f"model.continuing_subword_prefix: {error}") from None
    # The unk token may be an ordinary token there. Text never produces it: words of these pre-tokenizers contain no brackets.
    known = unk if unk in tokens.vocab else None
    specials = tuple(dict.fromkeys([*tokens.specials, *([] if known is None else [known])]))
    most = None if limit > MOST_LIMIT else limit
    found = {"added_tokens": tokens.added, "token_flags": tokens.flags}
    made = WordPieceModel("wordpiece", alphabet, tokens.vocab, (), specials, known, most, **found)  # type: ignore[arg-type]
    return Tokenizer(made, pretokenizer=PreTokenizer(_CUTTERS[cutter["type"]]))


def write_parts(tokenizer: Tokenizer, model: WordPieceModel) -> dict[str, Any]:
    """Write the components model and pre_tokenizer. Raises `UsageError` if Hugging Face would not produce the same ids."""
    refuse_options(tokenizer, "a file for Hugging Face")
    if model.takes_any_bytes:
        raise UsageError("Hugging Face's WordPiece has tokens of characters, a byte-wordpiece model of bytes; use --to native")
    if model.unk_token is None:
        raise UsageError("Hugging Face's WordPiece needs an unk token, and this model has none; use --to native")
    name = next((theirs for theirs, ours in _CUTTERS.items() if ours == tokenizer.pretokenizer.name), None)
    if name is None:
        raise UsageError(
            f"before a WordPiece model Hugging Face cuts as {' or '.join(_CUTTERS.values())}, this is "
            f"{tokenizer.pretokenizer}; use --to native"
        )
    return {
        "pre_tokenizer": {"type": name},
        "model": {
            "type": "WordPiece",
            "unk_token": model.unk_token,
            "continuing_subword_prefix": model.continuation_prefix,
            "max_input_chars_per_word": _NO_LIMIT if model.max_word_characters is None else model.max_word_characters,
            "vocab": dict(list_vocabulary(tokenizer)),
        },
    }
