"""A flow and a plain DuckDB database that get the same changes, and the comparison of their views.

The database never sees penstock: statements run on it as they are (a materialized view is a plain
view there, computed anew at every read), and a tick is applied as DELETE and INSERT of exact rows.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from rows import Row, difference, rows_of

SETTINGS = (
    "SET integer_division = true",
    "SET default_null_order = 'postgres'",
    "SET error_on_division_by_zero = true",
    "SET ieee_floating_point_ops = false",
    "SET TimeZone = 'UTC'",
    "SET threads = 1",
    "SET python_enable_replacements = false",
    # It takes LIMIT 1 away from a query of five rows (DuckDB 2.0.0, seed 1181 of the random cases).
    "SET disabled_optimizers = 'statistics_propagation'",
)
_CREATE = re.compile(
    r"^\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?MATERIALIZED\s+VIEW\s+(?P<name>\"(?:[^\"]|\"\")+\"|\w+)", re.I
)
_DROP = re.compile(
    r"^\s*DROP\s+MATERIALIZED\s+VIEW\s+(?:IF\s+EXISTS\s+)?(?P<name>\"(?:[^\"]|\"\")+\"|\w+)", re.I
)
_TABLE = re.compile(r"^\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>\"(?:[^\"]|\"\")+\"|\w+)", re.I)


def open_duckdb() -> duckdb.DuckDBPyConnection:
    """A private DuckDB that answers as Postgres does."""
    connection = duckdb.connect(":memory:")
    for setting in SETTINGS:
        connection.execute(setting)
    return connection


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


class Judge:
    """Runs the same changes on a flow and on DuckDB; `check` compares every materialized view."""

    def __init__(self, flow: penstock.Flow | None = None) -> None:
        self.flow = penstock.Flow() if flow is None else flow
        self.duck = open_duckdb()
        self.tables: dict[str, str] = {}  # name -> CREATE TABLE
        self.views: dict[str, str] = {}  # materialized: name -> CREATE MATERIALIZED VIEW
        self.watches: dict[str, tuple[penstock.Watch, Counter[Row]]] = {}  # and the sum of what they gave

    def close(self) -> None:
        self.flow.close()
        self.duck.close()

    def sql(self, text: str, *, duck: str | None = None) -> pa.Table | None:
        """One statement on both; `duck` is its form for DuckDB where that differs. Results must agree."""
        ours = self.flow.sql(text)
        created, dropped = _CREATE.match(text), _DROP.match(text)
        if created:
            duck = duck or _CREATE.sub(f"CREATE {created['replace'] or ''}VIEW {created['name']}", text)
            self._watch(bare(created["name"]), text)
        elif dropped:
            duck = duck or re.sub("MATERIALIZED", "", text, flags=re.I)
            self.views.pop(bare(dropped["name"]), None)
        elif table := _TABLE.match(text):
            self.tables[bare(table["name"])] = text
        answer = self.duck.sql(duck or text)
        asked = re.match(r"\s*(SELECT|WITH|VALUES|TABLE)\b", text, re.I) or re.search(
            r"\bRETURNING\b", text, re.I
        )
        if asked:
            assert answer is not None
            assert ours is not None, text
            theirs = answer.to_arrow_table()
            problem = difference(rows_of(ours), rows_of(theirs))
            assert not problem, f"{text}\n{problem}"
        return ours

    def _watch(self, name: str, text: str) -> None:
        self.views[name] = text
        self.watches[name] = (self.flow.watch(name), Counter(rows_of(self.flow.snapshot(name))))

    def tick(self, source: str | dict[str, Any], delta: Any = None, **options: Any) -> Any:
        """One epoch on the flow, then the same rows in DuckDB."""
        changes = source if isinstance(source, dict) else {source: delta}
        summary = self.flow.tick(changes, **options)
        for table, rows in changes.items():
            apply_delta(self.duck, table, rows)
        return summary

    def check(self, *views: str, note: str = "") -> None:
        """Every materialized view (or those named) and every table equals DuckDB's, as multisets."""
        for name in views or (*self.tables, *self.views):
            ours = self.flow.snapshot(name)
            theirs = self.duck.sql(f"SELECT * FROM {quoted(name)}").to_arrow_table()
            assert ours.column_names == theirs.column_names, f"columns of {name}"
            problem = difference(rows_of(ours), rows_of(theirs))
            assert not problem, f"{note}\nview {name}: {self.views.get(name, '')}\n{problem}"
            if name in self.watches:
                self._check_watch(name, ours, note)

    def _check_watch(self, name: str, snapshot: pa.Table, note: str) -> None:
        """The deltas that the view's watch gave add up to exactly what the view holds."""
        watch, total = self.watches[name]
        while (change := watch.poll()) is not None:
            weights = change.batch.column("_weight").to_pylist()
            rows = rows_of(pa.Table.from_batches([change.batch]).drop_columns(["_weight"]))
            for row, weight in zip(rows, weights, strict=True):
                total[row] += weight
        held = Counter(rows_of(snapshot))
        wrong = {
            row: (total[row], held[row]) for row in total.keys() | held.keys() if total[row] != held[row]
        }
        assert not wrong, (
            f"{note}\nview {name}: its deltas add up to something else (row: sum, rows held): {wrong}"
        )

    def rows(self, view: str) -> list[Row]:
        """The view's rows in the flow, in a fixed order, for tests that state the rows expected."""
        return sorted(
            rows_of(self.flow.snapshot(view)), key=lambda row: tuple((v is None, str(v)) for v in row)
        )


def apply_delta(duck: duckdb.DuckDBPyConnection, table: str, delta: Any) -> None:
    """A delta (Arrow, or a list of dicts, with or without _weight) as DELETE and INSERT of exact rows."""
    if isinstance(delta, list) and not delta:
        return
    target = quoted(table)
    schema = duck.sql(f"SELECT * FROM {target} LIMIT 0").to_arrow_table().schema
    net = (
        _net_rows(delta, schema)
        if isinstance(delta, list)
        else _net_table(duck, as_arrow(delta), target, schema)
    )
    columns = list(map(quoted, schema.names))
    names = ", ".join(columns)
    gone = net.filter(pc.less(net["_weight"], 0))
    if gone.num_rows:
        same = " AND ".join(f"x.{c} IS NOT DISTINCT FROM n.{c}" for c in columns)
        order = ", ".join(f"n.{c}" for c in columns)
        duck.register("_gone", gone)
        found = duck.execute(
            f"""DELETE FROM {target} WHERE rowid IN (
                SELECT r FROM (
                    SELECT x.rowid AS r, n._weight AS w, row_number() OVER (PARTITION BY {order}) AS k
                    FROM {target} x JOIN _gone n ON {same}
                ) WHERE k <= -w)"""
        ).fetchone()
        duck.unregister("_gone")
        wanted = -pc.sum(gone["_weight"]).as_py()
        assert found == (wanted,), f"the test removes rows of {table} that are not there: {found} of {wanted}"
    came = net.filter(pc.greater(net["_weight"], 0))
    if came.num_rows:
        duck.register("_came", came)
        duck.execute(f"INSERT INTO {target} SELECT {names} FROM _came, range(_weight)")
        duck.unregister("_came")


def _net_rows(delta: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """A few plain rows, equal ones added up; a column that is not there is NULL."""
    net: Counter[Row] = Counter()
    for row in delta:
        net[tuple(row.get(name) for name in schema.names)] += row.get("_weight", 1)
    rows = [row for row, weight in net.items() if weight]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    weights = pa.array([net[row] for row in rows], pa.int64())
    return pa.table([*arrays, weights], names=[*schema.names, "_weight"])


def _net_table(duck: duckdb.DuckDBPyConnection, delta: pa.Table, target: str, schema: pa.Schema) -> pa.Table:
    """Arrow rows in the types of the table, equal ones added up."""
    names = ", ".join(map(quoted, schema.names))
    weight = "_weight" if "_weight" in delta.column_names else "1"
    duck.register("_incoming", delta)
    duck.execute(
        f"CREATE OR REPLACE TEMP TABLE _delta AS SELECT {names}, 1::BIGINT AS _weight FROM {target} LIMIT 0"
    )
    duck.execute(f"INSERT INTO _delta SELECT {names}, {weight} FROM _incoming")
    duck.unregister("_incoming")
    return duck.sql(
        f"SELECT {names}, sum(_weight)::BIGINT AS _weight FROM _delta GROUP BY {names} HAVING sum(_weight) <> 0"
    ).to_arrow_table()


def as_arrow(delta: Any) -> pa.Table:
    if isinstance(delta, pa.RecordBatch):
        return pa.Table.from_batches([delta])
    return delta if isinstance(delta, pa.Table) else pa.table(delta)
