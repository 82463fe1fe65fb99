"""Plain text out of files: HTML without its tags, gettext catalogues as their translations, everything else as it stands."""

from __future__ import annotations

import gettext
import gzip
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

#: Elements of a page that are not its text.
_SKIPPED_ELEMENTS = frozenset({"script", "style", "head", "nav", "header", "footer"})
_TEXT_SUFFIXES = frozenset({".txt", ".rst", ".md", ".text", ".adoc", ".yaml"})
_HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
_MANUAL_SUFFIX = re.compile(r"\.[1-8][a-z]*$")
_BLANK_LINES = re.compile(r"\n\s*\n\s*\n")


class _TextOfPage(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in _SKIPPED_ELEMENTS

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in _SKIPPED_ELEMENTS and self._skipped > 0

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.parts.append(data)


def read_text(path: Path) -> str | None:
    """The text of a file, or None when it is not a document in UTF-8."""
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix.lower()
    if suffix == ".mo":
        return _read_catalogue(path)
    is_html = suffix in _HTML_SUFFIXES
    if not (is_html or suffix in _TEXT_SUFFIXES or _MANUAL_SUFFIX.search(name)):
        return None
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (UnicodeDecodeError, OSError, EOFError):
        return None
    return strip_tags(text) if is_html else text


def strip_tags(page: str) -> str:
    """The text of an HTML page, runs of blank lines shortened to one."""
    parser = _TextOfPage()
    parser.feed(page)
    return _BLANK_LINES.sub("\n\n", "".join(parser.parts)).strip() + "\n"


def _read_catalogue(path: Path) -> str:
    """The translations of a gettext catalogue, one a line, without the marks of shortcut keys."""
    with path.open("rb") as file:
        catalogue = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    messages = [message for key, message in catalogue.items() if key]
    return "\n".join(re.sub(r"[_~](?=\w)", "", message) for message in messages) + "\n"


def split_sections(text: str, size: int) -> Iterator[str]:
    """Sections of about `size` characters that end at line ends; a text of up to twice the size stays whole.

    >>> list(split_sections("one\\ntwo\\nthree\\n", 4))
    ['one\\n', 'two\\n', 'three\\n']
    """
    start = 0
    while len(text) - start > 2 * size:
        end = text.find("\n", start + size - 1) + 1
        if end == 0:
            break
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]
