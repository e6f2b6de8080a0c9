"""A socket in a folder, as Postgres has it: `DIR/.s.PGSQL.PORT`, which only the user that runs the server can open."""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

_PATH_BYTES_MAX = 107 if sys.platform == "linux" else 103  # what the system has room for


class SocketFile:
    """Made, listened to, and removed at the end. OSError says why it cannot be made.

    Two servers that begin at the same time do not take it from each other: its name has the port in it, which one of
    them has got before.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.path = folder.absolute() / f".s.PGSQL.{port}"
        if len(os.fsencode(self.path)) > _PATH_BYTES_MAX:
            raise self._error(errno.ENAMETOOLONG, f"the name of a socket has at most {_PATH_BYTES_MAX} bytes")
        if not hasattr(socket, "AF_UNIX"):
            raise self._error(errno.EAFNOSUPPORT, "this system has no sockets in folders")
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self._bind()
            # Nobody can connect before somebody listens, so it is never open to others.
            self.path.chmod(0o700)
            self._number = self.path.stat().st_ino
        except OSError as error:
            self.socket.close()
            raise self._error(error.errno or 0, error.strerror or str(error)) from None

    def _error(self, number: int, text: str) -> OSError:
        return OSError(number, text, str(self.path))

    def _bind(self) -> None:
        try:
            self.socket.bind(str(self.path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not self._is_left_over():
                raise
            self.path.unlink()  # of a server that was killed
            self.socket.bind(str(self.path))

    def _is_left_over(self) -> bool:
        """Whether it is a socket that nobody listens to."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.path))
            except OSError as error:
                return error.errno == errno.ECONNREFUSED and self.path.is_socket()
            return False

    def remove(self) -> None:
        """Remove the file, unless another server has taken its name."""
        with suppress(OSError):
            if self.path.stat().st_ino == self._number:
                self.path.unlink()
