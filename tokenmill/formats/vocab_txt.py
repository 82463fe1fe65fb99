"""BERT's vocab.txt: a WordPiece vocabulary, a token a line, whose number, from 0 on, is its id.

The file says nothing else. What BERT goes with is known: clean text, words as its pre-tokenizer cuts them, the prefix `##`, at
most 100 characters a word, the five special tokens, `[CLS] $A [SEP]`. What becomes of capitals and accents, the tokens tell:
where none but the special ones has an ASCII capital, text becomes lower case and loses its accents, as BERT's uncased models do.
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
#: The unk token, and tokens that continue a word or another special one, each on a line of its own.
_SIGNS = (re.compile(rb"(?m)^\[UNK\]\r?$"), re.compile(rb"(?m)^(?:##.|\[PAD\]\r?$|\[CLS\]\r?$)"))
_BOM = b"\xef\xbb\xbf"
#: What BERT's own code does to a text, as an option of it.
_BERT_STEPS = ("bert_clean", "strip_accents", "lowercase")


def is_vocabulary(content: bytes) -> bool:
    """Whether a file is a vocab.txt, by its lines."""
    return all(sign.search(content) for sign in _SIGNS)


def loads(content: bytes, *, normalizer: Normalizer | None = None) -> Tokenizer:
    """A tokenizer from a vocab.txt; `TokenizerFileError` names the line that is wrong. `normalizer`: if they do not tell."""
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
    """BERT's, cased or uncased, by whether a token has a capital."""
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
    """The vocab.txt of a tokenizer. Raises `UsageError` where readers of the file would not give the same ids."""
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
    """The template and the normalizer are those that the file stands for."""
    known = _tell_normalizer(tokenizer.model.vocab.keys() - set(tokenizer.model.special_tokens))
    if tokenizer.template not in (Template(), Template.of(_TEMPLATE)):
        raise UsageError(f"{NAME} stands for the template {_TEMPLATE['single']}, here it is another; use --to native")
    if tokenizer.normalizer != known:
        raise UsageError(
            f"{NAME} with such tokens stands for the normalizer {known}, here it is {tokenizer.normalizer}; use --to native"
        )


def _order_tokens(model: WordPieceModel) -> list[str]:
    """The tokens by id, which leave no gap, as lines that come back as they are."""
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
