"""From the INPUT arguments of the command line to files, and from files to splits. All of it runs in the driver, before any job.

    list_inputs(["corpus/", "extra.jsonl.gz"])     ->  Inputs                which files, under which names
    resolve_inputs(...)                            ->  [SourceFile, ...]     the same files, of the formats that they hold
    plan_splits(files, options=..., ...)           ->  [Split, ...]          the units of parallel work, in corpus order

The order of the arguments is the order of the corpus; inside a folder or glob, files are sorted by name.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import itertools
import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.pipeline.listing import is_remote, list_local, list_stdlib, local_path
from tokenmill.pipeline.listing_remote import list_remote
from tokenmill.pipeline.recognition import describe_left_out, peek_text, recognise_files, refuse_unused
from tokenmill.pipeline.spooling import begins_json, is_pipe, spool_pipe
from tokenmill.transforms.encodings import name_encoding
from tokenmill.transforms.folder_keys import without_folder_key
from tokenmill.transforms.input_formats import DEFAULT_FORMAT, FORMATS, find_by_extension, format_of
from tokenmill.transforms.read import cut_file
from tokenmill.transforms.read_csv import name_delimiter
from tokenmill.transforms.read_dataset import parse_dataset_name
from tokenmill.transforms.read_lines import LineCount
from tokenmill.transforms.splits import WINDOW_BYTES, ReadOptions, SizedRange, SourceFile, Split
from tokenmill.transforms.zstd_frames import window_bytes_of
from tokenmill.unicode_text import SURROGATE

DEFAULT_SPLIT_BYTES = 32 << 20

_COMPRESSIONS = {".gz": "gz", ".gzip": "gz", ".zst": "zst", ".zstd": "zst", ".bz2": "bz2", ".xz": "xz"}
_THREADS = 8
_NEAR_NAMES = 5


@dataclass(frozen=True)
class _Found:
    """A file where it was found: `name` is relative to `root`, the folder or glob root; a dataset has a `prefix`.

    A dataset of the Hub has no root, nor has the standard library: their names need no folder to be told apart.
    """

    root: str | None
    name: str
    source: SourceFile
    prefix: str = ""


@dataclass(frozen=True)
class Inputs:
    """The files that the inputs stand for, in corpus order, of the formats that their names say.

    `left_out`: names that are hidden or not final yet. `passed_over`: paths of files whose names say nothing, in folders with
    files that have columns.
    """

    files: list[SourceFile]
    left_out: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()


def resolve_inputs(inputs: Sequence[str], *, format: str = "auto", **options: Any) -> list[SourceFile]:
    """The files that inputs stand for, in corpus order, as their contents have them: `list_inputs`, then `recognise_files`."""
    return recognise_files(list_inputs(inputs, format=format, **options).files, format=format)


def list_inputs(
    inputs: Sequence[str],
    *,
    format: str = "auto",
    document: str = "line",
    encoding: str = "utf-8",
    delimiter: str | None = None,
    max_window: float = WINDOW_BYTES >> 20,
) -> Inputs:
    """Find the files that paths, globs, folders, `hf:`, `disk:` and `stdlib` stand for. None of them is opened.

    `format` is `auto` (by extension, `text` where that says nothing) or the name of a format; compression goes by the extension.
    `document` is `line` or `file`, for text; `delimiter` is for tables, and `max_window` is in MB. In folders and globs, hidden
    and unfinished files are left out. Names are relative to the folder or glob root; where two would be the same, to the roots'
    common parent.

    Raises `UnreadableFileError` for an input that matches nothing, `UsageError` for a file that is given twice, and for an option
    that is for none of the files.
    """
    options: dict[str, Any] = {"format": format, "document": document, "encoding": name_encoding(encoding)}
    options |= {"delimiter": name_delimiter(delimiter), "max_window_bytes": window_bytes_of(max_window)}
    swept = [_find_input(text, options) for text in inputs]
    found = [file for sweep in swept for file in sweep.found]
    _refuse_repeated(found)
    refuse_unused([file.source for file in found], options)
    left_out = tuple(name for sweep in swept for name in sweep.left_out)
    return Inputs(_name_files(found), left_out, tuple(path for sweep in swept for path in sweep.passed_over))


@dataclass(frozen=True)
class _Sweep:
    """What one input stands for, and what it leaves out."""

    found: list[_Found]
    left_out: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()


def _find_input(text: str, options: dict[str, Any]) -> _Sweep:
    if not text:  # of a shell's variable that is not set: the current folder is called "."
        raise UsageError("an input is empty; give a file, a folder or a glob, `.` for the current folder")
    if text.startswith(("hf:", "disk:")):
        return _Sweep([_find_dataset(text)])
    if text == "stdlib":
        return _Sweep(_find_stdlib())
    if is_pipe(text):
        return _Sweep([_find_pipe(text, options)])
    if text.startswith("file://"):
        text = local_path(text)
    listing = list_remote(text) if is_remote(text) else list_local(text)
    if not listing.files:
        raise UnreadableFileError(f"no file at {text!r}; {_describe_near(text, listing.left_out)}")
    root, sizes = listing.root, sorted(listing.files.items())
    found = [_Found(root, name, describe_file(root, name=name, size=size, **options)) for name, size in sizes]
    passed_over = _find_unknown(found) if listing.is_swept and options["format"] == "auto" else set()
    kept = [file for file in found if file.source.path not in passed_over]
    return _Sweep(kept, listing.left_out, tuple(sorted(passed_over)))


def _find_pipe(text: str, options: dict[str, Any]) -> _Found:
    """What comes out of a pipe. Where it begins with JSON, compressed or not, it is JSON unless `--format` says otherwise."""
    path = spool_pipe(text)
    file = describe_file("", name=path, size=os.path.getsize(path), **options)
    is_json = options["format"] == "auto" and begins_json(peek_text(file))
    return _Found(None, "stdin", replace(file, format="jsonl", document="line") if is_json else file)


def _find_unknown(found: Sequence[_Found]) -> set[str]:
    """Paths of files whose names say nothing of their format, where others have columns: `README.md` beside `a.jsonl`."""
    if not any(format_of(file.source).has_columns for file in found):
        return set()
    return {file.source.path for file in found if _split_name(file.source.path)[0] is None}


def describe_file(
    root: str,
    *,
    name: str,
    size: int,
    format: str,
    document: str,
    encoding: str = "",
    delimiter: str = "",
    max_window_bytes: int = WINDOW_BYTES,
) -> SourceFile:
    """The file `name` below `root`: its format, unless given, and its compression are those that its name says."""
    named, compression = _split_name(posixpath.join(root, name))
    format = (named or DEFAULT_FORMAT) if format == "auto" else format
    document = "line" if FORMATS[format].has_columns else document
    delimiter = delimiter if FORMATS[format].has_delimiter else ""
    path = posixpath.join(root, name)
    return SourceFile(path, name, format, compression, size, document, encoding, max_window_bytes, delimiter)


def _split_name(path: str) -> tuple[str | None, str]:
    """The format, None where there is none, and the compression that a path says: `a.jsonl.gz` says `jsonl` and `gz`.

    A file without an ending is what its folder is called: `a.jsonl/part-00000`, as Hadoop writes them.
    """
    stem, extension = posixpath.splitext(path.lower())
    compression = _COMPRESSIONS.get(extension, "")
    if compression:
        extension = posixpath.splitext(stem)[1]
    return find_by_extension(extension or posixpath.splitext(posixpath.dirname(stem))[1]), compression


def _describe_near(text: str, left_out: Sequence[str]) -> str:
    """What a user may have meant by a path that matches nothing: the names in the nearest folder that there is."""
    if left_out:
        return f"{describe_left_out(left_out)}; rename what is complete"
    if is_remote(text):
        return "check the path, and that the file system's credentials can list it"
    path = os.path.normpath(text)
    if os.path.isdir(path):
        return "the folder holds no file"
    folder = os.path.dirname(path)
    while folder and not os.path.isdir(folder):
        path, folder = folder, os.path.dirname(folder)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError as error:
        return f"the folder {folder!r} cannot be listed: {error.strerror}"
    near = difflib.get_close_matches(os.path.basename(path), names, n=_NEAR_NAMES) or names[:_NEAR_NAMES]
    return f"the folder {folder or '.'!r} holds {', '.join(near) or 'nothing'}{', ...' if len(near) < len(names) else ''}"


def _find_dataset(text: str) -> _Found:
    name = parse_dataset_name(text)
    prefix = name.kind + ":"
    rest = text.removeprefix(prefix + name.path)
    if not name.is_local:
        return _Found(None, name.path + rest, SourceFile(text, text, "dataset"), prefix)
    root, base = os.path.split(os.path.abspath(name.path))
    return _Found(root, base + rest, SourceFile(text, text, "dataset"), prefix)


def _find_stdlib() -> list[_Found]:
    return [_Found(None, name, _source_of_stdlib(name, path)) for name, path in list_stdlib().items()]


def _source_of_stdlib(name: str, path: str) -> SourceFile:
    """One document; as Python itself goes by these files, nothing in them needs a look."""
    return SourceFile(path, name, "text", size=os.path.getsize(path), document="file", is_recognised=True)


def _refuse_repeated(found: Iterable[_Found]) -> None:
    seen: set[str] = set()
    for file in found:
        path = file.source.path
        place = _absolute(path) if file.source.format != "dataset" else path
        if place in seen:
            raise UsageError(f"{path}: is given twice; name each file once, or leave out the folder or glob that holds it")
        seen.add(place)


def _name_files(found: list[_Found]) -> list[SourceFile]:
    names = [file.prefix + file.name for file in found]
    for name in names:
        if SURROGATE.search(name):
            shown = os.fsencode(name).decode("utf-8", "backslashreplace")
            raise UnreadableFileError(f"{shown}: the name of the file is not UTF-8, which a manifest needs; rename it")
    if len(set(names)) < len(names):
        parent = _common_parent([file.root for file in found if file.root is not None])
        names = [file.prefix + _name_from(parent, file) for file in found]
    name, count = Counter(names).most_common(1)[0] if names else ("", 1)
    if count > 1:
        raise UsageError(f"two inputs would both be called {name!r}; put them into folders of different names")
    return [replace(file.source, name=name) for file, name in zip(found, names, strict=True)]


def _absolute(root: str) -> str:
    return root if is_remote(root) else os.path.abspath(root)


def _common_parent(roots: Sequence[str]) -> list[str]:
    """Path components that all roots share: of `/a/b` and `/a/c/d` they are `["", "a"]`."""
    levels = zip(*(_absolute(root).split("/") for root in roots), strict=False)
    return [level[0] for level in itertools.takewhile(lambda level: len(set(level)) == 1, levels)]


def _name_from(parent: list[str], file: _Found) -> str:
    if file.root is None:
        return f"stdlib/{file.name}" if not file.prefix else file.name
    return posixpath.join(*_absolute(file.root).split("/")[len(parent) :], file.name)


def plan_splits(
    files: Sequence[SourceFile], *, options: ReadOptions, split_bytes: int = DEFAULT_SPLIT_BYTES, limit: int | None = None
) -> list[Split]:
    """Cut and pack files into splits of about `split_bytes` (as stored, or of text where metadata tell), in order.

    Large files are cut, small neighbours share a split; compressed files and Arrow streams stay whole. With `limit` the splits
    hold exactly the first `limit` records of the corpus, rejected ones included, whatever the sizes.

    Raises `MissingColumnError` and `UnreadableFileError` before any work is done.
    """
    _check_options(files, options)
    with _open_pool() as pool:
        cuts = list(pool.map(lambda file: cut_file(file, options, split_bytes), files))
        _probe_files(files, options, pool)
        ranges = _number_rows(cuts, pool) if limit is None else list(_limit_rows(cuts, limit))
    return pack_ranges(ranges, split_bytes)


def _check_options(files: Sequence[SourceFile], options: ReadOptions) -> None:
    """Columns that are asked for are different ones, and of files that have columns."""
    for name, column in (("id", options.id_column), ("pair", options.pair_column)):
        if column is not None and column == options.text_column:
            raise UsageError(f"the {name} column and the text column are both {column!r}; name two columns")
    text = next((file for file in files if not format_of(file).has_columns), None)
    if options.pair_column is not None and text is not None:
        raise UsageError(
            f"{text.path}: a text file has no column {options.pair_column!r}; write JSON lines, an object with both texts each "
            "(--format jsonl where the name does not say so)"
        )


@contextlib.contextmanager
def _open_pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for the planner, gone when it is done. After an error or Ctrl-C nobody waits for them, nor for what is queued."""
    pool = ThreadPoolExecutor(_THREADS)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _probe_files(files: Sequence[SourceFile], options: ReadOptions, pool: ThreadPoolExecutor) -> None:
    """Look into every file whose format has no schema that is checked while it is cut; the first one in corpus order raises."""
    probed = [(probe, file) for file in files if (probe := format_of(file).probe) is not None]
    for _ in pool.map(lambda pair: pair[0](pair[1], without_folder_key(pair[1], options)), probed):
        pass


def _number_rows(cuts: Iterable[list[SizedRange]], pool: ThreadPoolExecutor) -> list[SizedRange]:
    """Give each range of a cut file of lines its first row. All ranges but the last of each file are counted, at once."""
    pending = [
        [(part, pool.submit(_count, part, None) if part.rows is None and part is not cut[-1] else None) for part in cut]
        for cut in cuts
    ]
    numbered: list[SizedRange] = []
    for cut in pending:
        row = 0
        for part, lines in cut:
            numbered.append(part if part.rows is not None else _set(part, first_row=row))
            row += 0 if lines is None else lines.result().lines
    return numbered


def _limit_rows(cuts: Iterable[list[SizedRange]], limit: int) -> Iterator[SizedRange]:
    """The ranges of the first `limit` records; what has no metadata is counted, until they are reached."""
    for cut in cuts:
        row = 0
        for part in cut:
            if limit <= 0:
                return
            count = _count(part, limit)
            known = part if part.rows is not None else _set(part, first_row=row)
            yield known if count.records < limit else _shorten(known, limit)
            row += count.lines
            limit -= min(limit, count.records)


def _count(part: SizedRange, limit: int | None) -> LineCount:
    """Lines and records of a range, counted where they are not known, no further than `limit` asks for."""
    if part.rows is not None:
        return LineCount(part.rows, part.rows)
    count_records = format_of(part.range.file).count_records
    if count_records is None:
        raise TypeError("a format whose `cut` leaves rows unknown has a `count_records`")
    return count_records(part.range, limit)


def _shorten(part: SizedRange, rows: int) -> SizedRange:
    """The first `rows` records of a range. Its size follows where it is known how many records there are."""
    size = part.size if part.rows is None else part.size * rows // part.rows
    return replace(_set(part, rows=rows), size=size)


def _set(part: SizedRange, **changes: int) -> SizedRange:
    fields: dict[str, Any] = {**changes}
    return replace(part, range=replace(part.range, **fields))


def pack_ranges(parts: Sequence[SizedRange], split_bytes: int) -> list[Split]:
    """Fill splits with neighbours, in order, as long as they stay within `split_bytes`.

    Where a split ends is decided by names and sizes nearby: a file that comes, goes or changes moves the ends next to it, and a
    few splits further on all is as before, so that what was made of those can be kept. So the ranges of a file that was cut stand
    alone, and a split that is half full ends in front of the next file whose name says so.
    """
    ranges = Counter(part.range.file.name for part in parts)
    packed: list[list[SizedRange]] = []
    size, is_open = 0, False
    for part in parts:
        alone = ranges[part.range.file.name] > 1
        ends = size + part.size > split_bytes or (2 * size >= split_bytes and _begins_split(part, split_bytes))
        if is_open and not alone and not ends:
            packed[-1].append(part)
            size += part.size
        else:
            packed.append([part])
            size, is_open = part.size, not alone
    return [
        Split(index, tuple(part.range for part in parts), sum(part.size for part in parts)) for index, parts in enumerate(packed)
    ]


def _begins_split(part: SizedRange, split_bytes: int) -> bool:
    """Whether a new split may well begin here: by chance, but always the same for a name; about four times in `split_bytes`."""
    chance = int.from_bytes(hashlib.blake2b(part.range.file.name.encode(), digest_size=8).digest(), "big") / 2**64
    return chance * split_bytes < 4 * part.size
