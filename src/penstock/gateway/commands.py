"""Statements that are the server's and not the engine's: settings, cursors, prepared statements, COPY."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.base.errors import SqlSyntaxError
from penstock.gateway.errors import NotSupported
from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.statements import Slice
from penstock.sql.tokens import fold, quote, string_value, tokenize, unquote


class Command:
    """A statement of the server's."""


@dataclass(frozen=True)
class SetSetting(Command):
    """`SET name = value`; None: DEFAULT, and RESET name."""

    name: str
    value: str | None
    tag: str = "SET"


@dataclass(frozen=True)
class SetTransaction(Command):
    """`SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`: of the transaction that is open."""

    isolation: str


@dataclass(frozen=True)
class ShowSetting(Command):
    """`SHOW name`; None: SHOW ALL."""

    name: str | None


@dataclass(frozen=True)
class ResetAll(Command):
    """`RESET ALL`"""


@dataclass(frozen=True)
class Discard(Command):
    """`DISCARD ALL`, PLANS, TEMP or SEQUENCES"""

    what: str


@dataclass(frozen=True)
class Deallocate(Command):
    """`DEALLOCATE name`; None: ALL"""

    name: str | None


@dataclass(frozen=True)
class Declare(Command):
    """`DECLARE name CURSOR FOR query`"""

    name: str
    query: Slice
    hold: bool
    binary: bool


@dataclass(frozen=True)
class Fetch(Command):
    """`FETCH 5 FROM name`, `MOVE ALL IN name`: forward only. `count` None is ALL."""

    name: str
    count: int | None
    moves: bool


@dataclass(frozen=True)
class CloseCursor(Command):
    """`CLOSE name`; None: ALL"""

    name: str | None


@dataclass(frozen=True)
class Unlisten(Command):
    """`UNLISTEN *`: nothing is listened to, so there is nothing to end."""


@dataclass(frozen=True)
class CopyOptions:
    """How rows are written: `format` is "text" or "csv"."""

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


def read_command(sql: str) -> Command | None:
    """The command that a statement is; None if it is the engine's.

    >>> read_command("SET application_name TO 'x'"), read_command("SELECT 1")
    (SetSetting(name='application_name', value='x', tag='SET'), None)
    """
    tokens = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    if not tokens or tokens[0].keyword not in _STARTS:
        return None
    c = Cursor(sql, tokens, tokens[-1].end)
    command = _STARTS[tokens[0].keyword](c)
    if command is not None:
        c.done()
    return command


def _set(c: Cursor) -> Command:
    c.expect("SET")
    if c.at("LOCAL"):
        raise NotSupported("SET LOCAL", hint="SET is for the session; RESET undoes it.")
    if c.take("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"):
        return _set_transaction(c, always=True)
    if c.take("TRANSACTION"):
        return _set_transaction(c, always=False)
    c.take("SESSION")
    if c.take("TIME", "ZONE"):
        return SetSetting("TimeZone", _value(c))
    if c.take("NAMES"):
        return SetSetting("client_encoding", _value(c))
    name = c.identifier("the name of a setting")
    while c.take("."):
        name += "." + c.identifier("the name of a setting")
    if not c.take("="):
        c.expect("TO")
    return SetSetting(name, _value(c))


def _set_transaction(c: Cursor, always: bool) -> Command:
    if c.take("READ", "WRITE"):
        return SetSetting("transaction_read_only", "off")
    if c.take("READ", "ONLY"):
        raise NotSupported("SET TRANSACTION READ ONLY", hint="BEGIN READ ONLY.")
    c.expect("ISOLATION", "LEVEL")
    for words in (("SERIALIZABLE",), ("REPEATABLE", "READ"), ("READ", "COMMITTED"), ("READ", "UNCOMMITTED")):
        if c.take(*words):
            c.take("READ", "WRITE")
            level = " ".join(words).lower()
            return SetSetting("default_transaction_isolation", level) if always else SetTransaction(level)
    return c.fail("an isolation level")


def _value(c: Cursor) -> str | None:
    """Words, numbers and strings, with commas between them."""
    if c.take("DEFAULT"):
        return None
    if c.at_end:
        c.fail("a value")
    parts = []
    while not c.at_end:
        token = c.next()
        if token.kind == "string":
            parts.append(string_value(token))
        elif token.kind == "quoted":
            parts.append(unquote(token))
        else:
            parts.append(token.text)
        if token.keyword == ",":
            parts[-1] = ", "
    return "".join(parts)


_ENGINE_SHOWS = ("TABLES", "VIEWS", "MATERIALIZED", "COLUMNS")


def _show(c: Cursor) -> Command | None:
    c.expect("SHOW")
    if c.keyword() in _ENGINE_SHOWS:
        return None
    if c.take("ALL"):
        return ShowSetting(None)
    if c.take("TRANSACTION", "ISOLATION", "LEVEL"):
        return ShowSetting("transaction_isolation")
    if c.take("TIME", "ZONE"):
        return ShowSetting("TimeZone")
    name = c.identifier("the name of a setting, or TABLES, VIEWS, MATERIALIZED VIEWS, COLUMNS FROM")
    while c.take("."):
        name += "." + c.identifier("the name of a setting")
    return ShowSetting(name)


def _reset(c: Cursor) -> Command:
    c.expect("RESET")
    if c.take("ALL"):
        return ResetAll()
    name = c.identifier("the name of a setting")
    while c.take("."):
        name += "." + c.identifier("the name of a setting")
    return SetSetting(name, None, "RESET")


def _discard(c: Cursor) -> Command:
    c.expect("DISCARD")
    for what in ("ALL", "PLANS", "SEQUENCES", "TEMPORARY", "TEMP"):
        if c.take(what):
            return Discard(what)
    return c.fail("ALL, PLANS, SEQUENCES or TEMP")


def _deallocate(c: Cursor) -> Command:
    c.expect("DEALLOCATE")
    c.take("PREPARE")
    return Deallocate(None if c.take("ALL") else fold_name(c, "the name of a prepared statement"))


def fold_name(c: Cursor, what: str) -> str:
    """A name as Postgres folds it: in lower case unless it is quoted."""
    quoted = not c.at_end and c.tokens[c.position].kind == "quoted"
    name = c.identifier(what)
    return name if quoted else fold(name)


def _declare(c: Cursor) -> Command:
    c.expect("DECLARE")
    name = fold_name(c, "the name of a cursor")
    binary = c.take("BINARY")
    if not c.take("INSENSITIVE"):
        c.take("ASENSITIVE")
    if c.take("SCROLL"):
        raise NotSupported("cursors that go backwards", hint="Leave SCROLL out.")
    c.take("NO", "SCROLL")
    c.expect("CURSOR")
    hold = c.take("WITH", "HOLD")
    if not hold:
        c.take("WITHOUT", "HOLD")
    c.expect("FOR")
    return Declare(name, c.query(), hold, binary)


def _fetch(c: Cursor) -> Command:
    moves = c.take("MOVE")
    if not moves:
        c.expect("FETCH")
    count: int | None = 1
    if c.keyword() in ("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "BACKWARD"):
        raise NotSupported("cursors that go backwards", hint="FETCH [FORWARD] n, NEXT or ALL.")
    if not c.take("NEXT"):
        c.take("FORWARD")
        if c.take("ALL"):
            count = None
        elif not c.at_end and c.tokens[c.position].kind == "number":
            token = c.next()
            if not token.text.isdecimal() or len(token.text) > 18:
                raise SqlSyntaxError("a number of rows is a whole number", position=token.offset)
            count = int(token.text)
    if not c.take("FROM"):
        c.take("IN")
    return Fetch(fold_name(c, "the name of a cursor"), count, moves)


def _close(c: Cursor) -> Command:
    c.expect("CLOSE")
    return CloseCursor(None if c.take("ALL") else fold_name(c, "the name of a cursor"))


def _unlisten(c: Cursor) -> Command:
    c.expect("UNLISTEN")
    if not c.take("*"):
        c.identifier("the name of a channel")
    return Unlisten()


def _refuse(c: Cursor) -> Command:
    word = c.next().keyword
    raise NotSupported(f"{word} is not supported", position=c.tokens[0].offset)


# -- COPY ------------------------------------------------------------------------------------------


def _copy(c: Cursor) -> Command:
    c.expect("COPY")
    table, columns, query, offset = None, None, None, c.offset
    if c.at("("):
        inside = c.group()
        piece = inside.query()
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
    return Copy(table, columns, query, offset, from_client, _copy_options(c))


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
    if format not in ("text", "csv"):
        raise NotSupported(f"COPY in the format {format}", hint="text and csv are supported.")
    if str(given.get("encoding", "")).lower() in ("utf8", "utf-8"):
        del given["encoding"]
    options = CopyOptions("csv", ",", "") if format == "csv" else CopyOptions()
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


_STARTS: dict[str, Callable[[Cursor], Command | None]] = {
    "SET": _set,
    "SHOW": _show,
    "RESET": _reset,
    "DISCARD": _discard,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "FETCH": _fetch,
    "MOVE": _fetch,
    "CLOSE": _close,
    "COPY": _copy,
    "UNLISTEN": _unlisten,
    "LISTEN": _refuse,
    "NOTIFY": _refuse,
    "PREPARE": _refuse,
    "EXECUTE": _refuse,
    "LOCK": _refuse,
    "VACUUM": _refuse,
    "ANALYZE": _refuse,
    "GRANT": _refuse,
    "REVOKE": _refuse,
    "ALTER": _refuse,
}
