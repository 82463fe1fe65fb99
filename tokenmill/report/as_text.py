"""Renders a report as plain text: aligned tables with a column for each tokenizer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from tokenmill.models.showing import show_text
from tokenmill.report.numbers import Report, TokenizerReport, TokenNumbers
from tokenmill.report.wording import count, percent, ratio, rows_of
from tokenmill.unicode_text import show_printable as show

#: The number of groups shown. The JSON and the HTML have more.
SHOWN_GROUPS = 20
_BAR_WIDTH = 40
_WIDTH = 100


def render(report: Report) -> str:
    """Render the report as text that ends with a newline."""
    sections = [describe_texts(report), align(rows_of(report), heads=1)]
    if report.by is not None:
        sections.append(describe_groups(report))
    for tokenizer in report.tokenizers:
        title = [tokenizer.name] if len(report.tokenizers) > 1 else []
        sections += [[*title, *section] for section in (describe_lengths(tokenizer),) if section]
        sections.append([*describe_tokens(tokenizer), *describe_changes(tokenizer)])
    return "\n".join("".join(f"{line}\n" for line in section) for section in sections if section)


def describe_texts(report: Report) -> list[str]:
    """The totals of the texts, in one or two lines."""
    texts = report.texts
    lines = [
        f"texts  {texts.documents:,} documents, {texts.empty:,} of them empty; {texts.bytes:,} bytes, "
        f"{texts.characters:,} characters, {texts.words:,} words between whitespace"
    ]
    if report.rejected:
        lines.append(f"       {report.rejected:,} records rejected: they are in no number here")
    return lines


def describe_groups(report: Report) -> list[str]:
    """The groups as a table, those with the most bytes first."""
    ratios = ("bytes/token", "tokens/word") if len(report.tokenizers) > 1 else ("bytes/token", "characters/token", "tokens/word")
    names = [name for tokenizer in report.tokenizers for name in (show(tokenizer.name), *[""] * (len(ratios) - 1))]
    rows = [["", "", "", "", *names]] if len(report.tokenizers) > 1 else []
    heads = len(rows) + 1
    rows.append([report.by or "", "documents", "bytes", "words", *ratios * len(report.tokenizers)])
    for group in report.groups[:SHOWN_GROUPS]:
        values = [_ratios(numbers)[name] for numbers in group.tokenizers for name in ratios]
        rows.append([show(group.name), *map(count, (group.texts.documents, group.texts.bytes, group.texts.words)), *values])
    more = len(report.groups) - SHOWN_GROUPS
    return [*align(rows, heads=heads), *([f"and {more:,} more"] if more > 0 else [])]


def _ratios(numbers: TokenNumbers) -> dict[str, str]:
    return {
        "bytes/token": ratio(numbers.bytes_per_token),
        "characters/token": ratio(numbers.characters_per_token),
        "tokens/word": ratio(numbers.tokens_per_word),
    }


def describe_lengths(tokenizer: TokenizerReport) -> list[str]:
    """Tokens per document as bars."""
    if tokenizer.lengths is None:
        return []
    bars = [bar for bar in tokenizer.lengths.histogram if bar[2]]
    most = max(documents for _, _, documents in bars)
    rows = [["tokens in a document", "documents", ""]]
    for fewest, longest, documents in bars:
        label = f"{fewest:,}" if fewest == longest else f"{fewest:,} to {longest:,}"
        rows.append([label, count(documents), "█" * max(1, round(_BAR_WIDTH * documents / most))])
    return align(rows, left=(0, 2))


def describe_tokens(tokenizer: TokenizerReport) -> list[str]:
    """The most used, unused and unreachable tokens, as many as the report contains."""
    use = tokenizer.vocabulary
    lines = _list("most used", (f"{token.shown} {token.count:,}" for token in use.most_used), len(use.most_used))
    lines += _list("never used", (token.shown for token in use.unused_tokens), use.unused)
    unreachable = (f"{one.shown} ({' '.join(map(show_text, one.gives))})" for one in use.unreachable_tokens)
    return lines + _list("unreachable", unreachable, use.unreachable)


def describe_changes(tokenizer: TokenizerReport) -> list[str]:
    """Some documents that decoding does not restore."""
    lines = [
        f"             {show(change.document)}, byte {change.byte:,}: {change.text!r} comes back as {change.decoded!r}"
        for change in tokenizer.changes
    ]
    changed, checked = tokenizer.numbers.changed, tokenizer.numbers.checked
    return (
        [f"changed      {changed:,} of {checked:,} documents ({percent(changed, checked)}) by decoding", *lines] if lines else []
    )


def _list(label: str, entries: Iterable[str], number: int) -> list[str]:
    entries = list(entries)
    if not entries:
        return []
    lines = [f"{label:12}"]
    for entry in [*entries, *([f"and {number - len(entries):,} more"] if number > len(entries) else [])]:
        if measure_width(lines[-1]) + measure_width(entry) + 2 > _WIDTH and lines[-1].strip():
            lines.append(" " * 12)
        lines[-1] += f" {entry} "
    return [line.rstrip() for line in lines]


def align(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,), heads: int = 0) -> list[str]:
    """Align rows of cells as lines, with a rule below the first `heads` rows. Columns not in `left` are right-aligned."""
    widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(_pad(cell, width, place in left) for place, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    if heads:
        lines.insert(heads, "─" * (sum(widths) + 2 * len(widths) - 2))
    return [line.rstrip() for line in lines]


def _pad(cell: str, width: int, to_left: bool) -> str:
    space = " " * (width - measure_width(cell))
    return cell + space if to_left else space + cell


def measure_width(text: str) -> int:
    """The width of a text in terminal columns: East Asian characters take two, combining characters none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text
    )
