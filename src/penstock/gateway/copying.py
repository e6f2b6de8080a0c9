"""COPY: rows to lines and back, in Postgres's text and CSV formats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from penstock.base.limits import MESSAGE_BYTES_MAX
from penstock.gateway.copy_command import CopyOptions
from penstock.gateway.decode import utf8
from penstock.gateway.errors import BadCopyData

Row = list[str | None]

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
_UNESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BACKSLASH = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)


# -- to lines --------------------------------------------------------------------------------------


def lines(columns: Sequence[Sequence[bytes | None]], rows: int, options: CopyOptions) -> list[bytes]:
    """A line for each row; the columns are values as text."""
    write = _csv_value if options.format == "csv" else _text_value
    delimiter = options.delimiter.encode()
    alone = len(columns) == 1
    return [
        delimiter.join([write(column[i], options, alone) for column in columns]) + b"\n" for i in range(rows)
    ]


def header(names: Sequence[str], options: CopyOptions) -> bytes:
    return lines([[name.encode()] for name in names], 1, options)[0]


def _text_value(value: bytes | None, options: CopyOptions, alone: bool) -> bytes:
    if value is None:
        return options.null.encode()
    text = value.decode()
    for char, escape in _ESCAPES.items():
        text = text.replace(char, escape)
    if options.delimiter not in _ESCAPES:
        text = text.replace(options.delimiter, "\\" + options.delimiter)
    return text.encode()


def _csv_value(value: bytes | None, options: CopyOptions, alone: bool) -> bytes:
    if value is None:
        return options.null.encode()
    text = value.decode()
    special = (options.delimiter, options.quote, "\n", "\r")
    if text != options.null and not any(c in text for c in special) and not (alone and text == "\\."):
        return value
    escaped = text.replace(options.escape, options.escape * 2)
    if options.escape != options.quote:
        escaped = escaped.replace(options.quote, options.escape + options.quote)
    return f"{options.quote}{escaped}{options.quote}".encode()


# -- from lines ------------------------------------------------------------------------------------


class LineReader:
    """Rows from pieces of data that may be cut anywhere.

    >>> reader = LineReader(CopyOptions(), 2)
    >>> list(reader.feed(b"1\\ta\\\\nb\\n2")), list(reader.feed(b"\\t\\\\N\\n")), list(reader.finish())
    ([['1', 'a\\nb']], [['2', None]], [])
    """

    def __init__(self, options: CopyOptions, width: int) -> None:
        self._options = options
        self._width = width
        self._rest = b""
        self._number = 0
        self._ended = False
        self._split = self._csv_fields if options.format == "csv" else self._text_fields
        o = options
        body = f"[^{re.escape(o.quote)}{re.escape(o.escape)}]"
        inner = f"{re.escape(o.escape)}[{re.escape(o.quote)}{re.escape(o.escape)}]"
        lone = "" if o.escape == o.quote else f"|{re.escape(o.escape)}"
        self._quoted = re.compile(
            f"{re.escape(o.quote)}((?:{body}|{inner}{lone})*){re.escape(o.quote)}", re.DOTALL
        )
        self._escaped = re.compile(inner, re.DOTALL)

    def feed(self, data: bytes) -> Iterator[Row]:
        """The rows that are whole by now."""
        if self._ended:
            return
        whole = self._rest + data
        if len(whole) > MESSAGE_BYTES_MAX:
            raise BadCopyData(f"a line has more than {MESSAGE_BYTES_MAX} bytes")
        pieces = whole.split(b"\n")
        self._rest = pieces.pop()
        yield from self._rows(pieces, False)

    def finish(self) -> Iterator[Row]:
        """What is left when there is no more data."""
        rest, self._rest = self._rest, b""
        if rest and not self._ended:
            yield from self._rows([rest], True)

    def _rows(self, pieces: list[bytes], last: bool) -> Iterator[Row]:
        is_csv = self._options.format == "csv"
        quote = self._options.quote.encode()
        at = 0
        while at < len(pieces):
            line = pieces[at]
            at += 1
            # A line of CSV ends where its quotes are closed.
            while is_csv and line.count(quote) % 2:
                if at == len(pieces):
                    if last:
                        raise BadCopyData(f"line {self._number + 1}: a quote is never closed")
                    self._rest = line + b"\n" + self._rest
                    return
                line += b"\n" + pieces[at]
                at += 1
            line = line.removesuffix(b"\r")
            if line == b"\\.":
                self._ended = True
                return
            self._number += 1
            if self._number == 1 and self._options.header:
                continue
            row = self._split(utf8(line))
            if len(row) != self._width:
                few = "too few" if len(row) < self._width else "too many"
                raise BadCopyData(f"line {self._number}: {few} columns ({len(row)} instead of {self._width})")
            yield row

    def _text_fields(self, line: str) -> Row:
        if "\\" not in line:
            null = self._options.null
            return [None if field == null else field for field in line.split(self._options.delimiter)]
        fields: Row = []
        pattern = (
            rf"((?:[^\\{re.escape(self._options.delimiter)}]|\\.)*)({re.escape(self._options.delimiter)}|$)"
        )
        at = 0
        for match in re.compile(pattern, re.DOTALL).finditer(line):
            if match.start() != at:
                raise BadCopyData(f"line {self._number}: a backslash has nothing after it")
            text = match[1]
            fields.append(None if text == self._options.null else _BACKSLASH.sub(_unescape, text))
            at = match.end()
            if not match[2]:
                break
        if at != len(line):
            raise BadCopyData(f"line {self._number}: a backslash has nothing after it")
        return fields

    def _csv_fields(self, line: str) -> Row:
        """Quoted and plain pieces in turn; only a field without quotes can be NULL."""
        o = self._options
        fields: Row = []
        parts: list[str] = []
        quoted = False
        at = 0
        while True:
            found = self._quoted.match(line, at) if line.startswith(o.quote, at) else None
            if found:
                quoted = True
                parts.append(self._escaped.sub(lambda m: m[0][1], found[1]))
                at = found.end()
                continue
            ends = [place for place in (line.find(o.delimiter, at), line.find(o.quote, at)) if place >= at]
            end = min(ends, default=len(line))
            parts.append(line[at:end])
            at = end
            if at < len(line) and line.startswith(o.quote, at):
                if self._quoted.match(line, at) is None:
                    raise BadCopyData(f"line {self._number}: a quote is never closed")
                continue
            text = "".join(parts)
            fields.append(None if not quoted and text == o.null else text)
            parts, quoted = [], False
            if at >= len(line):
                return fields
            at += 1


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _UNESCAPES.get(code, code)
