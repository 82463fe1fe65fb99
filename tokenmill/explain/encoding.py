"""Explains encoding step by step: the words of a text and their places, base symbols, merges, tokens, ids, and decoding."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from tokenmill.data import load_class_table
from tokenmill.explain.merging import spell_unknown
from tokenmill.explain.steps import AppliedMerge, Match, Steps
from tokenmill.explain.symbols import check_length
from tokenmill.kernels import scan_classes
from tokenmill.models.base import Model
from tokenmill.models.kinds import kind_of, load
from tokenmill.models.showing import spell_out
from tokenmill.reference import words as reference_words
from tokenmill.reference.bpe import Pair
from tokenmill.text.patterns import compile_pattern, split_by_pattern
from tokenmill.unicode_text import encode_text

if TYPE_CHECKING:
    from tokenmill.text.pretokenizers import PreTokenizer
    from tokenmill.tokenizer import Tokenizer

#: The character classes that patterns use, and their bits in the class table.
_CLASSES = (
    *((r"\p{L}", scan_classes.LETTER), (r"\p{N}", scan_classes.NUMBER), (r"\s", scan_classes.WHITESPACE)),
    *((r"\p{M}", scan_classes.MARK), (r"[\p{Lu}\p{Lt}]", scan_classes.UPPER), (r"\p{Ll}", scan_classes.LOWER)),
    *((r"[\p{Lm}\p{Lo}]", scan_classes.OTHER_LETTER), (r"\p{P}", scan_classes.PUNCTUATION)),
    (r"\p{Nd}", scan_classes.DECIMAL),
    (r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]", scan_classes.UNICODE_WORD),
)


@dataclass(frozen=True)
class WordExplanation:
    """The encoding of a word.

    `characters` and `bytes` are its place in the text, (start, end) with the end excluded. They include the whitespace that a
    marker stands for. `symbols` have the marks of the model. `matches` are the steps of a WordPiece model, which applies no
    merges. `spells` is the text of each token, with bytes that are not a whole character as `\\xc3`. An id is None for a
    character that is unknown to a model without an unk token.
    """

    word: str
    characters: tuple[int, int]
    bytes: tuple[int, int]
    symbols: tuple[str, ...]
    merges: tuple[AppliedMerge, ...]
    tokens: tuple[str, ...]
    ids: tuple[int | None, ...]
    spells: tuple[str, ...]
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True)
class UnknownCharacter:
    """A character outside the alphabet, its place in the text, and what it becomes: the unk token, byte tokens, or None."""

    character: str
    code_point: str
    name: str
    at: int
    becomes: str | None


@dataclass(frozen=True)
class TextExplanation:
    """The encoding and decoding of a text.

    `decoded` is None if an id is missing; `same` is whether it equals the text. `doubtful` are characters that `re` and `regex`,
    which cut the words here, classify differently from the tokenizer's tables, so the tokenizer may cut other words.
    """

    text: str
    normalizer: str
    normalized: str
    pretokenizer: str
    lossless: bool
    model: str
    words: tuple[WordExplanation, ...]
    tokens: tuple[str, ...]
    ids: tuple[int | None, ...]
    unknown: tuple[UnknownCharacter, ...]
    doubtful: tuple[str, ...]
    decoded: str | None
    same: bool


def explain_text(tokenizer: Tokenizer, text: str) -> TextExplanation:
    """Explain every step of encoding a text: normalize, cut into words, merge, look up ids, decode.

    Raises `UsageError` for a text that is too long, and `InvalidTextError` for one that UTF-8 cannot encode.
    """
    encode_text(text)
    check_length(len(text), "the text has", "give a part of it")
    original, parts = text, [_Part(tokenizer.normalizer.normalize(part), token) for part, token in _cut_added(tokenizer, text)]
    text = "".join(part.text + part.token for part in parts)
    check_length(len(text), "the text, normalized, has", "give a part of it")
    explained = list(_explain_parts(tokenizer, parts, text))
    words = tuple(word for word, _ in explained)
    ids = tuple(token_id for word in words for token_id in word.ids)
    known = [token_id for token_id in ids if token_id is not None]
    decoded = tokenizer.decode(known) if len(known) == len(ids) else None
    return TextExplanation(
        text=original,
        normalizer=str(tokenizer.normalizer),
        normalized=text,
        pretokenizer=str(tokenizer.pretokenizer),
        lossless=tokenizer.pretokenizer.lossless,
        model=tokenizer.model.name,
        words=words,
        tokens=tuple(token for word in words for token in word.tokens),
        ids=ids,
        unknown=tuple(_name_unknown(tokenizer.model, text[at], at) for _, unknown in explained for at in unknown),
        doubtful=tuple(_find_doubtful(tokenizer.pretokenizer, text)),
        decoded=decoded,
        same=decoded == original,
    )


class _Part(NamedTuple):
    """Normalized text for the model, and the added token after it, "" after the last part."""

    text: str
    token: str


def _cut_added(tokenizer: Tokenizer, text: str) -> list[tuple[str, str]]:
    """Cut a text at added tokens. Each part has the token after it: `a<think>b` gives `a` with `<think>`, and `b` with ""."""
    split = tokenizer.split_texts(pa.array([text], pa.large_string()))
    if split is None:
        return [(text, "")]
    tokens = [tokenizer.model.token_of_id[token_id] for token_id in split.hits[:, 1].tolist()]
    return list(zip((part.decode() for part in split.parts.to_pylist()), [*tokens, ""], strict=True))


def _explain_parts(tokenizer: Tokenizer, parts: list[_Part], text: str) -> Iterator[tuple[WordExplanation, list[int]]]:
    """Explain the words of all parts and the added tokens between them, with their places in the whole text."""
    ranks = {rule: rank for rank, rule in enumerate(tokenizer.merge_rules)}
    start = 0
    for part in parts:
        for word, place in place_words(tokenizer.pretokenizer, part.text):
            yield _explain_word(tokenizer, ranks, text, word, start + place)
        start += len(part.text)
        if part.token:
            steps = Steps(part.token, [part.token], [part.token], [tokenizer.model.vocab[part.token]], [])
            yield _place_steps(tokenizer, steps, text, len(part.token), start)
        start += len(part.token)


def place_words(pretokenizer: PreTokenizer, text: str) -> Iterator[tuple[str, int]]:
    """The words that the model gets, and the character where each begins: `Hi, you` gives `Hi` 0, `,` 2, ` you` 3.

    With wordpunct, a space at the start of a word stands for the whitespace character before the word.
    """
    position = 0
    for word in _cut_words(pretokenizer, text):
        marked = not pretokenizer.lossless and word.startswith(" ")
        # Only whitespace is dropped, and no word begins with it, so the next occurrence is the place of the word.
        start = text.index(word[marked:], position) - marked
        yield word, start
        position = start + len(word)


def _cut_words(pretokenizer: PreTokenizer, text: str) -> Iterable[str]:
    """Cut a text into words. A custom pattern has a time limit, because it is untrusted."""
    digits = pretokenizer.split_digits
    if pretokenizer.pattern is None:
        return reference_words.cut_words(pretokenizer.name, text, marker=" ", split_digits=digits)
    parts = reference_words.cut_out_digits(text, digits, with_space=False) if digits else [text]
    pattern = compile_pattern(pretokenizer.pattern)
    return [word for part in parts for word in split_by_pattern(pattern, part)]


def _find_doubtful(pretokenizer: PreTokenizer, text: str) -> Iterator[str]:
    """The characters that the tokenizer's tables classify differently. None for custom patterns, which always run in `regex`."""
    if pretokenizer.pattern is None or pretokenizer.split_digits is not None:
        yield from (character for character in dict.fromkeys(text) if not is_certain(character))


def is_certain(character: str) -> bool:
    """Whether `re` and `regex`, whose Unicode tables have other versions, classify a character as the tokenizer does."""
    if character.isascii():
        return True
    import regex

    known = int(load_class_table()[ord(character)])
    return all(bool(regex.match(pattern, character)) == bool(known & bit) for pattern, bit in _CLASSES) and (
        bool(re.match(r"\w", character)) == bool(known & scan_classes.RE_WORD)
    )


def _explain_word(
    tokenizer: Tokenizer, ranks: Mapping[Pair, int], text: str, word: str, start: int
) -> tuple[WordExplanation, list[int]]:
    """Explain a word that begins at character `start`. Also returns where in the text its unknown characters are."""
    explain = load(kind_of(tokenizer.model.name).explainer)
    steps: Steps = explain(tokenizer.model, ranks, word)
    return _place_steps(tokenizer, steps, text, len(word), start)


def _place_steps(tokenizer: Tokenizer, steps: Steps, text: str, length: int, start: int) -> tuple[WordExplanation, list[int]]:
    first_byte, end = len(text[:start].encode()), start + length
    explained = WordExplanation(
        word=steps.word,
        characters=(start, end),
        bytes=(first_byte, first_byte + len(text[start:end].encode())),
        symbols=tuple(steps.symbols),
        merges=steps.merges,
        tokens=tuple(steps.tokens),
        ids=tuple(steps.ids),
        spells=tuple(_spell(tokenizer, token, token_id) for token, token_id in zip(steps.tokens, steps.ids, strict=True)),
        matches=steps.matches,
    )
    return explained, [start + place for place in steps.unknown]


def _spell(tokenizer: Tokenizer, token: str, token_id: int | None) -> str:
    return token if token_id is None else spell_out(tokenizer.model, token_id)


def _name_unknown(model: Model, character: str, at: int) -> UnknownCharacter:
    becomes = "".join(spell_unknown(character)) if model.alphabet.byte_fallback else model.unk_token
    name = unicodedata.name(character, "without a name")
    return UnknownCharacter(character, f"U+{ord(character):04X}", name, at, becomes)
