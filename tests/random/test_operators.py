"""Property tests for each operator: whatever comes and goes, the view equals DuckDB's answer.

Also the properties of ticks: split, merged or in another order within an epoch, the end is the same.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import penstock
from judge import Judge
from rows import Row, difference, rows_of

TABLES = ("CREATE TABLE a (k INTEGER, x INTEGER, s TEXT)", "CREATE TABLE b (k INTEGER, y INTEGER, s TEXT)")

OPERATORS: dict[str, dict[str, str]] = {
    "stateless_and_inner_joins": {
        "project": "SELECT x + 1 AS y, upper(s) AS t FROM a",
        "filter": "SELECT * FROM a WHERE x > 1 OR s IS NULL",
        "range": "SELECT * FROM a WHERE abs(x) > 0 AND abs(x) <= 2",
        "inner_join_one_column_twice": "SELECT a.k, y FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k AND a.k IS NOT DISTINCT FROM b.y",
        "inner_join": "SELECT a.k, x, y FROM a JOIN b ON a.k = b.k",
        "inner_join_two_keys": "SELECT a.k, x, y FROM a JOIN b ON a.k = b.k AND a.s = b.s",
        "inner_join_residual": "SELECT a.k, x, y FROM a JOIN b ON a.k = b.k AND x < y",
        "inner_join_null_safe": "SELECT a.k, x, y FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k",
        "theta_join": "SELECT x, y FROM a JOIN b ON x < y",
        "cross_join": "SELECT x, y FROM a CROSS JOIN b",
        "three_way_join": "SELECT a.x, b.y, c.x AS z FROM a JOIN b ON a.k = b.k JOIN a c ON c.x = b.y",
    },
    "outer_joins": {
        "left_join": "SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k",
        "left_join_residual": "SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k AND x < y",
        "left_join_theta": "SELECT a.k, x, y FROM a LEFT JOIN b ON x < y",
        "left_join_one_sided": "SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k AND x > 1 AND y > 0",
        "right_join": "SELECT b.k, x, y FROM a RIGHT JOIN b ON a.k = b.k AND x <> y",
        "left_join_one_column_twice": "SELECT a.k, y FROM a LEFT JOIN b ON a.k = b.k AND a.k = b.y",
        "full_join_one_column_twice": "SELECT a.k, y FROM a FULL JOIN b ON a.k = b.k AND a.x = b.k",
        "full_join": "SELECT a.k, b.k AS l, x, y FROM a FULL JOIN b ON a.k = b.k",
        "full_join_residual": "SELECT a.k, b.k AS l, x, y FROM a FULL JOIN b ON a.k = b.k AND x <= y",
        "full_join_theta": "SELECT x, y FROM a FULL JOIN b ON x < y",
    },
    "membership_and_scalars": {
        "semi_join": "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        "anti_join": "SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        "semi_join_residual": "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.x)",
        "anti_join_residual": "SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.x)",
        "mark_join": "SELECT *, k IN (SELECT k FROM b) AS m FROM a",
        "not_in": "SELECT * FROM a WHERE k NOT IN (SELECT k FROM b)",
        "correlated_mark_join": "SELECT *, x IN (SELECT y FROM b WHERE b.k = a.k) AS m FROM a",
        "less_than_all": "SELECT * FROM a WHERE x < ALL (SELECT y FROM b)",
        "scalar_subquery": "SELECT *, (SELECT max(y) FROM b) AS m FROM a",
        "correlated_scalar": "SELECT *, (SELECT sum(y) FROM b WHERE b.k = a.k) AS m FROM a",
        "correlated_count": "SELECT *, (SELECT count(*) FROM b WHERE b.k = a.k) AS m FROM a",
    },
    "thresholds": {
        "above_average": "SELECT k, s FROM a WHERE x > (SELECT avg(y) FROM b)",
        "below_its_own_maximum": "SELECT k, s FROM a WHERE x < (SELECT max(x) FROM a)",
        "at_least": "SELECT k, x FROM a WHERE (SELECT min(y) + 1 FROM b WHERE s IS NOT NULL) <= x",
        "at_most_text": "SELECT x, s FROM a WHERE s <= (SELECT max(s) FROM b WHERE y > 0)",
        "of_groups": "SELECT k, sum(x) AS t FROM a GROUP BY k HAVING sum(x) > (SELECT sum(y) / 4.0 FROM b)",
        "bound_that_may_be_missing": "SELECT k, x FROM a WHERE EXISTS (SELECT 1 FROM (SELECT sum(y) AS t FROM b HAVING sum(y) > 1) AS h WHERE a.x < t)",
        "bound_that_is_used_too": "SELECT k, x, m FROM a, (SELECT avg(y) AS m FROM b) AS h WHERE x > m",
    },
    "aggregates": {
        "aggregate": "SELECT k, count(*) AS n, count(x) AS c, sum(x) AS s, avg(x) AS v FROM a GROUP BY k",
        "aggregate_all": "SELECT count(*) AS n, sum(x) AS s, min(x) AS lo, max(s) AS hi FROM a",
        "extrema": "SELECT k, min(x) AS lo, max(x) AS hi, min(s) AS a, max(s) AS z FROM a GROUP BY k",
        "variance": "SELECT k, var_samp(x) AS v, stddev_pop(x) AS d FROM a GROUP BY k",
        "bool_aggregates": "SELECT k, bool_and(x > 1) AS e, bool_or(x > 1) AS o FROM a GROUP BY k",
        "distinct_aggregates": "SELECT k, count(DISTINCT x) AS c, sum(DISTINCT x) AS s FROM a GROUP BY k",
        "filtered_aggregates": "SELECT k, sum(x) FILTER (WHERE s = 'p') AS f, max(x) FILTER (WHERE x < 2) AS m FROM a GROUP BY k",
        "having": "SELECT k, sum(x) AS s FROM a GROUP BY k HAVING sum(x) > 1",
    },
    "sets_and_tops": {
        "distinct": "SELECT DISTINCT k, s FROM a",
        "union": "SELECT k FROM a UNION SELECT k FROM b",
        "union_all": "SELECT k FROM a UNION ALL SELECT k FROM b",
        "intersect": "SELECT k FROM a INTERSECT SELECT k FROM b",
        "intersect_all": "SELECT k FROM a INTERSECT ALL SELECT k FROM b",
        "except": "SELECT k FROM a EXCEPT SELECT k FROM b",
        "except_all": "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
        "top": "SELECT * FROM a ORDER BY x DESC, k, s LIMIT 2",
        "top_offset": "SELECT * FROM a ORDER BY x, k DESC, s DESC LIMIT 3 OFFSET 1",
        "nulls_first": "SELECT x FROM a ORDER BY x NULLS FIRST LIMIT 2",
    },
    "combinations": {
        "aggregate_of_join": "SELECT a.s, sum(y) AS t FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.s",
        "join_of_aggregates": "SELECT p.k, n, m FROM (SELECT k, count(*) AS n FROM a GROUP BY k) p FULL JOIN (SELECT k, max(y) AS m FROM b GROUP BY k) q ON p.k = q.k",
        "self_join": "SELECT p.x, q.x AS z FROM a p LEFT JOIN a q ON p.k = q.x",
        "shared_cte": "WITH c AS (SELECT k, sum(x) AS t FROM a GROUP BY k) SELECT p.k, q.t FROM c p JOIN c q ON p.k = q.t",
    },
}  # fmt: skip

small = st.one_of(st.none(), st.integers(0, 3))
word = st.one_of(st.none(), st.sampled_from(["", "p", "q"]))
row = st.tuples(small, small, word)
# An operation: a table, a row to add, and, if it is a number, which of the held rows goes instead.
operation = st.tuples(st.sampled_from("ab"), row, st.one_of(st.none(), st.integers(0, 9)))
epochs = st.lists(st.lists(operation, max_size=6), min_size=1, max_size=6)

quick = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)


def deltas(history: list[list[tuple[str, Any, int | None]]]) -> list[dict[str, list[dict[str, Any]]]]:
    """The operations as deltas, one for each epoch, that never remove what is not there."""
    held: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    out = []
    for operations in history:
        delta: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        for table, values, gone in operations:
            rows = held[table]
            if gone is not None and rows:
                delta[table].append({**rows.pop(gone % len(rows)), "_weight": -1})
            else:
                new = dict(zip(("k", "x" if table == "a" else "y", "s"), values, strict=True))
                rows.append(new)
                delta[table].append({**new, "_weight": 1})
        out.append(delta)
    return out


def started(group: str) -> Judge:
    judge = Judge()
    for table in TABLES:
        judge.sql(table)
    for name, query in OPERATORS[group].items():
        judge.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
    return judge


class Bench:
    """A judge that is used for one example after the other: emptied in between, and new after a failure."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.judge: Judge | None = None

    def run(self, history: list[list[tuple[str, Any, int | None]]]) -> None:
        judge, self.judge = self.judge or started(self.group), None
        for number, delta in enumerate(deltas(history)):
            judge.tick(delta)
            judge.check(note=f"epoch {number}")
        everything = {name: _negated(judge.flow.snapshot(name)) for name in ("a", "b")}
        judge.tick(everything)
        judge.check(note="everything is gone again")
        self.judge = judge  # not reached after a failure: the next example starts afresh

    def close(self) -> None:
        if self.judge is not None:
            self.judge.close()


def _negated(table: pa.Table) -> pa.Table:
    return table.append_column("_weight", pa.array([-1] * table.num_rows, pa.int64()))


@pytest.mark.parametrize("group", OPERATORS)
def test_operators_equal_duckdb(group: str, each_hash: str) -> None:
    bench = Bench(group)

    @quick
    @given(history=epochs)
    def holds(history: list[list[tuple[str, Any, int | None]]]) -> None:
        bench.run(history)

    holds()
    bench.close()


class Forms:
    """One flow for each way of ticking, used for one example after the other."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.flows: dict[str, penstock.Flow] = {}

    def final(self, form: str, ticks: list[dict[str, list[dict[str, Any]]]]) -> dict[str, list[Row]]:
        flow = self.flows.pop(form, None) or self.started()
        for delta in ticks:
            flow.tick(delta)
        rows = {name: rows_of(flow.snapshot(f"v_{name}")) for name in OPERATORS[self.group]}
        flow.tick({name: _negated(flow.snapshot(name)) for name in ("a", "b")})
        self.flows[form] = flow
        return rows

    def started(self) -> penstock.Flow:
        flow = penstock.Flow()
        for table in TABLES:
            flow.sql(table)
        for name, query in OPERATORS[self.group].items():
            flow.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        return flow


@pytest.mark.parametrize("group", OPERATORS)
def test_splitting_merging_and_reordering_give_the_same_end(group: str) -> None:
    forms = Forms(group)

    @quick
    @given(history=epochs, seed=st.integers(0, 1_000))
    def holds(history: list[list[tuple[str, Any, int | None]]], seed: int) -> None:
        chance = random.Random(seed)
        plain = deltas(history)
        split = [{table: [change]} for delta in plain for table, rows in delta.items() for change in rows]
        merged = [{t: [change for delta in plain for change in delta[t]] for t in "ab"}]
        shuffled = [{t: chance.sample(rows, len(rows)) for t, rows in delta.items()} for delta in plain]
        wanted = forms.final("plain", plain)
        for form, ticks in (("split", split), ("merged", merged), ("shuffled", shuffled)):
            given = forms.final(form, ticks)
            for name, rows in wanted.items():
                problem = difference(given[name], rows)
                assert not problem, f"{form}, {name}: {problem}"

    holds()
    for flow in forms.flows.values():
        flow.close()
