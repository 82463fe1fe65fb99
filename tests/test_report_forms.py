"""What a report looks like: the text line by line, the keys of the JSON, and the page, which is parsed and measured."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.by_hand import make_tokenizer
from tokenmill.report import as_html, as_json, as_text, svg
from tokenmill.report.numbers import Report, measure_texts
from tokenmill.report.wording import percent, ratio

VOID = {"meta", "link", "br", "img", "input"}
TEXTS = ["the the", "", "é the", "a", "<b>&'\" the", "\u202eabc\x1b[31m"]


@pytest.fixture(scope="module")
def report() -> Report:
    tokenizers = {
        "t.json": make_tokenizer("", [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", ".")], model="byte-bpe"),
        "<two>.json": make_tokenizer("abeht", [("h", "e")], unk="<unk>", pretokenizer="wordpunct"),
    }
    return measure_texts(tokenizers, TEXTS, groups=["en", "en", "fr", "en", "<i>", "ar"], by="lang")


def test_the_text_line_by_line() -> None:
    tokenizer = make_tokenizer("abĠ", [("a", "b")], pretokenizer="whitespace-punct", unk="<unk>")
    lines = as_text.render(measure_texts({"t.json": tokenizer}, ["ab ab", "", "a", "c"])).splitlines()
    assert lines == [
        "texts  4 documents, 1 of them empty; 7 bytes, 7 characters, 4 words between whitespace",
        "",
        "                                                t.json",
        "──────────────────────────────────────────────────────",
        "model                                         char-bpe",
        "pre-tokenizer                         whitespace-punct",
        "vocabulary                                           5",
        "tokens                                               4",
        "bytes per token                                  1.750",
        "characters per token                             1.750",
        "tokens per word                                  1.000",
        "tokens per document: mean                          1.0",
        "    median                                           1",
        "    90th percentile                                  2",
        "    99th percentile                                  2",
        "    longest                                          2",
        "unknown tokens                                       1",
        "    of all tokens                               25.0 %",
        "documents changed by decoding                        2",
        "    of those checked                            50.0 %",
        "vocabulary used                                      2",
        "    never used                                       2",
        "    unreachable                                      0",
        "tokens that make up 50 % of the text                 1",
        "    90 %                                             2",
        "    99 %                                             2",
        "",
        "tokens in a document  documents",
        "0                             1  ████████████████████",
        "1                             2  ████████████████████████████████████████",
        "2 to 3                        1  ████████████████████",
        "",
        "most used    ab 2  a 1",
        "never used   b  Ġ",
        "changed      2 of 4 documents (50.0 %) by decoding",
        "             text 0, byte 2: ' ab' comes back as 'ab'",
        "             text 3, byte 0: 'c' comes back as ''",
    ]


def test_the_text_of_several_tokenizers_has_groups_and_escapes_what_does_not_print(report: Report) -> None:
    text = as_text.render(report)
    assert re.search(r"^ +t\.json +<two>\.json$", text, re.MULTILINE)
    assert re.search(r"^lang +documents +bytes +words +bytes/token +tokens/word +bytes/token +tokens/word$", text, re.MULTILINE)
    assert re.search(r"^en +3 +8 +3 +2\.000 +1\.333 ", text, re.MULTILINE)
    assert "unreachable  a. (a .)" in text and "\x1b" not in text and "\u202e" not in text


def test_wide_characters_are_aligned() -> None:
    assert as_text.align([["你好", "1"], ["e\u0301", "22"]]) == ["你好   1", "e\u0301     22"]


def test_the_keys_of_the_json(report: Report) -> None:
    content: dict[str, Any] = json.loads(as_json.render(report))
    assert list(content) == ["format", "version", "texts", "tokenizers", "by", "groups"]
    assert (content["format"], content["version"], content["by"]) == ("tokenmill-report", 1, "lang")
    assert content["texts"] == {"documents": 6, "empty": 1, "bytes": 35, "characters": 32, "words": 8, "rejected": 0}
    first, second = content["tokenizers"]
    assert list(first) == [
        *("name", "sha256", "model", "normalizer", "pretokenizer", "vocab_size", "embedding_rows", "documents", "bytes"),
        *("characters", "words", "tokens", "unknown", "checked", "changed", "bytes_per_token", "characters_per_token"),
        *("tokens_per_word", "unknown_rate", "not_encoded", "changes", "tokens_per_document", "vocabulary"),
    ]
    assert list(first["vocabulary"]) == [
        *("special", "used", "unused", "unreachable", "covering", "by_rank", "most_used", "unused_tokens", "unreachable_tokens"),
    ]
    assert first["vocabulary"]["most_used"][0] == {"id": 258, "token": "Ġthe", "text": " the", "shown": "␣the", "count": 3}
    assert first["vocabulary"]["unreachable_tokens"] == [
        {"id": 259, "token": "a.", "text": "a.", "shown": "a.", "gives": ["a", "."]}
    ]
    assert first["tokens_per_document"]["histogram"][0] == {"from": 0, "to": 0, "documents": 1}
    assert second["unknown_rate"] == round(second["unknown"] / second["tokens"], 6) and second["changes"][0]["document"]
    assert [group["name"] for group in content["groups"]] == ["ar", "<i>", "en", "fr"]
    assert list(content["groups"][0]["tokenizers"]) == ["t.json", "<two>.json"]


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 5, "0 %"), (5, 5, "100 %"), (0, 0, "–"), (1, 8, "12.5 %"), (1, 100_000, "0.001 %"), (99_999, 100_000, "99.999 %")],
)
def test_shares_are_only_whole_where_they_are_exact(part: int, whole: int, shown: str) -> None:
    assert percent(part, whole) == shown


# --- the page ---------------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Elements in order, with a check that they close in the reverse order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return as_html.render(report)


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(page: str) -> None:
    parsed = Page(page)
    tags = [tag for tag, _ in parsed.elements]
    assert not {"script", "link", "img", "iframe", "object"} & set(tags)
    assert not [attrs for _, attrs in parsed.elements if {"src", "href", "onclick", "onload"} & attrs.keys()]
    assert "http" not in page and "url(" not in page and "@import" not in page and page.startswith("<!DOCTYPE html>")
    assert "prefers-color-scheme: dark" in page


def test_what_texts_and_names_hold_is_escaped(page: str) -> None:
    assert "<two>" not in page and "&lt;two&gt;.json" in page and "<i></i>" not in page and "\x1b" not in page
    assert "\u202e" not in page


def test_plots_speak_to_those_who_do_not_see_them_and_have_tables_beside(page: str) -> None:
    parsed = Page(page)
    plots = [attrs for tag, attrs in parsed.elements if tag == "svg"]
    tags = [tag for tag, _ in parsed.elements]
    assert len(plots) == 10 and all(attrs["role"] == "img" and attrs["aria-label"] for attrs in plots)
    assert tags.count("title") == 11 and tags.count("desc") == 10 and tags.count("figcaption") == 10
    assert tags.count("table") == tags.count("caption") >= 6 and all(
        attrs.get("scope") in ("col", "row") for tag, attrs in parsed.elements if tag == "th"
    )
    assert dict(parsed.elements)["html"] == {"lang": "en"}


def test_every_colour_of_the_plots_is_in_both_palettes(page: str) -> None:
    style = page[page.index("<style>") : page.index("</style>")]
    for number in range(svg.SERIES):
        assert style.count(f"--s{number}: #") == 2 and f".s{number} {{" in style


def test_all_of_a_plot_lies_inside_it(page: str) -> None:
    numbers = 0
    for box, content in re.findall(r'<svg viewBox="0 0 720 (\d+)"(.*?)</svg>', page, re.DOTALL):
        for x, y, width, height in re.findall(r'<rect class="s\d" x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"', content):
            assert float(x) >= 0 and float(x) + float(width) <= 720.1 and float(y) >= 0
            assert float(y) + float(height) <= float(box) + 0.1
            numbers += 1
        for point in re.findall(r'points="(.*?)"', content):
            for pair in point.split():
                x, y = map(float, pair.split(","))
                assert 0 <= x <= 720 and 0 <= y <= float(box)
                numbers += 1
    assert numbers > 40


def test_bars_are_as_long_as_their_values() -> None:
    plot = svg.draw_bars("Title", [svg.Row("a", (1.0, 2.0)), svg.Row("b" * 40, (4.0, None))], ratio)
    widths = [float(width) for width in re.findall(r'width="(.*?)"', plot)]
    assert widths == pytest.approx([widths[2] / 4, widths[2] / 2, widths[2], 0], abs=0.06)
    assert "…" + "b" * 23 in plot and ">–<" in plot and "<desc>a: 1.000, 2.000; " + "b" * 40 + ": 4.000, –</desc>" in plot


def test_columns_and_shares_are_as_large_as_their_values() -> None:
    plot = svg.draw_columns("Title", [("0", 1), ("1", 0), ("2–3", 4)])
    first, none, last = (float(height) for height in re.findall(r'height="(.*?)"', plot))
    assert (none, last) == (0, pytest.approx(4 * first, abs=0.3)) and last > 100
    shares = [float(width) for width in re.findall(r'width="(.*?)"', svg.draw_shares("Title", [("a", 1), ("b", 3)]))]
    assert shares == [svg.WIDTH / 4, svg.WIDTH * 3 / 4]


def test_a_curve_falls_along_logarithmic_axes() -> None:
    plot = svg.draw_curve("Title", [(1, 100), (10, 10), (100, 1)], across="rank", up="times used")
    points = [tuple(map(float, pair.split(","))) for pair in re.findall(r'points="(.*?)"', plot)[0].split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y1 - y0 == pytest.approx(y2 - y1, abs=0.2) and y2 > y0
    assert plot.count('class="grid"') == 6 and "times used fall from 100 to 1 at rank 100" in plot


def test_an_empty_report_is_a_page_too() -> None:
    tokenizer = make_tokenizer("", [], model="byte-bpe")
    made = measure_texts({"t.json": tokenizer}, [])
    assert Page(as_html.render(made)).elements and "tokens per word" in as_text.render(made)
    assert json.loads(as_json.render(made))["tokenizers"][0]["tokens_per_document"] is None
