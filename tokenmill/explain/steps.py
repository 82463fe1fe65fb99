"""The steps that turn a word into tokens, as returned by the explainer of a model kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class AppliedMerge:
    """A rule applied to a word: its rank, and the symbols after it."""

    rank: int
    left: str
    right: str
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Match:
    """One step of longest matching, from symbol `at` on: the strings tried that are not tokens, longest first, and the token.

    The token is None if none fits.
    """

    at: int
    tried: tuple[str, ...]
    token: str | None


class Steps(NamedTuple):
    """The steps of a word; the fields are as in `WordExplanation`. `unknown` are places in the word."""

    word: str
    symbols: Sequence[str]
    tokens: Sequence[str]
    ids: Sequence[int | None]
    unknown: Sequence[int]
    merges: tuple[AppliedMerge, ...] = ()
    matches: tuple[Match, ...] = ()
