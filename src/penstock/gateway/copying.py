"""COPY: rows to lines and back, in Postgres's text and CSV formats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from penstock.base.limits import MESSAGE_BYTES_MAX
from penstock.gateway.copy_command import CopyOptions
from penstock.gateway.decode import utf8
from penstock.gateway.errors import BadCopyData
from penstock.sql.tokens import fold

Row = list[str | None]

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
_UNESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_BACKSLASH = re.compile(rb"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)


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
    """Rows from pieces of data that may be cut anywhere. `names` are the columns that a header has to name.

    >>> reader = LineReader(CopyOptions(), 2)
    >>> list(reader.feed(b"1\\ta\\\\nb\\n2")), list(reader.feed(b"\\t\\\\N\\n")), list(reader.finish())
    ([['1', 'a\\nb']], [['2', None]], [])
    """

    def __init__(self, options: CopyOptions, width: int, names: Sequence[str] = ()) -> None:
        self._options = options
        self._width = width
        self._names = names
        self._is_csv = options.format == "csv"
        # Both only grow until their end comes, so that nothing is looked at twice: a row may be of any number of lines,
        # and a line of any number of pieces.
        self._row = bytearray()  # the lines of a row that goes on in the next line
        self._line = bytearray()  # the pieces of a line that has not ended
        self._number = 0
        self._ended = False
        self._fields: _CsvFields | _TextFields = _CsvFields(options) if self._is_csv else _TextFields(options)

    def feed(self, data: bytes) -> Iterator[Row]:
        """The rows that are whole by now."""
        if self._ended:
            return
        if len(self._row) + len(self._line) + len(data) > MESSAGE_BYTES_MAX:
            raise BadCopyData(f"a line has more than {MESSAGE_BYTES_MAX} bytes")
        lines = data.split(b"\n")
        if len(lines) > 1:
            lines[0] = bytes(self._line + lines[0])
            self._line.clear()
        self._line += lines.pop()
        for line in lines:
            if self._fields.go_on_after(line):
                self._row += line + b"\n"
                continue
            if self._row:
                whole = bytes(self._row + line)
                self._row.clear()
            else:
                whole = line
            yield from self._read(whole)
            if self._ended:
                return

    def finish(self) -> Iterator[Row]:
        """What is left when there is no more data."""
        if self._ended:
            return
        if self._is_csv and self._fields.go_on_after(bytes(self._line)):
            raise BadCopyData(f"line {self._number + 1}: a quote is never closed")
        rest = bytes(self._row + self._line)
        if rest or (self._options.match and not self._number):
            yield from self._read(rest)

    def _read(self, line: bytes) -> Iterator[Row]:
        """The row of a whole line, unless it is the header or says that the data ends."""
        if line.endswith(b"\r") and (self._is_csv or not _ends_in_escape(line[:-1])):
            line = line[:-1]
        if line == b"\\." and not self._is_csv:
            self._ended = True
            return
        self._number += 1
        is_header = self._number == 1 and self._options.header
        if is_header and not self._options.match:
            return
        try:
            row = self._fields.split(line)
        except BadCopyData as error:
            raise BadCopyData(f"line {self._number}: {error}") from None
        if is_header:
            self._check_names(row)
            return
        if len(row) != self._width:
            few = "too few" if len(row) < self._width else "too many"
            raise BadCopyData(f"line {self._number}: {few} columns ({len(row)} instead of {self._width})")
        yield row

    def _check_names(self, row: Row) -> None:
        if len(row) != self._width:
            raise BadCopyData(
                f"wrong number of fields in header line: got {len(row)}, expected {self._width}",
                hint=f"The columns are {', '.join(self._names)}.",
            )
        for i, (found, name) in enumerate(zip(row, self._names, strict=True), 1):
            if found is None or fold(found) != fold(name):
                got = f'null value ("{self._options.null}")' if found is None else f'"{found}"'
                raise BadCopyData(
                    f'column name mismatch in header line field {i}: got {got}, expected "{name}"'
                )


class _TextFields:
    """Values between delimiters; a backslash before a character gives it another meaning, or takes it away."""

    def __init__(self, options: CopyOptions) -> None:
        self._delimiter, self._null = options.delimiter, options.null
        delimiter = re.escape(options.delimiter.encode())
        self._field = re.compile(rb"((?:[^\\" + delimiter + rb"]++|\\.)*+)" + delimiter, re.DOTALL)

    def go_on_after(self, line: bytes) -> bool:
        """A newline after a backslash is one of the value."""
        return _ends_in_escape(line)

    def split(self, line: bytes) -> Row:
        if b"\\" not in line:
            return [None if field == self._null else field for field in utf8(line).split(self._delimiter)]
        if _ends_in_escape(line):
            raise BadCopyData("a backslash has nothing after it")
        null = self._null.encode()
        # Escapes are bytes: two of them may be one character.
        return [
            None if field == null else utf8(_BACKSLASH.sub(_unescape, field))
            for field in self._field.findall(line + self._delimiter.encode())
        ]


class _CsvFields:
    """Quoted and plain pieces in turn; only a field without quotes can be NULL."""

    def __init__(self, options: CopyOptions) -> None:
        self._options = options
        self._quote = options.quote.encode()
        self._in_quotes = False
        quote, escape = re.escape(options.quote), re.escape(options.escape)
        # Within quotes: one that closes them, or an escape with what it escapes. An escape before anything else
        # stands for itself.
        inside = f"{escape}[{quote}{escape}]|{quote}"
        self._inside, self._inside_bytes = re.compile(inside), re.compile(inside.encode())
        self._outside = re.compile(f"{re.escape(options.delimiter)}|{quote}")

    def go_on_after(self, line: bytes) -> bool:
        """A line ends where its quotes are closed; lines have to come in their order, each once."""
        if self._options.escape == self._options.quote:
            self._in_quotes ^= bool(line.count(self._quote) % 2)
            return self._in_quotes
        at = 0
        while True:
            if not self._in_quotes:
                at = line.find(self._quote, at) + 1
                if not at:
                    return False
            found = self._inside_bytes.search(line, at)
            while found and len(found[0]) > 1:
                found = self._inside_bytes.search(line, found.end())
            self._in_quotes = found is None
            if found is None:
                return True
            at = found.end()

    def split(self, line_bytes: bytes) -> Row:
        line = utf8(line_bytes)
        delimiter, null = self._options.delimiter, self._options.null
        if self._quote not in line_bytes:
            return [None if field == null else field for field in line.split(delimiter)]
        fields: Row = []
        parts: list[str] = []
        quoted = False
        at = 0
        while True:
            found = self._outside.search(line, at)
            parts.append(line[at : found.start() if found else len(line)])
            at = found.end() if found else len(line)
            if found and found[0] != delimiter:
                quoted = True
                at = self._quoted(line, at, parts)
                continue
            text = "".join(parts)
            fields.append(None if not quoted and text == null else text)
            if not found:
                return fields
            parts, quoted = [], False

    def _quoted(self, line: str, at: int, parts: list[str]) -> int:
        """Add what stands in the quotes that are open; where they end."""
        while found := self._inside.search(line, at):
            parts.append(line[at : found.start()])
            at = found.end()
            if len(found[0]) == 1:
                return at
            parts.append(found[0][1])
        raise BadCopyData("a quote is never closed")


def _ends_in_escape(line: bytes) -> bool:
    """Whether the last backslash is one that escapes what comes next, and is not escaped itself.

    >>> _ends_in_escape(b"a\\\\"), _ends_in_escape(b"a\\\\\\\\")
    (True, False)
    """
    return line.endswith(b"\\") and (len(line) - len(line.rstrip(b"\\"))) % 2 == 1


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1] == b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[:1] in b"01234567":
        return bytes([int(code, 8) & 0xFF])
    if code == b".":
        raise BadCopyData("end-of-copy marker is not alone on its line")
    return _UNESCAPES.get(code, code)
