"""The life of the PostgreSQL behind the catalog: begun when it is needed, begun again, and never left behind."""

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
from penstock.gateway.catalog import classify, private
from penstock.gateway.catalog.connection import ConnectionLost
from penstock.gateway.catalog.query import private_postgres


def test_nothing_is_started_before_it_is_needed_and_nothing_is_left(flow: Flow) -> None:
    asked = private_postgres(flow)
    assert asked._keeper is None
    with asked.connection("penstock") as connection:
        assert connection.values("SELECT count(*) FROM pg_namespace WHERE nspname = 'public'") == [["1"]]
    folder, keeper = asked._folder, asked._keeper
    assert folder is not None
    assert keeper is not None
    assert folder.stat().st_mode & 0o077 == 0, "its folder is for nobody else"
    assert [path.name for path in folder.iterdir() if path.is_socket()] == [".s.PGSQL.5432"]
    asked.close()
    assert not folder.exists()
    assert keeper.poll() is not None


def test_it_is_started_again_when_it_has_died(flow: Flow, connection: psycopg.Connection) -> None:
    assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'public'").fetchone() == (1,)
    asked = private_postgres(flow)
    try:
        with asked.connection("penstock"):
            keeper = asked._keeper
            assert keeper is not None
            assert asked._folder is not None
            postmaster = int((asked._folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
        keeper.wait()
        with asked.connection("penstock") as found:
            assert found.values("SELECT 1") == [["1"]]
    finally:
        asked.close()


def test_a_connection_that_is_lost_takes_no_other_with_it(flow: Flow) -> None:
    asked = private_postgres(flow)
    try:
        with asked.connection("penstock") as waiting:
            assert waiting.values("SELECT 1") == [["1"]]
        keeper = asked._keeper
        os.kill(waiting._process[0], signal.SIGTERM)
        with pytest.raises(ConnectionLost), asked.connection("penstock") as lost:
            lost.values("SELECT 1")
        assert asked._keeper is keeper  # it is not ended for that
        with asked.connection("penstock") as another:
            assert another.values("SELECT 1") == [["1"]]
    finally:
        asked.close()


def test_without_the_extra_it_says_what_to_install(
    flow: Flow, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.sql("CREATE TABLE t (a BIGINT)")
    monkeypatch.setattr(private, "find_spec", lambda name: None)
    with pytest.raises(psycopg.Error, match="not installed") as missing:
        connection.execute("SELECT * FROM pg_class")
    assert "penstock[server]" in str(missing.value.diag.message_hint)

    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(classify, "import_module", absent)
    with pytest.raises(psycopg.Error, match="not installed") as missing:
        connection.execute("SELECT * FROM information_schema.tables")
    assert missing.value.sqlstate == "58000"
    assert connection.execute("SELECT pg_typeof(a)::text FROM t").fetchall() == []


@pytest.mark.slow
def test_it_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from penstock import Flow; from penstock.gateway.catalog.query import private_postgres\n"
        "asked = private_postgres(Flow())\n"
        "with asked.connection('penstock'): print(asked._folder, flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert folder.exists()
    process.kill()
    process.communicate()
    while folder.exists():  # a test that never ends is one that fails
        time.sleep(0.02)
