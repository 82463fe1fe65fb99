"""What is in files decides how they are read: kinds that are no text, encodings, names that say something else."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import random
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner, Result
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.reading import documents_of, read_all, rejects_of, write
from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.pipeline import planning
from tokenmill.pipeline.cli.main import main
from tokenmill.pipeline.inputs import list_inputs, resolve_inputs
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.recognition import recognise_files
from tokenmill.transforms.contents import find_compression, find_kind
from tokenmill.transforms.encodings import guess_wide_encoding, is_binary, name_encoding, turn_into_utf_8
from tokenmill.transforms.splits import SourceFile

JSON_LINES = b'{"text": "low lower"}\n{"text": "the quick brown fox"}\n'
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: zstandard.ZstdCompressor().compress(content),
}


def make_tar() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"), io.BytesIO(b""))
    return sink.getvalue()


def make_zip(*names: str) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name in names:
            archive.writestr(name, "content\n")
    return sink.getvalue()


def make_npz() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, ids=np.arange(3))
    return sink.getvalue()


def make_npy() -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.arange(3))
    return sink.getvalue()


def make_sqlite() -> bytes:
    with sqlite3.connect(":memory:") as base:
        base.execute("create table texts (text)")
        return base.serialize() if hasattr(base, "serialize") else b"SQLite format 3\0" + b"\x10\0\1\1" * 20


def make_orc() -> bytes:
    sink = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"text": ["a", "b"]}), sink)
    return sink.getvalue()


def make_safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0\0\x80\x3f"


def make_tfrecord() -> bytes:
    record = b"\n\x10\n\x0e\n\x04text\x12\x06\n\x04\n\x02ab"
    return struct.pack("<Q", len(record)) + b"\x12\xab\x34\x88" + record + b"\x77\x10\x99\xee"


NO_TEXT: dict[str, tuple[str, bytes]] = {
    "tar": ("a tar archive", make_tar()),
    "zip": ("a zip archive", make_zip("a.txt")),
    "docx": ("a Word document", make_zip("[Content_Types].xml", "word/document.xml")),
    "xlsx": ("an Excel workbook", make_zip("[Content_Types].xml", "xl/workbook.xml")),
    "torch": ("a PyTorch checkpoint", make_zip("model/data.pkl", "model/version")),
    "npz": ("a NumPy archive (npz)", make_npz()),
    "epub": ("an EPUB book", b"PK\3\4" + b"\0" * 26 + b"mimetypeapplication/epub+zip" + b"\0\1\2"),
    "7z": ("a 7z archive", b"7z\xbc\xaf\x27\x1c\0\4" + b"\x8d\x9b" * 9),
    "rar": ("a RAR archive", b"Rar!\x1a\x07\1\0" + b"\x8d\x9b" * 9),
    "png": ("a PNG image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    "jpeg": ("a JPEG image", b"\xff\xd8\xff\xe0\0\x10JFIF\0"),
    "gif": ("a GIF image", b"GIF89a\1\0\1\0\x80\0\0\xff\xff\xff\0\0\0;"),
    "webp": ("a WebP image", b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0"),
    "pdf": ("a PDF document", b"%PDF-1.7\n1 0 obj <</Type /Catalog>> endobj\n"),
    "safetensors": ("a file of safetensors", make_safetensors()),
    "npy": ("a NumPy array", make_npy()),
    "pickle": ("a Python pickle", pickle.dumps({"text": ["a", "b"]})),
    "sqlite": ("an SQLite database", make_sqlite()),
    "hdf5": ("an HDF5 file", b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0"),
    "orc": ("an ORC file", make_orc()),
    "avro": ("an Avro file", b"Obj\1\4\x14avro.codec\x08null\x16avro.schema"),
    "elf": ("a program (ELF)", b"\x7fELF\2\1\1\0\0\0\0\0"),
    "class": ("a Java class file", b"\xca\xfe\xba\xbe\0\0\0\x34"),
    "tfrecord": ("a TFRecord file", make_tfrecord()),
    "warc": ("a WARC archive", b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 9\r\n\r\nsoftware:\r\n"),
    "lfs": (
        "a pointer of Git LFS, not the file it stands for",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
    ),
    "annex": ("a pointer of git-annex, not the file it stands for", b"/annex/objects/SHA256E-s9--ab.txt\n"),
}

#: Texts that begin as such files do.
TEXT = (
    b"GIF89a is a format of images",
    b"MZ was his mark\n",
    b"BZh is what bzip2 writes first\n",
    b"ORChestra\n",
    b"PAR1 of the course\n",
    b"ARROW1 hit\n",
    b"ID3 tags\n",
    b"RIFF raff WEBP\n",
    b"WARC/1.0 is a format\n",
    b"version https://git-lfs.github.com/spec/v1\nis the first line of a pointer\n",
    b"<!DOCTYPE html><html><body>text</body></html>\n",
    b"PK\n",
    "Zürich, Ærø\n".encode(),
    "Zürich, Ærø\n".encode("latin-1"),
    "日本語の文\n".encode("shift_jis"),
    b"one NUL\0 and two\0\0\nmore\n",
    b"\0\n",
    b"\x1b[31mred\x1b[0m\x0c\n",
    b"",
)


@pytest.mark.parametrize("kind", NO_TEXT)
@pytest.mark.parametrize("compression", ["", "gz", "bz2"])
def test_a_known_kind_that_is_no_text_is_refused(tmp_path: Path, kind: str, compression: str) -> None:
    what, content = NO_TEXT[kind]
    path = write(tmp_path, COMPRESS[compression](content) if compression else content, name="a.jsonl")
    with pytest.raises(UnreadableFileError) as caught:
        resolve_inputs([str(path)])
    assert str(caught.value).startswith(f"{path}: is {what}, which is not read; ")


@pytest.mark.parametrize("content", TEXT)
def test_text_that_begins_like_another_kind_is_text(tmp_path: Path, content: bytes) -> None:
    assert find_kind(content) is None and find_compression(content) == ""
    (file,) = resolve_inputs([str(write(tmp_path, content))])
    assert (file.format, file.compression) == ("text", "")


def test_all_files_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    for number in range(7):
        write(tmp_path, NO_TEXT["png"][1], name=f"{number}.txt")
    with pytest.raises(UnreadableFileError, match=r"0\.txt: is a PNG image.*4\.txt: is a PNG image.*; and 2 more files"):
        resolve_inputs([str(tmp_path)])


@pytest.mark.parametrize("named", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
@pytest.mark.parametrize("compression", COMPRESS)
def test_compression_goes_by_contents(tmp_path: Path, named: str, compression: str) -> None:
    path = write(tmp_path, COMPRESS[compression](JSON_LINES), name=named)
    assert [text for _, text in documents_of(read_all(path))] == ["low lower", "the quick brown fox"]


def make_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", "b"]}), sink)
    return sink.getvalue()


def make_arrow(is_file: bool) -> bytes:
    table, sink = pa.table({"text": ["a", "b"]}), io.BytesIO()
    with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("content", [make_parquet(), make_arrow(True), make_arrow(False)], ids=["parquet", "file", "stream"])
@pytest.mark.parametrize("name", ["a", "a.txt", "a.jsonl", "a.parquet", "a.arrow", "a.parquet.gz"])
def test_a_format_goes_by_contents(tmp_path: Path, content: bytes, name: str) -> None:
    path = write(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name=name)
    assert documents_of(read_all(path)) == [(f"{name}:0", "a"), (f"{name}:1", "b")]


@pytest.mark.parametrize(
    ("format", "content", "message"),
    [
        ("parquet", b"a line\n", r"is text, which begins with b'a line\\n', and --format says parquet; leave out --format"),
        ("arrow", JSON_LINES, "is text, which begins with b'{.*', and --format says arrow; leave out --format"),
        ("jsonl", make_parquet(), "is parquet, and --format says jsonl; leave out --format"),
        ("text", make_arrow(True), "is arrow, and --format says text; leave out --format"),
        ("text", NO_TEXT["zip"][1], "is a zip archive, which is not read; unpack it"),
    ],
)
def test_a_stated_format_that_contents_deny_is_refused(tmp_path: Path, format: str, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableFileError, match=message):
        resolve_inputs([str(write(tmp_path, content))], format=format)


# --- encodings --------------------------------------------------------------------------------------------------------------

LINES = ["line one", "", "zwei: ä ö ü ß", "три", "日本語 \U0001f600", "ੇ with 0x0A in its unit"]


@pytest.mark.parametrize(
    ("encoding", "advice"),
    [
        ("utf-16", "begins with the mark of utf-16; give --encoding utf-16"),
        ("utf-32", "begins with the mark of utf-32; give --encoding utf-32"),
        ("utf-16-le", "looks like utf-16-le; give --encoding utf-16-le"),
        ("utf-16-be", "looks like utf-16-be; give --encoding utf-16-be"),
        ("utf-32-le", "looks like utf-32-le; give --encoding utf-32-le"),
        ("utf-32-be", "looks like utf-32-be; give --encoding utf-32-be"),
    ],
)
@pytest.mark.parametrize("text", ["English text of a few lines\n" * 3, "Русский текст, с пробелами\n" * 3])
def test_wide_encodings_are_refused_with_the_option_that_reads_them(
    tmp_path: Path, encoding: str, advice: str, text: str
) -> None:
    path = write(tmp_path, text.encode(encoding))
    with pytest.raises(UnreadableFileError, match=advice):
        resolve_inputs([str(path)])
    assert [line for _, line in documents_of(read_all(path, encoding=encoding))] == text.splitlines()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "gb18030", "utf-7"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.jsonl.zst"])
def test_lines_of_another_encoding(tmp_path: Path, encoding: str, name: str) -> None:
    lines = [json.dumps({"text": line}, ensure_ascii=False) for line in LINES] if "jsonl" in name else LINES
    content = "".join(line + "\n" for line in lines).encode(encoding)
    compression = name.rpartition(".")[2]
    path = write(tmp_path, COMPRESS.get(compression, bytes)(content), name=name)
    read = read_all(path, encoding=encoding, split_bytes=3, batch_bytes=16)
    assert documents_of(read) == [(f"{name}:{row}", line) for row, line in enumerate(LINES)]
    assert documents_of(read_all(path, encoding=encoding, limit=3)) == documents_of(read)[:3]


def test_a_whole_file_of_another_encoding(tmp_path: Path) -> None:
    path = write(tmp_path, "ä\nö\n".encode("utf-16"))
    assert documents_of(read_all(path, encoding="utf-16", document="file")) == [("a.txt:0", "ä\nö\n")]


def test_damage_of_another_encoding_goes_by_the_policy(tmp_path: Path) -> None:
    content = "one\n".encode("utf-16-le") + b"\x00\xd8" + "two\nthree\n".encode("utf-16-le") + b"x"
    path = write(tmp_path, content)
    batches = read_all(path, encoding="utf-16-le")
    assert [text for _, text in documents_of(batches)] == ["one", "three"]
    rejects = rejects_of(batches)
    assert [(reject.row, reject.offset) for reject in rejects] == [(1, 4), (3, 15)]
    assert rejects[0].reason == "invalid utf-16-le: byte 0 of the text as UTF-8"
    replaced = read_all(path, encoding="utf-16-le", invalid_utf8="replace")
    assert [text for _, text in documents_of(replaced)] == ["one", "\ufffdtwo", "three", "\ufffd"]
    assert sum(len(batch.replaced) for batch in replaced) == 2


@pytest.mark.parametrize(
    ("encoding", "content", "message"),
    [
        ("utf-16", b"plain text of some length\n", "looks like utf-8, and --encoding says utf-16; leave out --encoding"),
        ("latin-1", "text\n".encode("utf-8-sig"), "begins with the mark of utf-8; leave out --encoding"),
        ("utf-16", "text\n".encode("utf-32"), "begins with the mark of utf-32; give --encoding utf-32"),
        ("cp1252", "text of some length\n".encode("utf-16-le"), "looks like utf-16-le; give --encoding utf-16-le"),
    ],
)
def test_an_encoding_that_contents_deny_is_refused(tmp_path: Path, encoding: str, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableFileError, match=message):
        resolve_inputs([str(write(tmp_path, content))], encoding=encoding)


def test_an_encoding_of_no_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, make_parquet(), name="a.parquet")
    with pytest.raises(UsageError, match=r"a\.parquet: is parquet, which has its own encoding; leave out --encoding"):
        resolve_inputs([str(path)], encoding="utf-16")


@pytest.mark.parametrize("text", ["stdlib", "disk:data"])
def test_an_encoding_of_inputs_that_have_their_own_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="leave out --encoding"):
        list_inputs([text], encoding="latin-1")


def test_an_encoding_beside_the_standard_library_is_for_the_other_files(tmp_path: Path) -> None:
    path = write(tmp_path, "é".encode("latin-1"))
    assert {file.encoding for file in list_inputs(["stdlib", str(path)], encoding="latin-1").files} == {"", "iso8859-1"}


@pytest.mark.parametrize("name", ["utf-61", "hex", "idna", "rot13", "unicode_escape", "", "utf-8\0", "../x"])
def test_what_is_no_encoding_of_text_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not an encoding of text that Python has; "):
        name_encoding(name)


@settings(deadline=None, max_examples=60)
@given(
    text=st.text(st.characters(codec="utf-8"), max_size=60),
    encoding=st.sampled_from(["utf-16", "utf-16-be", "utf-32", "gb18030"]),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    block_bytes=st.integers(1, 9),
)
def test_blocks_of_any_size_give_the_text(text: str, encoding: str, sizes: list[int], block_bytes: int) -> None:
    content = text.encode(encoding)
    step = sizes[0]
    blocks = [content[start : start + step] for start in range(0, len(content), step)]
    made = list(turn_into_utf_8(iter(blocks), encoding, block_bytes))
    assert b"".join(made).decode() == text
    assert all(0 < len(block) <= block_bytes for block in made)


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=16, max_size=80))
def test_utf_8_without_nuls_is_never_taken_for_another_encoding(text: str) -> None:
    content = text.encode()
    assert guess_wide_encoding(content) is None and not is_binary(content)


@settings(deadline=None, max_examples=300)
@given(
    text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.sampled_from("ab\n\t,"), max_size=80),
    repeats=st.integers(1, 80),
    inserted=st.lists(st.tuples(st.floats(0, 1), st.sampled_from([b"\0", b"\0\xff"])), min_size=1, max_size=2),
)
def test_text_with_one_or_two_nuls_is_never_utf_16(text: str, repeats: int, inserted: list[tuple[float, bytes]]) -> None:
    head = text.encode() * repeats
    for place, what in inserted:
        at = int(place * len(head))
        head = head[:at] + what + head[at:]
    assert guess_wide_encoding(head[:4096]) is None


def test_a_small_damaged_table_is_not_utf_16(tmp_path: Path) -> None:
    for shift in range(2):
        content = b"id,text\n1,a short text\n2" + b"," * shift + b",another\0" + b"\xff, and more\n"
        assert guess_wide_encoding(content) is None
        assert documents_of(read_all(write(tmp_path, content, name="a.csv")))[0] == ("a.csv:0", "a short text")


ALPHABETS = ["abc de\n", "абв гд\n", "αβγ δ\n", "אבג ד\n", "ابت ث\n", "กขค ง\n"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@settings(deadline=None, max_examples=60)
@given(text=st.sampled_from(ALPHABETS).flatmap(lambda letters: st.text(letters, min_size=8, max_size=300)))
def test_utf_16_of_an_alphabet_is_found_from_eight_letters_on(text: str, encoding: str) -> None:
    assume(len(set(text)) > 2)  # U+0E01 alone may be U+010E
    assert guess_wide_encoding(text.encode(encoding)) == encoding


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@settings(deadline=None, max_examples=60)
@given(chance=st.integers(0, 1 << 30).map(random.Random), lines=st.integers(4, 30), first=st.sampled_from([0x4E00, 0xAC00]))
def test_east_asian_utf_16_is_found_in_a_few_lines(chance: random.Random, lines: int, first: int, encoding: str) -> None:
    letters = [chr(first + chance.randrange(0x2B00)) for _ in range(lines * 20)]
    text = "".join(letter + "\n" * (place % 20 == 19) for place, letter in enumerate(letters)) + "一二三"
    assert guess_wide_encoding(text.encode(encoding)[:4096]) == encoding
    assert guess_wide_encoding(text.encode("utf-8")[:4096]) is None


@pytest.mark.parametrize("text", ["吾輩は猫である。名前はまだ無い。\n" * 4, "यह एक छोटा सा वाक्य है और यह दूसरा\n" * 2])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_of_other_scripts_is_found(text: str, encoding: str) -> None:
    assert guess_wide_encoding(text.encode(encoding)) == encoding


@pytest.mark.parametrize(("nuls", "binary"), [(8, False), (9, True)])
def test_few_nuls_are_text_and_many_are_not(nuls: int, binary: bool) -> None:
    assert is_binary(b"\0" * nuls + b"text\n") is binary
    assert is_binary(b"\0" * 100 + b"t" * 900) is False
    assert is_binary(b"\0" * 101 + b"t" * 899) is True


# --- names ------------------------------------------------------------------------------------------------------------------

UNFINISHED = ("b.jsonl.part", "b.jsonl.tmp", "b.crdownload", "b.download", "b.jsonl~", "#b.jsonl#", ".b.swp", "b.jsonl.swp")


def test_unfinished_and_hidden_names_are_left_out_and_counted(tmp_path: Path) -> None:
    for name in ("a.jsonl", *UNFINISHED, "_SUCCESS", ".git.jsonl"):
        write(tmp_path, JSON_LINES, name=name)
    (tmp_path / ".git").mkdir()
    for pattern in ("", "/*"):
        found = list_inputs([f"{tmp_path}{pattern}"])
        assert [file.name for file in found.files] == ["a.jsonl"]
        assert set(found.left_out) >= {*UNFINISHED, "_SUCCESS"} - (set() if not pattern else {".b.swp"})


@pytest.mark.parametrize("name", UNFINISHED)
def test_an_unfinished_file_that_is_named_itself_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="has the name of an unfinished file; rename it when it is complete"):
        list_inputs([str(write(tmp_path, JSON_LINES, name=name))])


@pytest.mark.parametrize("name", [".a.jsonl", "_a.jsonl", "_SUCCESS"])
def test_a_hidden_file_that_is_named_itself_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="has the name of a hidden file, which begins with a dot or `_`; rename it to read it"):
        list_inputs([str(write(tmp_path, JSON_LINES, name=name))])


def test_a_file_in_a_hidden_folder_can_be_named(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    path = write(tmp_path / ".cache", JSON_LINES, name="a.jsonl")
    assert [file.name for file in list_inputs([str(path)]).files] == ["a.jsonl"]


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_files_of_unknown_format_beside_files_with_columns_are_left_out_and_said(tmp_path: Path) -> None:
    corpus = tmp_path / "in"
    corpus.mkdir()
    for name in ("a.jsonl", "train.jsonl", "test.jsonl"):
        write(corpus, JSON_LINES, name=name)
    write(corpus, gzip.compress(JSON_LINES), name="packed.jsonl")
    for name in ("README.md", "LICENSE", "photo.png"):
        write(corpus, NO_TEXT["png"][1] if name.endswith("png") else b"a page\n", name=name)
    write(corpus, b"a line\n", name="notes.txt")
    write(corpus, b"half", name="x.jsonl.part")
    done = run("count", corpus, "--output", tmp_path / "counts")
    assert done.exit_code == 0, done.output
    assert "left out 1 name of hidden or unfinished files: x.jsonl.part" in done.output
    assert "left out 3 files of unknown format beside files with columns: " in done.output and "README.md" in done.output
    assert "read by contents, not by name: packed.jsonl is jsonl.gz" in done.output
    assert "test are read as one corpus; give one of them to keep them apart" in done.output.replace("train, ", "")
    assert "from 5 files (3 jsonl, 1 jsonl.gz, 1 text)" in done.output
    manifest = json.loads((tmp_path / "counts" / "manifest.json").read_bytes())
    assert [file["format"] for file in manifest["files"]] == ["jsonl", "text", "jsonl.gz", "jsonl", "jsonl"]


def test_a_file_of_unknown_format_can_be_named_beside_its_folder(tmp_path: Path) -> None:
    write(tmp_path, JSON_LINES, name="a.jsonl")
    readme = write(tmp_path, b"a page\n", name="README.md")
    assert [file.name for file in resolve_inputs([str(tmp_path), str(readme)])] == ["a.jsonl", "README.md"]


def test_refusals_come_before_any_work(tmp_path: Path) -> None:
    path = write(tmp_path, "a line of UTF-16\n".encode("utf-16"))
    done = run("count", path, "--output", tmp_path / "out")
    assert done.exit_code == 3 and "give --encoding utf-16" in done.output and not (tmp_path / "out").exists()
    assert run("count", path, "--output", tmp_path / "out", "--encoding", "utf-61").exit_code == 2
    done = run("count", path, "--output", tmp_path / "out", "--encoding", "utf-16")
    assert done.exit_code == 0, done.output


def test_a_file_that_changes_after_the_look_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, b"a line of text\n")

    def look_and_replace(files: list[SourceFile], **options: str) -> list[SourceFile]:
        found = recognise_files(files, **options)
        path.write_bytes(NO_TEXT["png"][1][:15].ljust(15, b"\0"))
        return found

    monkeypatch.setattr(planning, "recognise_files", look_and_replace)
    plan = planning.plan_corpus(planning.Corpus((str(path),)), planning.Execution(reporter(quiet=True), workers=1))
    with pytest.raises(UnreadableFileError, match="changed while it was read; nothing is published"):
        planning.check_unchanged(plan)


@pytest.mark.parametrize("padding", [b"", b"\0" * 9])
@pytest.mark.parametrize("compression", COMPRESS)
def test_what_follows_a_compressed_member_is_named(tmp_path: Path, compression: str, padding: bytes) -> None:
    if compression in ("bz2", "zst"):
        padding = b""
    whole = COMPRESS[compression](b"a\n") + padding
    path = write(tmp_path, whole + b"\nmore", name=f"a.{compression}")
    with pytest.raises(UnreadableFileError, match=rf"its compressed data ends at byte {len(whole)}, and b'\\nmore' follows"):
        read_all(path)
