"""COPY: the statement and its options, the old way of writing them included."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.base.errors import InvalidOption, SqlSyntaxError
from penstock.gateway.command import Command
from penstock.gateway.errors import NotSupported
from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.tokens import quote, string_value


@dataclass(frozen=True)
class CopyOptions:
    """How rows are written: `format` is "text", "csv" or "binary"."""

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
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
    return Copy(table, columns, query, offset, from_client, _copy_options(c), subscribes)


def _copy_options(c: Cursor) -> CopyOptions:
    c.take("WITH")
    given: dict[str, object] = {}
    if c.at("("):
        given = dict(parse_options(c))
    else:
        while not c.at_end:  # the old way: COPY t FROM STDIN CSV HEADER
            if c.keyword() in ("CSV", "BINARY", "TEXT"):
                given["format"] = c.next().text
            elif c.take("HEADER"):
                given["header"] = True
            elif c.keyword() in ("DELIMITER", "NULL", "QUOTE", "ESCAPE"):
                name = c.next().keyword.lower()
                c.take("AS")
                if c.at_end or c.tokens[c.position].kind != "string":
                    c.fail("a text")
                given[name] = string_value(c.next())
            else:
                c.done()
    return _checked(given)


def _checked(given: dict[str, object]) -> CopyOptions:
    format = str(given.pop("format", "text")).lower()
    if format not in ("text", "csv", "binary"):
        raise InvalidOption(f'COPY format "{format}" not recognized', hint="They are text, csv and binary.")
    if str(given.get("encoding", "")).lower() in ("utf8", "utf-8"):
        del given["encoding"]
    if format == "binary" and given:
        raise SqlSyntaxError(f"cannot specify {next(iter(given)).upper()} in BINARY mode")
    options = CopyOptions("csv", ",", "") if format == "csv" else CopyOptions(format)
    for name in ("delimiter", "null", "quote", "escape", "header"):
        if name not in given:
            continue
        value = given.pop(name)
        if name == "header":
            options = replace(options, header=value in (True, "true", "on", 1))
            continue
        if name != "null" and len(str(value)) != 1:
            raise SqlSyntaxError(f"COPY: {name} is one character")
        if name in ("quote", "escape") and format != "csv":
            raise SqlSyntaxError(f"COPY: {name} is for the format csv")
        if name == "quote":
            options = replace(options, quote=str(value), escape=str(value))
        elif name == "escape":
            options = replace(options, escape=str(value))
        elif name == "delimiter":
            options = replace(options, delimiter=str(value))
        else:
            options = replace(options, null=str(value))
    if given:
        raise NotSupported(f"the option {next(iter(given))} of COPY")
    return options
