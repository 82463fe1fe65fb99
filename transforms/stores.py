"""Beam's file systems as all of tokenmill uses them: ready in every process, and with errors that say what to do.

Beam gives its file systems their options when a pipeline is created, and workers get them from there. Much is done before that
and without one: listing, locking, publishing, `verify`. So this module sets them at the first use. Credentials and addresses come
from the usual environment variables, or from Beam's options after `--` on the command line:

    s3://  AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE
           --s3_endpoint_url, --s3_region_name, --s3_access_key_id, --s3_secret_access_key, --s3_session_token
    gs://  GOOGLE_APPLICATION_CREDENTIALS, STORAGE_EMULATOR_HOST
           --no_auth, --impersonate_service_account
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, BinaryIO, cast

from apache_beam.io import filesystems as beam
from apache_beam.io.filesystem import CompressionTypes, FileSystem
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from tokenmill.errors import StoreAccessError
from tokenmill.transforms.store_errors import explain_store_error

#: The extra of tokenmill that installs the library of a store, by scheme, and that library.
EXTRAS = {"s3": ("aws", "boto3"), "gs": ("gcp", "google.cloud.storage")}


def use_options(options: PipelineOptions) -> PipelineOptions:
    """Let the file systems of this process have these options; returns them."""
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        options.view_as(GoogleCloudOptions).no_auth = True  # an emulator has no accounts; looking for one takes half a minute
    beam.FileSystems.set_options(options)
    return options


def store_options() -> PipelineOptions:
    """The options that the file systems of this process have; at the first use, those of the environment."""
    return beam.FileSystems._pipeline_options or use_options(PipelineOptions([]))


def is_store(path: str) -> bool:
    """Whether a path is in a store of objects that this module knows: `s3://bucket/a` is, `hdfs://host/a` is not."""
    return FileSystems.get_scheme(path) in EXTRAS


class FileSystems:
    """What we use of Beam's class of this name."""

    @staticmethod
    def get_scheme(path: str) -> str | None:
        scheme: str | None = beam.FileSystems.get_scheme(path)
        return scheme

    @staticmethod
    def join(base: str, *names: str) -> str:
        if is_store(base):
            return "/".join([base.rstrip("/"), *(name.strip("/") for name in names)])
        joined: str = beam.FileSystems.join(base, *names)
        return joined

    @staticmethod
    def exists(path: str) -> bool:
        with naming_the_store(path):
            return bool(_find_system(path).exists(path))

    @staticmethod
    def match(patterns: list[str]) -> Any:
        with naming_the_store(re.split(r"[*?[]", patterns[0])[0].rstrip("/")):
            return _find_system(patterns[0]).match(patterns)

    @staticmethod
    def open(path: str, compression_type: str = CompressionTypes.AUTO) -> BinaryIO:
        with naming_the_store(path):
            return _guard(_find_system(path).open(path, compression_type=compression_type), path)

    @staticmethod
    def create(path: str, compression_type: str = CompressionTypes.AUTO) -> BinaryIO:
        with naming_the_store(path, is_written=True):
            return _guard(_find_system(path).create(path, compression_type=compression_type), path, is_written=True)

    @staticmethod
    def copy(sources: list[str], targets: list[str]) -> None:
        with naming_the_store(sources[0]):
            _find_system(sources[0]).copy(sources, targets)

    @staticmethod
    def rename(sources: list[str], targets: list[str]) -> None:
        with naming_the_store(sources[0]):
            _find_system(sources[0]).rename(sources, targets)

    @staticmethod
    def delete(paths: list[str]) -> None:
        with naming_the_store(paths[0]):
            _find_system(paths[0]).delete(paths)

    @staticmethod
    def checksum(path: str) -> str:
        with naming_the_store(path):
            return str(_find_system(path).checksum(path))

    @staticmethod
    def mkdirs(path: str) -> None:
        with naming_the_store(path):
            _find_system(path).mkdirs(path)


def _find_system(path: str) -> FileSystem:
    if not is_store(path):
        return beam.FileSystems.get_filesystem(path)
    options = store_options()
    check_library(path)
    if FileSystems.get_scheme(path) == "s3":
        from tokenmill.transforms.s3_files import SharedS3

        return SharedS3(options)
    return beam.FileSystems.get_filesystem(path)


def check_library(path: str) -> None:
    """Raise StoreAccessError where the library of a store is not installed; the message names the extra."""
    extra, library = EXTRAS[FileSystems.get_scheme(path) or ""]
    try:
        __import__(library)
    except ImportError:
        raise StoreAccessError(
            f"{path}: the library for this store is not installed; run: pip install 'tokenmill[{extra}]'"
        ) from None


@contextlib.contextmanager
def naming_the_store(path: str, *, is_written: bool = False) -> Iterator[None]:
    """Turn what the library of a store raises into one of our errors, or FileNotFoundError for a file that is not there."""
    try:
        yield
    except Exception as error:
        if is_store(path) and (explained := explain_store_error(path, error, is_written=is_written)) is not None:
            raise explained from error
        raise


def _guard(file: Any, path: str, *, is_written: bool = False) -> BinaryIO:
    return cast(BinaryIO, _StoreFile(file, path, is_written)) if is_store(path) else cast(BinaryIO, file)


class _StoreFile:
    """An open file whose methods raise what `naming_the_store` says."""

    def __init__(self, file: Any, path: str, is_written: bool) -> None:
        self._file, self._path, self._is_written = file, path, is_written

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._file, name)
        return self._guarded(value) if callable(value) else value

    def _guarded(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with naming_the_store(self._path, is_written=self._is_written):
                return method(*arguments, **named)

        return call

    def __enter__(self) -> _StoreFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._guarded(self._file.close)()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)
