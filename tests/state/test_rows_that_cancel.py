"""Rows that come and go in turns do not pile up in the state that joins read."""

from __future__ import annotations

import penstock
from penstock.base.limits import MERGE_AT_ONCE_BATCHES_MIN, SMALL_BATCH_ROWS_MAX

TICKS = 1_500


def test_a_small_view_that_always_changes_stays_small_for_its_joins() -> None:
    """Each tick replaces a total, with which all rows of the view are joined: what had gone was joined with as well."""
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE sales (region BIGINT, amount BIGINT)")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals AS SELECT region, sum(amount) AS total FROM sales GROUP BY region"
        )
        flow.sql(
            "CREATE MATERIALIZED VIEW shares AS "
            "SELECT region, total / (SELECT sum(total) FROM totals)::DOUBLE AS share FROM totals"
        )
        for number in range(TICKS):
            flow.tick("sales", [{"region": number % 3, "amount": number + 1}])
        held = [a for node in flow._core.circuit.nodes.values() for a in node.owned]
        assert max(a.rows() for a in held) <= (MERGE_AT_ONCE_BATCHES_MIN + 1) * SMALL_BATCH_ROWS_MAX
        assert all(check.equal for check in flow.verify())
