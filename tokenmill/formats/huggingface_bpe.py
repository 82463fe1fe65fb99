"""The model BPE of a Hugging Face tokenizer.json: vocabulary, merges, and what else it says of encoding."""

from __future__ import annotations

from typing import Any

from tokenmill.errors import TokenizerFileError
from tokenmill.formats.building import Rule
from tokenmill.formats.huggingface_fields import ANYTHING, Fields, typed
from tokenmill.formats.json_text import excerpt
from tokenmill.models import BpeModel

_NO_AFFIX = (None, "")
#: The fields of the model, and the values that are taken.
FIELDS: Fields = {
    **dict.fromkeys(("type", "vocab", "merges", "unk_token", "ignore_merges"), ANYTHING),
    "dropout": (None, 0.0),
    "continuing_subword_prefix": _NO_AFFIX,
    "end_of_word_suffix": _NO_AFFIX,
    # Both say what becomes of bytes without a token: a model of all 256 bytes has none.
    "fuse_unk": ANYTHING,
    "byte_fallback": ANYTHING,
}


def read_rules(model: dict[str, Any]) -> list[tuple[int, Rule]]:
    """The merges, each with its place in the file."""
    merges = typed("model.merges", model.get("merges"), list)
    return [(place, rule) for place, merge in enumerate(merges) if (rule := _read_rule(place, merge))]


def _read_rule(place: int, merge: Any) -> Rule | None:
    """`"a b"` or `["a", "b"]`; among strings, those that begin with `#version` are passed over, as Hugging Face does."""
    if isinstance(merge, str):
        if merge.startswith("#version"):
            return None
        merge = merge.split(" ")
    if isinstance(merge, list) and len(merge) == 2 and all(isinstance(token, str) and token for token in merge):
        return merge[0], merge[1]
    raise TokenizerFileError(f"model.merges[{place}]: {excerpt(merge)} is no pair of tokens")


def write_model(model: BpeModel) -> dict[str, Any]:
    """Special tokens stand in the vocabulary too: there alone do they keep their ids."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.unk_token,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": model.ignore_merges,
        "vocab": dict(sorted(model.vocab.items(), key=lambda entry: entry[1])),
        "merges": [list(rule) for rule in model.merge_rules],
    }
