"""The steps that make tokens of a word, as the explainer of a kind of model finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class AppliedMerge:
    """A rule at work in a word: its rank, and the symbols after it."""

    rank: int
    left: str
    right: str
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Match:
    """One step of the longest match: from symbol `at` on, the strings that are no tokens, the longest first, and the token.

    The token is None where none fits.
    """

    at: int
    tried: tuple[str, ...]
    token: str | None


class Steps(NamedTuple):
    """What a model makes of a word: see `WordExplanation`; `unknown` are places in the word."""

    word: str
    symbols: Sequence[str]
    tokens: Sequence[str]
    ids: Sequence[int | None]
    unknown: Sequence[int]
    merges: tuple[AppliedMerge, ...] = ()
    matches: tuple[Match, ...] = ()
