"""The three corpora, built from what package registries serve: English documentation, documentation in many scripts, Python code.

A document is a file, or a section of a long one. Documents stand in the order of the sha256 of their text, so equal files are one
document, any first part of a corpus is a fair sample of it, and the same packages give the same bytes.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import sys
import sysconfig
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.debian import package_versions, unpack_packages
from benchmarks.errors import BenchmarkError
from benchmarks.texts import read_text, split_sections

CORPORA = ("english", "multilingual", "code")
#: Megabytes of text, so that one pass takes the fastest encoder most of a second.
DEFAULT_MEGABYTES = {"english": 124.0, "multilingual": 60.0, "code": 60.0}

ENGLISH_PACKAGES = [
    "linux-doc",
    "python3-doc",
    "postgresql-doc",
    "git-doc",
    "perl-doc",
    "sqlite3-doc",
    "debian-handbook",
    "debian-reference-en",
    "developers-reference",
    "manpages",
    "manpages-dev",
    "libreoffice-help-en-us",
    "libboost-doc",
    "debian-policy",
]
#: Languages in Latin letters have this share of the multilingual corpus; the other languages, of more than ten scripts, the rest.
LATIN_SHARE = 0.15
LATIN_PACKAGES = (
    ["libreoffice-help-de", "manpages-de"],
    ["libreoffice-help-fi"],
    ["libreoffice-help-fr", "manpages-fr"],
    ["libreoffice-help-pl", "manpages-pl"],
    ["libreoffice-help-tr"],
    ["libreoffice-help-vi"],
)
OTHER_PACKAGES = (
    ["libreoffice-l10n-am"],
    ["libreoffice-l10n-ar"],
    ["libreoffice-l10n-bg"],
    ["libreoffice-l10n-bn"],
    ["libreoffice-help-dz"],
    ["libreoffice-help-el", "libreoffice-l10n-el"],
    ["libreoffice-l10n-fa"],
    ["libreoffice-l10n-gu"],
    ["libreoffice-l10n-he"],
    ["libreoffice-help-hi", "libreoffice-l10n-hi"],
    ["libreoffice-help-ja", "manpages-ja", "debian-reference-ja"],
    ["libreoffice-l10n-ka"],
    ["libreoffice-help-km"],
    ["libreoffice-l10n-kn"],
    ["libreoffice-help-ko", "libreoffice-l10n-ko"],
    ["libreoffice-l10n-ml"],
    ["libreoffice-help-ru", "manpages-ru"],
    ["libreoffice-l10n-ta"],
    ["libreoffice-l10n-te"],
    ["libreoffice-l10n-th"],
    ["libreoffice-l10n-uk", "manpages-uk"],
    ["libreoffice-help-zh-cn", "libreoffice-help-zh-tw", "manpages-zh", "debian-reference-zh-cn"],
)

_SECTION_CHARACTERS = 250_000
_SMALLEST_DOCUMENT = 100
_LATIN_LETTER = re.compile(r"[A-Za-zÀ-ɏ]")


class Document(NamedTuple):
    """A text and its name, which is the path inside its package."""

    name: str
    text: str


def build_corpus(corpus: str, megabytes: float, cache: Path) -> tuple[list[Document], dict[str, str]]:
    """The documents of a corpus, and the versions of what they come from.

    Raises BenchmarkError where there is not half as much text as asked for, or this machine has no apt.
    """
    limit = int(megabytes * 1e6)
    # A small corpus need not be chosen from all files: every tenth holds enough for a fiftieth of the text.
    step = max(1, int(DEFAULT_MEGABYTES[corpus] / megabytes / 5))
    if corpus == "code":
        documents, versions = _take(order_documents(_read_code(step)), limit), {"python": sys.version.split()[0]}
    elif corpus == "english":
        folders = unpack_packages(ENGLISH_PACKAGES, cache)
        read = (document for document in _read_folders(folders, step) if is_latin(document.text))
        documents, versions = _take(order_documents(read), limit), package_versions(folders)
    else:
        documents, versions = _build_multilingual(limit, cache, step)
    size = total_bytes(documents)
    if size < limit / 2:
        raise BenchmarkError(
            f"corpus {corpus}: only {size / 1e6:.1f} of {megabytes:g} MB found; ask for fewer, or `apt-get update` first"
        )
    return documents, versions


def _build_multilingual(limit: int, cache: Path, step: int) -> tuple[list[Document], dict[str, str]]:
    """Latin letters for their share, and for the rest the documents that are translated into languages of other scripts."""
    folders = unpack_packages([name for names in LATIN_PACKAGES + OTHER_PACKAGES for name in names], cache)
    latin = [_read_language(names, folders, step) for names in LATIN_PACKAGES]
    others = [[one for one in _read_language(names, folders, step) if not is_latin(one.text)] for names in OTHER_PACKAGES]
    documents = _take_evenly(latin, int(limit * LATIN_SHARE))
    documents += _take_evenly(others, limit - total_bytes(documents))
    return order_documents(documents), package_versions(folders)


def _read_language(names: list[str], folders: dict[str, Path], step: int) -> list[Document]:
    return order_documents(_read_folders({name: folders[name] for name in names if name in folders}, step))


def _take_evenly(languages: list[list[Document]], limit: int) -> list[Document]:
    """The same number of bytes of every language; what a short one lacks is spread over the others."""
    documents: list[Document] = []
    for place, language in enumerate(sorted(languages, key=total_bytes)):
        documents += _take(language, (limit - total_bytes(documents)) // (len(languages) - place))
    return documents


def is_latin(text: str) -> bool:
    """Whether most letters are Latin: so is the documentation of a program that nobody has translated yet."""
    return 2 * len(_LATIN_LETTER.findall(text)) >= sum(map(str.isalpha, text))


def _read_folders(folders: dict[str, Path], step: int) -> Iterator[Document]:
    """Documents of unpacked packages, of every `step`-th file, read by all cores."""
    paths = [(folder, path) for folder in folders.values() for path in sorted(folder.rglob("*")) if path.is_file()]
    with multiprocessing.Pool() as pool:
        for documents in pool.imap(_read_document, paths[::step], chunksize=64):
            yield from documents


def _read_document(place: tuple[Path, Path]) -> list[Document]:
    """A file as documents: none when it is no text, more than one when it is very long."""
    folder, path = place
    text = None if path.is_symlink() else read_text(path)
    if text is None:
        return []
    name = f"{folder.name}/{path.relative_to(folder)}"
    sections = list(split_sections(text, _SECTION_CHARACTERS))
    if len(sections) == 1:
        return [Document(name, text)]
    return [Document(f"{name}#{number}", section) for number, section in enumerate(sections)]


def _read_code(step: int) -> Iterator[Document]:
    """Every `step`-th Python source of the running interpreter: its standard library, and the packages of its environment."""
    library, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    for root in (library, packages):
        for path in sorted(root.rglob("*.py"))[::step]:
            if root == library and "site-packages" in path.parts:
                continue
            try:
                yield Document(f"{root.name}/{path.relative_to(root)}", path.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                continue


def order_documents(documents: Iterable[Document]) -> list[Document]:
    """Documents by the sha256 of their text, of equal ones the first, without those that hold next to nothing."""
    by_digest: dict[bytes, Document] = {}
    for document in documents:
        if len(document.text) >= _SMALLEST_DOCUMENT and "\0" not in document.text:
            by_digest.setdefault(hashlib.sha256(document.text.encode()).digest(), document)
    return [by_digest[digest] for digest in sorted(by_digest)]


def _take(documents: list[Document], limit: int) -> list[Document]:
    """The first documents, of `limit` bytes at most."""
    taken, size = [], 0
    for document in documents:
        size += len(document.text.encode())
        if size > limit:
            break
        taken.append(document)
    return taken


def total_bytes(documents: Iterable[Document]) -> int:
    """Bytes of UTF-8 of all texts."""
    return sum(len(document.text.encode()) for document in documents)


def count_scripts(texts: Iterable[str]) -> dict[str, float]:
    """Share of each script among the letters, the largest first: the first word of a letter's Unicode name says its script.

    >>> count_scripts(["abc \\u0431"])
    {'LATIN': 0.75, 'CYRILLIC': 0.25}
    """
    characters: Counter[str] = Counter()
    for text in texts:
        characters.update(text)
    scripts: Counter[str] = Counter()
    for character, count in characters.items():
        if character.isalpha():
            scripts[unicodedata.name(character, "OTHER").split()[0]] += count
    total = scripts.total() or 1
    return {script: count / total for script, count in scripts.most_common()}
