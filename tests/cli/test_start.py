"""penstock start and penstock sql, as processes and in this one."""

from __future__ import annotations

import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.certificate import make_certificate


@contextmanager
def started(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its URL."""
    command = [sys.executable, "-m", "penstock", "start", "--listen", "127.0.0.1:0", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        where = "0.0.0.0" if "0.0.0.0:0" in arguments else "127.0.0.1"
        assert f"listens on {where}" in lines[0], lines
        yield process, lines[2].split()[-1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_start_and_end(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "init.sql"
    script.write_text(
        "CREATE TABLE IF NOT EXISTS t (a INT);\nCREATE OR REPLACE VIEW v AS SELECT count(*) AS n FROM t;\n"
    )
    for rows in (1, 2):  # what was committed is there again
        with started("--storage", tmp_path / "flow", "--init", script) as (process, url):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("INSERT INTO t VALUES (1)")
                assert connection.execute("SELECT n FROM v").fetchone() == (rows,)
                process.send_signal(number)
                _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        assert "Traceback" not in err


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with started("--storage", tmp_path / "flow") as (process, url):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a INT)")
            connection.execute("INSERT INTO t VALUES (1)")
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    with started("--storage", tmp_path / "flow") as (_, url), psycopg.connect(url) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_roles_and_the_shell(tmp_path: Path, penstock: Callable[..., Any]) -> None:
    roles = tmp_path / "roles"
    roles.write_text("# who may connect\nann:secret\n")
    with started("--roles", roles) as (_, url):
        assert "ann@" in url
        url = url.replace("ann@", "ann:secret@")
        ran = penstock(
            "sql", url, "-c", "CREATE TABLE t (a INT, b TEXT)", "-c", "INSERT INTO t VALUES (1, 'x'); TABLE t"
        )
        assert (ran.code, ran.out) == (0, "a  b\n1  x\n")
        assert "INSERT 0 1" in ran.err
        ran = penstock("sql", url, "-c", "SELECT nope FROM t")
        assert (ran.code, ran.out) == (3, "")
        assert "42703" in ran.err
        ran = penstock("sql", url, "-c", "COPY t TO STDOUT")
        assert ran.out == "1\tx\n"
        ran = penstock("sql", url.replace("secret", "wrong"), "-c", "SELECT 1")
        assert ran.code == 3
        assert "password" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "0.0.0.0:0"], "can be reached from other machines"),
        (["--listen", "nowhere"], "not HOST:PORT"),
        (["--require-tls"], "needs a certificate"),
        (["--tls-cert", "nowhere.pem"], "go together"),
        (["--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"], "cannot be read"),
        (["--roles", "nowhere"], "cannot be read"),
        (["--init", "nowhere.sql"], "cannot be read"),
        (["--storage-option", "region=x"], "no storage"),
        (["--read-only"], "follows a flow on storage"),
    ],
)
def test_wrong_use(penstock: Callable[..., Any], arguments: list[str], message: str) -> None:
    ran = penstock("start", *arguments)
    assert ran.code == 2
    assert message in ran.err


def test_a_wrong_script_says_where(penstock: Callable[..., Any], tmp_path: Path) -> None:
    script = tmp_path / "init.sql"
    script.write_text("CREATE TABLE t (a INT);\n\nSELEC 1;\n")
    ran = penstock("start", "--listen", "127.0.0.1:0", "--init", script)
    assert ran.code == 2
    assert "line 3" in ran.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE TABLE a(x int); SELECT 1;\n-- c\nCREATE TABLE b (y nosuch);", "line 3: type nosuch"),
        ("CREATE TABLE a(x int); SELECT 1;\n-- c\nCREATE TABLE b (\n  y nosuch);", "line 4: type nosuch"),
        (
            "CREATE TABLE a(x int);\n\n/* again\n*/\nCREATE TABLE a (\nx int);",
            'line 5: table "a" exists already',
        ),
        ("CREATE TABLE a(x int);\nDROP TABLE a;\nDELETE FROM a", 'line 3: table or view "a"'),
        ("CREATE TABLE a(x int);\nSELECT 1;\nINSERT INTO a VALUES (1) SELECT", "line 3: "),
    ],
)
def test_an_error_in_a_script_tells_its_line(
    penstock: Callable[..., Any], tmp_path: Path, text: str, told: str
) -> None:
    script = tmp_path / "init.sql"
    script.write_text(text)
    ran = penstock("start", "--listen", "127.0.0.1:0", "--init", script)
    assert ran.code == 2
    assert f"{script}, {told}" in ran.err


def test_a_port_that_is_taken(penstock: Callable[..., Any]) -> None:
    with started() as (_, url):
        port = url.rsplit(":", 1)[1].split("/")[0]
        ran = penstock("start", "--listen", f"127.0.0.1:{port}")
        assert ran.code == 2
        assert "cannot listen" in ran.err


def test_a_socket_in_a_folder(tmp_path: Path, penstock: Callable[..., Any]) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="s"))  # tmp_path may be too long for a socket
    try:
        with started("--socket", folder) as (process, url):
            port = url.rsplit(":", 1)[1].split("/")[0]
            path = folder / f".s.PGSQL.{port}"
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            with psycopg.connect(host=str(folder), port=int(port), user="penstock") as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
                found = connection.execute(
                    "SELECT client_addr FROM pg_stat_activity WHERE pid = pg_backend_pid()"
                )
                assert found.fetchone() == (None,)
            process.kill()
            process.wait()
        assert path.exists()  # left over, and replaced by the next server with this port
        with started("--listen", f"127.0.0.1:{port}", "--socket", folder) as (process, _):
            with psycopg.connect(host=str(folder), port=int(port), user="penstock") as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
            ran = penstock("start", "--listen", f"127.0.0.2:{port}", "--socket", folder)
            assert ran.code == 2
            assert f"cannot listen on {path}" in ran.err
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        assert not path.exists()
        path.write_text("mine")
        ran = penstock("start", "--listen", f"127.0.0.1:{port}", "--socket", folder)
        assert ran.code == 2
        assert path.read_text() == "mine"
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("folder", "message"),
    [("nowhere", "No such file"), ("x" * 120, "at most"), (os.devnull, "Not a directory")],
)
def test_a_socket_that_cannot_be(penstock: Callable[..., Any], folder: str, message: str) -> None:
    ran = penstock("start", "--listen", "127.0.0.1:0", "--socket", folder)
    assert ran.code == 2
    assert message in ran.err


def test_passwords_hold_for_a_socket_in_a_folder(tmp_path: Path) -> None:
    roles = tmp_path / "roles"
    roles.write_text("ann:secret\n")
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="s"))
    try:
        with started("--roles", roles, "--socket", folder) as (_, url):
            port = int(url.rsplit(":", 1)[1].split("/")[0])
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(host=str(folder), port=port, user="ann", password="wrong")
            with psycopg.connect(host=str(folder), port=port, user="ann", password="secret") as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        shutil.rmtree(folder)


def test_a_socket_in_a_folder_is_not_encrypted(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="s"))
    tls = ("--tls-cert", certificate, "--tls-key", key, "--require-tls")
    try:
        with started(*tls, "--socket", folder) as (_, url):
            port = int(url.rsplit(":", 1)[1].split("/")[0])
            with pytest.raises(psycopg.OperationalError, match="encrypted"):
                psycopg.connect(host=str(folder), port=port, user="penstock")
            with psycopg.connect(url) as connection:  # as it was told to
                assert connection.execute("SELECT 1").fetchone() == (1,)
                assert connection.pgconn.ssl_in_use
    finally:
        shutil.rmtree(folder)


def test_the_shell_in_a_pipe(penstock: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statement is a transaction of its own, as psql has it."""
    with started() as (_, url):
        lines = "CREATE TABLE t (a INT);\n\\d t\nINSERT INTO t VALUES\n (1); INSERT INTO t VALUES (2);\nSELECT nosuch;\nSELECT a FROM t ORDER BY a"
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        ran = penstock("sql", url)
        assert ran.code != 0
        assert "nosuch" in ran.err
        assert ran.out.endswith("a\n1\n2\n")
        assert "INTEGER" in ran.out
        monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 'never closed"))
        assert "never closed" in penstock("sql", url).err
        monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1;\n\\q\nSELECT 2;\n"))
        ran = penstock("sql", url)
        assert (ran.code, ran.out) == (0, "1\n1\n")


def test_settings_for_another_postgres_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "no port")
    with started() as (_, url), psycopg.connect(url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_catalog.pg_class WHERE relname = 'pg_class'")
        assert tables.fetchone() == (1,)


def test_no_server(penstock: Callable[..., Any]) -> None:
    ran = penstock("sql", "postgresql://x@127.0.0.1:1/y", "-c", "SELECT 1")
    assert ran.code == 3
    assert "cannot connect" in ran.err
    assert penstock("sql", "http://x", "-c", "SELECT 1").code == 2


def test_a_flow_with_passwords_may_be_reached_from_elsewhere(
    tmp_path: Path, penstock: Callable[..., Any]
) -> None:
    script = tmp_path / "init.sql"
    script.write_text("CREATE ROLE ann LOGIN;")
    ran = penstock("start", "--listen", "0.0.0.0:0", "--init", script)
    assert ran.code == 2
    assert "no role has a password" in ran.err
    script.write_text(
        "CREATE ROLE ann LOGIN PASSWORD 'sesame'; CREATE TABLE t (a BIGINT); GRANT SELECT ON t TO ann"
    )
    with started("--init", script, "--listen", "0.0.0.0:0") as (_, url):
        url = url.replace("penstock@0.0.0.0", "ann@127.0.0.1")
        with psycopg.connect(url, password="sesame") as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("INSERT INTO t VALUES (1)")
