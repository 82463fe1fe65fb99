"""Tokenizers made by hand from their rules."""

from __future__ import annotations

from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet
from tokenmill.models.bpe import BpeModel
from tokenmill.reference import bpe as reference
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer


def make_tokenizer(
    letters: str, rules: list[tuple[str, str]], *, pretokenizer: str = "gpt2", model: str = "char-bpe", unk: str | None = None
) -> Tokenizer:
    """A tokenizer of these rules over these letters, ids in order of rank."""
    base = sorted(reference.visible_bytes() if model == "byte-bpe" else letters)
    tokens = dict.fromkeys([*([] if unk is None else [unk]), *base, *(left + right for left, right in rules)])
    cutter = PreTokenizer(pretokenizer)
    alphabet = ByteAlphabet() if model == "byte-bpe" else CharacterAlphabet(cutter.marks_spaces)
    vocab = {token: token_id for token_id, token in enumerate(tokens)}
    specials = () if unk is None else (unk,)
    return Tokenizer(BpeModel(model, alphabet, vocab, tuple(rules), specials, unk), pretokenizer=cutter)


def estimate() -> Tokenizer:
    """The rules es, est, lo over the letters of `estimate, local` and its space."""
    return make_tokenizer("estimate, local".replace(" ", "Ġ"), [("e", "s"), ("es", "t"), ("l", "o")])
