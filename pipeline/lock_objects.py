"""The lock file of a folder in a store: read with its version, and written only if that is still its version.

S3Object     s3://, by `If-None-Match` and `If-Match` on PutObject and DeleteObject
GcsObject    gs://, by `ifGenerationMatch`
PlainObject  any other file system, which has no conditional write: it looks, then writes. Two runs that start within the same
             moment may both think that they hold the folder.
"""

from __future__ import annotations

import hashlib
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Protocol

from apache_beam.io.filesystem import BeamIOError

from tokenmill.transforms.files import delete_files, read_file, write_file_atomically
from tokenmill.transforms.stores import FileSystems, check_library, naming_the_store, store_options

_MOST_BYTES = 1 << 16
_REFUSED = (409, 412)


class ConflictError(Exception):
    """The object has another version than the one that the write was for."""


class Found(NamedTuple):
    """What an object holds. `age` is in seconds since it was written, None where the store does not say."""

    content: bytes
    version: str
    age: float | None


class LockObject(Protocol):
    """`write` and `delete` raise ConflictError unless `version` is that of the object; None: unless there is none."""

    is_conditional: bool

    def read(self) -> Found | None: ...

    def write(self, content: bytes, version: str | None) -> str: ...

    def delete(self, version: str) -> None: ...


def open_lock_object(path: str) -> LockObject:
    """The lock file at a path of any file system that is not this machine's."""
    scheme = FileSystems.get_scheme(path)
    if scheme == "s3":
        return S3Object(path)
    return GcsObject(path) if scheme == "gs" else PlainObject(path)


class S3Object:
    """An object of S3, or of a store that speaks its protocol."""

    is_conditional = True

    def __init__(self, path: str) -> None:
        check_library(path)
        from tokenmill.transforms.s3_files import find_client

        self._path, self._client = path, find_client(store_options()).client
        bucket, _, key = path.partition("://")[2].partition("/")
        self._name = {"Bucket": bucket, "Key": key}

    def read(self) -> Found | None:
        try:
            with naming_the_store(self._path):
                found = self._client.get_object(**self._name)
                content = found["Body"].read(_MOST_BYTES)
        except FileNotFoundError:
            return None
        now = parsedate_to_datetime(found["ResponseMetadata"]["HTTPHeaders"]["date"])  # by the clock of the store, as the other
        return Found(content, found["ETag"], (now - found["LastModified"]).total_seconds())

    def write(self, content: bytes, version: str | None) -> str:
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        written = self._ask(self._client.put_object, Body=content, **condition)
        return str(written["ETag"])

    def delete(self, version: str) -> None:
        self._ask(self._client.delete_object, IfMatch=version)

    def _ask(self, method: Any, **arguments: Any) -> Any:
        from botocore.exceptions import ClientError

        try:
            with naming_the_store(self._path):
                try:
                    return method(**self._name, **arguments)
                except ClientError as error:
                    if error.response["ResponseMetadata"]["HTTPStatusCode"] in _REFUSED:
                        raise ConflictError from None
                    raise
        except FileNotFoundError:
            raise ConflictError from None


class GcsObject:
    """An object of Google Cloud Storage."""

    is_conditional = True

    def __init__(self, path: str) -> None:
        check_library(path)
        from apache_beam.io.gcp.gcsio import GcsIO

        self._path = path
        bucket, _, name = path.partition("://")[2].partition("/")
        self._blob_of = GcsIO(pipeline_options=store_options()).client.bucket(bucket)
        self._name = name

    def read(self) -> Found | None:
        from datetime import datetime, timezone

        try:
            with naming_the_store(self._path):
                blob = self._blob_of.get_blob(self._name)
                if blob is None:
                    return None
                content = blob.download_as_bytes(if_generation_match=blob.generation)[:_MOST_BYTES]
        except (FileNotFoundError, ConflictError):
            return None
        return Found(content, str(blob.generation), (datetime.now(timezone.utc) - blob.updated).total_seconds())

    def write(self, content: bytes, version: str | None) -> str:
        blob = self._blob_of.blob(self._name)
        self._ask(lambda: blob.upload_from_string(content, if_generation_match=int(version or 0)), is_written=version is None)
        return str(blob.generation)

    def delete(self, version: str) -> None:
        self._ask(lambda: self._blob_of.delete_blob(self._name, if_generation_match=int(version)))

    def _ask(self, request: Any, *, is_written: bool = False) -> None:
        from google.api_core.exceptions import PreconditionFailed

        try:
            with naming_the_store(self._path, is_written=is_written):
                try:
                    request()
                except PreconditionFailed:
                    raise ConflictError from None
        except FileNotFoundError:
            raise ConflictError from None


class PlainObject:
    """A file where there is no conditional write."""

    is_conditional = False

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> Found | None:
        try:
            content = read_file(self._path, _MOST_BYTES)
        except (OSError, BeamIOError):
            return None
        return Found(content, hashlib.sha256(content).hexdigest(), None)

    def write(self, content: bytes, version: str | None) -> str:
        self._check(version)
        write_file_atomically(self._path, content)
        return hashlib.sha256(content).hexdigest()

    def delete(self, version: str) -> None:
        self._check(version)
        delete_files([self._path])

    def _check(self, version: str | None) -> None:
        found = self.read()
        if (found.version if found else None) != version:
            raise ConflictError
