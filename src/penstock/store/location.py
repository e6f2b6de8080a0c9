"""Where a flow is kept: a storage URL or a path, taken apart and checked once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit
from urllib.request import url2pathname

from penstock.base.errors import InvalidLocation

# Each way to write a scheme, and the kind of storage it means.
SCHEMES: Mapping[str, str] = MappingProxyType(
    {
        "file": "file",
        "s3": "s3",
        "s3a": "s3",
        "gs": "gs",
        "gcs": "gs",
        "az": "az",
        "azure": "az",
        "abfs": "az",
        "abfss": "az",
        "memory": "memory",
    }
)
REMOTE = ("s3", "gs", "az")

_FORMS = "Use ./folder, /folder, file:///folder, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or memory://name."
# Two letters at least, so that C:\data is a path and not a scheme.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# What the object_store crate, under both obstore and SlateDB, writes as it stands. It escapes other
# characters, and not the same way everywhere.
_PREFIX_PART = re.compile(r"[A-Za-z0-9._=+@,: -]+")
_AZURE_DOMAINS = ("dfs.core.windows.net", "blob.core.windows.net")
_NAME_PART = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*")


@dataclass(frozen=True)
class Location:
    """A storage URL taken apart: bucket and prefix, or the absolute path of a folder.

    >>> Location.parse("s3://bucket/flows/one", {"region": "eu-west-1"})
    Location(scheme='s3', url='s3://bucket/flows/one', bucket='bucket', prefix='flows/one')
    >>> Location.parse("memory://test").is_remote
    False
    """

    scheme: str  # file, s3, gs, az or memory
    url: str  # as it was given, for messages
    bucket: str  # or container, or the name of a memory store; empty for files
    prefix: str  # without slashes at its ends; for files the absolute path
    # Hidden in repr, since keys and tokens are among them.
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def parse(
        cls, url: str | os.PathLike[str] | Location, storage_options: Mapping[str, object] | None = None
    ) -> Location:
        """Take a URL or path apart; whatever is wrong with it is said here, before anything is opened."""
        if isinstance(url, Location):
            return replace(url, options={**url.options, **_options(url, storage_options)})
        if isinstance(url, os.PathLike):
            located = _folder(os.fspath(url), os.fspath(url))
        elif isinstance(url, str):
            scheme = _SCHEME.fullmatch(url)
            located = _url(url, scheme.group(1), scheme.group(2)) if scheme else _folder(url, url)
        else:
            raise InvalidLocation(f"a location is a string or a path, not {type(url).__name__}", hint=_FORMS)
        return replace(located, options={**located.options, **_options(located, storage_options)})

    @property
    def is_remote(self) -> bool:
        """Whether reading it means going over the network."""
        return self.scheme in REMOTE

    @property
    def path(self) -> Path:
        """The folder; only where the storage is one."""
        assert self.scheme == "file", self.url
        return Path(self.prefix)

    @property
    def absolute_url(self) -> str:
        """The URL as any process can open it, wherever it runs on this machine.

        >>> Location.parse("s3a://bucket/a/").absolute_url
        's3://bucket/a'
        """
        if self.scheme == "file":
            return self.prefix
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    def child(self, name: str) -> Location:
        """The location of a folder inside this one, with the same options.

        >>> Location.parse("s3://bucket/a").child("b").prefix
        'a/b'
        """
        check_name(name)
        if self.scheme == "file":
            prefix = str(Path(self.prefix) / name)
        else:
            prefix = f"{self.prefix}/{name}" if self.prefix else name
        return replace(self, url=f"{self.url.rstrip('/')}/{name}", prefix=prefix)


def check_name(name: str) -> str:
    """An object's name, if it is one: the same bytes on every kind of storage, and never outside the root.

    >>> check_name("batches/v=1/0001.arrow")
    'batches/v=1/0001.arrow'
    >>> check_name("../secret")
    Traceback (most recent call last):
    ...
    penstock.base.errors.InvalidLocation: '../secret' is not a name for an object
    HINT: Use letters, digits, '_', '-', '=' and '.', with '/' between parts that do not begin with '.'.
    """
    if not name or not all(_NAME_PART.fullmatch(part) for part in name.split("/")):
        raise InvalidLocation(
            f"{name!r} is not a name for an object",
            hint="Use letters, digits, '_', '-', '=' and '.', with '/' between parts that do not begin with '.'.",
        )
    return name


def is_name(name: str) -> bool:
    """Whether a file's name is one that an object's last part could have: temporary files' are not."""
    return _NAME_PART.fullmatch(name) is not None


def _options(location: Location, given: Mapping[str, object] | None) -> dict[str, str]:
    if not given:
        return {}
    if not location.is_remote:
        raise InvalidLocation(
            f"{location.url!r} takes no storage options, got {', '.join(sorted(given))}",
            hint="Storage options are for s3://, gs:// and az:// locations.",
        )
    options = {}
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, (str, bool, int)):
            raise InvalidLocation(
                f"storage option {key!r} must be text, not {type(value).__name__}",
                hint='Write options as text, for example {"region": "eu-west-1", "allow_http": "true"}.',
            )
        options[key.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
    return options


def _folder(url: str, path: str) -> Location:
    if not path.strip():
        raise InvalidLocation("the location is empty", hint=_FORMS)
    if "\0" in path:
        raise InvalidLocation(f"the path {path!r} contains a zero byte", hint=_FORMS)
    return Location("file", url, "", os.path.abspath(os.path.expanduser(path)))


def _url(url: str, scheme: str, rest: str) -> Location:
    kind = SCHEMES.get(scheme.lower())
    if kind is None:
        raise InvalidLocation(f"{scheme!r} is not a kind of storage that penstock knows", hint=_FORMS)
    if not rest.startswith("//"):
        raise InvalidLocation(
            f"{url!r} is neither a URL nor a path",
            hint=f"Write {scheme}://{rest.lstrip('/')}, or ./{url} if it is a folder of that name.",
        )
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidLocation(f"{url!r} is not a URL: {error}", hint=_FORMS) from None
    if kind == "file":
        if parts.netloc not in ("", "localhost"):
            raise InvalidLocation(
                f"{url!r} names a host, {parts.netloc!r}",
                hint="A file URL has three slashes: file:///folder.",
            )
        return _folder(url, url2pathname(rest[2 + len(parts.netloc) :]))
    if parts.password is not None or (parts.username is not None and not scheme.lower().startswith("abfs")):
        raise InvalidLocation(
            f"the {scheme} URL contains credentials",  # and is not repeated here, since logs are read by many
            hint="Give them as storage_options, or by the provider's environment variables.",
        )
    if parts.query or parts.fragment:
        raise InvalidLocation(
            f"{url!r} has a query or fragment", hint="Give options as storage_options, not in the URL."
        )
    return _remote(url, kind, parts.netloc, parts.path)


def _remote(url: str, kind: str, netloc: str, path: str) -> Location:
    options: dict[str, str] = {}
    if "@" in netloc:  # abfss://container@account.dfs.core.windows.net/prefix
        netloc, _, host = netloc.partition("@")
        account, _, domain = host.partition(".")
        if domain not in _AZURE_DOMAINS:
            raise InvalidLocation(
                f"{url!r}: {host!r} is not an Azure storage account",
                hint='Write az://container/prefix, with storage_options={"account_name": ..., "endpoint": ...}.',
            )
        options["account_name"] = account
    if not _BUCKET.fullmatch(netloc):
        what = {"az": "container", "memory": "name"}.get(kind, "bucket")
        raise InvalidLocation(f"{url!r} names no valid {what}", hint=_FORMS)
    prefix = path.strip("/")
    for part in prefix.split("/") if prefix else ():
        if not _PREFIX_PART.fullmatch(part) or part in (".", ".."):
            raise InvalidLocation(
                f"{url!r}: {part!r} cannot be part of a prefix",
                hint="Use letters, digits, spaces and any of . _ = + @ , : - between single slashes.",
            )
    return Location(kind, url, netloc, prefix, options)
