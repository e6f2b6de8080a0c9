"""The answer to one statement, with the tag that Postgres gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engine.at_once import Found
from penstock.engine.stream import Stream
from penstock.sql import statements as st


@dataclass(frozen=True)
class Answer:
    """What one statement gave: Postgres's tag for it, and the rows if it has any."""

    tag: str  # "INSERT 0 5", "CREATE TABLE"
    table: pa.Table  # the rows; else the count or the status
    has_rows: bool
    warning: str | None = None
    stream: Stream | None = None  # the rows, where they are not worked out yet: `table` has the columns then


def found_answer(s: st.Statement, found: Found | pa.Table) -> Answer:
    return answer_of(s, found.table if isinstance(found, Found) else found)


def answer_of(s: st.Statement, table: pa.Table, warning: str | None = None) -> Answer:
    """An answer with Postgres's tag."""
    returning: Any = getattr(s, "returning", None)
    if isinstance(s, (st.Insert, st.Update, st.Delete)):
        count = table.num_rows if returning is not None else table.column(0)[0].as_py()
        verb = {st.Insert: "INSERT 0", st.Update: "UPDATE", st.Delete: "DELETE"}[type(s)]
        return Answer(f"{verb} {count}", table, returning is not None, warning)
    if isinstance(s, st.Truncate):
        return Answer("TRUNCATE TABLE", table, False, warning)
    if isinstance(s, st.Query):
        return Answer(f"SELECT {table.num_rows}", table, True, warning)
    if isinstance(s, (st.Show, st.Describe)):
        return Answer("SHOW", table, True, warning)
    if isinstance(s, (st.Explain, st.ExplainIncremental)):
        return Answer("EXPLAIN", table, True, warning)
    return Answer(str(table.column(0)[0].as_py()), table, False, warning)
