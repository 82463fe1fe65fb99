"""Finds the tokens of a vocabulary that no text can use: those that encoding their own text does not produce."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tokenmill.models import showing
from tokenmill.models.alphabets import NEVER_IN_UTF_8, bytes_of_tokens
from tokenmill.models.base import Model
from tokenmill.tokenizer import Tokenizer


@dataclass(frozen=True)
class Unreachable:
    """An unreachable token: its visible form, its text (see `spell_token`) and its display form.

    `gives` are the texts of the tokens that it is encoded to instead.
    """

    id: int
    token: str
    text: str | None
    shown: str
    gives: tuple[str, ...]


def find_unreachable(tokenizer: Tokenizer) -> list[Unreachable]:
    """Find the tokens of two or more base symbols that encoding their own text does not produce, in order of id.

    A token is unreachable if no merges produce it, if the normalizer changes it, or if the pre-tokenizer cuts it. A byte token
    that ends inside a character occurs only next to other tokens, so it is unreachable only if no merges produce it. A WordPiece
    token that continues words is unreachable if the pre-tokenizer cuts it from a character of the same kind before it. Byte
    tokens of characters with a token of their own are unreachable too.

    Not checked are base symbols, special and added tokens, which the model does not make, and BPE tokens whose marks place them
    inside words, which cannot be encoded alone.
    """
    model = tokenizer.model
    found = [*_find_broken(tokenizer, model.list_whole_tokens()), *_find_spare_bytes(tokenizer)]
    found += [one for token_id in model.list_continuing_tokens() if (one := _find_cut(tokenizer, token_id)) is not None]
    return sorted(found, key=lambda one: one.id)


def _find_broken(tokenizer: Tokenizer, ids: list[int]) -> list[Unreachable]:
    """Find the tokens, among those that can be a whole word, whose text is encoded to other tokens."""
    if not ids:
        return []
    model = tokenizer.model
    specials = {model.vocab[token] for token in model.special_tokens}
    kind = pa.large_binary() if model.takes_any_bytes else pa.large_string()
    encoded, _ = tokenizer.encode_known(pa.array([model.spellings[token_id] for token_id in ids], pa.large_binary()).cast(kind))
    found = []
    for token_id, given in zip(ids, encoded.to_pylist(), strict=True):
        whole = [one for one in given if one not in specials] == [token_id]
        if not whole and (token_id in model.unreached or spell_token(tokenizer, token_id) is not None):
            found.append(_describe(tokenizer, token_id, given))
    return found


def _find_spare_bytes(tokenizer: Tokenizer) -> list[Unreachable]:
    """Find byte tokens that no text uses: `<0x41>` if the ASCII character has a token, and bytes that UTF-8 never contains.

    The other byte tokens encode characters that are not in the alphabet.
    """
    model = tokenizer.model
    if not model.alphabet.byte_fallback:
        return []
    given = tokenizer.encode_known(pa.array([chr(byte) for byte in range(128)], pa.large_string()))[0].to_pylist()
    tokens = [model.vocab[token] for token in bytes_of_tokens()]
    spare = [(tokens[byte], ids) for byte, ids in enumerate(given) if ids and tokens[byte] not in ids]
    never: list[tuple[int, list[int]]] = [(tokens[byte], []) for byte in sorted(NEVER_IN_UTF_8)]
    return [_describe(tokenizer, token_id, ids) for token_id, ids in [*spare, *never]]


def _find_cut(tokenizer: Tokenizer, token_id: int) -> Unreachable | None:
    """The token, which continues words, if the pre-tokenizer cuts its text from a character of the same kind before it."""
    text = spell_token(tokenizer, token_id)
    if not text or tokenizer.pretokenizer.pretokenize(tokenizer.normalizer.normalize(text[0] + text)) == [text[0] + text]:
        return None
    return _describe(tokenizer, token_id, tokenizer.encode_known(pa.array([text], pa.large_string()))[0][0].as_py())


def _describe(tokenizer: Tokenizer, token_id: int, given: list[int]) -> Unreachable:
    model = tokenizer.model
    hidden = {model.vocab[token] for token in model.special_tokens if token != model.unk_token}
    gives = tuple(_spell(model, one) for one in given if one not in hidden)
    token = model.token_of_id[token_id]
    return Unreachable(token_id, token, spell_token(tokenizer, token_id), showing.show_token(model, token), gives)


def spell_token(tokenizer: Tokenizer, token_id: int) -> str | None:
    """The text of a token, or None if its bytes are not whole characters: `Ġthe` gives ` the`."""
    try:
        return tokenizer.model.spellings[token_id].decode("utf-8")
    except UnicodeDecodeError:
        return None


def _spell(model: Model, token_id: int) -> str:
    """Show a token that another token's text is encoded to; `?` for a character without a token."""
    return showing.spell_out(model, token_id) if token_id in model.token_of_id else "?"


def rank_counts(counts: np.ndarray) -> list[tuple[int, int]]:
    """Token counts in descending order as `(rank, count)`, at ranks spaced evenly on a logarithmic axis. Ranks begin at 1.

    The counts [5, 0, 9] give (1, 9), (2, 5).
    """
    ordered = np.sort(counts[counts > 0])[::-1]
    if not ordered.size:
        return []
    ranks = np.unique(np.append(np.geomspace(1, ordered.size, 60).astype(np.int64), ordered.size))
    return [(int(rank), int(ordered[rank - 1])) for rank in ranks]


def count_covering(counts: np.ndarray, percent: int) -> int:
    """How many of the most used tokens make up `percent` of the text: for the counts [5, 0, 9] and 50 %, this is 1."""
    ordered = np.cumsum(np.sort(counts)[::-1])
    if not ordered.size or not ordered[-1]:
        return 0
    return int(np.searchsorted(ordered * 100, ordered[-1] * percent)) + 1
