"""SUBSCRIBE across processes: the shell, a server that follows another, and one that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from cli.test_start import started


def test_the_shell_shows_changes_until_it_is_interrupted() -> None:
    with started() as (_, url), psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a INT, b TEXT)")
        connection.execute("INSERT INTO t VALUES (1, 'x')")
        command = [sys.executable, "-m", "penstock", "sql", url, "-c", "SUBSCRIBE t", "-c", "SELECT 7"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shell:
            assert shell.stdout is not None
            assert [shell.stdout.readline() for _ in range(2)] == ["epoch\tdiff\ta\tb\n", "1\t1\t1\tx\n"]
            connection.execute("UPDATE t SET b = NULL")
            assert [shell.stdout.readline() for _ in range(2)] == ["2\t-1\t1\tx\n", "2\t1\t1\tNULL\n"]
            shell.send_signal(signal.SIGINT)
            out, err = shell.communicate(timeout=60)
        assert shell.returncode == 0, err
        assert out.split() == ["7", "7"]  # the name and the row of what came after it


def test_a_server_that_follows_another(tmp_path: Path) -> None:
    with started("--storage", tmp_path / "flow") as (_, writing):
        with psycopg.connect(writing, autocommit=True) as writer:
            writer.execute("CREATE TABLE t (a INT)")
            with started("--storage", tmp_path / "flow", "--read-only") as (_, following):
                with psycopg.connect(following, autocommit=True) as reader:
                    reader.execute("SET penstock.wait_timeout = '60s'")
                    for count in range(1, 4):
                        writer.execute("INSERT INTO t VALUES (1)")
                        (token,) = writer.execute("SHOW penstock.token").fetchone() or ("",)
                        reader.execute(f"SET penstock.wait_for = '{token}'")  # type: ignore[call-overload]
                        assert reader.execute("SELECT count(*) FROM t").fetchone() == (count,)
                    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                        reader.execute("INSERT INTO t VALUES (1)")


def insert_until_it_ends(url: str, first: int) -> None:
    with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as connection:
        for i in range(first, first + 100_000):
            connection.execute("INSERT INTO t VALUES (%s)", (i,))


@pytest.mark.slow
def test_a_subscriber_goes_on_where_it_was_when_the_server_was_killed(tmp_path: Path) -> None:
    """Commits are answered before they are on storage, and some are lost: none of those was told."""
    seen: Counter[int] = Counter()
    epoch = 0
    server = ("--storage", tmp_path / "flow", "--commit", "visible")
    with started(*server) as (_, url), psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a INT)")
    sql = "SUBSCRIBE t WITH (SNAPSHOT = false, PROGRESS) AS OF EPOCH {}"
    for kill in range(3):
        with started(*server) as (process, url):
            writer = threading.Thread(target=insert_until_it_ends, args=(url, kill * 1_000_000))
            connection = psycopg.connect(url, autocommit=True)
            told: Counter[int] = Counter()
            with suppress(psycopg.OperationalError):
                rows = connection.cursor().stream(sql.format(epoch))  # type: ignore[call-overload]
                next(rows)
                writer.start()
                for number, progress, diff, a in rows:
                    if progress:  # all of the epochs before it are there
                        seen += told
                        told.clear()
                        epoch = number - 1
                    else:
                        told[a] += diff
                    if sum(seen.values()) > 25 * (kill + 1):
                        process.kill()
            writer.join()
            connection.close()
        assert sum(seen.values()) > 25 * (kill + 1)
    with started(*server) as (_, url), psycopg.connect(url, autocommit=True) as connection:
        rows = connection.cursor().stream(sql.format(epoch))  # type: ignore[call-overload]
        with closing(rows):
            with psycopg.connect(url) as other:
                (now,) = other.execute("SHOW penstock.token").fetchone() or ("",)
            for number, progress, diff, a in rows:
                if progress and number > int(now.split(":")[1]):
                    break
                if not progress:
                    seen[a] += diff
        assert max(seen.values()) == 1
        assert seen == Counter(a for (a,) in connection.execute("SELECT a FROM t"))
