"""Errors of the storage libraries and of the system, said in our words, in one place."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.base.errors import (
    InvalidLocation,
    ObjectExists,
    PenstockError,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageNotFound,
    StorageUnavailable,
)
from penstock.base.limits import STORAGE_DETAIL_LENGTH_MAX

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_LINKS = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
_BUSY = (errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR, errno.ESTALE, errno.EBUSY, errno.EMFILE, errno.ENFILE)

# What in the message of a remote storage means that the same request may succeed later.
_TRANSIENT = re.compile(
    r"SlowDown|Throttl|TooManyRequests|RequestTimeout|InternalError|ServiceUnavailable|ServerBusy"
    r"|status code: (?:408|425|429|5\d\d)|HTTP error|timed? ?out|connection|error sending request"
    r"|error decoding response|incomplete message|broken pipe|reset by peer",
    re.IGNORECASE,
)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist", re.IGNORECASE)
_CREDENTIALS = re.compile(
    r"status code: (?:401|403)|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|missing credential|no credential|metadata endpoint|metadata token|169\.254\.169\.254",
    re.IGNORECASE,
)
_DETAIL = re.compile(r"\s*\n\s*Debug source:.*", re.DOTALL)


@contextmanager
def translated(doing: str, url: str, name: str = "") -> Iterator[None]:
    """Whatever a storage library raises inside becomes an error that says what failed, where, and what to do."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise translate(error, doing, url, name) from error


def translate(error: Exception, doing: str, url: str, name: str = "") -> PenstockError:
    """The error of ours that says what this one of a library means.

    >>> print(translate(OSError(28, "No space left on device"), "write", "/data", "a/b"))
    cannot write 'a/b' in /data: no space is left
    HINT: Free space on the disk, or raise the quota or file size limit, then try again; nothing was harmed.
    """
    what = f"cannot {doing} {name!r} in {url}" if name else f"cannot {doing} {url}"
    kind = type(error).__name__
    text = str(error)
    # obstore raises FileNotFoundError and PermissionError of Python too, without errno: they are remote.
    if isinstance(error, OSError) and error.errno is not None:
        return _system(error, what)
    if _NO_BUCKET.search(text):
        return StorageNotFound(
            f"{what}: the bucket or container does not exist",
            hint="Create it, or correct the name, the region or the endpoint.",
        )
    if isinstance(error, FileNotFoundError) or kind == "NotFoundError":
        return StorageNotFound(f"{what}: there is no such object", hint="It may have been deleted by hand.")
    if kind == "AlreadyExistsError":
        return exists(url, name)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or _CREDENTIALS.search(text):
        return StorageDenied(
            f"{what}: permission denied ({_detail(text)})",
            hint="Check the credentials in storage_options or in the provider's environment variables, and "
            "that they may read, write, list and delete there.",
        )
    if kind == "UnknownConfigurationKeyError" or kind == "InvalidPathError":
        return InvalidLocation(
            f"{what}: {_detail(text)}", hint="Correct the name in storage_options or the URL."
        )
    if isinstance(error, TimeoutError) or _TRANSIENT.search(text):
        return StorageUnavailable(
            f"{what}: the storage did not answer or was overloaded ({_detail(text)})",
            hint="Check the endpoint and the network; the request may or may not have been carried out.",
        )
    return StorageError(f"{what}: {_detail(text)}", hint="See the storage's own message.")


def exists(url: str, name: str) -> ObjectExists:
    """The error for a name that is taken."""
    return ObjectExists(
        f"cannot write {name!r} in {url}: an object of that name is there already",
        hint="Objects are written once; use a new name.",
    )


def _system(error: OSError, what: str) -> PenstockError:
    code = error.errno
    if code in _FULL:
        return StorageFull(
            f"{what}: no space is left",
            hint="Free space on the disk, or raise the quota or file size limit, then try again; "
            "nothing was harmed.",
        )
    if code in _DENIED:
        return StorageDenied(
            f"{what}: permission denied ({error.strerror})",
            hint="Give this user the right to read and write that folder, or choose another.",
        )
    if code == errno.ENOENT:
        return StorageNotFound(f"{what}: there is no such file", hint="It may have been deleted by hand.")
    if code in (errno.ENOTDIR, errno.EEXIST):
        return StorageError(f"{what}: a part of the path is a file", hint="Name a folder.")
    if code in _NO_LINKS:
        return StorageError(
            f"{what}: this file system cannot make hard links ({error.strerror})",
            hint="Use a folder on a file system that can; without them two writers could overwrite each other.",
        )
    if code in _BUSY:
        return StorageUnavailable(f"{what}: {error.strerror}", hint="Try again.")
    return StorageError(f"{what}: {error.strerror}", hint="Check the disk; the system log may say more.")


def _detail(text: str) -> str:
    """The library's message in one line, without its debug dump.

    >>> _detail("Generic S3 error: no luck\\n\\nDebug source:\\nGeneric {")
    'Generic S3 error: no luck'
    """
    line = " ".join(_DETAIL.sub("", text).split())
    return line if len(line) <= STORAGE_DETAIL_LENGTH_MAX else line[:STORAGE_DETAIL_LENGTH_MAX] + "..."
