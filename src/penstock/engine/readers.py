"""The DuckDB connections of one session: one, and more while results of it are half-way."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.session_reader import SessionReader


class Readers:
    """Connections that are free. A session that is closed takes back no more of them."""

    def __init__(self, new: Callable[[], SessionReader]) -> None:
        self._new = new
        self._free = [new()]
        self._taken: list[SessionReader] = []
        self._closed = False

    @property
    def taken(self) -> int:
        return len(self._taken)

    def take(self) -> SessionReader:
        reader = self._free.pop() if self._free else self._new()
        self._taken.append(reader)
        return reader

    def give_back(self, reader: SessionReader) -> None:
        """One is kept, which knows the rows that it has shown; those of others would only take memory."""
        self._taken.remove(reader)
        if self._closed or self._free:
            reader.close()
        else:
            self._free.append(reader)

    def close(self) -> None:
        self._closed = True
        for reader in (*self._free, *self._taken):
            reader.close()
        self._free.clear()
