"""What every client finds: a table of orders, a view of them; and one Java for a whole session of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.clients.jvm import Jvm, started, why_not
from penstock import Flow


@pytest.fixture
def flow(flow: Flow) -> Flow:
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
    flow.sql(
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
    )
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5)")
    return flow


@pytest.fixture(scope="session")
def jvm() -> Iterator[Jvm]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with started() as jvm:
        yield jvm
