"""ALTER MATERIALIZED VIEW ... SET or RESET (options), and ALTER SYSTEM PAUSE or RESUME."""

from __future__ import annotations

from penstock.base.errors import SqlSyntaxError
from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.statements import AlterMaterializedView, AlterSystem, Slice, Statement


def parse_alter_view(c: Cursor, text: Slice) -> Statement:
    """`ALTER MATERIALIZED VIEW v SET (freshness = '1s')`, `... RESET (freshness)`.

    >>> from penstock.sql.parse import parse
    >>> (statement,) = parse("ALTER MATERIALIZED VIEW v SET (freshness = '1s')")
    >>> statement.name, statement.options
    ('v', {'freshness': '1s'})
    """
    c.expect("ALTER", "MATERIALIZED", "VIEW")
    name, _ = c.object_name("the name of a view")
    if c.take("SET"):
        offset = c.offset
        options = parse_options(c)
        if not options:
            raise SqlSyntaxError("SET () sets nothing", position=offset)
        return AlterMaterializedView(text, (), name, options, ())
    if not c.take("RESET"):
        c.fail("SET or RESET")
    return AlterMaterializedView(text, (), name, {}, tuple(parse_options(c)))


def parse_alter_system(c: Cursor, text: Slice) -> Statement:
    c.expect("ALTER", "SYSTEM")
    word = c.keyword()
    if not c.take("PAUSE") and not c.take("RESUME"):
        c.fail("PAUSE or RESUME")
    return AlterSystem(text, (), word.lower())
