"""What an error of an object store means, and what to do about it."""

from __future__ import annotations

import errno
import os
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.utils.retry import PermanentException

from tokenmill.errors import StoreAccessError, StoreError, TokenmillError

#: Packages whose exceptions come from talking to a store.
_LIBRARIES = ("apache_beam", "boto3", "botocore", "google", "requests", "s3transfer", "urllib3")
_NO_BUCKET = ("NoSuchBucket", "bucket does not exist", "bucket not found")
_NO_CREDENTIALS = ("credentials", "Credentials", "SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied", "InvalidToken")
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}
_ADDRESSES = {"s3": "AWS_ENDPOINT_URL", "gs": "STORAGE_EMULATOR_HOST"}


def explain_store_error(path: str, error: BaseException, *, is_written: bool = False) -> Exception | None:
    """The error to raise for one that came from a store; None for an error of another kind, which stays as it is.

    >>> explain_store_error("s3://mill/a.txt", FileNotFoundError(2, "no such file"))
    FileNotFoundError(2, 'No such file or directory')
    """
    cause = _unwrap(error)
    if isinstance(cause, TokenmillError):
        return cause
    code, reason = _find_code(cause), _describe(cause)
    if code == 404 or isinstance(cause, FileNotFoundError):
        if is_written or any(sign in reason for sign in _NO_BUCKET) or "List operation" in str(error):
            return _no_bucket(path)
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not _is_of_store(cause):
        return None
    if code in (401, 403) or any(sign in reason for sign in _NO_CREDENTIALS):
        return _no_access(path, reason)
    if code is None or code >= 500:
        return _no_answer(path, reason)
    return StoreError(f"{path}: the store refused the request ({reason}); check the path, then run the same command again")


def _unwrap(error: Any) -> Any:
    """Beam wraps errors, by path, and its batches give the number of the HTTP status in place of an exception."""
    while isinstance(error, BeamIOError) and error.exception_details:
        error = next(iter(error.exception_details.values()))
    return error


def _find_code(cause: Any) -> int | None:
    """The HTTP status, where there was an answer."""
    response = getattr(cause, "response", None)
    of_boto = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    for code in (cause, getattr(cause, "code", None), of_boto):
        if isinstance(code, int):
            return int(code)
    return None


def _describe(cause: Any) -> str:
    message = cause if isinstance(cause, int) else getattr(cause, "message", None) or cause
    return (str(message).strip().splitlines() or [type(cause).__name__])[0].rstrip(".")


def _is_of_store(cause: Any) -> bool:
    if isinstance(cause, int | ConnectionError | TimeoutError | BeamIOError | PermanentException):
        return True
    return type(cause).__module__.partition(".")[0] in _LIBRARIES


def _scheme(path: str) -> str:
    return path.partition("://")[0]


def _no_bucket(path: str) -> StoreAccessError:
    bucket = path.partition("://")[2].partition("/")[0]
    return StoreAccessError(f"{path}: there is no bucket {bucket!r}; create it, or check the name")


def _no_access(path: str, reason: str) -> StoreAccessError:
    return StoreAccessError(
        f"{path}: the store denies access ({reason}); check the credentials ({_CREDENTIALS[_scheme(path)]}) and what they allow"
    )


def _no_answer(path: str, reason: str) -> StoreError:
    address = _ADDRESSES[_scheme(path)]
    return StoreError(
        f"{path}: the store does not answer ({reason}); check the network and {address}, then run the same command again"
    )
