"""Hostile input at random: readers, scanners, encoding, decoding and tokenizer files.

    python -m tests.fuzzing 100000 [SEED [KIND]]        KIND: one of the functions below, such as fuzz_folders

Each input either comes out whole, every record of it accounted for, or is refused with one line of `tokenmill.errors`. Anything
else (another exception, a hang, a lost record) ends the run and names the input. Inputs are noise, and valid ones with damage.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import json
import lzma
import os
import random
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tokenmill import errors
from tokenmill.formats import recognition
from tokenmill.names import PRETOKENIZERS
from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.trainers import TrainingOptions, train_tokenizer
from tokenmill.training.word_counts import count_corpus
from tokenmill.transforms.read import read_split
from tokenmill.transforms.splits import ReadOptions

#: A single small input takes a thousandth of this, once the kernels are compiled: that takes the first inputs their time.
PATIENCE_SECONDS, PATIENCE_AT_FIRST = 20, 200
_FIRST_INPUTS = 200
_SNIPPETS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "\\",
    "\\u",
    "\\ud83d",
    "\\u0000",
    "null",
    "true",
    "1e999",
    '"text"',
    '{"text": "a"}',
]
_SNIPPETS += [
    "\n",
    "\r\n",
    "\r",
    "\ufeff",
    "\0",
    " ",
    "\t",
    "\u2028",
    "\x85",
    "é",
    "e\u0301",
    "\u0e33",
    "क्",
    "😀",
    "👨\u200d👩",
    "İ",
    "ß",
    "١٢",
]
_SNIPPETS += [
    "a",
    "the",
    "'s",
    "’S",
    "123",
    "4567",
    "!!",
    "Ġ",
    "##",
    "<|end|>",
    "ﬁ",
    "\u00a0",
    "中文",
    "\ufffd",
    "a" * 70,
    " " * 40,
]
_RAW = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf0\x9f\x98"]
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, 1),
    ".bz2": lambda data: bz2.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": lambda data: zstandard.ZstdCompressor(level=1).compress(data),
}


def make_text(chance: random.Random, most: int = 30) -> str:
    return "".join(chance.choices(_SNIPPETS, k=chance.randint(0, most)))


def make_bytes(chance: random.Random) -> bytes:
    """Text with bytes among it that are no UTF-8."""
    content = make_text(chance).encode("utf-8", "surrogatepass")
    for _ in range(chance.choice([0, 0, 1, 3])):
        place = chance.randint(0, len(content))
        content = content[:place] + chance.choice(_RAW) + content[place:]
    return content


def damage(chance: random.Random, content: bytes) -> bytes:
    """Cut, flip, double or leave."""
    if not content:
        return content
    place = chance.randrange(len(content))
    how = chance.randrange(5)
    if how == 0:
        return content[:place]
    if how == 1:
        return content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
    if how == 2:
        return content[:place] + content[place : place + 9] * 3 + content[place + 9 :]
    return content + content[:place] if how == 3 else content


def fuzz_lines(chance: random.Random, folder: Path) -> str:
    """Text and JSON lines, plain: every line is a document or a reject, none is lost or made up."""
    name = chance.choice(["a.txt", "a.jsonl"])
    lines = [make_bytes(chance) for _ in range(chance.randint(0, 6))]
    if name == "a.jsonl":
        lines = [json.dumps({"id": "1", "text": make_text(chance)}).encode() if chance.random() < 0.6 else line for line in lines]
    content = damage(chance, b"\n".join(lines))
    (folder / name).write_bytes(content)
    documents, rejects = read_file(folder / name, chance)
    stripped = content.removeprefix(b"\xef\xbb\xbf")
    expected = stripped.split(b"\n")[: None if not stripped.endswith(b"\n") else -1] if stripped else []
    if name == "a.jsonl":
        expected = [line for line in expected if line.strip(b" \t\r")]
    assert documents + rejects == len(expected), f"{documents} documents and {rejects} rejects of {len(expected)} records"
    return name


def fuzz_files(chance: random.Random, folder: Path) -> str:
    """Compressed files, Parquet and Arrow: damaged ones are refused or read whole, never cut short in silence."""
    kind, compression = chance.choice(["txt", "jsonl", "parquet", "arrow"]), chance.choice(list(_COMPRESS))
    rows = [make_text(chance, 8) for _ in range(chance.randint(0, 20))]
    whole = _COMPRESS[compression](write_rows(kind, rows))
    content = damage(chance, whole)
    path = folder / f"a.{kind}{compression}"
    path.write_bytes(content)
    documents, rejects = read_file(path, chance)
    if content == whole and kind in ("parquet", "arrow"):
        assert documents + rejects == len(rows)
    if compression and len(content) < len(whole):
        raise AssertionError(f"a {compression} file that was cut to {len(content)} of {len(whole)} bytes was read")
    return f"{kind}{compression}"


def fuzz_footers(chance: random.Random, folder: Path) -> str:
    """Parquet whose footer alone is damaged, with all that writers put there: refused, or every row of it read."""
    rows = [make_text(chance, 3) for _ in range(chance.randint(1, 9))]
    content = damage_footer(chance, write_footer(chance, rows))
    (folder / "a.parquet").write_bytes(content)
    documents, rejects = read_file(folder / "a.parquet", chance)
    assert documents + rejects == len(rows), f"{documents} documents and {rejects} rejects of {len(rows)} rows"
    return "footer"


def write_footer(chance: random.Random, rows: list[str]) -> bytes:
    """A Parquet file with flat and nested columns, statistics and histograms of levels, in one of the ways there are."""
    numbers = list(range(len(rows)))
    columns = {
        "text": pa.array(rows, pa.string()),
        "id": pa.array(numbers, pa.int64()),
        "lists": pa.array([[number, None] if number % 3 else None for number in numbers], pa.list_(pa.int32())),
        "structs": pa.array([{"a": [str(number)], "b": number / 2} if number % 2 else None for number in numbers]),
    }
    taken = pa.table({name: columns[name] for name in ("text", *chance.sample(list(columns)[1:], chance.randint(0, 3)))})
    sink = io.BytesIO()
    pq.write_table(
        taken,
        sink,
        row_group_size=chance.choice([2, 100]),
        use_dictionary=chance.random() < 0.5,
        write_statistics=chance.random() < 0.9,
        write_page_index=chance.random() < 0.3,
        store_schema=chance.random() < 0.5,
        compression=chance.choice(["none", "zstd"]),
    )
    return sink.getvalue()


def damage_footer(chance: random.Random, content: bytes) -> bytes:
    """A few bits or bytes changed, put in or taken out, between the pages and the length of the footer, which stays right."""
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = bytearray(content[start:-8])
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        place, how = chance.randrange(len(footer)), chance.randrange(6)
        if how < 3:
            footer[place] ^= 1 << chance.randrange(8)
        elif how < 5:
            footer[place] = chance.choice([0, 0x7F, 0x80, 0xFF, 0x15, 0x16, 0x19, 0x1C, chance.randrange(256)])
        else:
            footer[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
    return content[:start] + bytes(footer) + len(footer).to_bytes(4, "little") + content[-4:]


def write_rows(kind: str, rows: list[str]) -> bytes:
    if kind in ("txt", "jsonl"):
        return b"".join((json.dumps({"text": row}).encode() if kind == "jsonl" else b"row") + b"\n" for row in rows)
    table, sink = pa.table({"text": pa.array(rows, pa.string())}), io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def read_file(path: Path, chance: random.Random) -> tuple[int, int]:
    options = ReadOptions(invalid_utf8=chance.choice(["replace", "reject"]), batch_bytes=chance.choice([1, 50, 1 << 20]))
    splits = plan_splits(resolve_inputs([str(path)]), options=options, split_bytes=chance.choice([3, 40, 1 << 20]))
    documents = rejects = 0
    for split in splits:
        for batch in read_split(split, options):
            batch.documents.validate(full=True)
            documents += batch.documents.num_rows
            rejects += len(batch.rejects)
    return documents, rejects


class MadeFile(NamedTuple):
    """A file of a folder: its name, what it holds, and the texts that may come out of it.

    `records`: how many there are, None where the file is no corpus at all.
    """

    name: str
    kind: str
    compression: str
    content: bytes
    records: int | None
    texts: frozenset[str]


#: What names may say, rightly or not; and what they say of the format and of the compression.
_ENDINGS = {"": None, ".md": None, ".bin": None, ".txt": "text", ".jsonl": "jsonl", ".parquet": "parquet", ".arrow": "arrow"}
_UNFINISHED = (".part", ".tmp", ".crdownload", "~")
_BINARY = (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"PK\3\4\x14\0\0\0\x08\0", b"%PDF-1.4\n", b"\x7fELF\2\1\1\0", b"\0" * 64)
_BINARY += (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", b"7z\xbc\xaf\x27\x1c\0\4", b"\x80\4\x95")


def fuzz_folders(chance: random.Random, folder: Path) -> str:
    """Files of all formats under names that say something else: each record is accounted for, and no document is anything but a
    text that was put in. A folder is refused for a file that cannot be read, and for nothing else.
    """
    made = [make_file(chance, f"{number}") for number in range(chance.randint(1, 5))]
    for file in made:
        (folder / file.name).write_bytes(file.content)
    taken = [file for file in made if not file.name.startswith(("_", ".")) and not file.name.endswith(_UNFINISHED)]
    if any(_format_said(file) not in (None, "text") for file in taken):
        taken = [file for file in taken if _format_said(file) is not None]
    bad = [file.name for file in taken if not is_readable(file)]
    try:
        found = read_records(folder, chance)
    except errors.TokenmillError as error:
        assert bad or not taken, f"{[file[:3] for file in made]} is refused: {error}"
        raise
    assert not bad, f"{bad} of {[file[:3] for file in made]} is read"
    assert sorted(found) == sorted(file.name for file in taken if file.records)
    for file in taken:
        documents, rejects = found.get(file.name, (set(), 0))
        assert documents <= file.texts, f"{file[:3]}: {documents - file.texts} was made up"
        assert len(documents) + rejects == file.records, f"{file[:3]}: {file.records} records"
    return "folder"


def make_file(chance: random.Random, stem: str) -> MadeFile:
    """One file. Each of its texts begins with its place, so that all are different."""
    kind, compression = chance.choice(["text", "text", "jsonl", "jsonl", "parquet", "arrow", "utf-16", "binary"]), ""
    if chance.random() < 0.4:
        compression = chance.choice(list(_COMPRESS))
    right = {"text": ".txt", "utf-16": ".txt", "binary": ".bin"}.get(kind, f".{kind}") + compression
    wrong = chance.choice(list(_ENDINGS)) + chance.choice(["", "", compression, *_COMPRESS])
    name = stem + (right if chance.random() < 0.6 else wrong)
    if chance.random() < 0.1:
        name = chance.choice([f"_{name}", f".{name}", *(name + ending for ending in _UNFINISHED)])
    rows = [f"<{row}> {re.sub(chr(0), '', make_text(chance, 6))}".replace("\n", " ").replace("\r", " ") for row in range(5)]
    rows = [row.replace("\ufeff", "") for row in rows[: chance.randint(0, 5)]]
    content, records, texts = write_content(chance, kind, rows)
    return MadeFile(name, kind, compression, _COMPRESS[compression](content), records, frozenset(texts))


def write_content(chance: random.Random, kind: str, rows: list[str]) -> tuple[bytes, int | None, list[str]]:
    """The bytes of a file, how many records it has, and the texts that may come out of it: of JSON lines, also the lines."""
    if kind == "binary":
        return chance.choice(_BINARY) + chance.randbytes(200), None, []
    if kind == "utf-16":
        return "".join(row + "\n" for row in ("a first line of text", *rows)).encode("utf-16"), None, []
    lines = [json.dumps({"text": row}) for row in rows] if kind == "jsonl" else rows
    if kind in ("text", "jsonl"):
        return "".join(line + "\n" for line in lines).encode(), len(rows), [*rows, *lines]
    return write_rows(kind, rows), len(rows), rows


def _format_said(file: MadeFile) -> str | None:
    """What the name of a file says of its format."""
    stem, ending = os.path.splitext(file.name)
    return _ENDINGS.get(os.path.splitext(stem)[1] if ending in _COMPRESS else ending)


def is_readable(file: MadeFile) -> bool:
    """Whether a file is a corpus, and its name promises nothing that contents deny."""
    ending = os.path.splitext(file.name)[1]
    promised = ending if ending in _COMPRESS else ""
    if file.records is None or (promised and not file.compression):
        return False
    return file.kind in ("parquet", "arrow") or _format_said(file) not in ("parquet", "arrow")


def read_records(folder: Path, chance: random.Random) -> dict[str, tuple[set[str], int]]:
    """By file: its documents, and how many rejects."""
    options = ReadOptions(batch_bytes=chance.choice([20, 1 << 20]))
    splits = plan_splits(resolve_inputs([str(folder)]), options=options, split_bytes=chance.choice([40, 1 << 20]))
    found: dict[str, tuple[set[str], int]] = {}
    for split in splits:
        for batch in read_split(split, options):
            documents, rejects = found.get(batch.file, (set(), 0))
            texts = batch.documents["text"].to_pylist()
            assert not documents & set(texts), "a document comes out twice"
            found[batch.file] = (documents | set(texts), rejects + len(batch.rejects))
    return found


@functools.cache
def tokenizer_for(name: str) -> Tokenizer:
    pretokenizer = PreTokenizer(name, pattern=r"\w+|\s+|[^\w\s]+" if name == "regex" else None)
    texts = pa.array(["the the king's 123 4567 중文 é e\u0301 aaa aaa!!"], pa.large_string())
    options = TrainingOptions(model="byte-bpe", pretokenizer=pretokenizer, vocab_size=280, special_tokens=("<|end|>",))
    return train_tokenizer(count_corpus([texts], pretokenizer), options)[0]


def fuzz_encoding(chance: random.Random, folder: Path) -> str:
    """Any text under any pre-tokenizer: ids in range, no special token; the text comes back; batches are as single texts."""
    name = chance.choice(PRETOKENIZERS)
    tokenizer, texts = tokenizer_for(name), [make_text(chance) for _ in range(chance.randint(1, 4))]
    encoded = tokenizer.encode_batch(texts).to_pylist()
    for text, ids in zip(texts, encoded, strict=True):
        assert all(0 <= token_id < tokenizer.embedding_rows for token_id in ids)
        assert tokenizer.vocab["<|end|>"] not in ids, "text forges no special token"
        assert tokenizer.encode(text) == ids
        assert not tokenizer.pretokenizer.lossless or tokenizer.decode(ids) == text
    return name


def fuzz_decoding(chance: random.Random, folder: Path) -> str:
    """Any ids: bytes, or an error that names one."""
    tokenizer = tokenizer_for("gpt2")
    ids = [chance.choice([chance.randrange(281), chance.randrange(-3, 400), 1 << 40]) for _ in range(chance.randint(0, 9))]
    known = all(0 <= token_id < tokenizer.embedding_rows for token_id in ids)
    assert isinstance(tokenizer.decode(ids), str) and known
    return "ids"


def fuzz_formats(chance: random.Random, folder: Path) -> str:
    """A tokenizer file with changed bytes or changed values: a tokenizer that works, or one line."""
    content = tokenizer_for("gpt2").to_bytes()
    changed = json.dumps(change_value(chance, json.loads(content))).encode()
    recognition.loads(chance.choice([changed, damage(chance, content)])).encode("the king's")
    return "tokenizer file"


def change_value(chance: random.Random, value: Any) -> Any:
    """The same with one value, somewhere in it, of another kind."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        return {**value, key: change_value(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        return [*value[:place], change_value(chance, value[place]), *value[place + 1 :]]
    return chance.choice([None, True, -1, 1 << 70, 0.5, "", "\ud800", "a", [], {}, [["a"]], {"a": []}, value])


#: Of fourteen inputs, so many of each kind.
KINDS = [fuzz_lines] * 3 + [fuzz_files] * 2 + [fuzz_footers] * 2 + [fuzz_encoding] * 3 + [fuzz_decoding, fuzz_formats]
KINDS += [fuzz_folders] * 2


def fuzz_one(number: int, seed: int, folder: Path) -> str:
    """One input, the same for the same numbers; how it ended."""
    chance = random.Random(seed * 1_000_003 + number)
    kind = KINDS[number % len(KINDS)]
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(PATIENCE_AT_FIRST if number < _FIRST_INPUTS else PATIENCE_SECONDS)
    try:
        kind(chance, folder)
        return f"{kind.__name__}: read"
    except errors.TokenmillError as error:
        assert not isinstance(error, errors.WorkerError | errors.OutputError) and error.exit_code in (2, 3), repr(error)
        assert str(error) and "\n" not in str(error).strip() and "Traceback" not in str(error), f"not one line: {error}"
        return f"{kind.__name__}: refused"
    finally:
        signal.alarm(0)
        for path in folder.iterdir():
            path.unlink()


def _give_up(*_: object) -> None:
    raise TimeoutError("no end in sight")


def fuzz(inputs: int, seed: int = 0) -> Counter[str]:
    """So many inputs; how they ended. Raises at the first that ends otherwise than it should, and says which it was."""
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(inputs):
            try:
                ends[fuzz_one(number, seed, Path(folder))] += 1
            except BaseException as error:
                raise AssertionError(
                    f"input {number} of seed {seed} ({KINDS[number % len(KINDS)].__name__}): {error!r}"
                ) from error
    return ends


if __name__ == "__main__":
    KINDS = [kind for kind in KINDS if len(sys.argv) < 4 or kind.__name__ == sys.argv[3]]
    for ending, times in sorted(fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0).items()):
        print(f"{times:>8,} {ending}")
