"""Shared by the text and HTML reports: the format of numbers, and the rows of the table that compares tokenizers."""

from __future__ import annotations

from collections.abc import Callable

from tokenmill.report.numbers import Lengths, Report, TokenizerReport
from tokenmill.unicode_text import show_printable as show

NOTHING = "–"


def count(number: int) -> str:
    """Format a number: `1,234`."""
    return f"{number:,}"


def ratio(number: float | None) -> str:
    """Format a ratio with three decimals: `1.273`."""
    return NOTHING if number is None else f"{number:,.3f}"


def percent(part: int, whole: int) -> str:
    """Format a share with enough digits to be visible: `12.3 %`, `0.004 %`. It shows 0 and 100 only if they are exact."""
    if not whole:
        return NOTHING
    if part in (0, whole):
        return f"{100 * part // whole} %"
    share = 100 * part / whole
    digits = next((digits for digits in (1, 2, 3, 4) if 0 < round(share, digits) < 100), 6)
    return f"{share:.{digits}f} %"


def rows_of(report: Report) -> list[list[str]]:
    """The table that compares tokenizers: a row for each number, a column for each tokenizer, with names in the first of each."""
    tokenizers = report.tokenizers
    rows = [["", *(show(tokenizer.name) for tokenizer in tokenizers)]]
    for label, value in _ROWS.items():
        cells = [value(tokenizer) for tokenizer in tokenizers]
        if label not in _ONLY_IF_ANY or any(cell not in ("0", NOTHING) for cell in cells):
            rows.append([label, *cells])
    return rows


def _of_lengths(value: Callable[[Lengths], str]) -> Callable[[TokenizerReport], str]:
    return lambda tokenizer: NOTHING if tokenizer.lengths is None else value(tokenizer.lengths)


def _covering(tokenizer: TokenizerReport, percent: int) -> str:
    return count(dict(tokenizer.vocabulary.covering)[percent])


_ROWS: dict[str, Callable[[TokenizerReport], str]] = {
    "model": lambda tokenizer: tokenizer.model,
    "normalizer": lambda tokenizer: NOTHING if tokenizer.normalizer == "identity" else show(tokenizer.normalizer),
    "pre-tokenizer": lambda tokenizer: show(tokenizer.pretokenizer),
    "vocabulary": lambda tokenizer: count(tokenizer.vocabulary.size),
    "tokens": lambda tokenizer: count(tokenizer.numbers.tokens),
    "bytes per token": lambda tokenizer: ratio(tokenizer.numbers.bytes_per_token),
    "characters per token": lambda tokenizer: ratio(tokenizer.numbers.characters_per_token),
    "tokens per word": lambda tokenizer: ratio(tokenizer.numbers.tokens_per_word),
    "tokens per document: mean": _of_lengths(lambda lengths: f"{lengths.mean:,.1f}"),
    "    median": _of_lengths(lambda lengths: count(lengths.median)),
    "    90th percentile": _of_lengths(lambda lengths: count(lengths.percentile_90)),
    "    99th percentile": _of_lengths(lambda lengths: count(lengths.percentile_99)),
    "    longest": _of_lengths(lambda lengths: count(lengths.longest)),
    "unknown tokens": lambda tokenizer: count(tokenizer.numbers.unknown),
    "    of all tokens": lambda tokenizer: percent(tokenizer.numbers.unknown, tokenizer.numbers.tokens),
    "documents not encoded": lambda tokenizer: count(tokenizer.not_encoded),
    "documents changed by decoding": lambda tokenizer: count(tokenizer.numbers.changed),
    "    of those checked": lambda tokenizer: percent(tokenizer.numbers.changed, tokenizer.numbers.checked),
    "vocabulary used": lambda tokenizer: count(tokenizer.vocabulary.used),
    "    never used": lambda tokenizer: count(tokenizer.vocabulary.unused),
    "    unreachable": lambda tokenizer: count(tokenizer.vocabulary.unreachable),
    "tokens that make up 50 % of the text": lambda tokenizer: _covering(tokenizer, 50),
    "    90 %": lambda tokenizer: _covering(tokenizer, 90),
    "    99 %": lambda tokenizer: _covering(tokenizer, 99),
}
#: The rows that are omitted if they are empty.
_ONLY_IF_ANY = ("normalizer", "    of all tokens", "documents not encoded")
