"""Beam's S3 file system over one client for each process.

Beam creates a client for each request, which takes a tenth of a second, and repeats a request that gets no connection for ten
minutes. Here requests share a client, and only its own retries apply (`AWS_MAX_ATTEMPTS` sets how many).
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from apache_beam.io.aws import s3io
from apache_beam.io.aws.clients.s3 import boto3_client, messages
from apache_beam.io.aws.s3filesystem import S3FileSystem
from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from apache_beam.utils.retry import PermanentException

_OPTIONS = (
    "s3_access_key_id",
    "s3_secret_access_key",
    "s3_session_token",
    "s3_endpoint_url",
    "s3_region_name",
    "s3_api_version",
    "s3_verify",
    "s3_disable_ssl",
)


class FinalError(PermanentException):
    """An error that Beam must not retry: no connection, no bucket, no access. `code` is the HTTP status, where there was one."""

    def __init__(self, message: str, code: int | None) -> None:
        super().__init__(message)
        self.code = code


class SharedS3(S3FileSystem):
    """Create it for a path; it holds nothing but its options."""

    @classmethod
    def scheme(cls) -> str:
        """Not `s3`: Beam finds file systems by their scheme, and must find its own."""
        return "tokenmill-s3"

    def _io(self) -> s3io.S3IO:
        return s3io.S3IO(client=_OnceClient(find_client(self._options)))

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for path, (size, updated) in self._io().list_files(dir_or_prefix, with_metadata=True):
            yield FileMetadata(path, size, updated)

    def _path_open(self, path: str, mode: str, *rest: Any) -> BinaryIO:
        """The bytes as they are stored: we decompress files ourselves."""
        opened: BinaryIO = self._io().open(path, mode)
        return opened

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        _raise_first(self._io().copy_paths(list(zip(source_file_names, destination_file_names, strict=True))))

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        _raise_first(self._io().rename_files(list(zip(source_file_names, destination_file_names, strict=True))))

    def exists(self, path: str) -> bool:
        found: bool = self._io().exists(path)
        return found

    def checksum(self, path: str) -> str:
        found: str = self._io().checksum(path)
        return found

    def delete(self, paths: list[str]) -> None:
        _raise_first(list(self._io().delete_paths(paths).items()))


def _raise_first(results: list[tuple[Any, ...]]) -> None:
    """Beam returns what became of each path, the error last."""
    for result in results:
        if result[-1] is not None:
            raise BeamIOError(f"{result[0]}: failed", {result[0]: result[-1]})


def find_client(options: PipelineOptions) -> boto3_client.Client:
    """The client of this process for these options and environment variables. Its attribute `client` is boto3's."""
    view = options.view_as(S3Options)
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    return _make_client(os.getpid(), tuple(getattr(view, name, None) for name in _OPTIONS), environment)


@functools.lru_cache(maxsize=4)
def _make_client(_process: int, values: tuple[Any, ...], _environment: tuple[tuple[str, str], ...]) -> boto3_client.Client:
    """A forked process makes its own client: connections cannot be shared."""
    return boto3_client.Client(options=dict(zip(_OPTIONS, values, strict=True)))


class _OnceClient:
    """What `S3IO` needs of a client; errors that will stay the same are a `FinalError`, which Beam does not retry."""

    def __init__(self, shared: boto3_client.Client) -> None:
        self._beam = copy.copy(shared)  # reading keeps a place in it
        self._boto = shared.client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._beam, name)
        return lambda *arguments: _call(method, *arguments)

    def get_range(self, request: messages.GetRequest, start: int, end: int) -> bytes:
        """As Beam reads: one stream as long as ranges follow each other, opened again once when it breaks."""
        read_once = boto3_client.Client.get_range.__wrapped__  # without the decorator that repeats for ten minutes
        content: bytes = _call(read_once, self._beam, request, start, end)
        return content

    def complete_multipart_upload(self, request: messages.CompleteMultipartUploadRequest) -> None:
        """S3 refuses an upload of no parts: an empty file is put as it is."""
        if request.parts:
            _call(self._beam.complete_multipart_upload, request)
            return
        self._boto.abort_multipart_upload(Bucket=request.bucket, Key=request.object, UploadId=request.upload_id)
        self._boto.put_object(Bucket=request.bucket, Key=request.object, Body=b"")


def _call(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except messages.S3ClientError as error:
        if error.code in (None, 401, 403) or "NoSuchBucket" in str(error.message):
            raise FinalError(str(error.message), error.code) from error
        raise
