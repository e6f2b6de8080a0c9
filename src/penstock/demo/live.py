"""The shop behind a server, for people to play with: its stream goes on, at a gentle rate, until it is ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import Flow
from penstock.base.errors import PenstockError
from penstock.demo.shop import KEYS, TABLES, VIEWS, Shop
from penstock.demo.stream import changes

SEED = 1
FRESHNESS = "1 s"  # what the views are to hold, so that penstock.freshness has something to say
QUERIES = (
    "SELECT * FROM revenue_by_region ORDER BY revenue DESC",
    "SELECT view, lag_s, p99_s, compliance, degraded_reason FROM penstock.freshness",
    "INSERT INTO customers VALUES (1000000, 'you', 'Europe', 'home')",
)


def prepare(flow: Flow) -> Shop:
    """The shop's tables and views in a flow, filled; where they are already, the shop goes on from their rows."""
    present = {row["name"] for row in flow.sql("SHOW TABLES").to_pylist()}
    shop = Shop(SEED)
    if present.isdisjoint(TABLES):
        for statement in TABLES.values():
            flow.sql(statement)
        flow.tick(shop.tables())
    else:
        adopt(flow, shop)
    for name, query in VIEWS.items():
        flow.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} WITH (freshness = '{FRESHNESS}') AS {query}")
    return shop


def adopt(flow: Flow, shop: Shop) -> None:
    """Let the shop have the rows that the flow has; raises what is wrong if they are not a shop's."""
    rows = {}
    for table in TABLES:
        order = ", ".join(KEYS[table])
        rows[table] = flow.sql(f"SELECT * FROM {table} ORDER BY {order}").to_pylist()
    shop.customers = rows["customers"]
    shop.orders = {row["id"]: row for row in rows["orders"]}
    shop.lines = {id: [] for id in shop.orders}
    for line in rows["order_lines"]:
        shop.lines.setdefault(line["order_id"], []).append(line)


class Stream:
    """Changes of a shop, so many a second."""

    def __init__(self, flow: Flow, shop: Shop, rate: float) -> None:
        self._flow = flow
        self._shop = shop
        self._interval_s = 1 / rate
        self._ending = threading.Event()
        self.applied = 0
        self.left_out = 0  # somebody has changed the rows that they are about, or the flow is paused

    def run(self) -> None:
        due = time.monotonic()
        for change in changes(self._shop):
            due = max(due + self._interval_s, time.monotonic())  # what was missed is not made up for
            if self._ending.wait(due - time.monotonic()):
                return
            try:
                self._flow.tick(change.deltas())
                self.applied += 1
            except PenstockError:
                self.left_out += 1

    def end(self) -> None:
        self._ending.set()


@contextmanager
def streaming(flow: Flow, rate: float) -> Iterator[Stream]:
    """The stream while the context lasts."""
    stream = Stream(flow, prepare(flow), rate)
    thread = threading.Thread(target=stream.run, name="penstock-demo", daemon=True)
    thread.start()
    try:
        yield stream
    finally:
        stream.end()
        thread.join()
