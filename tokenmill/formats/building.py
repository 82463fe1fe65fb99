"""What the formats of others share: a byte-level tokenizer out of its parts, and what an export must refuse."""

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
    """Bytes in the visible form: `b" the"` is `Ġthe`."""
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
    """A byte-level tokenizer. Errors of the model name a rule by its place in the file, which `rule_place` gives for its rank."""
    try:
        model = BpeModel("byte-bpe", ByteAlphabet(), vocab, tuple(rules), tuple(special_tokens), unk_token, ignore_merges)
    except TokenizerFileError as error:
        raise TokenizerFileError(name_rule(str(error), rule_place)) from None
    try:
        return Tokenizer(model, pretokenizer=PreTokenizer(pretokenizer))
    except UsageError as error:
        raise TokenizerFileError(str(error)) from None


def name_rule(message: str, rule_place: Callable[[int], str]) -> str:
    """A model's message, which names a rule by its rank, with the rule's place in the file instead."""
    return _RULE.sub(lambda match: rule_place(int(match[1])), message, count=1)


def refuse_options(tokenizer: Tokenizer, target: str) -> None:
    """Formats of others have the pre-tokenizers of the field alone, without digits cut out first or patterns of one's own."""
    if not isinstance(tokenizer.pretokenizer.spec, str):
        raise UsageError(f"{target} cannot say how {tokenizer.pretokenizer} cuts words; use --to native")


def refuse_added(tokenizer: Tokenizer, target: str) -> None:
    """Formats other than ours and Hugging Face's know no tokens that are found in every text, or with whitespace."""
    if tokenizer.added_tokens:
        token = tokenizer.added_tokens[0]
        raise UsageError(f"{target} cannot say that {token!r} is found in every text; use --to native or --to huggingface")
    for token, flags in tokenizer.model.token_flags.items():
        raise UsageError(f"{target} cannot say that {token!r} is found with {flags[0]}; use --to native or --to huggingface")


def bpe_model_of(tokenizer: Tokenizer, target: str) -> BpeModel:
    """The model, where it is one that merges by rules; formats that hold rules take no other."""
    if not isinstance(tokenizer.model, BpeModel):
        raise UsageError(f"{target} holds merge rules to encode by, a {tokenizer.model.name} model has none; use --to native")
    return tokenizer.model


def refuse_marks(model: BpeModel, target: str) -> None:
    """Formats of bytes alone know no symbols that tell where words begin or end."""
    if model.marks.text:
        raise UsageError(f"{target} cannot say that {model.marks.text!r} marks words; use --to native")


def refuse_parts(tokenizer: Tokenizer, target: str) -> None:
    """Formats that hold a model alone have no normalizer, no template and no decoder."""
    if not tokenizer.normalizer.is_identity:
        raise UsageError(f"{target} cannot say that text is normalized by {tokenizer.normalizer}; use --to native")
    if not tokenizer.template.is_empty:
        raise UsageError(f"{target} cannot say which special tokens stand around a text; use --to native")
    if tokenizer.decoder is not None:
        raise UsageError(f"{target} cannot say that its decoder makes another text of the tokens; use --to native")


def refuse_characters(tokenizer: Tokenizer, target: str) -> None:
    """Formats of bytes take no character model."""
    if not tokenizer.model.takes_any_bytes:
        raise UsageError(
            f"{target} holds tokens of bytes, this {tokenizer.model.name} model has tokens of characters; use --to native"
        )
