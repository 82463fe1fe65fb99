"""Hugging Face's tokenizer.json, for BPE on bytes or characters and for WordPiece.

Supported are WordPiece (`huggingface_wordpiece.py`), BPE (`huggingface_bpe.py`) with the pre-tokenizers of
`huggingface_cutting.py`, the decoders of `huggingface_decoders.py`, the normalizers and post-processors of
`huggingface_parts.py`, and the added tokens of `huggingface_tokens.py`. Anything else is refused with its name and place, because
it would silently produce other ids.

Two differences remain. Hugging Face recognises special tokens inside a text; here they are plain text. And each program cuts
words by its own version of Unicode.
"""

from __future__ import annotations

import json
from typing import Any

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import huggingface_bpe, huggingface_wordpiece
from tokenmill.formats.building import bpe_model_of
from tokenmill.formats.huggingface_cutting import read_cutting, write_pretokenizer
from tokenmill.formats.huggingface_decoders import read_decoder, write_decoder
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, read_component, typed
from tokenmill.formats.huggingface_parts import read_parts, write_normalizer, write_template
from tokenmill.formats.huggingface_tokens import read_tokens, write_added
from tokenmill.formats.json_text import parse_object
from tokenmill.models.code_points import CodePointModel
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.tokenizer import Tokenizer

_VERSION = "1.0"

#: The fields of each component, and the accepted values.
_TOP: Fields = {
    **dict.fromkeys(("version", "model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"), ANYTHING),
    # As in transformers, truncation and padding are options of the call.
    **dict.fromkeys(("truncation", "padding"), ANYTHING),
}

# --- import -----------------------------------------------------------------------------------------------------------------


def loads(content: bytes) -> Tokenizer:
    """Read a tokenizer from a tokenizer.json. Raises `TokenizerFileError`, which names the wrong or unsupported part."""
    return from_document(parse_object(content))


def from_document(document: dict[str, Any]) -> Tokenizer:
    """As `loads`, but from the parsed JSON object."""
    check_fields("", document, _TOP)
    for key in ("truncation", "padding"):
        typed(key, document.get(key) or {}, dict)
    model = _read_model(document)
    if model["type"] == "WordPiece":
        read = huggingface_wordpiece.read_tokenizer(document, model, read_tokens(document, model))
        symbols = "plain"
    else:
        cutting = read_cutting(document)
        symbols = cutting.symbols
        read = Tokenizer(
            huggingface_bpe.read_model(model, cutting, read_tokens(document, model)), pretokenizer=cutting.pretokenizer
        )
    read.decoder = read_decoder(document, read.model, symbols)
    return read_parts(document, read)


def _read_model(document: dict[str, Any]) -> dict[str, Any]:
    """Read the component `model`. Old files do not state its type, which is then recognised by its fields."""
    model = typed("model", document.get("model") or {}, dict)
    if model and "type" not in model:
        known = {"BPE": "merges", "WordPiece": "max_input_chars_per_word"}
        kinds = [kind for kind, field in known.items() if field in model]
        if len(kinds) != 1:
            raise TokenizerFileError("model.type: it is missing, and the fields do not tell it; BPE or WordPiece belongs there")
        model = {"type": kinds[0], **model}
    found = read_component({"model": model or None}, "model", {"BPE", "WordPiece"})
    if found is None:
        raise TokenizerFileError("model: there is none; BPE or WordPiece belongs there")
    return found


# --- export -----------------------------------------------------------------------------------------------------------------


def dumps(tokenizer: Tokenizer) -> bytes:
    """Write the tokenizer.json of a BPE or WordPiece tokenizer, byte for byte as Hugging Face saves it.

    Raises `UsageError` if Hugging Face would not produce the same ids.
    """
    document = {
        "version": _VERSION,
        "truncation": None,
        "padding": None,
        "added_tokens": write_added(tokenizer.model),
        "normalizer": write_normalizer(tokenizer.normalizer, tokenizer.pretokenizer),
        "pre_tokenizer": None,
        "post_processor": write_template(tokenizer),
        **_write_model(tokenizer),
    }
    return json.dumps(document, ensure_ascii=False, indent=2).encode("utf-8")


def _write_model(tokenizer: Tokenizer) -> dict[str, Any]:
    """Write the components for the pre-tokenizer, the decoder and the model."""
    if isinstance(tokenizer.model, WordPieceModel):
        parts = huggingface_wordpiece.write_parts(tokenizer, tokenizer.model)
        return {"pre_tokenizer": parts["pre_tokenizer"], "decoder": write_decoder(tokenizer), "model": parts["model"]}
    model = bpe_model_of(tokenizer, "a BPE file for Hugging Face")
    if isinstance(model, CodePointModel):
        raise UsageError("a file for Hugging Face would have to list every code point; use --to native")
    return {
        "pre_tokenizer": write_pretokenizer(tokenizer),
        "decoder": write_decoder(tokenizer),
        "model": huggingface_bpe.write_model(tokenizer, model),
    }
