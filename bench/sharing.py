"""Twenty views over the same join: with the arrangements they share, and with private ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa

from bench.measure import say
from bench.report import Figure, Section
from bench.scale import SEED, Settings
from bench.state import state_bytes
from penstock import Flow

GROUPS = ("c.region", "c.segment", "o.status", "o.priority")
AGGREGATES = ("COUNT(*)", "SUM(o.amount)", "AVG(o.amount)", "SUM(o.amount * c.rate)", "COUNT(c.rate)")
CUSTOMERS_PER_ORDER = 0.1


def measure(settings: Settings) -> Section:
    found = {}
    for shared in (True, False):
        say(f"sharing: 20 views with {'shared' if shared else 'private'} arrangements")
        with Flow(share_arrangements=shared) as flow:
            build(flow, settings.scale.shared_rows)
            found[shared] = state_bytes(flow)
    ratio = found[True] / found[False]
    name = "state of 20 views with shared arrangements"
    return Section((Figure(name, "20 private", found[True], found[False], "B", ratio, at_most=0.2),))


def build(flow: Flow, rows: int) -> None:
    """Four groupings times five aggregates over orders and their customers."""
    random = np.random.default_rng(SEED)
    customers = int(rows * CUSTOMERS_PER_ORDER)
    flow.sql("CREATE TABLE customers (id BIGINT, region BIGINT, segment BIGINT, rate BIGINT)")
    flow.sql("CREATE TABLE orders (customer BIGINT, status BIGINT, priority BIGINT, amount BIGINT)")
    for number, (group, aggregate) in enumerate(product(GROUPS, AGGREGATES)):
        flow.sql(f"""
            CREATE MATERIALIZED VIEW v{number} AS SELECT {group} AS g, {aggregate} AS value
            FROM orders o JOIN customers c ON o.customer = c.id GROUP BY {group}""")
    flow.tick(
        {
            "customers": pa.table(
                {
                    "id": np.arange(customers),
                    "region": random.integers(0, 5, customers),
                    "segment": random.integers(0, 8, customers),
                    "rate": random.integers(1, 10, customers),
                }
            ),
            "orders": pa.table(
                {
                    "customer": random.integers(0, customers, rows),
                    "status": random.integers(0, 3, rows),
                    "priority": random.integers(0, 5, rows),
                    "amount": random.integers(1, 1_000, rows),
                }
            ),
        }
    )
