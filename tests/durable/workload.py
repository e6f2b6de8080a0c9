"""A workload that is a function of its seed: what every step does, and what the tables hold after it.

The process that is killed and the one that judges it both work it out for themselves, so nothing has
to be told from one to the other but how far the first has come.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import penstock
from rows import Row

TABLES = {
    "items": "CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT, price DECIMAL(12,2), ratio DOUBLE, grp INTEGER)",
    "events": "CREATE TABLE events (item BIGINT, kind TEXT, amount DECIMAL(10,3), x DOUBLE)",
    "tags": "CREATE TABLE tags (item BIGINT, tag TEXT, note TEXT, PRIMARY KEY (item, tag))",
}
COLUMNS = {
    "items": ("id", "name", "price", "ratio", "grp"),
    "events": ("item", "kind", "amount", "x"),
    "tags": ("item", "tag", "note"),
}
VIEWS = {
    "joined": "SELECT i.name, i.grp, e.kind, e.amount, t.note FROM items i JOIN events e ON e.item = i.id "
    "JOIN tags t ON t.item = i.id",
    "totals": "SELECT grp, COUNT(*) AS n, SUM(price) AS price, MIN(price) AS low, MAX(name) AS last, "
    "SUM(ratio) AS ratio FROM items GROUP BY grp",
    "kinds": "SELECT DISTINCT kind, item FROM events",
    "dearest": "SELECT id, price FROM items ORDER BY price DESC NULLS LAST, id LIMIT 5",
    "tagged": "SELECT i.id, i.name, t.tag FROM items i LEFT JOIN tags t ON t.item = i.id",
    "summary": "SELECT COUNT(*) AS groups, SUM(n) AS n, MAX(price) AS price, MIN(low) AS low FROM totals",
}
# Made and dropped while it runs; `{}` is the number of the step, so that a catalog says when it was.
EXTRA = (
    "SELECT kind AS kind_{}, SUM(amount) AS amount, AVG(x) AS x FROM events GROUP BY kind",
    "SELECT item AS item_{}, COUNT(DISTINCT tag) AS tags FROM tags GROUP BY item",
    "SELECT id AS id_{}, name FROM items WHERE id IN (SELECT item FROM events WHERE amount > 5)",
    "SELECT grp AS grp_{}, low FROM totals WHERE n > 1",
)
WORDS = (None, "", "a", "fir", "déjà vu", "x" * 70, "oak", "elm", "日本", "NULL", "ash")

Delta = list[dict[str, Any]]


@dataclass
class Model:
    """What the flow holds after a step. A table's rows are counted; `relations` has names and columns."""

    step: int = 0
    epoch: int = 0
    rows: dict[str, Counter[Row]] = field(default_factory=dict)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of tables
    ddl: dict[str, str] = field(default_factory=dict)  # CREATE TABLE, as DuckDB takes it
    views: dict[str, str] = field(default_factory=dict)  # materialized
    next_id: int = 1

    def copy(self) -> Model:
        """The same, apart from the original; rows are never changed in place, so they are shared."""
        rows = {name: Counter(counts) for name, counts in self.rows.items()}
        return replace(self, rows=rows, columns={**self.columns}, ddl={**self.ddl}, views={**self.views})

    def catalog(self) -> set[str]:
        """The names of everything with, for what was made on the way, the step that made it."""
        return {*self.rows, *(f"{name}: {query}" for name, query in self.views.items())}


@dataclass(frozen=True)
class Step:
    """One thing to do: what it does to the flow, and whether it is durable when it returns whatever the mode."""

    number: int
    kind: str
    run: Callable[[penstock.Flow], Any]
    delta: dict[str, Delta] | None = None  # of a tick, to repeat it

    @property
    def key(self) -> str:
        return f"step {self.number}"

    @property
    def is_definition(self) -> bool:
        return self.kind == "ddl"


def steps(seed: int) -> Iterator[tuple[Step, Model]]:
    """Every step with the model as it is after it; without end. The model goes on changing: copy it."""
    model = Model()
    for number in range(1, 1_000_000_000):
        step = _step(model, number, random.Random(f"{seed}/{number}"))
        model.step = number
        yield step, model


def _step(model: Model, number: int, rng: random.Random) -> Step:
    setup = [*TABLES.items(), *VIEWS.items()]
    if number <= len(setup):
        return _set_up(model, number, *setup[number - 1])
    draw = rng.random()
    if draw < 0.12:
        return _define(model, number, rng)
    if draw < 0.25:
        return _statement(model, number, rng)
    if draw < 0.32:
        return _transaction(model, number, rng)
    return _tick(model, number, rng)


def _sql(number: int, kind: str, text: str) -> Step:
    return Step(number, kind, lambda flow: flow.sql(text))


def _set_up(model: Model, number: int, name: str, text: str) -> Step:
    if name in TABLES:
        model.rows[name], model.columns[name], model.ddl[name] = Counter(), COLUMNS[name], text
        return _sql(number, "ddl", text)
    model.views[name] = text
    return _sql(number, "ddl", f"CREATE MATERIALIZED VIEW {name} AS {text}")


# -- changes of the catalog --------------------------------------------------------------------


def _define(model: Model, number: int, rng: random.Random) -> Step:
    extra_views = sorted(name for name in model.views if name.startswith("extra"))
    extra_tables = sorted(name for name in model.rows if name.startswith("made"))
    choice = rng.randrange(6)
    if choice == 0 and extra_views:
        name = rng.choice(extra_views)
        del model.views[name]
        return _sql(number, "ddl", f"DROP MATERIALIZED VIEW {name}")
    if choice == 1 and extra_views:
        name = rng.choice(extra_views)
        query = model.views[name] = rng.choice(EXTRA).format(number)
        return _sql(number, "ddl", f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}")
    if choice == 2 and extra_tables:
        name = rng.choice(extra_tables)
        del model.rows[name], model.columns[name], model.ddl[name]
        return _sql(number, "ddl", f"DROP TABLE {name}")
    if choice == 3 and len(extra_tables) < 4:
        return _table_as(model, number)
    if choice == 4 and len(extra_tables) < 4:
        name = f"made_{number}"
        model.ddl[name] = f"CREATE TABLE {name} (a BIGINT, b TEXT)"
        model.rows[name], model.columns[name] = Counter(), ("a", "b")
        return _sql(number, "ddl", model.ddl[name])
    if len(extra_views) < 3:
        name = f"extra_{number}"
        query = model.views[name] = rng.choice(EXTRA).format(number)
        return _sql(number, "ddl", f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return _tick(model, number, rng)


def _table_as(model: Model, number: int) -> Step:
    name = f"made_{number}"
    model.ddl[name] = f"CREATE TABLE {name} (a BIGINT, b TEXT)"
    model.columns[name] = ("a", "b")
    model.rows[name] = Counter({(row[0], row[1]): n for row, n in model.rows["items"].items()})
    if model.rows[name]:
        model.epoch += 1
    return _sql(number, "ddl", f"CREATE TABLE {name} AS SELECT id AS a, name AS b FROM items")


# -- changes of rows ---------------------------------------------------------------------------


def _value(rng: random.Random, places: int, bound: int) -> Decimal | None:
    return None if rng.random() < 0.1 else Decimal(rng.randrange(-bound, bound)).scaleb(-places)


def _float(rng: random.Random) -> float | None:
    return None if rng.random() < 0.1 else round(rng.uniform(-100, 100), 4)


def _new_row(model: Model, table: str, rng: random.Random) -> Row:
    if table == "items":
        model.next_id += 1
        group = None if rng.random() < 0.1 else rng.randrange(6)
        return (model.next_id, rng.choice(WORDS), _value(rng, 2, 9_000), _float(rng), group)
    item = rng.randrange(1, model.next_id + 2)
    if table == "events":
        item_or_null = None if rng.random() < 0.05 else item
        return (item_or_null, rng.choice(("in", "out", "hold", None)), _value(rng, 3, 9_000), _float(rng))
    if table == "tags":
        return (item, rng.choice(WORDS[1:]), rng.choice(WORDS))
    return (rng.choice((None, rng.randrange(50))), rng.choice(WORDS))


def _held(model: Model, table: str) -> list[Row]:
    return list(model.rows[table])


def _keys(model: Model, table: str) -> set[Row]:
    width = {"items": 1, "tags": 2}.get(table, 0)
    return {row[:width] for row in model.rows[table]} if width else set()


def _delta(model: Model, table: str, rng: random.Random, size: int) -> Delta:
    """Rows that come and rows that go, applied to the model as they are drawn."""
    changes: list[tuple[Row, int]] = []
    held, keys = _held(model, table), _keys(model, table)
    crowded = len(held) > 150  # so that a chain of any length stays small
    for row in rng.sample(held, min(len(held), rng.randrange(size * (3 if crowded else 1) + 1))):
        changes.append((row, -1))
        keys.discard(row[: {"items": 1, "tags": 2}.get(table, 0)])
        if table == "items" and rng.random() < 0.5 and not crowded:  # an update
            keys.add(row[:1])
            changes.append(((row[0], rng.choice(WORDS), *row[2:]), 1))
    for _ in range(rng.randrange(size + 1)):
        row = _new_row(model, table, rng)
        width = {"items": 1, "tags": 2}.get(table, 0)
        if width and row[:width] in keys:
            continue
        keys.add(row[:width])
        changes.append((row, rng.randrange(1, 3) if not width else 1))
    counts = model.rows[table]
    for row, weight in changes:
        counts[row] += weight
        if not counts[row]:
            del counts[row]
    return [{**dict(zip(model.columns[table], row, strict=True)), "_weight": w} for row, w in changes]


def _tick(model: Model, number: int, rng: random.Random) -> Step:
    tables = rng.sample(sorted(model.rows), rng.randrange(1, 4))
    size = 60 if rng.random() < 0.08 else rng.choice((1, 2, 4, 8))
    delta = {table: _delta(model, table, rng, size) for table in tables}
    model.epoch += 1  # the key that it carries makes an epoch even of no rows
    key = f"step {number}"
    return Step(number, "tick", lambda flow: flow.tick(delta, idempotency_key=key), delta)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _inserted(model: Model, table: str, rng: random.Random) -> str:
    row = _new_row(model, table, rng)
    while row[:2] in _keys(model, table):  # only tags can meet a key that is there
        row = _new_row(model, table, rng)
    model.rows[table][row] += 1
    return f"INSERT INTO {table} VALUES ({', '.join(_literal(v) for v in row)})"


def _removed(model: Model, rng: random.Random) -> str | None:
    held = _held(model, "items")
    if not held:
        return None
    row = rng.choice(held)
    del model.rows["items"][row]
    if rng.random() < 0.5 or row[4] == 77:  # an update that changes nothing would be no epoch
        return f"DELETE FROM items WHERE id = {row[0]}"
    model.rows["items"][(row[0], "changed", *row[2:4], 77)] += 1
    return f"UPDATE items SET name = 'changed', grp = 77 WHERE id = {row[0]}"


def _statement(model: Model, number: int, rng: random.Random) -> Step:
    text = _removed(model, rng) if rng.random() < 0.5 else None
    if text is None:
        text = _inserted(model, rng.choice(("items", "events", "tags")), rng)
    model.epoch += 1
    return _sql(number, "sql", text)


def _transaction(model: Model, number: int, rng: random.Random) -> Step:
    parts = [_inserted(model, rng.choice(("items", "events", "tags")), rng) for _ in range(3)]
    model.epoch += 1
    return _sql(number, "sql", "; ".join(["BEGIN", *parts, "COMMIT"]))
