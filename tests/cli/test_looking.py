"""penstock audit tail, explain and support bundle: from storage, and from a server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Flow
from penstock.gateway.background import serving
from penstock.gateway.observer import observing

SECRET = "zq-rows-stay-at-home-zq"


@pytest.fixture
def server() -> Iterator[str]:
    with Flow() as flow:
        flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount BIGINT)")
        flow.sql("CREATE TABLE customers (name TEXT PRIMARY KEY, region TEXT)")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals WITH (freshness = '1 s') AS SELECT region, sum(amount) AS total "
            "FROM orders JOIN customers ON customer = name GROUP BY region"
        )
        flow.tick("customers", [{"name": f"{SECRET}{i}", "region": f"r{i % 3}"} for i in range(10)])
        flow.tick("orders", [{"id": i, "customer": f"{SECRET}{i % 10}", "amount": i} for i in range(1_000)])
        with serving(flow) as url:
            yield url


# -- audit tail ------------------------------------------------------------------------------------


def test_audit_tail_of_storage(folder: Path, penstock: Callable[..., Any]) -> None:
    ran = penstock("audit", "tail", folder)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split()[6] for line in lines] == ["opened", "create", "create", "create", "closed"]
    assert 'kind="materialized view"  name="totals"' in lines[2]
    assert penstock("audit", "tail", folder, "-n", 2).out.splitlines() == lines[-2:]
    assert penstock("audit", "tail", folder, "-n", 0).out == ""
    (last,) = penstock("audit", "tail", folder, "-n", 1, "--json").out.splitlines()
    assert json.loads(last)["event"] == "closed"


def test_audit_tail_of_a_server(server: str, penstock: Callable[..., Any]) -> None:
    penstock("sql", server, "-c", "CREATE TABLE made (id BIGINT)")
    ran = penstock("audit", "tail", server, "-n", 1)
    assert (ran.code, ran.err) == (0, "")
    assert 'create by penstock (session 1)  kind="table"  name="made"' in ran.out


def test_audit_tail_follows(server: str, penstock: Callable[..., Any]) -> None:
    command = [sys.executable, "-m", "penstock", "audit", "tail", server, "-n", "0", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            made, line = 0, ""
            while "name" not in line:
                made += 1  # it may not be listening yet: until it says something
                penstock("sql", server, "-c", f"CREATE TABLE made{made} (id BIGINT)")
                time.sleep(0.3)
                os.set_blocking(process.stdout.fileno(), False)
                line = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()
    assert (process.returncode, "create by penstock" in line) == (130, True)


def test_audit_of_what_is_not_there(tmp_path: Path, penstock: Callable[..., Any]) -> None:
    assert penstock("audit", "tail", tmp_path / "nothing").code == 2
    assert penstock("audit", "tail", "postgresql://penstock@127.0.0.1:1/x").code == 3
    assert penstock("audit", "tail", tmp_path, "-n", -1).code == 2
    assert not list(tmp_path.iterdir())


# -- explain ---------------------------------------------------------------------------------------


def test_explain_of_storage(folder: Path, penstock: Callable[..., Any]) -> None:
    with Flow(folder) as flow:  # a writer is not disturbed
        wanted = flow.explain("totals")
        ran = penstock("explain", "totals", "--storage", folder)
        assert (ran.code, ran.err) == (0, "")
        without_state = [line.split(" | ")[0] for line in wanted.splitlines()]
        assert [line.split(" | ")[0] for line in ran.out.splitlines()][:-1] == without_state[:-1]
        ran = penstock("explain", "totals", "--storage", folder, "--estimate")
        assert "orders: 9,990 rows, 50 tried" in ran.out
        assert "the view changes by 2 (p50), 2 (most)" in ran.out
        flow.tick("orders", [{"id": 50_000, "customer": "x", "amount": 1}])
    assert penstock("explain", "large", "--storage", folder).code == 2
    assert penstock("explain", "nope", "--storage", folder).code == 2
    assert penstock("explain", "totals", str(folder)).code == 2


def test_explain_of_a_server(server: str, penstock: Callable[..., Any]) -> None:
    ran = penstock("explain", "totals", server)
    assert (ran.code, ran.err) == (0, "")
    assert "look_up" in ran.out
    assert "freshness: 1 seconds" in ran.out
    ran = penstock("explain", "totals", server, "--estimate")
    lines = ran.out.splitlines()
    orders = next(line for line in lines if line.startswith("  orders: "))
    customers = next(line for line in lines if line.startswith("  customers: "))
    assert "1,000 rows, 50 tried" in orders
    assert "10 rows, 10 tried" in customers
    # A customer has a hundred orders, which all leave the join with it; an order has one customer.
    given = [int(re.findall(r"operators give (\d+) rows", line)[0]) for line in (orders, customers)]
    assert given[0] < 10
    assert given[1] > 100
    assert "the view changes by 2 (p50), 2 (most)" in orders
    assert SECRET not in ran.out
    assert penstock("explain", "nope", server).code == 3


def test_an_estimate_changes_nothing() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (v TEXT, n BIGINT)")
        flow.sql("CREATE TABLE none (v TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW m AS SELECT v, max(n) AS n FROM t GROUP BY v HAVING count(*) > 1")
        flow.sql("CREATE MATERIALIZED VIEW joined AS SELECT t.v FROM t JOIN none USING (v)")
        flow.sql("INSERT INTO t VALUES ('a', 1), ('a', 2), ('b', 3)")
        flow.sql("DELETE FROM t WHERE n = 3")

        def state() -> object:
            pieces = [(piece.name, piece.rows) for piece in flow.state()]
            return flow.sql("SELECT * FROM m").to_pylist(), flow.epoch, pieces

        before = state()
        text = flow.explain("m", estimate=True)
        assert "t: " in text
        assert "2 tried" in text
        assert "none: 0 rows, none to try" in flow.explain("joined", estimate=True)
        assert before == state()
        assert [c for c in flow.verify() if not c.equal] == []
        lines = flow.sql("EXPLAIN INCREMENTAL (ESTIMATE) m").to_pylist()
        assert lines[0]["explain"].startswith("what the removal of one row costs")


# -- support bundle --------------------------------------------------------------------------------


def read(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_bundle_has_everything_but_rows(
    tmp_path: Path, server: str, penstock: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    place = tmp_path / "flow"
    with Flow(place) as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
        flow.sql('CREATE MATERIALIZED VIEW "a/b" AS SELECT v, max(id) AS m FROM t GROUP BY v')
        flow.tick("t", [{"id": i, "v": f"{SECRET}{i}"} for i in range(5_000)])
        flow.tick("t", [{"id": -1, "v": SECRET}])
        with observing("127.0.0.1", 0) as (observer, host, port):
            observer.flow = flow
            ran = penstock(
                "support", "bundle", "--storage", place, "--server", server,
                "--metrics", f"http://{host}:{port}/metrics", "-o", tmp_path / "b.zip",
            )  # fmt: skip
    assert ran.code == 0, ran.err
    parts = read(tmp_path / "b.zip")
    assert set(parts) >= {
        "CONTENTS.txt", "versions.json", "environment.json", "limits.json", "storage.json", "catalog.json",
        "manifest.json", "audit_log.json", "metrics.txt", "explain/000-a_b.txt", "server/freshness.json",
        "server/sessions.json", "server/audit_log.json", "server/explain/000-totals.txt",
    }  # fmt: skip
    for name, text in parts.items():
        assert SECRET not in text, name
        assert name == "CONTENTS.txt" or f"  {name}\n" in parts["CONTENTS.txt"]
    assert "AWS_SECRET_ACCESS_KEY" in parts["environment.json"]
    assert [r["name"] for r in json.loads(parts["catalog.json"])] == ["t", "a/b"]
    assert json.loads(parts["versions.json"])["penstock"]
    assert json.loads(parts["limits.json"])["ESTIMATE_ROWS"] == 50
    assert "penstock_epoch 2" in parts["metrics.txt"]
    assert ran.out.startswith("A support bundle")


def test_a_bundle_is_not_overwritten_and_says_what_is_wrong(
    tmp_path: Path, penstock: Callable[..., Any]
) -> None:
    out = tmp_path / "b.zip"
    assert penstock("support", "bundle", "-o", out).code == 0
    assert "catalog.json" not in read(out)
    assert penstock("support", "bundle", "-o", out).code == 2
    other = tmp_path / "c.zip"
    assert penstock("support", "bundle", "-o", other, "--storage", tmp_path / "none").code == 2
    assert penstock("support", "bundle", "-o", other, "--server", "./x").code == 2
    assert penstock("support", "bundle", "-o", other, "--metrics", "http://127.0.0.1:1/metrics").code == 3
    assert penstock("support", "bundle", "-o", other, "--metrics", "file:///etc/passwd").code == 2
    assert not other.exists()
