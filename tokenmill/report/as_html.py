"""Renders a report as one self-contained HTML page, with inline styles and plots and without scripts. Each plot has a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tokenmill.models.showing import show_text
from tokenmill.report import svg
from tokenmill.report.numbers import Report, TokenizerReport
from tokenmill.report.page import NOTES, STYLE
from tokenmill.report.wording import count, percent, ratio, rows_of
from tokenmill.unicode_text import show_printable as show

#: The number of groups in a plot and in its table. The JSON contains all of them.
PLOTTED_GROUPS, SHOWN_GROUPS = 20, 200


def render(report: Report) -> str:
    """Render the complete page."""
    names = ", ".join(show(tokenizer.name) for tokenizer in report.tokenizers)
    body = [
        f"<h1>Tokenizer report</h1><p class='lead'>{escape(names)}</p>",
        *describe_texts(report),
        *compare(report),
        *(describe_groups(report) if report.by is not None else []),
        *(part for number, tokenizer in enumerate(report.tokenizers) for part in describe_tokenizer(tokenizer, number)),
        NOTES,
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>Tokenizer report: {escape(names)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def describe_texts(report: Report) -> list[str]:
    """The totals of the texts, in large digits."""
    texts = report.texts
    tiles = {"documents": texts.documents, "bytes": texts.bytes, "characters": texts.characters, "words": texts.words}
    if texts.empty:
        tiles["empty documents"] = texts.empty
    if report.rejected:
        tiles["rejected records"] = report.rejected
    shown = "".join(f"<div><dd>{count(value)}</dd><dt>{name}</dt></div>" for name, value in tiles.items())
    return [f"<section><h2>Texts</h2><dl class='tiles'>{shown}</dl></section>"]


def compare(report: Report) -> list[str]:
    """The table of all numbers, and plots of the ratios if there are several tokenizers."""
    tokenizers = report.tokenizers
    plots = []
    if len(tokenizers) > 1:
        for title, field in (("Bytes per token", "bytes_per_token"), ("Tokens per word", "tokens_per_word")):
            bars = [svg.Row(show(one.name), (getattr(one.numbers, field),)) for one in tokenizers]
            plots.append(figure(svg.draw_bars(title, bars, ratio, colour_rows=True), title))
    head, *rows = rows_of(report)
    title = "Tokenizers side by side" if len(tokenizers) > 1 else "In numbers"
    return [f"<section><h2>{title}</h2>{pair(plots)}{table(title, head, rows, numbers=False)}</section>"]


def describe_groups(report: Report) -> list[str]:
    """Tokens per word and bytes per token by group."""
    by, names = show(report.by or ""), [show(tokenizer.name) for tokenizer in report.tokenizers]
    plots = []
    for title, field in (("Tokens per word", "tokens_per_word"), ("Bytes per token", "bytes_per_token")):
        bars = [
            svg.Row(show(group.name), tuple(getattr(numbers, field) for numbers in group.tokenizers))
            for group in report.groups[:PLOTTED_GROUPS]
        ]
        plots.append(figure(svg.draw_bars(f"{title} by {by}", bars, ratio), f"{title} by {by}", names if len(names) > 1 else ()))
    heads = [f"{name}: {word}" if len(names) > 1 else word for name in names for word in ("bytes per token", "tokens per word")]
    rows = [
        [
            show(group.name),
            *map(count, (group.texts.documents, group.texts.bytes, group.texts.words)),
            *(ratio(number) for part in group.tokenizers for number in (part.bytes_per_token, part.tokens_per_word)),
        ]
        for group in report.groups[:SHOWN_GROUPS]
    ]
    more = len(report.groups) - SHOWN_GROUPS
    note = f"<p>The {SHOWN_GROUPS} with the most bytes; {count(more)} more are in the JSON.</p>" if more > 0 else ""
    made = table(f"By {by}", [by, "documents", "bytes", "words", *heads], rows)
    return [f"<section><h2>By {escape(by)}</h2>{pair(plots)}{note}{made}</section>"]


def describe_tokenizer(tokenizer: TokenizerReport, number: int) -> list[str]:
    """One tokenizer: tokens per document, the use of its tokens, and the tokens themselves."""
    name, use = show(tokenizer.name), tokenizer.vocabulary
    plots = []
    if tokenizer.lengths is not None:
        bars = [(_name_bar(fewest, most), documents) for fewest, most, documents in tokenizer.lengths.histogram]
        first = next(place for place, (_, documents) in enumerate(bars) if documents)
        title = "Documents by number of tokens"
        plots.append(figure(svg.draw_columns(title, bars[first:], series=number), title))
    if use.by_rank:
        title = "How often tokens are used, most used first"
        plots.append(figure(svg.draw_curve(title, use.by_rank, series=number, across="rank", up="times used"), title))
    shares = [("used", use.used), ("never used", use.unused), ("special", use.special)]
    title = f"The vocabulary: {count(use.size)} tokens"
    legend = [f"{label}: {count(value)} ({percent(value, use.size)})" for label, value in shares]
    plots.append(figure(svg.draw_shares(title, shares), title, legend))
    return [f"<section><h2>{escape(name)}</h2>{pair(plots)}{describe_tokens(tokenizer)}{describe_changes(tokenizer)}</section>"]


def describe_tokens(tokenizer: TokenizerReport) -> str:
    """Tables of tokens, side by side."""
    use = tokenizer.vocabulary
    most = [[code(one.shown), str(one.id), count(one.count)] for one in use.most_used]
    unused = [[code(one.shown), str(one.id)] for one in use.unused_tokens]
    cut = [[code(one.shown), str(one.id), " ".join(map(code, map(show_text, one.gives)))] for one in use.unreachable_tokens]
    tables = [raw_table(f"Most used of {count(use.used)}", ["token", "id", "times"], most)] if most else []
    if unused:
        tables.append(raw_table(f"Never used: the first of {count(use.unused)}", ["token", "id"], unused))
    if cut:
        tables.append(raw_table(f"Unreachable: {count(use.unreachable)}", ["token", "id", "encoded as"], cut))
    return f"<div class='side'>{''.join(tables)}</div>"


def describe_changes(tokenizer: TokenizerReport) -> str:
    """The documents that decoding does not restore."""
    if not tokenizer.changes:
        return ""
    numbers = tokenizer.numbers
    rows = [[show(one.document), count(one.byte), show(one.text), show(one.decoded)] for one in tokenizer.changes]
    title = f"Changed by decoding: {count(numbers.changed)} of {count(numbers.checked)} documents"
    return table(title, ["document", "from byte", "the text has", "decoding gives"], rows, numbers=False)


# --- parts ------------------------------------------------------------------------------------------------------------------


def figure(plot: str, caption: str, legend: Sequence[str] = ()) -> str:
    """A plot with its caption and a legend of its colours."""
    keys = "".join(f"<li><i class='k{place % svg.SERIES}'></i>{escape(label)}</li>" for place, label in enumerate(legend))
    return f"<figure><figcaption>{escape(caption)}</figcaption>{f'<ul class=keys>{keys}</ul>' if keys else ''}{plot}</figure>"


def pair(figures: Sequence[str]) -> str:
    """Figures side by side, if there is room."""
    return f"<div class='plots'>{''.join(figures)}</div>" if figures else ""


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """A table of plain text; the first column names the rows."""
    return raw_table(caption, head, [[f"<bdi>{escape(cell)}</bdi>" for cell in row] for row in rows], numbers=numbers)


def raw_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """As `table`, but the cells are HTML already."""
    heads = "".join(f"<th scope='col'>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr><th scope='row'>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>" for first, *rest in rows
    )
    kind = " class='numbers'" if numbers else ""
    return (
        f"<div class='scroll' tabindex='0'><table{kind}><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def code(text: str) -> str:
    """A token as HTML."""
    return f"<code><bdi>{escape(show(text))}</bdi></code>"


def _name_bar(fewest: int, most: int) -> str:
    """`0`, `1`, `2–3`, `1k–2k`, `1M–2M`."""
    if fewest == most:
        return str(fewest)
    for size, unit in ((1 << 20, "M"), (1 << 10, "k")):
        if fewest >= size:
            return f"{fewest // size}{unit}–{(most + 1) // size}{unit}"
    return f"{fewest}–{most}"
