"""The schema penstock: what a flow knows of itself, by SELECT."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import penstock
from penstock import Flow, Session
from penstock.engine.system import RELATIONS


@pytest.fixture
def flow() -> Flow:
    flow = Flow()
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount BIGINT)")
    flow.sql("CREATE TABLE notes (text TEXT)")
    flow.sql(
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS s FROM orders GROUP BY customer"
    )
    flow.sql("CREATE VIEW plain AS SELECT * FROM totals")
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 3)")
    return flow


def both(flow: Flow) -> list[Flow | Session]:
    """The flow's own session, and one that reads by itself."""
    return [flow, flow.session()]


@pytest.mark.parametrize("relation", [r.name for r in RELATIONS])
def test_each_has_the_columns_that_it_announces(flow: Flow, relation: str) -> None:
    announced = next(r.columns for r in RELATIONS if r.name == relation)
    for reader in both(flow):
        described = reader.sql(f"DESCRIBE penstock.{relation}").to_pylist()
        assert [(d["column_name"], d["column_type"]) for d in described] == list(announced)
        assert reader.sql(f"SELECT * FROM penstock.{relation}").column_names == [n for n, _ in announced]
    flow.close()


def test_what_they_say(flow: Flow) -> None:
    for reader in both(flow):
        views = reader.sql("SELECT name, kind, depends_on, stored_rows FROM penstock.views ORDER BY name")
        assert [tuple(r.values()) for r in views.to_pylist()] == [
            ("plain", "view", ["totals"], None),
            ("totals", "materialized view", ["orders"], 2),
        ]
        tables = reader.sql("SELECT name, primary_key, stored_rows FROM penstock.tables ORDER BY name")
        assert [tuple(r.values()) for r in tables.to_pylist()] == [("notes", [], 0), ("orders", ["id"], 2)]
        laws = reader.sql("SELECT law FROM penstock.laws WHERE operator = 'aggregate'").to_pylist()
        assert laws == [{"law": "accumulator_sum v1"}]
        epochs = reader.sql(
            "SELECT epoch, rows_in, rows_out, engine, durable FROM penstock.epochs"
        ).to_pylist()
        assert [tuple(r.values()) for r in epochs] == [(1, 2, 2, "inline", None)]
        events = reader.sql("SELECT event FROM penstock.audit_log ORDER BY number").to_pylist()
        assert [e["event"] for e in events] == ["opened", *["create"] * 4]
    flow.close()


def test_they_can_be_joined_with_each_other_and_with_tables(flow: Flow) -> None:
    for reader in both(flow):
        answer = reader.sql(
            "SELECT v.name, l.operator, a.rows, b.place FROM penstock.views v JOIN penstock.laws l ON l.view = v.name "
            "JOIN penstock.arrangements a USING (node) JOIN penstock.batches b USING (slot) WHERE v.name = 'totals'"
        )
        assert [tuple(r.values()) for r in answer.to_pylist()] == [("totals", "aggregate", 2, "memory")]
        counted = reader.sql(
            "SELECT (SELECT count(*) FROM orders) = t.stored_rows AS ok FROM penstock.tables t WHERE name = 'orders'"
        )
        assert counted.to_pylist() == [{"ok": True}]
        through = reader.sql("WITH views AS (SELECT 1 AS one) SELECT one FROM views").to_pylist()
        assert through == [{"one": 1}]
    flow.close()


def test_a_plain_view_over_them_is_fine_and_a_materialized_one_is_refused(flow: Flow) -> None:
    flow.sql("CREATE VIEW late AS SELECT view FROM penstock.freshness WHERE lag_s >= 0")
    for reader in both(flow):
        assert reader.sql("SELECT * FROM late").to_pylist() == [{"view": "totals"}]
        for query in ("SELECT * FROM penstock.views", "SELECT * FROM late"):
            with pytest.raises(penstock.NotMaintainable, match=r"penstock\.\w+ tells of the flow itself"):
                reader.sql(f"CREATE MATERIALIZED VIEW copy AS {query}")
        with pytest.raises(penstock.UndefinedTable, match="nope"):
            reader.sql("SELECT * FROM penstock.nope")
        for change in ("INSERT INTO penstock.views VALUES (1)", "DROP TABLE penstock.views"):
            with pytest.raises(penstock.SqlSyntaxError, match="can only be read"):
                reader.sql(change)
    flow.sql("CREATE TABLE kept AS SELECT name FROM penstock.tables")
    assert flow.sql("SELECT count(*) AS n FROM kept").to_pylist() == [{"n": 2}]
    flow.close()


def test_tables_of_the_same_names_are_others(flow: Flow) -> None:
    for name in ("views", "tables", "sessions"):
        flow.sql("SELECT * FROM penstock.views")
        flow.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY)")
        flow.sql(f"INSERT INTO {name} VALUES (7)")
        for reader in both(flow):
            assert reader.sql(f"SELECT * FROM {name}").to_pylist() == [{"id": 7}]
            assert "id" in reader.sql(f"SELECT * FROM penstock.{name}").column_names
            mixed = reader.sql(
                f"SELECT count(*) AS n FROM penstock.{name} p, {name} o WHERE p.id <> o.id OR TRUE"
            )
            assert mixed.to_pylist()[0]["n"] >= 1
        flow.sql(f"DROP TABLE {name}")
    flow.close()


def test_a_view_over_them_comes_back_from_storage(tmp_path: Path) -> None:
    with Flow(tmp_path / "f") as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        flow.sql("CREATE VIEW pieces AS SELECT a.name FROM penstock.arrangements a")
        flow.sql("INSERT INTO t VALUES (1)")
        assert flow.sql("SELECT durable FROM penstock.epochs").to_pylist() == [{"durable": True}]
    with Flow(tmp_path / "f") as flow:
        assert flow.sql("SELECT * FROM pieces").to_pylist() == [{"name": "table t"}]
        places = flow.sql("SELECT DISTINCT place FROM penstock.batches").to_pylist()
        assert places == [{"place": "chunk"}]
        with Flow(tmp_path / "f", read_only=True) as reader:
            assert reader.sql("SELECT * FROM pieces").to_pylist() == [{"name": "table t"}]
            assert reader.sql("SELECT event FROM penstock.audit_log LIMIT 1").to_pylist() == [
                {"event": "opened"}
            ]


def test_sessions_say_what_they_do(flow: Flow) -> None:
    first, second = flow.session(), flow.session()
    second.sql("BEGIN; INSERT INTO notes VALUES ('x')")
    rows = first.sql(
        "SELECT id, state, statement, changed_tables FROM penstock.sessions WHERE id IS NOT NULL"
    )
    assert [tuple(r.values()) for r in rows.to_pylist()] == [
        (1, "active", "query", None),
        (2, "idle in transaction", None, ["notes"]),
    ]
    second.close()
    assert first.sql("SELECT count(*) AS n FROM penstock.sessions").to_pylist() == [{"n": 2}]
    flow.close()


def test_a_busy_flow_can_be_asked_how_it_is(flow: Flow) -> None:
    session = flow.session()
    done: list[object] = []

    def ask() -> None:
        done.append(
            session.sql("SELECT view FROM penstock.freshness JOIN penstock.sessions ON true").num_rows
        )

    with flow._lock:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(30)
        assert done == [2]
    flow.close()


def test_only_queries_over_nothing_else_do_without_the_lock(flow: Flow) -> None:
    readers = flow.session()._readers
    assert readers is not None
    reader = readers.take()
    free = (
        "SELECT f.view FROM penstock.freshness f JOIN penstock.epochs e ON true WHERE f.view IN (SELECT 'x')"
    )
    assert sorted(r.name for r in reader.at_any_time(free) or ()) == ["epochs", "freshness"]
    for sql in (
        "SELECT 1",
        "SELECT * FROM penstock.views",  # it has to be of one epoch
        "SELECT * FROM penstock.freshness, orders",
        "SELECT * FROM penstock.freshness, freshness",
        "SELECT * FROM penstock.freshness WHERE view IN (SELECT customer FROM orders)",
        "SELECT * FROM penstock.freshness, query('FROM orders')",
        "SELECT * FROM penstock.nope",
        "not SQL at all, penstock.freshness",
    ):
        assert reader.at_any_time(sql) is None, sql
    flow.close()


def test_a_role_without_rights(flow: Flow) -> None:
    """It may see how the flow is, and by no way around it the rows of tables that it may not read."""
    flow.sql("CREATE ROLE bob LOGIN")
    bob = flow.session(role="bob")
    assert bob.sql("SELECT view FROM penstock.freshness").to_pylist() == [{"view": "totals"}]
    for statement in (
        "SELECT * FROM penstock.freshness, orders",
        "SELECT * FROM penstock.freshness WHERE view IN (SELECT customer FROM orders)",
        "SELECT * FROM penstock.freshness, query('FROM orders')",
        'SELECT * FROM penstock.freshness, "penstock rows of orders"',
        "SELECT * FROM penstock.views, orders",
        "EXPLAIN INCREMENTAL (ESTIMATE) totals",
        "ALTER SYSTEM PAUSE",
        "ALTER MATERIALIZED VIEW totals SET (freshness = '1 s')",
    ):
        with pytest.raises(penstock.PenstockError) as caught:
            bob.sql(statement)
        assert caught.value.sqlstate == "42501", statement
    assert flow.sql("SELECT event FROM penstock.audit_log WHERE actor = 'bob'").num_rows == 0
    flow.sql("GRANT CREATE, USAGE ON SCHEMA public TO bob")
    bob.sql(
        "CREATE TABLE own (id BIGINT PRIMARY KEY); CREATE MATERIALIZED VIEW mine AS SELECT count(*) AS n FROM own"
    )
    bob.sql("ALTER MATERIALIZED VIEW mine SET (freshness = '1 s')")
    events = flow.sql("SELECT event FROM penstock.audit_log WHERE actor = 'bob' ORDER BY number").to_pylist()
    assert [e["event"] for e in events] == ["create", "create", "alter"]
    assert flow.sql("SELECT count(*) AS n FROM penstock.audit_log WHERE event = 'role'").to_pylist() == [
        {"n": 2}
    ]
    flow.close()


def test_a_flow_that_has_stopped_still_tells_why(flow: Flow) -> None:
    session = flow.session()
    flow._core._commit_tables = lambda _: (_ for _ in ()).throw(OSError("no more"))  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no more"):
        session.sql("INSERT INTO notes VALUES ('x')")
    with pytest.raises(penstock.StateBroken):
        session.sql("SELECT * FROM notes")
    assert session.sql("SELECT degraded_reason FROM penstock.freshness").to_pylist() == [
        {"degraded_reason": "BLOCKED"}
    ]
    last = session.sql(
        "SELECT event, detail ->> 'error' AS e FROM penstock.audit_log ORDER BY number DESC LIMIT 1"
    )
    assert last.to_pylist() == [{"event": "stopped", "e": "no more"}]
    flow.close()
    with pytest.raises(penstock.FlowClosed):
        session.sql("SELECT * FROM penstock.freshness")
