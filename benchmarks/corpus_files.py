"""The corpora on disk: as JSON lines for commands, as Arrow for measurements in memory, and a description for the report.

CORPORA/english.jsonl    keys `id` and `text`
CORPORA/english.arrow    the same as columns
CORPORA/english.json     documents, bytes, words, scripts, versions of the sources
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.corpora import CORPORA, DEFAULT_MEGABYTES, Document, build_corpus, count_scripts, total_bytes
from benchmarks.settings import Settings

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_SCRIPTS = 24


def run(settings: Settings) -> None:
    """Build the corpora that are missing, and say what is in them."""
    for corpus in CORPORA:
        description = describe_corpus(settings, corpus)
        scripts = ", ".join(f"{name.lower()} {100 * share:.1f} %" for name, share in description["scripts"].items())
        print(f"{corpus}: {description['documents']:,} documents, {description['bytes'] / 1e6:.1f} MB, letters: {scripts}")


def corpus_file(settings: Settings, corpus: str, suffix: str = "arrow") -> Path:
    """A file of a corpus, which is built if it is not there yet."""
    path = settings.corpora / f"{corpus}.json"
    if not path.exists():
        _write_corpus(settings, corpus)
    return path.with_suffix(f".{suffix}")


def describe_corpus(settings: Settings, corpus: str) -> dict[str, Any]:
    """What a corpus holds."""
    description: dict[str, Any] = json.loads(corpus_file(settings, corpus, "json").read_text())
    return description


def load_texts(settings: Settings, corpus: str) -> list[str]:
    """The texts of a corpus."""
    with pa.memory_map(str(corpus_file(settings, corpus))) as file:
        texts: list[str] = pa.ipc.open_file(file).read_all()["text"].to_pylist()
    return texts


def _write_corpus(settings: Settings, corpus: str) -> None:
    """All files of a corpus; the description comes last."""
    megabytes = settings.megabytes or DEFAULT_MEGABYTES[corpus]
    documents, versions = build_corpus(corpus, settings.scale(megabytes), settings.folder / "packages")
    settings.corpora.mkdir(parents=True, exist_ok=True)
    base = settings.corpora / corpus
    write_jsonl(base.with_suffix(".jsonl"), documents)
    table = documents_table(documents)
    with pa.ipc.new_file(str(base.with_suffix(".arrow")), table.schema) as writer:
        writer.write_table(table)
    scripts = count_scripts(document.text for document in documents)
    description = {
        "documents": len(documents),
        "bytes": total_bytes(documents),
        "words": sum(len(document.text.split()) for document in documents),
        "scripts": {name: share for name, share in list(scripts.items())[:_MOST_SCRIPTS] if share > 0.0005},
        "versions": versions,
    }
    base.with_suffix(".json").write_text(json.dumps(description, indent=1, ensure_ascii=False) + "\n")


def documents_table(documents: Iterable[Document]) -> pa.Table:
    """Documents as columns `id` and `text`."""
    names, texts = zip(*documents, strict=True)
    return pa.table({"id": pa.array(names, pa.string()), "text": pa.array(texts, pa.large_string())})


def write_jsonl(path: Path, documents: Iterable[Document]) -> None:
    """JSON lines with the keys `id` and `text`."""
    with path.open("w", encoding="utf-8") as file:
        for name, text in documents:
            file.write(json.dumps({"id": name, "text": text}, ensure_ascii=False) + "\n")


def write_repeated(
    folder: Path, texts: list[str], megabytes: float, *, file_megabytes: float = 64.0, format: str = "jsonl"
) -> int:
    """Files of about `file_megabytes` of text each, `megabytes` together: the texts again and again, with variation.

    `format` is `jsonl` or `parquet`. Gives the bytes of text. A folder that holds the files already is left as it is.
    """
    done = folder / "bytes.txt"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        size = 0
        for number, documents in enumerate(_cut(_repeat(texts), megabytes * 1e6, file_megabytes * 1e6)):
            path = folder / f"part-{number:05}.{format}"
            if format == "jsonl":
                write_jsonl(path, documents)
            else:
                pq.write_table(documents_table(documents), path, compression="zstd", compression_level=1, row_group_size=2000)
            size += total_bytes(documents)
        done.write_text(str(size))
    return int(done.read_text())


def _repeat(texts: list[str]) -> Iterator[Document]:
    """The texts for ever, each time in another order and with other new words."""
    row, seed = 0, 0
    while True:
        for text in vary_texts(texts, seed):
            yield Document(f"d{row}", text)
            row += 1
        seed += 1


def _cut(documents: Iterator[Document], total: float, size: float) -> Iterator[list[Document]]:
    """Lists of documents of about `size` bytes each, `total` together."""
    left = total
    while left > 0:
        part: list[Document] = []
        room = min(size, left)
        while room > 0:
            document = next(documents)
            room -= len(document.text.encode())
            part.append(document)
        left -= total_bytes(part)
        yield part


def vary_texts(texts: list[str], seed: int) -> Iterator[str]:
    """The texts in another order, a new word in every fortieth line or so: the vocabulary grows, as in real corpora."""
    source = random.Random(seed)
    for text in source.sample(texts, len(texts)):
        lines = text.split("\n")
        for place in range(source.randrange(40), len(lines), 40):
            lines[place] += " " + "".join(source.choices(_LETTERS, k=source.randint(3, 9)))
        yield "\n".join(lines)
