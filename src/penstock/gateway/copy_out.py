"""COPY TO STDOUT: rows as CopyData messages, in text, csv or binary."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.gateway import backend as b
from penstock.gateway import copy_binary
from penstock.gateway.copy_command import CopyOptions
from penstock.gateway.copying import header, lines
from penstock.gateway.encode import data_rows, encoded_columns
from penstock.gateway.result import Result


class CopyOut:
    """One COPY: how it begins, rows as they come, how it ends."""

    def __init__(self, options: CopyOptions) -> None:
        self._options = options
        self._binary = options.format == "binary"
        self._head = copy_binary.HEAD if self._binary else b""  # goes with the first row, or with the end

    def begin(self, result: Result) -> Iterator[bytes]:
        yield b.copy_response(b"H", len(result.types), int(self._binary))
        if self._options.header:
            yield b.copy_data(header(result.names, self._options))

    def rows(self, result: Result) -> Iterator[bytes]:
        """All rows that are left of a result."""
        for rows in result.portions(None):
            if self._binary:
                data = data_rows(rows, result.types, [1] * len(result.types), b"d")
                yield copy_binary.with_head(data) if self._head else data
                self._head = b""
            else:
                columns = encoded_columns(rows, result.types, [0] * len(result.types))
                yield b"".join(b.copy_data(line) for line in lines(columns, rows.num_rows, self._options))

    def end(self) -> Iterator[bytes]:
        if self._binary:
            yield b.copy_data(self._head + copy_binary.END)
        yield b.COPY_DONE
