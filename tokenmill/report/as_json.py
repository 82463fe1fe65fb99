"""Renders a report as JSON with stable keys in a fixed order, as described in `docs/report.md`. Ratios have six decimals."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tokenmill import schemas
from tokenmill.report.numbers import Group, Report, TokenCount, TokenizerReport, TokenNumbers


def render(report: Report) -> str:
    """Render the report as indented JSON that ends with a newline."""
    return json.dumps(to_object(report), ensure_ascii=False, indent=1) + "\n"


def to_object(report: Report) -> dict[str, Any]:
    """The report as a JSON object."""
    names = [tokenizer.name for tokenizer in report.tokenizers]
    return {
        "format": schemas.REPORT_FORMAT,
        "version": schemas.REPORT_VERSION,
        "texts": {**asdict(report.texts), "rejected": report.rejected},
        "tokenizers": [_describe_tokenizer(tokenizer) for tokenizer in report.tokenizers],
        "by": report.by,
        "groups": [_describe_group(group, names) for group in report.groups],
    }


def _describe_tokenizer(tokenizer: TokenizerReport) -> dict[str, Any]:
    lengths, use = tokenizer.lengths, tokenizer.vocabulary
    return {
        **{name: getattr(tokenizer, name) for name in ("name", "sha256", "model", "normalizer", "pretokenizer")},
        "vocab_size": use.size,
        "embedding_rows": tokenizer.embedding_rows,
        **_describe_numbers(tokenizer.numbers),
        "not_encoded": tokenizer.not_encoded,
        "changes": [asdict(change) for change in tokenizer.changes],
        "tokens_per_document": None
        if lengths is None
        else {
            **asdict(lengths),
            "mean": round(lengths.mean, 6),
            "histogram": [dict(zip(("from", "to", "documents"), bar, strict=True)) for bar in lengths.histogram],
        },
        "vocabulary": {
            **{name: getattr(use, name) for name in ("special", "used", "unused", "unreachable")},
            "covering": {str(percent): tokens for percent, tokens in use.covering},
            "by_rank": [list(point) for point in use.by_rank],
            "most_used": [asdict(token) for token in use.most_used],
            "unused_tokens": [_describe_unused(token) for token in use.unused_tokens],
            "unreachable_tokens": [asdict(token) for token in use.unreachable_tokens],
        },
    }


def _describe_unused(token: TokenCount) -> dict[str, Any]:
    return {"id": token.id, "token": token.token, "text": token.text, "shown": token.shown}


def _describe_group(group: Group, names: list[str]) -> dict[str, Any]:
    numbers = zip(names, map(_describe_numbers, group.tokenizers), strict=True)
    return {"name": group.name, **asdict(group.texts), "tokenizers": dict(numbers)}


def _describe_numbers(numbers: TokenNumbers) -> dict[str, Any]:
    ratios = ("bytes_per_token", "characters_per_token", "tokens_per_word", "unknown_rate")
    return {**asdict(numbers), **{name: _round(getattr(numbers, name)) for name in ratios}}


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, 6)
