"""Files of other file systems that a path, glob or folder stands for, through Beam."""

from __future__ import annotations

import glob
import importlib.util
import posixpath
from typing import Any

from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.pipeline.listing import Listing, glob_root, is_sweeping, refuse_unfinished, sort_out
from tokenmill.transforms.files import escape_glob
from tokenmill.transforms.stores import FileSystems


def list_remote(text: str) -> Listing:
    """As `list_local`, folders by their prefixes: a store of objects has no others."""
    try:
        return _list_pattern(text) if glob.has_magic(text) else _list_prefix(text)
    except ValueError as error:
        raise UsageError(f"{text}: {_name_extra(text) or error}") from error
    except OSError as error:
        if extra := _name_extra(text):
            raise UsageError(f"{text}: {extra}") from error
        raise UnreadableFileError(f"{text}: cannot be listed: {error}") from error


#: The extra of our package that brings a file system, and a module that it installs.
_EXTRAS = {"gs": ("gcp", "google.cloud.storage"), "s3": ("aws", "boto3")}


def _name_extra(text: str) -> str:
    """What to install where a file system's packages are missing; empty where that is not what is wrong."""
    extra, module = _EXTRAS.get(text.partition("://")[0], ("", ""))
    if not extra or _is_installed(module):
        return ""
    return f"needs packages that are not installed; pip install 'tokenmill[{extra}]'"


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package around it
        return False


def _list_prefix(text: str) -> Listing:
    if not text.endswith("/") and (found := _match(text)):
        refuse_unfinished(text)
        root = posixpath.dirname(text)
        return Listing(root, _relative(found, root))
    root = text.rstrip("/")
    return _make_listing(root, _match(root + "/**"))


def _list_pattern(text: str) -> Listing:
    """Files of a glob, unless it is the very name of a file or a folder; both are told by one listing, which may take long."""
    folder = text.rstrip("/")
    named = _match(escape_glob(folder) + "**")
    if text in named:
        refuse_unfinished(text)
        return Listing(posixpath.dirname(text), {posixpath.basename(text): named[text]})
    if inside := {path: size for path, size in named.items() if path.startswith(folder + "/")}:
        return _make_listing(folder, inside)
    root = glob_root(text)
    matches = _match(text + "**" if text.endswith("/") else text)
    return _make_listing(root, matches, pattern=text.removeprefix(root), is_swept=text.endswith("/") or is_sweeping(text))


def _make_listing(root: str, matches: dict[str, int], *, pattern: str = "", is_swept: bool = True) -> Listing:
    sizes = _relative(matches, root)
    taken, left_out = sort_out(sizes, pattern)
    return Listing(root, {name: sizes[name] for name in taken}, left_out, is_swept)


def _match(pattern: str) -> dict[str, int]:
    """Files and their sizes; the empty objects `folder/` by which stores show folders are none."""
    found: Any = FileSystems.match([pattern])
    matches = {match.path: match.size_in_bytes for match in found[0].metadata_list}
    return {path: size for path, size in matches.items() if size or not path.endswith("/")}


def _relative(matches: dict[str, int], root: str) -> dict[str, int]:
    return {path.removeprefix(root + "/"): size for path, size in matches.items()}
