"""Several threads on one flow: every epoch is whole, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

import penstock
from rows import rows_of


def run_all(*jobs: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as caught:
            failures.append(caught)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures, failures


def test_readers_never_see_half_an_epoch() -> None:
    """Money moves between two accounts while others read: the total is the same in every snapshot."""
    flow = penstock.Flow()
    flow.sql("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER)")
    flow.sql("INSERT INTO account VALUES (1, 500), (2, 500)")
    flow.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(balance) AS s, count(*) AS n FROM account")
    done = threading.Event()

    def move() -> None:
        for i in range(100):
            flow.sql(f"UPDATE account SET balance = balance + CASE id WHEN 1 THEN {i} ELSE -{i} END")
        done.set()

    def read() -> None:
        while not done.is_set():
            assert rows_of(flow.snapshot("total")) == [(1000, 2)]
            answer = flow.sql("SELECT (SELECT sum(balance) FROM account) AS a, (SELECT s FROM total) AS b")
            assert rows_of(answer) == [(1000, 1000)]

    run_all(move, read, read)
    flow.close()


def test_many_writers_lose_nothing() -> None:
    flow = penstock.Flow()
    flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")

    def writer(number: int) -> Callable[[], None]:
        def job() -> None:
            for i in range(60):
                flow.tick("t", [{"id": number * 1_000 + i, "g": i % 3}])

        return job

    run_all(*(writer(n) for n in range(4)))
    assert sorted(rows_of(flow.snapshot("v"))) == [(0, 80), (1, 80), (2, 80)]
    flow.close()


def test_views_come_and_go_while_rows_are_written() -> None:
    flow = penstock.Flow()
    flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT)")
    flow.sql("CREATE MATERIALIZED VIEW keep AS SELECT count(*) AS n FROM t")

    def write() -> None:
        for i in range(120):
            flow.sql(f"INSERT INTO t VALUES ({i}, {i % 5})")

    def views() -> None:
        for i in range(15):
            flow.sql(f"CREATE MATERIALIZED VIEW v{i} AS SELECT g, count(*) AS n FROM t GROUP BY g")
            total, rows = (
                flow.sql(f"SELECT coalesce(sum(n), 0) AS a, (SELECT count(*) FROM t) AS b FROM v{i}")
                .to_pylist()[0]
                .values()
            )
            assert total == rows
            flow.sql(f"DROP MATERIALIZED VIEW v{i}")

    run_all(write, views)
    assert rows_of(flow.snapshot("keep")) == [(120,)]
    flow.close()
