"""BERT's vocab.txt: a WordPiece vocabulary with one token per line. The id of a token is its line number, counted from 0.

The file contains nothing else. The rest is as in BERT: clean text, BERT's pre-tokenizer, the prefix `##`, at most 100 characters
per word, the five special tokens, and the template `[CLS] $A [SEP]`. The tokens decide about case: if only special tokens contain
an ASCII capital letter, text is converted to lower case and accents are removed, as in BERT's uncased models.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tokenmill.encoding.templates import Template
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import refuse_added, refuse_options
from tokenmill.formats.json_text import excerpt
from tokenmill.models.continuations import PREFIX
from tokenmill.models.wordpiece import MOST_CHARACTERS, WordPieceModel, wordpiece_alphabet
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

NAME = "vocab.txt"
UNK = "[UNK]"
SPECIALS = ("[PAD]", UNK, "[CLS]", "[SEP]", "[MASK]")
_TEMPLATE = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
#: A vocab.txt has a line with the unk token, and a line with a continuation token or another special token.
_SIGNS = (re.compile(rb"(?m)^\[UNK\]\r?$"), re.compile(rb"(?m)^(?:##.|\[PAD\]\r?$|\[CLS\]\r?$)"))
_BOM = b"\xef\xbb\xbf"
#: The normalization steps of BERT's own code; the last two are for uncased models.
_BERT_STEPS = ("bert_clean", "strip_accents", "lowercase")


def is_vocabulary(content: bytes) -> bool:
    """Whether a file is a vocab.txt, judged by its lines."""
    return all(sign.search(content) for sign in _SIGNS)


def loads(content: bytes, *, normalizer: Normalizer | None = None) -> Tokenizer:
    """Read a tokenizer from a vocab.txt. `normalizer` replaces the one that the tokens suggest.

    Raises `TokenizerFileError`, which names the wrong line.
    """
    vocab = _read_lines(content)
    if UNK not in vocab:
        raise TokenizerFileError(f"no line is {UNK}; a {NAME} of BERT has it, another one needs a tokenizer.json")
    specials = tuple(token for token in SPECIALS if token in vocab)
    template = Template.of(_TEMPLATE) if {"[CLS]", "[SEP]"} <= set(specials) else None
    alphabet = wordpiece_alphabet("wordpiece", marks_spaces=False)
    model = WordPieceModel("wordpiece", alphabet, vocab, (), specials, UNK)
    normalizer = _tell_normalizer(vocab.keys() - set(specials)) if normalizer is None else normalizer
    return Tokenizer(model, pretokenizer=PreTokenizer("bert"), normalizer=normalizer, template=template)


def _tell_normalizer(tokens: Collection[str]) -> Normalizer:
    """BERT's cased normalizer if a token has a capital letter, otherwise the uncased one."""
    cased = any(re.search("[A-Z]", token) for token in tokens)
    return Normalizer(_BERT_STEPS[:1] if cased else _BERT_STEPS)


def _read_lines(content: bytes) -> dict[str, int]:
    content = content.removeprefix(_BOM)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = content.count(b"\n", 0, error.start) + 1
        raise TokenizerFileError(f"line {place}: not UTF-8 at byte {error.start}; save the {NAME} as UTF-8") from None
    vocab: dict[str, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        token = line.removesuffix("\r")
        if not token:
            raise TokenizerFileError(f"line {number + 1}: it is empty; a token stands on each line of a {NAME}")
        if token in vocab:
            raise TokenizerFileError(
                f"line {number + 1}: the token {excerpt(token)} stands on line {vocab[token] + 1} too; keep one"
            )
        vocab[token] = number
    return vocab


def dumps(tokenizer: Tokenizer) -> bytes:
    """Write the vocab.txt of a tokenizer. Raises `UsageError` if readers of the file would not produce the same ids."""
    model = tokenizer.model
    if not isinstance(model, WordPieceModel):
        raise UsageError(f"{NAME} holds a WordPiece vocabulary, this is a {model.name} model; use --to native")
    refuse_options(tokenizer, NAME)
    refuse_added(tokenizer, NAME)
    for what, known, found in (
        ("the model", "wordpiece", model.name),
        ("the pre-tokenizer", "bert", tokenizer.pretokenizer.name),
        ("the continuation prefix", PREFIX, model.continuation_prefix),
        ("a limit of characters", MOST_CHARACTERS, model.max_word_characters),
        ("the unk token", UNK, model.unk_token),
    ):
        if found != known:
            raise UsageError(f"{NAME} stands for {what} {known}, here it is {found}; use --to native")
    tokens = _order_tokens(model)
    _check_parts(tokenizer)
    return "".join(f"{token}\n" for token in tokens).encode("utf-8")


def _check_parts(tokenizer: Tokenizer) -> None:
    """Check that the template and the normalizer are those that readers of the file assume. Raises `UsageError`."""
    known = _tell_normalizer(tokenizer.model.vocab.keys() - set(tokenizer.model.special_tokens))
    if tokenizer.template not in (Template(), Template.of(_TEMPLATE)):
        raise UsageError(f"{NAME} stands for the template {_TEMPLATE['single']}, here it is another; use --to native")
    if tokenizer.normalizer != known:
        raise UsageError(
            f"{NAME} with such tokens stands for the normalizer {known}, here it is {tokenizer.normalizer}; use --to native"
        )


def _order_tokens(model: WordPieceModel) -> list[str]:
    """The tokens in order of id. Raises `UsageError` for a gap in the ids, or a token that a line cannot hold."""
    tokens = sorted(model.vocab, key=lambda token: model.vocab[token])
    for number, token in enumerate(tokens):
        if model.vocab[token] != number:
            raise UsageError(f"{NAME} has an id for each line, and no token has the id {number} here; use --to native")
        if token != token.rstrip() or "\n" in token:
            raise UsageError(f"{NAME} cannot hold the token {token!r}, whose whitespace readers drop; use --to native")
    others = [token for token in model.special_tokens if token not in SPECIALS]
    plain = [token for token in SPECIALS if token in model.vocab and token not in model.special_tokens]
    for token in others + plain:
        what = "is" if token in others else "is not"
        raise UsageError(f"{NAME} has the special tokens {', '.join(SPECIALS)}; {token!r} {what} one here; use --to native")
    return tokens
