"""`penstock start --demo`: the shop behind a server, at a gentle rate, also where it has been before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from penstock import Flow
from penstock.base.errors import PenstockError
from penstock.demo.live import QUERIES, Stream, prepare, streaming
from penstock.demo.run import Run
from penstock.demo.shop import VIEWS
from penstock.demo.summary import summary_lines


def applied(stream: Stream, count: int) -> None:
    while stream.applied + stream.left_out < count:
        time.sleep(0.01)


def test_the_shop_goes_on_where_it_was(tmp_path: Path) -> None:
    with Flow(tmp_path / "f", commit="visible") as flow:
        with streaming(flow, 500) as stream:
            applied(stream, 30)
        assert stream.left_out == 0
        orders = flow.sql("SELECT count(*) AS n, max(id) AS last FROM orders").to_pylist()
    with Flow(tmp_path / "f", commit="visible") as flow:
        shop = prepare(flow)
        assert len(shop.orders) == orders[0]["n"]
        assert max(shop.orders) == orders[0]["last"]
        stream = Stream(flow, shop, 500)
        changes = stream._flow.epoch
        with streaming(flow, 500) as stream:
            applied(stream, 30)
        assert (stream.left_out, flow.epoch >= changes + 30) == (0, True)
        assert [check.name for check in flow.verify() if not check.equal] == []


def test_others_may_change_the_shop_meanwhile() -> None:
    with Flow() as flow:
        with streaming(flow, 500) as stream:
            for query in QUERIES:
                flow.sql(query)
            flow.sql("DELETE FROM orders; DELETE FROM order_lines WHERE order_id % 2 = 0")
            applied(stream, stream.applied + stream.left_out + 50)
        assert stream.left_out > 0  # what the stream wanted to ship or cancel is gone
        assert stream.applied > 0
        assert [check.name for check in flow.verify() if not check.equal] == []


def test_tables_that_are_no_shop_are_refused() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE orders (other TEXT)")
        with pytest.raises(PenstockError):
            prepare(flow)


def test_the_server_with_a_demo_ends_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "start", "--demo", "--demo-rate", "200"]
    command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
    ) as process:
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline().rstrip() for _ in range(5 + len(QUERIES))]
            assert lines[3].startswith("  curl http://127.0.0.1:")
            with psycopg.connect(lines[2].split()[-1], autocommit=True) as connection:
                while connection.execute("SELECT max(epoch) > 5 FROM penstock.epochs").fetchone() != (True,):
                    time.sleep(0.01)
                for line in lines[5:]:
                    connection.execute(line.strip().removesuffix(";").encode())
                found = connection.execute("SELECT view, target_s FROM penstock.freshness").fetchall()
                assert sorted(found) == sorted((name, 1.0) for name in VIEWS)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, "Traceback" in err) == (0, False), err


def test_the_demo_ends_with_the_line_to_use() -> None:
    lines = [line for line, _ in summary_lines(Run(1.0))]
    assert lines[-2].endswith(" start --demo")
    assert lines[-1].endswith("psql -h 127.0.0.1 -p 6875 -U penstock penstock")
