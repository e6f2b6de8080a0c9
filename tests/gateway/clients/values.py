"""One value of every type, as SQL writes it and as Python's clients give and take it."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any, NamedTuple


class Value(NamedTuple):
    """A column: its SQL type, its value as a literal, and in Python."""

    type: str
    literal: str
    python: Any


VALUES = (
    Value("BOOLEAN", "true", True),
    Value("SMALLINT", "-32768", -32768),
    Value("INTEGER", "2147483647", 2147483647),
    Value("BIGINT", "-9223372036854775808", -(2**63)),
    Value("REAL", "0.5", 0.5),
    Value("DOUBLE", "1e300", 1e300),
    Value("DECIMAL(12,2)", "-1234567890.50", Decimal("-1234567890.50")),
    Value("TEXT", "'it''s \\ \"é\" 😀'", "it's \\ \"é\" 😀"),
    Value("BLOB", "'\\x00\\x27\\xFF'", b"\0'\xff"),
    Value("DATE", "'2020-02-29'", dt.date(2020, 2, 29)),
    Value("TIME", "'01:02:03.000004'", dt.time(1, 2, 3, 4)),
    Value("TIMESTAMP", "'2020-01-02 03:04:05.000006'", dt.datetime(2020, 1, 2, 3, 4, 5, 6)),
    Value("TIMESTAMPTZ", "'1999-12-31 23:59:59+00'", dt.datetime(1999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)),
    Value("INTERVAL", "INTERVAL '2 days 5 seconds'", dt.timedelta(days=2, seconds=5)),
    Value("UUID", "'00000000-0000-0000-0000-000000000005'", uuid.UUID(int=5)),
    Value("INT[]", "[1, NULL, 3]", [1, None, 3]),
    Value("TEXT[]", "['a,b', NULL, '\"q\"']", ["a,b", None, '"q"']),
)  # fmt: skip
PYTHON = tuple(value.python for value in VALUES)
TABLE = "CREATE TABLE everything (n BIGINT PRIMARY KEY, " + ", ".join(
    f"c{i} {value.type}" for i, value in enumerate(VALUES)
) + ")"  # fmt: skip
COLUMNS = ", ".join(f"c{i}" for i in range(len(VALUES)))
INSERT = f"INSERT INTO everything VALUES (1, {', '.join(value.literal for value in VALUES)})"

# It would take minutes: to be cancelled.
SLOW = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"
