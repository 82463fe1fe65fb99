"""The decoders of a Hugging Face tokenizer.json, which turn tokens into text.

A decoder that does the same as decoding here is not stored. Any other becomes the tokenizer's `decoder`, which returns the same
text as Hugging Face. If the file has no decoder, this text is the tokens with spaces between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tokenmill.encoding.decoders import Decoder
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.huggingface_cutting import shows_spaces, write_byte_level, write_metaspace
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, check_fields, refuse_others, steps, typed
from tokenmill.formats.huggingface_patterns import read_kind, write_pattern
from tokenmill.models.alphabets import MARKER, visible_bytes
from tokenmill.models.bpe import BpeModel, Model
from tokenmill.models.continuations import PREFIX
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.tokenizer import Tokenizer

_FLAGS = (True, False)
_SCHEMES = ("always", "first", "never")
#: The fields of each component, and the accepted values.
_FIELDS: dict[str, Fields] = {
    "ByteFallback": {},
    "Fuse": {},
    "Strip": dict.fromkeys(("content", "start", "stop"), ANYTHING),
    "Replace": dict.fromkeys(("pattern", "content"), ANYTHING),
    "Metaspace": {"replacement": ANYTHING, "prepend_scheme": _SCHEMES, "split": _FLAGS},
    "WordPiece": {"prefix": ANYTHING, "cleanup": _FLAGS},
    "BPEDecoder": {"suffix": ANYTHING},
    "ByteLevel": dict.fromkeys(("add_prefix_space", "trim_offsets", "use_regex"), _FLAGS),
}
_Options = dict[str, Any]


# --- import -----------------------------------------------------------------------------------------------------------------


def read_decoder(document: dict[str, Any], model: Model, symbols: str) -> Decoder | None:
    """Read the decoder of a document; None if decoding here returns the same text. `symbols`: as in `Cutting`."""
    component = document.get("decoder")
    if component is None and symbols == "bytes":
        raise TokenizerFileError("decoder: there is none; ByteLevel belongs there")
    found = [_read_step(place, step) for place, step in steps("decoder", component, "decoders")]
    if component is None:
        found = [("join", {"content": " "})]
    if _is_ours(model, symbols, found):
        return None
    try:
        return Decoder(tuple(found))
    except UsageError as error:
        raise TokenizerFileError(f"decoder: {error}") from None


def _is_ours(model: Model, symbols: str, found: list[tuple[str, _Options]]) -> bool:
    """Whether joining the bytes of the tokens returns the same text. Special and added tokens are their own text here."""
    reserved = model.reserved_tokens
    if symbols == "bytes":
        visible = frozenset(visible_bytes())
        return found == [("byte_level", {})] and all(token.isascii() or not visible.issuperset(token) for token in reserved)
    if isinstance(model, WordPieceModel) or (isinstance(model, BpeModel) and (model.marks.text or model.alphabet.byte_fallback)):
        return False
    if symbols == "plain":
        return found in ([], [("fuse", {})])
    shows = [("metaspace", {"mark": MARKER, "prepend": False})]
    return found == shows and not any(MARKER in token for token in reserved)


def _read_step(place: str, step: dict[str, Any]) -> tuple[str, _Options]:
    refuse_others(place, step, _FIELDS)
    check_fields(place, step, {"type": ANYTHING, **_FIELDS[step["type"]]})
    return _READERS[step["type"]](place, step)


def _read_strip(place: str, step: dict[str, Any]) -> tuple[str, _Options]:
    start, end = (typed(f"{place}.{name}", step.get(name), int) for name in ("start", "stop"))
    return "strip", {"character": typed(f"{place}.content", step.get("content"), str), "start": start, "end": end}


def _read_replace(place: str, step: dict[str, Any]) -> tuple[str, _Options]:
    kind, pattern = read_kind(f"{place}.pattern", step.get("pattern"))
    content = typed(f"{place}.content", step.get("content"), str)
    return "replace", {"pattern": pattern, "content": content, "is_regex": kind == "Regex"}


def _read_metaspace(place: str, step: dict[str, Any]) -> tuple[str, _Options]:
    if "prepend_scheme" not in step:
        raise TokenizerFileError(f"{place}.prepend_scheme: it is missing; {', '.join(_SCHEMES)} can stand there")
    mark = typed(f"{place}.replacement", step.get("replacement"), str)
    return "metaspace", {"mark": mark, "prepend": step["prepend_scheme"] != "never"}


def _read_wordpiece(place: str, step: dict[str, Any]) -> tuple[str, _Options]:
    if "cleanup" not in step:
        raise TokenizerFileError(f"{place}.cleanup: it is missing; true or false belongs there")
    return "wordpiece", {"prefix": typed(f"{place}.prefix", step.get("prefix", PREFIX), str), "cleanup": step["cleanup"]}


def _read_suffix(place: str, step: dict[str, Any]) -> tuple[str, _Options]:
    suffix = typed(f"{place}.suffix", step.get("suffix"), str)
    if not suffix:
        raise TokenizerFileError(f"{place}.suffix: it is empty; a suffix such as </w> belongs there")
    return "bpe_suffix", {"suffix": suffix}


_READERS: dict[str, Callable[[str, dict[str, Any]], tuple[str, _Options]]] = {
    "ByteFallback": lambda place, step: ("byte_fallback", {}),
    "Fuse": lambda place, step: ("fuse", {}),
    "Strip": _read_strip,
    "Replace": _read_replace,
    "Metaspace": _read_metaspace,
    "WordPiece": _read_wordpiece,
    "BPEDecoder": _read_suffix,
    "ByteLevel": lambda place, step: ("byte_level", {}),
}


# --- export -----------------------------------------------------------------------------------------------------------------


def write_decoder(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Write the component that returns the same text for ids other than those of special tokens."""
    if tokenizer.decoder is not None:
        return _write_steps(tokenizer.decoder)
    model = tokenizer.model
    if isinstance(model, WordPieceModel):
        return {"type": "WordPiece", "prefix": model.continuation_prefix, "cleanup": False}
    if model.takes_any_bytes:
        return write_byte_level(use_regex=True)
    if model.alphabet.byte_fallback:
        return {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    last = write_metaspace() if shows_spaces(tokenizer) else {"type": "Fuse"}
    if not isinstance(model, BpeModel) or not model.marks.text:
        return last
    prefix, suffix = model.marks.prefix, model.marks.suffix
    if tokenizer.pretokenizer.drops_spaces:
        return {"type": "WordPiece", "prefix": prefix, "cleanup": False} if prefix else {"type": "BPEDecoder", "suffix": suffix}
    pattern = rf"\A{re.escape(prefix)}(?!\z)" if prefix else rf"(?<!\A){re.escape(suffix)}\z"
    return {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": pattern}, "content": ""}, last]}


def _write_steps(decoder: Decoder) -> dict[str, Any] | None:
    """Write the steps as components. Raises `UsageError` if putting spaces between tokens is not the only step."""
    if decoder.steps == (("join", {"content": " "}),):
        return None
    parts = [_write_step(name, options) for name, options in decoder.steps]
    return parts[0] if len(parts) == 1 else {"type": "Sequence", "decoders": parts}


def _write_step(name: str, options: Any) -> dict[str, Any]:
    if name == "replace":
        kind, pattern = ("Regex", write_pattern(options["pattern"])) if options["is_regex"] else ("String", options["pattern"])
        return {"type": "Replace", "pattern": {kind: pattern}, "content": options["content"]}
    if name == "metaspace":
        scheme = "always" if options["prepend"] else "never"
        return {"type": "Metaspace", "replacement": options["mark"], "prepend_scheme": scheme, "split": False}
    if name == "byte_level":
        return write_byte_level(use_regex=True)
    if name == "strip":
        return {"type": "Strip", "content": options["character"], "start": options["start"], "stop": options["end"]}
    kinds = {"byte_fallback": "ByteFallback", "fuse": "Fuse", "wordpiece": "WordPiece", "bpe_suffix": "BPEDecoder"}
    if name not in kinds:
        raise UsageError(f"Hugging Face has no decoder step {name!r}; use --to native")
    return {"type": kinds[name], **options}
