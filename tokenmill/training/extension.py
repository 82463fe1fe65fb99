"""Extends a vocabulary: adds tokens learned from a new corpus, and keeps the existing ids and rules.

The old rules are first applied to the words by rank, as in encoding, and then the merge loop learns new rules on the result. Its
symbols are the old tokens in order of id, followed by the characters that the old alphabet does not contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.errors import UsageError, VocabularySizeError
from tokenmill.kernels import bpe_merge, encode
from tokenmill.models.alphabets import MARKER, BaseSymbols, CharacterAlphabet, bytes_of_tokens, code_points_of
from tokenmill.models.bpe import BpeModel
from tokenmill.models.kinds import KINDS
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.symbols import TrainingSymbols, cut_words
from tokenmill.training.word_counts import binary_buffers

#: The kinds of models that can be extended.
EXTENDED_MODELS = tuple(kind.name for kind in KINDS.values() if kind.can_be_extended)


@dataclass(frozen=True)
class ExtendedSymbols(TrainingSymbols):
    """Words as old tokens and new characters. The first `old` symbols are tokens; no rule may produce those of `forbidden`."""

    old: int
    forbidden: list[list[int]]

    @property
    def characters(self) -> tuple[str, ...]:
        """The new characters."""
        return self.visible[self.old :]


def check_extended(tokenizer: Tokenizer) -> BpeModel:
    """The model of a tokenizer, if training can extend it. Otherwise raises `UsageError`, which gives the reason."""
    model = tokenizer.model
    if not isinstance(model, BpeModel) or model.name not in EXTENDED_MODELS:
        raise UsageError(f"a {model.name} model cannot be extended; {' and '.join(EXTENDED_MODELS)} can")
    if model.marks.text:
        raise UsageError(f"a model that marks words with {model.marks.text!r} cannot be extended; train it anew")
    if model.lacks_bytes:
        raise UsageError("a model of bytes that lacks some of the 256 cannot be extended; train it anew")
    return model


def new_specials(model: BpeModel, specials: Iterable[str], unk: str | None) -> tuple[str, ...]:
    """The special tokens that a model does not have yet, with the unk token last.

    Raises `UsageError` for a special token that is an ordinary token, and for a second unk token.
    """
    if unk is not None and model.unk_token not in (None, unk):
        raise UsageError(f"the unk token is {model.unk_token!r} and stays it; leave --unk {unk!r} out")
    added = [token for token in specials if token not in model.special_tokens]
    if unk is not None and unk not in (*model.special_tokens, *added):
        added.append(unk)
    for token in added:
        if token in model.vocab:
            raise UsageError(
                f"special token {token!r} is an ordinary token of the vocabulary, of id {model.vocab[token]}; choose another"
            )
    return tuple(added)


def symbols_for_extension(model: BpeModel, counts: pa.Table, specials: Sequence[str]) -> ExtendedSymbols:
    """Encode words (`schemas.WORD_COUNTS`) with the old rules. `specials` are the new special tokens."""
    if model.ignore_merges:  # A word that is one token has no pairs.
        counts = counts.filter(pc.invert(pc.is_in(counts["word"], _unmerged_words(model)))).combine_chunks()
    numbers = _number_tokens(model)
    tokens = sorted(numbers, key=lambda token: numbers[token])
    data, ends = binary_buffers(counts["word"])
    characters = _find_new(model, data, ends)
    ids, offsets = _encode(model, data, ends)
    symbols = np.searchsorted([model.vocab[token] for token in tokens], ids).astype(np.int32)
    visible = sorted({*characters} - {""})
    number_of = {character: len(tokens) + place for place, character in enumerate(visible)}
    symbols[ids < 0] = [number_of.get(character, -1) for character in characters]
    words = cut_words(BaseSymbols(symbols, offsets, ()), counts["count"].to_numpy(), np.zeros(symbols.size, np.bool_))
    for token in specials:
        if token in visible:
            raise UsageError(f"special token {token!r} is a character of the corpus; choose a longer one")
    lengths = [len(model.alphabet.spell(token)) if model.takes_any_bytes else len(token) for token in tokens]
    return ExtendedSymbols(
        words=words,
        visible=(*tokens, *visible),
        lengths=np.array([*lengths, *(1 for _ in visible)], np.int32),
        old=len(tokens),
        forbidden=_forbid(model, numbers | number_of, specials),
    )


def extend_model(
    model: BpeModel, symbols: ExtendedSymbols, rules: Sequence[tuple[str, str]], specials: Sequence[str], unk: str | None
) -> BpeModel:
    """Add new tokens after the old ones: special tokens, characters and products, with consecutive ids."""
    products = [model.alphabet.join(left, right) for left, right in rules]
    first = model.embedding_rows
    added = {token: first + place for place, token in enumerate([*specials, *symbols.characters, *products])}
    return replace(
        model,
        vocab={**model.vocab, **added},
        merge_rules=(*model.merge_rules, *rules),
        special_tokens=(*model.special_tokens, *specials),
        unk_token=model.unk_token or unk,
    )


def check_size(model: BpeModel, symbols: ExtendedSymbols, specials: Sequence[str], size: int) -> int:
    """The number of rules that a vocabulary of `size` tokens has room for. Raises `VocabularySizeError` if it is too small."""
    least = len(model.vocab) + len(specials) + len(symbols.characters)
    if size < least:
        raise VocabularySizeError(
            f"vocabulary size {size} is too small: {len(model.vocab)} tokens that are there, {len(specials)} special tokens and "
            f"{len(symbols.characters)} characters that are new need at least {least}; give more than that"
        )
    return size - least


def _number_tokens(model: BpeModel) -> dict[str, int]:
    """The tokens that training merges, numbered in order of id: all except reserved tokens and byte fallback tokens."""
    fallback = bytes_of_tokens().keys() if model.alphabet.byte_fallback else ()
    others = {*model.reserved_tokens, *fallback}
    ordered = sorted((token for token in model.vocab if token not in others), key=lambda token: model.vocab[token])
    return {token: number for number, token in enumerate(ordered)}


def _encode(model: BpeModel, data: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encode words with the old rules, -1 for each character without an id. Also returns the offsets of the ids of each word."""
    tables = model.tables
    forms = tables.forms._replace(fallback=np.empty(0, np.int32), fuses_unknown=np.bool_(False))
    ids, offsets = np.empty(data.size, np.int32), np.zeros(ends.size + 1, np.int64)
    encode.encode_each(
        tables._replace(unknown=np.int64(-1), forms=forms), bpe_merge.allocate_scratch(), data, ends, ids, offsets[1:]
    )
    return ids[: offsets[-1]], offsets


def _find_new(model: BpeModel, data: np.ndarray, ends: np.ndarray) -> list[str]:
    """The visible form of each character without an id, in corpus order; "" for a marker that byte fallback encodes."""
    alphabet = model.alphabet
    if not isinstance(alphabet, CharacterAlphabet):
        return []
    code_points = code_points_of(data, np.concatenate([[0], ends]))
    found = [chr(point) for point in code_points[model.tables.character_ids[code_points] < 0].tolist()]
    if not alphabet.marks_spaces:
        return found
    shown = {" ": MARKER, MARKER: "" if alphabet.byte_fallback else MARKER}
    return [shown.get(character, character) for character in found]


def _forbid(model: BpeModel, number_of: dict[str, int], specials: Sequence[str]) -> list[list[int]]:
    """Existing tokens that a new rule could produce, as the symbols that the old rules make of them."""
    fallback = bytes_of_tokens() if model.alphabet.byte_fallback else ()
    unmade = [model.token_of_id[token_id] for token_id in model.unmerged.ids.tolist()]
    merged = (
        _merge_token(model, token, number_of)
        for token in (*model.special_tokens, *model.added_tokens, *specials, *fallback, *unmade)
    )
    return [symbols for symbols in merged if symbols is not None and len(symbols) > 1]


def _merge_token(model: BpeModel, token: str, number_of: dict[str, int]) -> list[int] | None:
    """Encode a token's text with the old rules, as symbols; None if no text spells the token."""
    base = model.alphabet.base_symbols(token)
    if not base or any(symbol not in number_of for symbol in base):
        return None
    data = b"".join(model.alphabet.spell(symbol) for symbol in base)
    ids, _ = _encode(model, np.frombuffer(data, np.uint8), np.array([len(data)]))
    unknown = iter([symbol for symbol in base if symbol not in model.vocab])
    return [number_of[next(unknown) if token_id < 0 else model.token_of_id[token_id]] for token_id in ids.tolist()]


def _unmerged_words(model: BpeModel) -> pa.Array:
    return pa.array([model.spellings[token_id] for token_id in model.unmerged.ids.tolist()], pa.large_binary())
