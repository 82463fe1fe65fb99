"""What of a vocabulary no text can use: tokens that encoding their own spelling does not give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tokenmill.tokenizer import Tokenizer


@dataclass(frozen=True)
class Unreachable:
    """A token, in the visible form and as `spell_token` has it, and the tokens that its spelling is encoded into instead."""

    id: int
    token: str
    text: str | None
    gives: tuple[str, ...]


def find_unreachable(tokenizer: Tokenizer) -> list[Unreachable]:
    """Tokens, by id, of two base symbols or more that encoding their own spelling does not give.

    Either no merges lead to them, or the pre-tokenizer cuts them in two. A byte token that ends inside a character can stand in
    a text only beside others: it is unreachable where no merges lead to it. Base symbols are there for whatever text comes, and
    special tokens come out of no text: they are not looked at.
    """
    model = tokenizer.model
    specials = {model.vocab[token] for token in model.special_tokens}
    tokens = {token_id: token for token, token_id in model.vocab.items() if token_id not in specials}
    ids = [token_id for token_id in sorted(tokens) if len(model.alphabet.base_symbols(tokens[token_id]) or ()) > 1]
    encoded, _ = tokenizer.encode_known(pa.array([model.spellings[token_id] for token_id in ids], pa.large_binary()))
    unmerged = set() if model.ignore_merges else set(model.unmerged.ids.tolist())
    found = []
    for token_id, given in zip(ids, encoded.to_pylist(), strict=True):
        given = [one for one in given if one not in specials]
        if given == [token_id] or (token_id not in unmerged and spell_token(tokenizer, token_id) is None):
            continue
        gives = tuple(_show(tokenizer, one) for one in given)
        found.append(Unreachable(token_id, tokens[token_id], spell_token(tokenizer, token_id), gives))
    return found


def spell_token(tokenizer: Tokenizer, token_id: int) -> str | None:
    """The text that a token stands for, None where its bytes are not whole characters: `Ġthe` gives ` the`."""
    try:
        return tokenizer.model.spellings[token_id].decode("utf-8")
    except UnicodeDecodeError:
        return None


def _show(tokenizer: Tokenizer, token_id: int) -> str:
    """A token within another one's spelling; `?` where a character has none."""
    if token_id not in tokenizer.model.token_of_id:
        return "?"
    text = spell_token(tokenizer, token_id)
    return tokenizer.model.token_of_id[token_id] if text is None else text


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
