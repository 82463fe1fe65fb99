"""What listed files are: their first bytes say more than their names.

    a file whose first bytes tell its format or compression     is read as that, whatever its name
    text, of which first bytes say no more                      goes by its name: JSON lines, or lines of text
    a known kind of file that is no text; UTF-16; binary data   `UnreadableFileError`, with what to do
    a name or `--format` that promises what contents deny       `UnreadableFileError`

One small read a file; no more of it is read before all files are known for what they are.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.pipeline.listing import is_remote
from tokenmill.pipeline.progress import count_things
from tokenmill.transforms.contents import HEAD_BYTES, find_compression, find_kind
from tokenmill.transforms.decompress import check_compression, open_stored, read_blocks, reading
from tokenmill.transforms.encodings import find_mark, guess_wide_encoding, is_binary, is_plain_text, is_utf_8, is_wide
from tokenmill.transforms.input_formats import FORMATS, format_of
from tokenmill.transforms.splits import SourceFile
from tokenmill.transforms.zstd_frames import MAGIC, check_window
from tokenmill.unicode_text import show_printable

_THREADS = 8
#: How many of many files that cannot be read are named.
_SHOWN = 5
_SHOWN_BYTES = 8
_AUTO = "auto"
#: How the parts of a dataset are called that are not to be mixed.
_PARTS = ("train", "validation", "valid", "dev", "test")


def recognise_files(files: Sequence[SourceFile], *, format: str = _AUTO) -> list[SourceFile]:
    """Files as their contents have them; `format` is that of the option, `auto` where contents and names decide.

    Raises one `UnreadableFileError` for all files that cannot be read as they are, `UsageError` for an option for none of them.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        remote = [file for file in files if is_remote(file.path)]
        looks = dict(zip((file.path for file in remote), pool.map(lambda file: _try(file, format), remote), strict=True))
    outcomes = [looks.get(file.path) or _try(file, format) for file in files]
    failures = [outcome for outcome in outcomes if isinstance(outcome, UnreadableFileError)]
    if failures:
        more = f"; and {len(failures) - _SHOWN:,} more files" if len(failures) > _SHOWN else ""
        raise UnreadableFileError("; ".join(map(str, failures[:_SHOWN])) + more)
    found = [outcome for outcome in outcomes if isinstance(outcome, SourceFile)]
    if any(file.encoding for file in files) and not any(file.encoding for file in found):
        raise UsageError(f"{found[0].path}: is {found[0].format}, which has its own encoding; leave out --encoding")
    if any(file.delimiter for file in files) and not any(file.delimiter for file in found):
        raise UsageError(f"{found[0].path}: is {found[0].format}, which has no delimiter; leave out --delimiter")
    return found


def refuse_unused(files: Sequence[SourceFile], options: Mapping[str, Any]) -> None:
    """Refuse an option that is for none of the files, as far as their names tell."""
    if files and options["encoding"] and not any(file.encoding for file in files):
        what = "a dataset, which has its own encoding" if files[0].format == "dataset" else "Python source, read in UTF-8"
        raise UsageError(f"{files[0].path}: is {what}; leave out --encoding")
    if files and options["delimiter"] and not any(file.delimiter for file in files):
        raise UsageError(
            f"{files[0].path}: is {files[0].format}, which has no delimiter; leave out --delimiter, or give --format csv where "
            "it is a table"
        )


def _try(file: SourceFile, format: str) -> SourceFile | UnreadableFileError:
    try:
        return recognise_file(file, format=format)
    except UnreadableFileError as error:
        return error


def recognise_file(file: SourceFile, *, format: str = _AUTO) -> SourceFile:
    """One file as its contents have it. A dataset is what it is."""
    if file.format == "dataset" or file.is_recognised:
        return file
    head = _read_head(file)
    compression = find_compression(head)
    if not compression and file.compression:
        check_compression(file, head)
        compression = file.compression
    file = replace(file, compression=compression, is_recognised=True)
    if compression == "zst" and head.startswith(MAGIC):
        check_window(file, head)
    if compression:
        head = _read_text_head(replace(file, encoding=""))
    return _recognise_contents(file, head, is_stated=format != _AUTO)


def _read_head(file: SourceFile) -> bytes:
    if is_remote(file.path):
        with reading(file), contextlib.closing(open_stored(file)) as stream:
            return bytes(stream.read(HEAD_BYTES))
    try:
        with open(file.path, "rb", buffering=0) as opened:
            return opened.read(HEAD_BYTES) or b""
    except OSError as error:
        raise UnreadableFileError(f"{file.path}: cannot be opened: {error.strerror}; check the path, or leave it out") from error


def peek_text(file: SourceFile) -> bytes:
    """The first bytes of a file's text, out of its compression and its encoding."""
    head = _read_head(file)
    return _read_text_head(replace(file, compression=find_compression(head)))


def _read_text_head(file: SourceFile) -> bytes:
    """The first bytes that come out of a file; none where it is damaged so early that its reader has to say so."""
    with contextlib.suppress(UnreadableFileError):
        return next(read_blocks(file, block_bytes=HEAD_BYTES), b"")
    return b""


def _recognise_contents(file: SourceFile, head: bytes, *, is_stated: bool) -> SourceFile:
    found = next((row.name for row in FORMATS.values() if row.magic and head.startswith(row.magic)), None)
    if found is not None and found != file.format and is_stated:
        raise UnreadableFileError(f"{file.path}: is {found}, and --format says {file.format}; leave out --format")
    if found is not None:
        return replace(
            file, format=found, document="line" if FORMATS[found].has_columns else file.document, encoding="", delimiter=""
        )
    if (kind := find_kind(head)) is not None:
        raise UnreadableFileError(f"{file.path}: is {kind.what}, which is not read; {kind.advice}")
    if format_of(file).magic:
        _refuse_text(file, head, is_stated=is_stated)
        return file
    _check_encoding(file, head)
    return file


def _refuse_text(file: SourceFile, head: bytes, *, is_stated: bool) -> None:
    """A file of text under the name of another format; one that is damaged is for its reader to speak of."""
    if head and is_plain_text(head):
        why = f"--format says {file.format}" if is_stated else f"its name says {file.format}"
        way_out = "leave out --format" if is_stated else "rename it by what it holds, or give --format"
        raise UnreadableFileError(f"{file.path}: is text, which begins with {head[:_SHOWN_BYTES]!r}, and {why}; {way_out}")


def _check_encoding(file: SourceFile, head: bytes) -> None:
    """Text is in the encoding that it is read in, as far as its first bytes tell."""
    asked, mark = file.encoding or "utf-8", find_mark(head)
    if mark is not None and not asked.startswith(mark):
        raise UnreadableFileError(f"{file.path}: begins with the mark of {mark}; {_advise(mark)}")
    if mark is None and not is_wide(asked) and (guess := guess_wide_encoding(head)) is not None:
        raise UnreadableFileError(f"{file.path}: looks like {guess}; {_advise(guess)}")
    if is_wide(asked) and mark is None and len(head) > 1 and 0 not in head and is_utf_8(head):
        raise UnreadableFileError(f"{file.path}: looks like utf-8, and --encoding says {asked}; leave out --encoding")
    if not is_wide(asked) and is_binary(head):
        raise UnreadableFileError(
            f"{file.path}: holds binary data, not text: it begins with {head[:_SHOWN_BYTES]!r}; leave it out, or give "
            "--encoding where it is text in another encoding"
        )


def _advise(encoding: str) -> str:
    if encoding == "utf-8":
        return "leave out --encoding, or give files of other encodings by themselves"
    return f"give --encoding {encoding}, and files of other encodings by themselves"


def describe_kinds(kinds: Iterable[str]) -> str:
    """How many files there are of which format, the most frequent first: `3 jsonl.gz, 1 text`."""
    found = Counter(kinds)
    return ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.items(), key=lambda item: (-item[1], item[0])))


def describe_left_out(names: Sequence[str]) -> str:
    """What folders and globs leave out by its name."""
    return f"left out {count_things(len(names), 'name')} of hidden or unfinished files: {_list_some(names)}"


def describe_passed_over(paths: Sequence[str]) -> str:
    """What folders leave out since its format is not known, and how to take it."""
    files = count_things(len(paths), "file")
    return f"left out {files} of unknown format beside files with columns: {_list_some(paths)}; to read one, name it as an input"


def describe_misnamed(listed: Sequence[SourceFile], files: Sequence[SourceFile]) -> str | None:
    """The files that are not what their names say, as `a.jsonl is jsonl.gz`; None where there is none."""
    found = [f"{after.name} is {after.kind}" for before, after in zip(listed, files, strict=True) if before.kind != after.kind]
    return f"read by contents, not by name: {_list_some(found)}" if found else None


def describe_parts(files: Sequence[SourceFile]) -> str | None:
    """The parts of a dataset (`train/`, `test.jsonl`) that are read as one corpus; None where there are not several."""
    words = {word for file in files if file.format != "dataset" for word in re.split(r"[/._-]", file.name.lower())}
    found = [part for part in _PARTS if part in words]
    return f"{', '.join(found)} are read as one corpus; give one of them to keep them apart" if len(found) > 1 else None


def _list_some(names: Sequence[str]) -> str:
    return show_printable(", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else ""))
