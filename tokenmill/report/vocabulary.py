"""What of a vocabulary no text can use: tokens that encoding their own spelling does not give."""

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
    """A token, in the visible form, as `spell_token` has it and as people see it, and what the tokens stand for that its
    spelling is encoded into instead.
    """

    id: int
    token: str
    text: str | None
    shown: str
    gives: tuple[str, ...]


def find_unreachable(tokenizer: Tokenizer) -> list[Unreachable]:
    """Tokens, by id, of two base symbols or more that encoding their own spelling does not give.

    Either no merges lead to them, or the normalizer changes them, or the pre-tokenizer cuts them in two. A byte token that ends
    inside a character can stand in a text only beside others: it is unreachable where no merges lead to it. A WordPiece token
    that continues words is unreachable where its characters would not stay together behind another of their kind. Base symbols
    are there for whatever text comes, special and added tokens are not made by the model, and BPE tokens whose marks say that
    they stand in the middle of words cannot be tried alone: they are not looked at. Byte tokens of characters that have a token
    of their own are unreachable too.
    """
    model = tokenizer.model
    found = [*_find_broken(tokenizer, model.list_whole_tokens()), *_find_spare_bytes(tokenizer)]
    found += [one for token_id in model.list_continuing_tokens() if (one := _find_cut(tokenizer, token_id)) is not None]
    return sorted(found, key=lambda one: one.id)


def _find_broken(tokenizer: Tokenizer, ids: list[int]) -> list[Unreachable]:
    """Of tokens that stand alone, those whose spelling is encoded into others."""
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
    """Byte tokens such as `<0x41>` that no text uses: ASCII characters that have a token, and bytes that UTF-8 never holds.

    Other bytes stand for characters that the alphabet lacks.
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
    """A token that continues words, if what it stands for is cut from a character of its own kind before it."""
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
    """The text that a token stands for, None where its bytes are not whole characters: `Ġthe` gives ` the`."""
    try:
        return tokenizer.model.spellings[token_id].decode("utf-8")
    except UnicodeDecodeError:
        return None


def _spell(model: Model, token_id: int) -> str:
    """A token within another one's spelling; `?` where a character has none."""
    return showing.spell_out(model, token_id) if token_id in model.token_of_id else "?"


def rank_counts(counts: np.ndarray) -> list[tuple[int, int]]:
    """Counts of tokens in falling order at ranks of about equal distance in a logarithmic plot: `(rank, count)`, ranks from 1.

    Of [5, 0, 9]: (1, 9), (2, 5).
    """
    ordered = np.sort(counts[counts > 0])[::-1]
    if not ordered.size:
        return []
    ranks = np.unique(np.append(np.geomspace(1, ordered.size, 60).astype(np.int64), ordered.size))
    return [(int(rank), int(ordered[rank - 1])) for rank in ranks]


def count_covering(counts: np.ndarray, percent: int) -> int:
    """How many of the most used tokens make up so much of the text: of [5, 0, 9], 50 % are 1."""
    ordered = np.cumsum(np.sort(counts)[::-1])
    if not ordered.size or not ordered[-1]:
        return 0
    return int(np.searchsorted(ordered * 100, ordered[-1] * percent)) + 1
