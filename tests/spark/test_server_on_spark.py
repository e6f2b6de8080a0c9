"""`penstock start --engine spark`: the server's epochs run on Spark, and those of its clients are the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

START = (sys.executable, "-m", "penstock", "start", "--listen", "127.0.0.1:0")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_a_server_with_an_engine(spark_ready: None, tmp_path: Path, engine: str) -> None:
    command = [*START, "--storage", str(tmp_path / "flow"), "--engine", engine]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        found = next(f for line in server.stdout if (f := re.search(r"postgresql://\S+", line)))
        with psycopg.connect(found[0], autocommit=True) as connection:
            connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
            connection.execute("CREATE MATERIALIZED VIEW s AS SELECT sum(v)::BIGINT AS total FROM t")
            connection.execute("INSERT INTO t SELECT range, range FROM range(100)")
            connection.execute("UPDATE t SET v = 0 WHERE k = 99")
            assert connection.execute("SELECT total FROM s").fetchone() == (4851,)
            ran = connection.execute(
                "SELECT DISTINCT engine FROM penstock.epochs WHERE rows_in > 0"
            ).fetchall()
            assert ran == [
                ("spark" if engine == "spark" else "inline",)
            ]  # auto: so few rows are not worth a job
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert server.returncode == 0
