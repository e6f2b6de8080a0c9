"""Reads and runs sqllogictest files.

A file is a list of records, separated by empty lines; a line that begins with # is a comment.

    statement ok               the SQL that follows succeeds
    statement error <regex>    it is refused, with a message in which the regex is found
    query <types> [rowsort]    its rows are those under ----, one a line, values separated by a space;
                               types: I integer or decimal, R float, T anything else
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock


@dataclass
class Record:
    """One record of a file, with the line it begins on."""

    kind: str  # ok, error, query
    argument: str
    sql: str
    expected: list[str]
    line: int


def read(path: Path) -> list[Record]:
    records = []
    for start, block in _blocks(path.read_text(encoding="utf-8").splitlines()):
        head, *body = block
        words = head.split(maxsplit=2)
        if words[0] == "query":
            cut = body.index("----")
            records.append(
                Record("query", " ".join(words[1:]), "\n".join(body[:cut]), body[cut + 1 :], start)
            )
        elif words[0] == "statement" and words[1] in ("ok", "error"):
            records.append(Record(words[1], words[2] if len(words) > 2 else "", "\n".join(body), [], start))
        else:
            raise ValueError(
                f"{path.name}:{start}: a record begins with statement or query, not with {head!r}"
            )
    return records


def _blocks(lines: list[str]) -> list[tuple[int, list[str]]]:
    blocks: list[tuple[int, list[str]]] = []
    current: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            continue
        if line.strip():
            current.append(line)
        elif current:
            blocks.append((number - len(current), current))
            current = []
    return blocks


def shown(table: pa.Table, types: str) -> list[str]:
    """The rows as lines of text."""
    assert len(types) == table.num_columns, f"{table.num_columns} columns, but the types are {types}"
    columns = [column.to_pylist() for column in table.columns]
    return [
        " ".join(_value(v, t) for v, t in zip(row, types, strict=True)) for row in zip(*columns, strict=True)
    ]


def _value(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if kind == "R":
        return f"{float(value):.10g}"
    if kind == "I":
        assert isinstance(value, (int, Decimal)), f"{value!r} is not an integer or decimal"
        return str(value)
    return str(value) or "(empty)"


class Driver:
    """Runs the records of one file on one flow, in one of the modes of MODES."""

    def __init__(self, flow: penstock.Flow, mode: str) -> None:
        self.flow, self.mode = flow, mode
        self.open = False  # a BEGIN of ours or of the file's
        self.ours = False
        self.tables: dict[str, None] = {}
        self.chance = random.Random(7)

    def run(self, record: Record) -> list[str] | None:
        """What a query gives; None for a statement. Raises what the flow raises."""
        changes = bool(
            re.match(
                r"\s*(INSERT|UPDATE|DELETE|TRUNCATE|WITH\b.*\b(INSERT|UPDATE|DELETE))\b",
                record.sql,
                re.I | re.S,
            )
        )
        if self.mode == "one batch":
            self._batch(changes and record.kind == "ok")
        if record.kind == "query":
            if self.mode == "emptied and refilled" and not self.open and not changes:
                self._refill()
            types, *rest = record.argument.split()
            lines = shown(self.flow.sql(record.sql), types)
            return sorted(lines) if "rowsort" in rest else lines
        for statement in self._statements(record):
            self.flow.sql(statement)
        self._note(record)
        return None

    def finish(self) -> None:
        if self.mode == "one batch":
            self._batch(False)

    def _statements(self, record: Record) -> list[str]:
        if self.mode == "row by row" and record.kind == "ok":
            return one_row_each(record.sql)
        return [record.sql]

    def _batch(self, joins: bool) -> None:
        """Consecutive changes share one epoch; whatever else comes, the epoch ends before it."""
        if joins and not self.open:
            self.flow.sql("BEGIN")
            self.open = self.ours = True
        elif not joins and self.ours:
            self.flow.sql("COMMIT")
            self.open = self.ours = False

    def _note(self, record: Record) -> None:
        if re.match(r"\s*(BEGIN|START)\b", record.sql, re.I):
            self.open = True
        elif re.match(r"\s*(COMMIT|ROLLBACK|END|ABORT)\b", record.sql, re.I):
            self.open = False
        created = re.match(
            r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)", record.sql, re.I
        )
        dropped = re.match(r"\s*DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?(\w+)", record.sql, re.I)
        if created:
            self.tables[created[1]] = None
        elif dropped:
            self.tables.pop(dropped[1], None)

    def _refill(self) -> None:
        """Every table is emptied in one epoch, and filled again in random portions."""
        rows = {name: self.flow.snapshot(name) for name in self.tables}
        self.flow.tick({name: _weighted(table, -1) for name, table in rows.items()})
        order = [(name, i) for name, table in rows.items() for i in range(table.num_rows)]
        self.chance.shuffle(order)
        while order:
            size = self.chance.randint(1, 4)
            portion, order = order[:size], order[size:]
            delta = {
                n: _weighted(rows[n].take([i for m, i in portion if m == n]), 1)
                for n in {n for n, _ in portion}
            }
            self.flow.tick(delta)


def _weighted(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column("_weight", pa.array([weight] * table.num_rows, pa.int64()))


def one_row_each(sql: str) -> list[str]:
    """INSERT ... VALUES of several rows as one statement for each.

    >>> one_row_each("INSERT INTO t VALUES (1, ')'), (2, 'b') ON CONFLICT DO NOTHING")
    ["INSERT INTO t VALUES (1, ')') ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (2, 'b') ON CONFLICT DO NOTHING"]
    """
    found = re.match(r"(\s*INSERT\s+INTO\s+[^;]*?\bVALUES)\s*(?=\()", sql, re.I)
    if not found:
        return [sql]
    rows, depth, quoted, start, end = [], 0, False, found.end(), found.end()
    for position in range(found.end(), len(sql)):
        char = sql[position]
        if char == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif char == "(":
            start = position if depth == 0 else start
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                rows.append(sql[start : position + 1])
                end = position + 1
        elif depth == 0 and not char.isspace() and char != ",":
            break
    tail = sql[end:]
    return [f"{found[1]} {row}{tail}" for row in rows]


def attempt(driver: Driver, record: Record) -> tuple[list[str] | None, penstock.PenstockError | None]:
    try:
        return driver.run(record), None
    except penstock.PenstockError as error:
        return None, error


def run_file(path: Path, driver: Driver) -> list[tuple[Record, list[str]]]:
    """Runs a file and closes its flow; gives the queries that answered otherwise than the file says, with what they
    gave. What is refused and should not be, or the other way round, fails at once."""
    differ = []
    for record in read(path):
        place = f"{path.name}:{record.line}"
        given, refusal = attempt(driver, record)
        if record.kind == "error":
            assert refusal is not None, f"{place}: should have been refused"
            assert re.search(record.argument, str(refusal), re.I), f"{place}: the message is: {refusal}"
            continue
        assert refusal is None, f"{place}: {refusal}"
        if record.kind == "query" and given != record.expected:
            differ.append((record, given or []))
    driver.finish()
    driver.flow.close()
    return differ


MODES = ("as written", "one batch", "row by row", "emptied and refilled")
