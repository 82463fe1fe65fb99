"""Shared by the formats of other programs: builds a byte-level tokenizer, and refuses what an export cannot express."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.models.alphabets import ByteAlphabet, visible_bytes
from tokenmill.models.bpe import BpeModel
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

Rule = tuple[str, str]

_SHOW = dict(enumerate(visible_bytes()))
_RULE = re.compile(r"merge_rules\[(\d+)\]")


def show_bytes(token: bytes) -> str:
    """The visible form of bytes: `b" the"` is `Ġthe`."""
    return token.decode("latin-1").translate(_SHOW)


def build_tokenizer(
    vocab: dict[str, int],
    rules: Sequence[Rule],
    *,
    pretokenizer: str,
    special_tokens: Sequence[str],
    unk_token: str | None = None,
    ignore_merges: bool = False,
    rule_place: Callable[[int], str],
) -> Tokenizer:
    """Build a byte-level tokenizer. `rule_place` gives the place of a rule in the file by its rank, for error messages."""
    try:
        model = BpeModel("byte-bpe", ByteAlphabet(), vocab, tuple(rules), tuple(special_tokens), unk_token, ignore_merges)
    except TokenizerFileError as error:
        raise TokenizerFileError(name_rule(str(error), rule_place)) from None
    try:
        return Tokenizer(model, pretokenizer=PreTokenizer(pretokenizer))
    except UsageError as error:
        raise TokenizerFileError(str(error)) from None


def name_rule(message: str, rule_place: Callable[[int], str]) -> str:
    """Replace the rank of a rule in a message of the model with the rule's place in the file."""
    return _RULE.sub(lambda match: rule_place(int(match[1])), message, count=1)


def refuse_options(tokenizer: Tokenizer, target: str) -> None:
    """Refuse a pre-tokenizer with options. Other programs' formats have neither `split_digits` nor your own patterns."""
    if not isinstance(tokenizer.pretokenizer.spec, str):
        raise UsageError(f"{target} cannot say how {tokenizer.pretokenizer} cuts words; use --to native")


def refuse_added(tokenizer: Tokenizer, target: str) -> None:
    """Refuse added tokens and token flags, which only the native format and Hugging Face's can express."""
    if tokenizer.added_tokens:
        token = tokenizer.added_tokens[0]
        raise UsageError(f"{target} cannot say that {token!r} is found in every text; use --to native or --to huggingface")
    for token, flags in tokenizer.model.token_flags.items():
        raise UsageError(f"{target} cannot say that {token!r} is found with {flags[0]}; use --to native or --to huggingface")


def bpe_model_of(tokenizer: Tokenizer, target: str) -> BpeModel:
    """The model of a tokenizer, if it merges by rules. Formats with merge rules support no other model."""
    if not isinstance(tokenizer.model, BpeModel):
        raise UsageError(f"{target} holds merge rules to encode by, a {tokenizer.model.name} model has none; use --to native")
    return tokenizer.model


def refuse_marks(model: BpeModel, target: str) -> None:
    """Refuse marks of word beginnings or ends, which formats for byte models cannot express."""
    if model.marks.text:
        raise UsageError(f"{target} cannot say that {model.marks.text!r} marks words; use --to native")


def refuse_parts(tokenizer: Tokenizer, target: str) -> None:
    """Refuse a normalizer, template or decoder, which formats with only a model cannot express."""
    if not tokenizer.normalizer.is_identity:
        raise UsageError(f"{target} cannot say that text is normalized by {tokenizer.normalizer}; use --to native")
    if not tokenizer.template.is_empty:
        raise UsageError(f"{target} cannot say which special tokens stand around a text; use --to native")
    if tokenizer.decoder is not None:
        raise UsageError(f"{target} cannot say that its decoder makes another text of the tokens; use --to native")


def refuse_characters(tokenizer: Tokenizer, target: str) -> None:
    """Refuse a character model, which formats for byte models cannot express."""
    if not tokenizer.model.takes_any_bytes:
        raise UsageError(
            f"{target} holds tokens of bytes, this {tokenizer.model.name} model has tokens of characters; use --to native"
        )
