"""SlateDB's own object store for a location: it is native code, and cannot be given ours."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from pathlib import Path

from slatedb.uniffi import LogLevel, ObjectStore, ObjectStoreBuilder, ObjectStoreType, init_logging

from penstock.store.failures import translated
from penstock.store.local import make_folder
from penstock.store.location import Location, check_name
from penstock.store.memory import shared

_TYPES = {"s3": ObjectStoreType.S3, "gs": ObjectStoreType.GCS, "az": ObjectStoreType.AZURE}
# A file URL's path is taken as it stands, without undoing the escapes that a URL needs.
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")

_logging = threading.Lock()
_logging_done = False


def slate_store(location: Location, name: str = "db") -> tuple[ObjectStore, str]:
    """SlateDB's store for a location, and the path in it of the database `name`, for `DbBuilder`.

    Probe the location first (`Objects.probe`): SlateDB tries for ever where a bucket does not exist.
    """
    check_name(name)
    silence()
    with translated("open", location.url):
        if location.scheme == "file":
            make_folder(location.path)
            return _folder(location.path), name
        path = f"{location.prefix}/{name}" if location.prefix else name
        if location.scheme == "memory":
            return _memory(location), path
        # from_url would ignore the provider's environment variables; obstore does not.
        builder = ObjectStoreBuilder.from_env(_TYPES[location.scheme])
        builder.with_url(f"{location.scheme}://{location.bucket}")
        for key, value in location.options.items():
            builder.with_config(key, value)
        return builder.build(), path


def silence(level: LogLevel = LogLevel.OFF) -> None:
    """Set SlateDB's log level, OFF unless said before it is first opened: it can be set once in a process."""
    global _logging_done
    with _logging:
        if not _logging_done:
            init_logging(level, None)
            _logging_done = True


def _memory(location: Location) -> ObjectStore:
    store = shared(location)
    with store.lock:
        if store.slate is None:
            store.slate = ObjectStore.resolve("memory:///")
        assert isinstance(store.slate, ObjectStore)
        return store.slate


def _folder(path: Path) -> ObjectStore:
    """A store rooted at the folder.

    Not the root of the file system with a long path, since that escapes special characters, twice in
    some places. A folder with such characters is reached by a link that is resolved on opening.
    """
    if _PLAIN.fullmatch(path.as_posix()):
        return ObjectStoreBuilder.from_url(f"file://{path.as_posix()}").build()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        link = Path(folder) / "root"
        os.symlink(path, link, target_is_directory=True)
        return ObjectStoreBuilder.from_url(f"file://{link.as_posix()}").build()
