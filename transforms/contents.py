"""What a file holds, told by its first bytes: kinds of files that are no text, and what to do with them.

    b"\\x89PNG\\r\\n\\x1a\\n..."  ->  a PNG image          b"PK\\3\\4..." with "word/" in it  ->  a Word document
    b"GIF89a is a format"    ->  text: what follows the first bytes of a GIF image is binary

First bytes that are ASCII letters may also begin a text. They only count where binary data follows, unless they are too odd to
begin a text (`%PDF-1.`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.transforms.encodings import count_controls, is_plain_text

#: How much of a file is looked at.
HEAD_BYTES = 4096
#: Archives name their files near their start: what is in them says what they are.
_NAMES_BYTES = 2048
#: Control characters, and where, that tell the binary data behind first letters from text.
_LEAST_CONTROLS, _BINARY_BYTES = 3, 512

_UNPACK = "unpack it, and give the files it holds"
_LEAVE_OUT = "leave it out"
_EXTRACT = "extract its text to a file first, or leave it out"
_EXPORT = "write its texts to JSON lines or Parquet first, or leave it out"
_WEIGHTS = "it holds numbers; leave it out"
_TWICE = "it is compressed twice; decompress it once"


@dataclass(frozen=True)
class Kind:
    """A kind of file that is not read: `what` it is, the bytes at `offset` that tell it, and a way out.

    `inside` must also stand near the start, where it is given. `is_sure`: no text begins like that.
    """

    what: str
    magic: bytes
    advice: str
    offset: int = 0
    inside: bytes = b""
    is_sure: bool = False


_ZIPPED = (
    Kind("a Word document", b"PK\3\4", _EXTRACT, inside=b"word/"),
    Kind("an Excel workbook", b"PK\3\4", _EXPORT, inside=b"xl/"),
    Kind("a PowerPoint presentation", b"PK\3\4", _EXTRACT, inside=b"ppt/"),
    Kind("an Office document", b"PK\3\4", _EXTRACT, inside=b"[Content_Types].xml"),
    Kind("an EPUB book", b"PK\3\4", _EXTRACT, inside=b"application/epub+zip"),
    Kind("an OpenDocument file", b"PK\3\4", _EXTRACT, inside=b"application/vnd.oasis.opendocument"),
    Kind("a PyTorch checkpoint", b"PK\3\4", _WEIGHTS, inside=b"/data.pkl"),
    Kind("a NumPy archive (npz)", b"PK\3\4", _EXPORT, inside=b".npy"),
    Kind("a Java archive", b"PK\3\4", _LEAVE_OUT, inside=b"META-INF/"),
    Kind("a zip archive", b"PK\3\4", _UNPACK),
    Kind("an empty zip archive", b"PK\5\6", _LEAVE_OUT),
)
_ARCHIVES = (
    Kind("a tar archive", b"ustar", _UNPACK, offset=257, is_sure=True),
    Kind("a 7z archive", b"7z\xbc\xaf\x27\x1c", _UNPACK),
    Kind("a RAR archive", b"Rar!\x1a\x07", _UNPACK),
    Kind("an ar archive", b"!<arch>\n", _UNPACK, is_sure=True),
    Kind("a gzip file", b"\x1f\x8b\x08", _TWICE),
    Kind("a bzip2 file", b"BZh", _TWICE),
    Kind("an xz file", b"\xfd7zXZ\0", _TWICE),
    Kind("a zstd file", b"\x28\xb5\x2f\xfd", _TWICE),
    Kind("an lz4 file", b"\x04\x22\x4d\x18", "decompress it, or compress it with gzip, bzip2, xz or zstd"),
    Kind("an lzip file", b"LZIP\1", "decompress it, or compress it with gzip, bzip2, xz or zstd"),
    Kind("a snappy file", b"\xff\x06\0\0sNaPpY", "decompress it, or compress it with gzip, bzip2, xz or zstd"),
    Kind("a file of compress (.Z)", b"\x1f\x9d", "decompress it, or compress it with gzip, bzip2, xz or zstd"),
    Kind("a WARC archive", b"WARC/", "extract its text with a program for web archives first", inside=b"WARC-", is_sure=True),
)
_MEDIA = (
    Kind("a PNG image", b"\x89PNG\r\n\x1a\n", _LEAVE_OUT),
    Kind("a JPEG image", b"\xff\xd8\xff", _LEAVE_OUT),
    Kind("a GIF image", b"GIF87a", _LEAVE_OUT),
    Kind("a GIF image", b"GIF89a", _LEAVE_OUT),
    Kind("a TIFF image", b"II*\0", _LEAVE_OUT),
    Kind("a TIFF image", b"MM\0*", _LEAVE_OUT),
    Kind("a WebP image", b"RIFF", _LEAVE_OUT, inside=b"WEBP"),
    Kind("a WAV recording", b"RIFF", _LEAVE_OUT, inside=b"WAVE"),
    Kind("a FLAC recording", b"fLaC", _LEAVE_OUT),
    Kind("an Ogg recording", b"OggS\0", _LEAVE_OUT),
    Kind("an MP3 recording", b"ID3", _LEAVE_OUT),
    Kind("an MP4 film", b"ftyp", _LEAVE_OUT, offset=4),
    Kind("a PDF document", b"%PDF-", _EXTRACT, is_sure=True),
    Kind("an Office document of the old kind", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _EXTRACT),
)
_DATA = (
    Kind("a file of safetensors", b"\0\0\0{", _WEIGHTS, offset=5, inside=b'"'),
    Kind("a GGUF model", b"GGUF", _WEIGHTS),
    Kind("a NumPy array", b"\x93NUMPY", _EXPORT),
    Kind("a Python pickle", b"\x80\x02", _EXPORT),
    Kind("a Python pickle", b"\x80\x03", _EXPORT),
    Kind("a Python pickle", b"\x80\x04", _EXPORT),
    Kind("a Python pickle", b"\x80\x05", _EXPORT),
    Kind("an SQLite database", b"SQLite format 3\0", _EXPORT),
    Kind("an HDF5 file", b"\x89HDF\r\n\x1a\n", _EXPORT),
    Kind("an Avro file", b"Obj\1", _EXPORT),
    Kind("an ORC file", b"ORC", _EXPORT),
    Kind("a Feather file of version 1", b"FEA1", "write it again as version 2, which is Arrow"),
    Kind("an R data file", b"RDX", _EXPORT),
)
_PROGRAMS = (
    Kind("a program (ELF)", b"\x7fELF", _LEAVE_OUT),
    Kind("a program (Windows)", b"MZ", _LEAVE_OUT),
    Kind("a program (WebAssembly)", b"\0asm", _LEAVE_OUT),
    Kind("a program (Mach-O)", b"\xcf\xfa\xed\xfe", _LEAVE_OUT),
    Kind("a Java class file", b"\xca\xfe\xba\xbe", _LEAVE_OUT),
)
#: What stands in a repository where the file itself is kept elsewhere.
_POINTERS = (
    Kind(
        "a pointer of Git LFS, not the file it stands for",
        b"version https://git-lfs.github.com/spec/v1\n",
        "fetch the file with `git lfs pull`",
        inside=b"oid ",
        is_sure=True,
    ),
    Kind(
        "a pointer of git-annex, not the file it stands for",
        b"/annex/objects/",
        "fetch the file with `git annex get`",
        is_sure=True,
    ),
)

KINDS = (*_ZIPPED, *_ARCHIVES, *_MEDIA, *_DATA, *_PROGRAMS, *_POINTERS)
#: Most files begin with none of these, and are done with one look.
_FIRST_BYTES = tuple(kind.magic for kind in KINDS if kind.offset == 0)
_LATER_KINDS = tuple(kind for kind in KINDS if kind.offset)

_COMPRESSIONS = {
    "gz": (b"\x1f\x8b\x08",),
    "xz": (b"\xfd7zXZ\0",),
    "zst": (b"\x28\xb5\x2f\xfd",),
    #: Of a file with a block, and of one with none.
    "bz2": tuple(b"BZh%d" % level + block for level in range(1, 10) for block in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")),
}


def find_compression(head: bytes) -> str:
    """How a file that begins so is compressed: `gz`, `bz2`, `xz`, `zst`, or empty."""
    return next((name for name, magic in _COMPRESSIONS.items() if head.startswith(magic)), "")


def find_kind(head: bytes) -> Kind | None:
    """The kind of file that begins so; None for text, and for what is not known.

    >>> find_kind(b"%PDF-1.7\\n%...").what
    'a PDF document'
    """
    for kind in KINDS if head.startswith(_FIRST_BYTES) else _LATER_KINDS:
        begins = head.startswith(kind.magic, kind.offset) and kind.inside in head[len(kind.magic) : _NAMES_BYTES]
        if begins and (kind.is_sure or _is_no_text(kind.magic, head)):
            return kind
    return _find_records(head)


def _is_no_text(magic: bytes, head: bytes) -> bool:
    """Whether a file that begins with `magic` is no text: letters need binary data behind them."""
    if magic.isascii() and magic.decode().isprintable():
        return count_controls(head[:_BINARY_BYTES]) >= _LEAST_CONTROLS
    return not is_plain_text(head)


def _find_records(head: bytes) -> Kind | None:
    """TFRecord: each record begins with its length, 64 bits, and a check sum, and the first record's are here."""
    length = int.from_bytes(head[:8], "little")
    if 0 < length < 1 << 30 and head[4:8] == b"\0\0\0\0" and head[12:13] in (b"\n", b"\x12"):  # protocol buffers begin so
        return Kind("a TFRecord file", b"", _EXPORT)
    return None
