"""COPY: the statement and its options, the old way of writing them included."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.base.errors import InvalidOption, SqlSyntaxError
from penstock.gateway.command import Command
from penstock.gateway.errors import NotSupported
from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.tokens import quote, string_value

_OPTIONS = ("format", "delimiter", "null", "header", "quote", "escape", "encoding", "freeze")
_REFUSED = (
    "default", "force_quote", "force_not_null", "force_null", "on_error", "reject_limit", "log_verbosity",
)  # fmt: skip
_ALLOWED = "There are FORMAT, DELIMITER, NULL, HEADER, QUOTE, ESCAPE and ENCODING."
_NO_DELIMITERS = "\\.abcdefghijklmnopqrstuvwxyz0123456789"  # in the format text, as in Postgres


@dataclass(frozen=True)
class CopyOptions:
    """How rows are written: `format` is "text", "csv" or "binary"."""

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    match: bool = False  # the header has to name the columns
    quote: str = '"'
    escape: str = '"'


@dataclass(frozen=True)
class Copy(Command):
    """`COPY t (a, b) FROM STDIN WITH (FORMAT csv)`, `COPY (query) TO STDOUT`"""

    table: str | None
    columns: tuple[str, ...] | None
    query: str | None
    query_offset: int
    from_client: bool
    options: CopyOptions = field(default_factory=CopyOptions)
    subscribes: bool = False  # COPY (SUBSCRIBE v) TO STDOUT


def parse_copy(c: Cursor) -> Command:
    c.expect("COPY")
    table, columns, query, offset = None, None, None, c.offset
    subscribes = False
    if c.at("("):
        inside = c.group()
        subscribes = inside.at("SUBSCRIBE")
        piece = inside.rest("SUBSCRIBE") if subscribes else inside.query()
        query, offset = piece.text, piece.offset
    else:
        table = c.object_name("the name of a table or view")[0]
        if c.at("("):
            columns = c.column_list()
    from_client = c.take("FROM")
    if not from_client:
        c.expect("TO")
    wanted = "STDIN" if from_client else "STDOUT"
    if not c.take(wanted):
        if not c.at_end and (c.tokens[c.position].kind == "string" or c.at("PROGRAM")):
            raise NotSupported(f"COPY with files of the server: use {wanted}", position=c.offset)
        c.fail(wanted)
    if from_client and query is not None:
        raise SqlSyntaxError("COPY FROM needs a table, not a query", position=offset)
    if table is not None and not from_client:
        names = ", ".join(quote(n) for n in columns) if columns else "*"
        query = f"SELECT {names} FROM {quote(table)}"
    return Copy(table, columns, query, offset, from_client, _copy_options(c, from_client), subscribes)


def _copy_options(c: Cursor, from_client: bool) -> CopyOptions:
    c.take("WITH")
    given: dict[str, object] = {}
    if c.at("("):
        given = dict(parse_options(c))
    else:
        while not c.at_end and not c.at("WHERE"):
            name, value = _old_option(c)
            if name in given:
                raise SqlSyntaxError(f'option "{name}" is given twice', position=c.offset)
            given[name] = value
    if from_client and c.at("WHERE"):
        raise NotSupported("COPY FROM with WHERE", position=c.offset)
    return _checked(given, from_client)


def _old_option(c: Cursor) -> tuple[str, object]:
    """The old way: `COPY t FROM STDIN CSV HEADER`."""
    if c.keyword() in ("CSV", "BINARY", "TEXT"):
        return "format", c.next().text
    if c.keyword() in ("HEADER", "FREEZE"):
        return c.next().keyword.lower(), True
    if c.take("FORCE"):
        for words in (("QUOTE",), ("NOT", "NULL"), ("NULL",)):
            if c.at(*words):
                raise _refused("_".join(("FORCE", *words)), c.offset)
        c.fail("QUOTE, NOT NULL or NULL")
    if c.keyword() not in ("DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING"):
        c.done()
    name = c.next().keyword.lower()
    c.take("AS")
    if c.at_end or c.tokens[c.position].kind != "string":
        c.fail("a text")
    return name, string_value(c.next())


def _refused(name: str, position: int | None = None) -> NotSupported:
    return NotSupported(f"the option {name.upper()} of COPY", hint=_ALLOWED, position=position)


def _checked(given: dict[str, object], from_client: bool) -> CopyOptions:
    for name in given:
        if name in _REFUSED:
            raise _refused(name)
        if name not in _OPTIONS:
            raise SqlSyntaxError(f'option "{name}" not recognized', hint=_ALLOWED)
    format = str(given.pop("format", "text")).lower()
    if format not in ("text", "csv", "binary"):
        raise InvalidOption(f'COPY format "{format}" not recognized', hint="They are text, csv and binary.")
    encoding = str(given.pop("encoding", "UTF8"))
    if encoding.lower() not in ("utf8", "utf-8"):
        raise NotSupported(f'COPY with the encoding "{encoding}"', hint="It is UTF8.")
    if _boolean("freeze", given.pop("freeze", False)):
        raise _refused("freeze")
    if format == "binary" and given:
        raise SqlSyntaxError(f"cannot specify {next(iter(given)).upper()} in BINARY mode")
    header = given.pop("header", False)
    match = isinstance(header, str) and header.lower() == "match"
    if match and not from_client:
        raise NotSupported('cannot use "match" with HEADER in COPY TO')
    texts = {name: _text(name, value) for name, value in given.items()}
    if format != "csv" and texts.keys() & {"quote", "escape"}:
        raise NotSupported(f"COPY {'QUOTE' if 'quote' in texts else 'ESCAPE'} requires CSV mode")
    options = CopyOptions("csv", ",", "") if format == "csv" else CopyOptions(format)
    if "quote" in texts:
        texts.setdefault("escape", texts["quote"])
    options = replace(options, header=match or _boolean("header", header), match=match, **texts)
    if format != "binary":
        _check_apart(options)
    return options


def _boolean(name: str, value: object) -> bool:
    """As Postgres reads it, which takes fewer words here than for a value of the type boolean."""
    if isinstance(value, int) and value in (0, 1):  # True and False too
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false", "on", "off"):
        return value.lower() in ("true", "on")
    match = ' or "match"' if name == "header" else ""
    raise SqlSyntaxError(
        f"{name} requires a Boolean value{match}",
        hint=f"That is true, false, on, off, 1 or 0{', or match' * bool(match)}.",
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise SqlSyntaxError(f"COPY {name.upper()} requires a text in quotes")
    if name != "null" and len(value.encode()) != 1:
        raise NotSupported(f"COPY {name} must be a single one-byte character")
    if "\n" in value or "\r" in value:
        raise InvalidOption(f"COPY {name} cannot use newline or carriage return")
    return value


def _check_apart(o: CopyOptions) -> None:
    """What is written has to be read again: no mark may be taken for another one."""
    if o.delimiter in o.null:
        raise InvalidOption("COPY delimiter character must not appear in the NULL specification")
    if o.format == "text" and o.delimiter in _NO_DELIMITERS:
        raise InvalidOption(
            f'COPY delimiter cannot be "{o.delimiter}"', hint="After a backslash it has a meaning."
        )
    if o.format == "csv" and o.delimiter == o.quote:
        raise InvalidOption("COPY delimiter and quote must be different")
    if o.format == "csv" and o.quote in o.null:
        raise InvalidOption("CSV quote character must not appear in the NULL specification")
