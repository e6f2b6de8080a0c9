"""A restored catalog: constraints, defaults, plain views and numbers are as they were."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.base.errors import CheckViolation, CorruptState, NotNullViolation, UniqueViolation
from penstock.engine.catalog import Table
from penstock.engine.catalog_codec import encode_catalog, restore_catalog
from penstock.engine.core import Core
from penstock.plan.codec import to_bytes
from rows import rows_of
from tests.circuit.restart import RestartingFlow, twin

DEFAULTS = (
    ("INTEGER", "1 + 1"), ("DECIMAL(30,2)", "12345678901234567890123456.78"), ("DOUBLE", "'nan'"),
    ("DOUBLE", "'-inf'"), ("DOUBLE", "-0.0::DOUBLE"), ("VARCHAR", "'it''s \\ \"ß😀\"'"), ("BLOB", "'\\xAA\\x00'::BLOB"),
    ("HUGEINT", "-12345678901234567890123456789012345678"), ("BOOLEAN", "true"), ("DATE", "'2020-02-29'"),
    ("TIMESTAMPTZ", "'2020-01-01 00:00:00+02'"), ("INTERVAL", "INTERVAL '1 month 2 days 3 us'"),
    ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"), ("JSON", "'{\"a\": [1]}'"), ("DATE[]", "[DATE '2020-01-01', NULL]"),
    ("STRUCT(x INTEGER, y DATE)", "{'x': 1, 'y': DATE '2020-01-01'}"), ("MAP(VARCHAR, DECIMAL(4,1))", "MAP {'a': 1.5}"),
    ("VARCHAR", "NULL"),
)  # fmt: skip


@pytest.fixture
def flow() -> Iterator[RestartingFlow]:
    flow = RestartingFlow()
    yield flow
    flow.close()


def restart(flow: RestartingFlow) -> None:
    flow.next_restart = 0
    flow.restart()


@pytest.mark.parametrize(("kind", "default"), DEFAULTS)
def test_defaults_are_the_same_values(flow: RestartingFlow, kind: str, default: str) -> None:
    flow.sql(f"CREATE TABLE t (a INTEGER, b {kind} DEFAULT {default})")
    flow.tick("t", [{"a": 1}])
    flow.sql("INSERT INTO t (a) VALUES (1)")
    restart(flow)
    flow.tick("t", [{"a": 1}])
    flow.sql("INSERT INTO t (a) VALUES (1)")
    rows = rows_of(flow.snapshot("t"))
    assert len(rows) == 4
    assert len({str(row) for row in rows}) == 1


def test_constraints_and_volatile_defaults_hold(flow: RestartingFlow) -> None:
    flow.sql(
        'CREATE TABLE "we""ird ß" (b TEXT NOT NULL, a INTEGER, c INTEGER DEFAULT 3 CHECK (c > a + 1), '
        "made TIMESTAMP DEFAULT now(), PRIMARY KEY (b, a), CHECK (b <> 'x'))"
    )
    flow.sql("""INSERT INTO "we""ird ß" (b, a) VALUES ('y', 1)""")
    restart(flow)
    table = flow._core.catalog.get('we"ird ß')
    assert isinstance(table, Table)
    assert table.key_node is not None
    assert table.keyed is flow._core.circuit.nodes[table.key_node].owned[0]
    for values, error in (
        ("('y', 1)", UniqueViolation),
        ("(NULL, 1)", NotNullViolation),
        ("('y', 2)", CheckViolation),
        ("('x', 0)", CheckViolation),
    ):
        with pytest.raises(error):
            flow.sql(f"""INSERT INTO "we""ird ß" (b, a) VALUES {values}""")
    before = flow.sql('SELECT max(made) AS at FROM "we""ird ß"').to_pylist()[0]["at"]
    flow.sql("""INSERT INTO "we""ird ß" (b, a) VALUES ('z', 1)""")
    assert flow.sql('SELECT max(made) AS at FROM "we""ird ß"').to_pylist()[0]["at"] > before
    flow.sql("""UPDATE "we""ird ß" SET c = 9 WHERE b = 'z'""")
    assert [r["c"] for r in flow.sql('SELECT c FROM "we""ird ß" ORDER BY c').to_pylist()] == [3, 9]


def test_what_the_binder_knows_of_nulls_plans_the_same(flow: RestartingFlow) -> None:
    """NOT IN over columns that cannot be NULL is planned otherwise: also after a restart."""
    flow.sql("CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (k INTEGER NOT NULL, n INTEGER)")
    flow.register_source("c", pa.schema([pa.field("r", pa.int32(), nullable=False)]), key="r")
    queries = [f"SELECT id FROM a WHERE id NOT IN (SELECT {column} FROM b, c)" for column in ("k", "n", "r")]
    before = [flow._core.binder.plan(q) for q in queries]
    restart(flow)
    assert [flow._core.binder.plan(q) for q in queries] == before
    assert before[0] != before[1]


def test_plain_views_in_any_order_and_with_names(flow: RestartingFlow) -> None:
    flow.sql("CREATE TABLE t (x INTEGER, y INTEGER)")
    flow.sql("CREATE VIEW one (p) AS SELECT x, y FROM t -- the rest keeps its name\n")
    flow.sql("CREATE VIEW two AS SELECT p + 1 AS q, y FROM one")
    flow.sql("CREATE MATERIALIZED VIEW m (s) AS SELECT sum(q) FROM two")
    flow.sql("CREATE VIEW three AS SELECT s FROM m")
    relations = flow._core.catalog._relations
    flow._core.catalog._relations = {k: relations[k] for k in ("three", "two", "one", "m", "t")}
    restart(flow)
    assert list(flow._core.catalog._relations) == ["three", "two", "one", "m", "t"]
    flow.sql("INSERT INTO t VALUES (1, 2)")
    assert flow.sql("SELECT * FROM one").column_names == ["p", "y"]
    assert flow.sql("SELECT * FROM three").to_pylist() == [{"s": 2}]
    assert flow.sql("DESCRIBE two").num_rows == 2
    with pytest.raises(penstock.PenstockError, match="depend on it"):
        flow.sql("DROP VIEW one")
    flow.sql("DROP TABLE t CASCADE")
    assert not list(flow._core.catalog)
    assert not flow._core.circuit.nodes


def test_numbers_are_never_given_twice(flow: RestartingFlow) -> None:
    seen: list[int] = []
    nodes: list[int] = []
    for _ in range(3):
        flow.sql("CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE VIEW w AS SELECT id FROM t")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        seen += [r.id for r in flow._core.catalog]
        nodes += list(flow._core.circuit.nodes)
        restart(flow)
        flow.sql("DROP TABLE t CASCADE")
        restart(flow)
    assert len(seen) == len(set(seen)) == 9
    assert len(nodes) == len(set(nodes))


def test_constants_that_python_takes_for_the_same(flow: RestartingFlow) -> None:
    flow.sql("CREATE TABLE t (x DOUBLE)")
    for i, text in enumerate(
        ("'nan'::DOUBLE", "'nan'::DOUBLE", "'inf'::DOUBLE", "0.0::DOUBLE", "1.0::DOUBLE", "1")
    ):
        flow.sql(
            f"CREATE MATERIALIZED VIEW v{i} AS SELECT x, {text} AS c FROM t WHERE x IS DISTINCT FROM {text}"
        )
    copy = penstock.Flow()
    restore_catalog(copy._core, encode_catalog(flow._core))
    copy.tick("t", [{"x": 5.0}])
    found = [copy.snapshot(f"v{i}").to_pylist()[0]["c"] for i in range(6)]
    assert math.isnan(found[0])
    assert math.isnan(found[1])
    assert found[2:] == [math.inf, 0.0, 1.0, 1]
    assert type(found[5]) is int
    copy.close()


def test_the_same_flow_gives_the_same_bytes() -> None:
    def made() -> bytes:
        flow = penstock.Flow()
        flow.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, g TEXT)")
        flow.sql("CREATE VIEW w AS SELECT a.g, b.id FROM t a, t b")
        flow.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT a.g, count(*) AS n FROM t a JOIN w USING (id) GROUP BY a.g"
        )
        data = to_bytes(encode_catalog(flow._core))
        flow.close()
        return data

    assert made() == made()


def test_damage_is_an_error_of_ours() -> None:
    flow = penstock.Flow()
    flow.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, g TEXT)")
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t WHERE g > 'a' GROUP BY g")
    whole = encode_catalog(flow._core)

    def refused(change: Any, message: str) -> None:
        damaged = json.loads(to_bytes(whole))
        change(damaged)
        core = Core()
        with pytest.raises(CorruptState, match=message):
            restore_catalog(core, damaged)
        core.close()

    refused(lambda j: j.update(format=2), "format 2")
    refused(lambda j: j.pop("circuit"), "circuit")
    refused(lambda j: j["records"][0].update(is_="x"), "fields")
    refused(lambda j: j["records"][0].update({"is": "os.system"}), "unknown class")
    refused(lambda j: j["relations"][0].update(kind="index"), "unknown kind")
    refused(lambda j: j["relations"][0].pop("key"), "fields")
    refused(lambda j: j["circuit"]["nodes"].pop(0), "not before it")
    refused(lambda j: j["circuit"]["nodes"][1].update(operator=["Popen", [], {}]), "unknown class")
    with pytest.raises(penstock.PenstockError, match="new flow"):
        restore_catalog(flow._core, whole)
    flow.close()


def test_a_twin_does_not_touch_the_first() -> None:
    flow = penstock.Flow()
    flow.sql(
        "CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t"
    )
    other = twin(flow)
    other.tick("t", [{"id": 1}])
    assert (flow.snapshot("v").to_pylist(), other.snapshot("v").to_pylist()) == ([{"n": 0}], [{"n": 1}])
    flow.close()
    other.close()
