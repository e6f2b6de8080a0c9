"""SUBSCRIBE: a view as it is, and then every change of it."""

from __future__ import annotations

from penstock.base.errors import SqlSyntaxError
from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.parameters import read_parameters
from penstock.sql.statements import Slice, Statement, Subscribe
from penstock.sql.tokens import string_value

_HINT = "SUBSCRIBE TO v WITH (SNAPSHOT = false, PROGRESS) AS OF EPOCH 5"


def parse_subscribe(c: Cursor, text: Slice) -> Statement:
    """`SUBSCRIBE [TO] v [WITH (SNAPSHOT = true, PROGRESS)] [AS OF EPOCH 5]`; WITH may stand last, too."""
    c.expect("SUBSCRIBE")
    c.take("TO")
    if c.at("(") or (c.at_query() and not c.at("VALUES")):
        raise SqlSyntaxError(
            "SUBSCRIBE takes the name of a table or materialized view, not a query",
            hint="Create a materialized view of the query, and subscribe to that.",
            position=c.offset,
        )
    name, offset = c.object_name("the name of a table or materialized view")
    options: dict[str, bool] | None = None
    as_of: int | str | None = None
    while not c.at_end:
        if options is None and c.take("WITH"):
            options = _options(c)
        elif as_of is None and c.at("AS", "OF"):
            as_of = _moment(c)
        else:
            c.fail("WITH or AS OF EPOCH" if options is None and as_of is None else "the end", _HINT)
    options = options or {}
    return Subscribe(
        text,
        read_parameters(c.tokens),
        name,
        offset,
        options.get("snapshot", True),
        options.get("progress", False),
        as_of,
    )


def _options(c: Cursor) -> dict[str, bool]:
    position = c.offset
    found: dict[str, bool] = {}
    for key, value in parse_options(c).items():
        if key not in ("snapshot", "progress"):
            raise SqlSyntaxError(
                f'SUBSCRIBE has no option "{key}"', hint="It has SNAPSHOT and PROGRESS.", position=position
            )
        if not isinstance(value, bool):
            value = {"true": True, "false": False, "on": True, "off": False}.get(str(value).lower(), value)
        if not isinstance(value, bool):
            raise SqlSyntaxError(f"{key.upper()} is true or false, not {value!r}", position=position)
        found[key] = value
    return found


def _moment(c: Cursor) -> int | str:
    c.expect("AS", "OF")
    if c.take("TIMESTAMP") or c.take("TIMESTAMPTZ"):
        if c.at_end or c.tokens[c.position].kind != "string":
            c.fail("a time such as '2026-01-31 12:00:00+00:00'", _HINT)
        return string_value(c.next())
    c.expect("EPOCH")
    digits = "" if c.at_end else c.tokens[c.position].text.replace("_", "")
    if not digits.isdecimal() or len(digits) > 18:
        c.fail("the number of an epoch", _HINT)
    c.next()
    return int(digits)
