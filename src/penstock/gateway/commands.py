"""Statements that are the server's and not the engine's: settings, cursors, prepared statements, COPY."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.errors import SqlSyntaxError
from penstock.base.quantities import seconds
from penstock.gateway.command import Command
from penstock.gateway.copy_command import parse_copy
from penstock.gateway.errors import NotSupported
from penstock.gateway.notify_command import parse_listen, parse_notify, parse_unlisten
from penstock.gateway.prepare_command import parse_execute, parse_prepare
from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.statements import Slice
from penstock.sql.tokens import fold, string_value, tokenize, unquote


@dataclass(frozen=True)
class SetSetting(Command):
    """`SET name = value`; None: DEFAULT, and RESET name. `local`: until the transaction ends."""

    name: str
    value: str | None
    tag: str = "SET"
    local: bool = False


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
    """`FETCH 5 FROM name WITH (TIMEOUT = '1s')`, `MOVE ALL IN name`: forward only. `count` None is ALL."""

    name: str
    count: int | None
    moves: bool
    timeout_s: float | None = None


@dataclass(frozen=True)
class CloseCursor(Command):
    """`CLOSE name`; None: ALL"""

    name: str | None


def read_command(sql: str) -> Command | None:
    """The command that a statement is; None if it is the engine's.

    >>> read_command("SET application_name TO 'x'"), read_command("SELECT 1")
    (SetSetting(name='application_name', value='x', tag='SET', local=False), None)
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
    if c.take("LOCAL"):
        return _set_one(c, local=True)
    if c.take("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"):
        return _set_transaction(c, always=True)
    if c.take("TRANSACTION"):
        return _set_transaction(c, always=False)
    c.take("SESSION")
    return _set_one(c, local=False)


def _set_one(c: Cursor, local: bool) -> Command:
    if c.take("TIME", "ZONE"):
        return SetSetting("TimeZone", _value(c), local=local)
    if c.take("NAMES"):
        return SetSetting("client_encoding", _value(c), local=local)
    name = c.identifier("the name of a setting")
    while c.take("."):
        name += "." + c.identifier("the name of a setting")
    if not c.take("="):
        c.expect("TO")
    return SetSetting(name, _value(c), local=local)


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
    query = c.rest("SUBSCRIBE") if c.at("SUBSCRIBE") else c.query()
    return Declare(name, query, hold, binary)


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
    name = fold_name(c, "the name of a cursor")
    return Fetch(name, count, moves, _fetch_timeout(c) if c.take("WITH") else None)


def _fetch_timeout(c: Cursor) -> float:
    position = c.offset
    given = parse_options(c)
    if set(given) != {"timeout"}:
        raise SqlSyntaxError("FETCH has one option, TIMEOUT", hint="WITH (TIMEOUT = '1s')", position=position)
    return seconds(given["timeout"], "TIMEOUT")


def _close(c: Cursor) -> Command:
    c.expect("CLOSE")
    return CloseCursor(None if c.take("ALL") else fold_name(c, "the name of a cursor"))


def _alter(c: Cursor) -> Command | None:
    if c.keyword(1) in ("ROLE", "USER", "MATERIALIZED", "SYSTEM"):  # the engine's
        return None
    return _refuse(c)


def _refuse(c: Cursor) -> Command:
    word = c.next().keyword
    raise NotSupported(f"{word} is not supported", position=c.tokens[0].offset)


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
    "COPY": parse_copy,
    "UNLISTEN": parse_unlisten,
    "LISTEN": parse_listen,
    "NOTIFY": parse_notify,
    "PREPARE": parse_prepare,
    "EXECUTE": parse_execute,
    "LOCK": _refuse,
    "VACUUM": _refuse,
    "ANALYZE": _refuse,
    "ALTER": _alter,
}
