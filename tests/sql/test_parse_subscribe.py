"""SUBSCRIBE as it is written."""

from __future__ import annotations

import pytest

from penstock.base.errors import InvalidOption, SqlSyntaxError
from penstock.engine.token import Token
from penstock.sql.parse import parse
from penstock.sql.statements import Subscribe


@pytest.mark.parametrize(
    ("sql", "name", "snapshot", "progress", "since"),
    [
        ("SUBSCRIBE v", "v", True, False, None),
        ("subscribe to public.v", "v", True, False, None),
        ('SUBSCRIBE "as" WITH (PROGRESS, SNAPSHOT = false)', "as", False, True, None),
        ("SUBSCRIBE v WITH (snapshot off, progress on)", "v", False, True, None),
        ("SUBSCRIBE v WITH (SNAPSHOT 'true') AS OF EPOCH 1_000", "v", True, False, 1000),
        ("SUBSCRIBE v AS OF EPOCH 7 WITH (PROGRESS = true)", "v", True, True, 7),
        ("SUBSCRIBE v AS OF TIMESTAMP '2026-01-31 12:00:00+00'", "v", True, False, "2026-01-31 12:00:00+00"),
    ],
)
def test_what_is_meant(sql: str, name: str, snapshot: bool, progress: bool, since: object) -> None:
    (found,) = parse(sql)
    assert isinstance(found, Subscribe)
    assert (found.name, found.snapshot, found.progress, found.since) == (name, snapshot, progress, since)


@pytest.mark.parametrize(
    ("sql", "message", "position"),
    [
        ("SUBSCRIBE", "name of a table", 9),
        ("SUBSCRIBE TO (SELECT 1)", "not a query", 13),
        ("SUBSCRIBE SELECT 1", "not a query", 10),
        ("SUBSCRIBE other.v", "schema", 10),
        ("SUBSCRIBE v WITH (UP_TO = 5)", 'no option "up_to"', 17),
        ("SUBSCRIBE v WITH (SNAPSHOT = 5)", "true or false", 17),
        ("SUBSCRIBE v AS OF EPOCH -1", "number of an epoch", 24),
        ("SUBSCRIBE v AS OF EPOCH 1 AS OF EPOCH 2", "the end", 26),
        ("SUBSCRIBE v AS OF 5", "EPOCH", 18),
        ("SUBSCRIBE v AS x", "WITH or AS OF", 12),
    ],
)
def test_what_is_wrong(sql: str, message: str, position: int) -> None:
    with pytest.raises(SqlSyntaxError, match=message) as caught:
        parse(sql)
    assert caught.value.position == position


@pytest.mark.parametrize("text", ["", "5", "a:", ":5", "a:b", "a:-1", "a:" + "9" * 30])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(InvalidOption, match="not a freshness token"):
        Token.parse(text)
