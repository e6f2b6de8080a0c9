"""A flow with random epochs over several tables and views, and what each relation was at every epoch."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa

from penstock import Flow
from penstock.engine.durable import Durable

SETUP = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))",
    "CREATE TABLE notes (customer TEXT, text TEXT, n HUGEINT)",
    "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total, count(*) AS n "
    "FROM orders GROUP BY customer",
    "CREATE MATERIALIZED VIEW joined AS SELECT o.id, o.customer, n.text FROM orders o "
    "LEFT JOIN notes n ON n.customer = o.customer",
    "CREATE MATERIALIZED VIEW largest AS SELECT customer, total FROM totals ORDER BY total DESC, customer LIMIT 3",
    "CREATE VIEW both_of AS SELECT t.customer, t.total, (SELECT count(*) FROM notes) AS notes FROM totals t",
)
STORED = ("orders", "notes", "totals", "joined", "largest")
ALL = (*STORED, "both_of")
Bag = Counter[tuple[Any, ...]]


def bag(table: pa.Table) -> Bag:
    """Rows as a multiset."""
    return Counter(zip(*[column.to_pylist() for column in table.columns], strict=True))


def contents(flow: Flow) -> dict[str, Bag]:
    return {name: bag(flow.snapshot(name)) for name in ALL}


class RandomHistory:
    """Makes epochs and writes down what they did."""

    def __init__(self, flow: Flow, seed: int, large: int) -> None:
        self.flow = flow
        self.large = large  # rows of a large delta
        self.chance = random.Random(seed)
        for statement in SETUP:
            flow.sql(statement)
        self.at: dict[int, dict[str, Bag]] = {flow.epoch: contents(flow)}
        self.next_id = 0

    def step(self) -> None:
        """One epoch, of a random kind."""
        kind = self.chance.choice(
            ("insert", "insert", "update", "delete", "note", "transaction", "nothing", "large")
        )
        getattr(self, f"_{kind}")()
        self.at[self.flow.epoch] = contents(self.flow)

    def _customer(self) -> str:
        return f"c{self.chance.randrange(6)}"

    def _orders(self, count: int) -> pa.Table:
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        amounts = [float(self.chance.randrange(1000)) for _ in ids]
        return pa.table({"id": list(ids), "customer": [self._customer() for _ in ids], "amount": amounts})

    def _insert(self) -> None:
        self.flow.tick("orders", self._orders(self.chance.randint(1, 4)))

    def _large(self) -> None:
        """Deltas beyond CHUNK_BYTES_MAX become files."""
        self.flow.tick("orders", self._orders(self.large))

    def _update(self) -> None:
        below = self.chance.randrange(self.next_id + 1)
        self.flow.sql(
            f"UPDATE orders SET amount = amount + 1, customer = 'c0' WHERE id % 5 = 0 AND id < {below}"
        )

    def _delete(self) -> None:
        self.flow.sql(f"DELETE FROM orders WHERE id % 7 = {self.chance.randrange(7)}")

    def _note(self) -> None:
        text = self.chance.choice(("'a'", "'b'", "NULL"))
        self.flow.sql(f"INSERT INTO notes VALUES ('{self._customer()}', {text}, {10**25})")

    def _transaction(self) -> None:
        self.flow.sql("BEGIN")
        self.flow.sql(f"DELETE FROM notes WHERE customer = '{self._customer()}'")
        self.flow.sql(f"INSERT INTO notes VALUES ('{self._customer()}', 't', 1), ('c1', NULL, NULL)")
        self.flow.sql("COMMIT")

    def _nothing(self) -> None:
        self.flow.tick("orders", [], offset=self.flow.epoch + 1)


def flush_state(flow: Flow) -> None:
    """Write the state down as the background does."""
    with flow._lock:
        assert isinstance(flow._store, Durable)
        flow._store.flush_state()
