"""A bank: random transfers from eight connections, and others that look on by SELECT and SUBSCRIBE.

Nobody ever sees money appear or vanish, and what a subscriber adds up is the table, at every epoch that there was.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from penstock import Flow
from penstock.gateway.background import serving

ACCOUNTS, BALANCE, TRANSFERS = 24, 100, 10
TOTAL = ACCOUNTS * BALANCE
CHANGE = "UPDATE account SET balance = balance + {} WHERE id = {}"

History = dict[int, Counter[tuple[Any, ...]]]  # what a relation held, by epoch


class Lookout:
    """What the subscribers and readers have seen."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.last = threading.Event()  # the writers are done
        self.last_epoch = 0
        self.histories: list[tuple[str, History]] = []
        self.totals: set[Any] = set()
        self.reads = 0

    def follow(self, relation: str, rows: Iterable[Any]) -> None:
        """Add up a subscription WITH (PROGRESS), until all epochs of the writers are told."""
        state: Counter[tuple[Any, ...]] = Counter()
        history: History = {}
        told = known = -1  # the last progress, and the epochs before which the history is known
        for epoch, progress, diff, *row in rows:
            assert epoch >= told, "a row of an epoch that was said to be over"
            if known >= 0:  # nothing has changed until this epoch
                history |= dict.fromkeys(range(known, epoch), +state)
            known = epoch
            if not progress:
                state[tuple(row)] += diff
                continue
            assert epoch > told, "progress goes back"
            told = epoch
            if self.last.is_set() and epoch > self.last_epoch:
                break
        self.histories.append((relation, history))


def writer(url: str, seed: int) -> None:
    chance = random.Random(seed)
    with psycopg.connect(url) as connection:
        for _ in range(TRANSFERS):
            source, target = chance.sample(range(ACCOUNTS), 2)
            amount = chance.randrange(1, 50)
            while True:
                try:
                    with connection.transaction():
                        connection.execute(CHANGE.format(-amount, source))  # type: ignore[call-overload]
                        connection.execute(CHANGE.format(amount, target))  # type: ignore[call-overload]
                    break
                except psycopg.errors.SerializationFailure:
                    continue


async def async_writer(url: str, seed: int) -> None:
    chance = random.Random(seed)
    connection = await asyncpg.connect(url)
    for _ in range(TRANSFERS):
        source, target = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randrange(1, 50)
        while True:
            try:
                async with connection.transaction():
                    await connection.execute(CHANGE.format(-amount, source))
                    await connection.execute(CHANGE.format(amount, target))
                break
            except asyncpg.SerializationError:
                continue
    await connection.close()


def async_writers(url: str, seeds: Iterable[int]) -> None:
    async def run() -> None:
        await asyncio.gather(*(async_writer(url, seed) for seed in seeds))

    asyncio.run(run())


def reader(look: Lookout) -> None:
    """Reads of one statement, and of a table and its view in one."""
    both = "SELECT sum(a.balance), count(*), max(b.total) FROM account a, bank b"
    with psycopg.connect(look.url, autocommit=True) as connection:
        while not look.last.is_set():
            for sql in (both, "SELECT sum(total), sum(n), sum(total) FROM branches"):
                look.totals.add(connection.execute(sql).fetchone())  # type: ignore[call-overload]
                look.reads += 1


def rows_subscriber(look: Lookout, relation: str) -> None:
    sql = f"SUBSCRIBE {relation} WITH (PROGRESS)"
    with psycopg.connect(look.url, autocommit=True) as connection:
        with closing(connection.cursor().stream(sql)) as rows:  # type: ignore[call-overload]
            look.follow(relation, rows)


def cursor_subscriber(look: Lookout, relation: str) -> None:
    with psycopg.connect(look.url) as connection:
        connection.execute(f"DECLARE c CURSOR FOR SUBSCRIBE {relation} WITH (PROGRESS)")  # type: ignore[call-overload]

        def rows() -> Iterable[Any]:
            while True:
                yield from connection.execute("FETCH 7 c WITH (TIMEOUT = '100ms')")

        look.follow(relation, rows())


def asyncpg_subscriber(look: Lookout, relation: str) -> None:
    async def run() -> list[Any]:
        rows = []
        connection = await asyncpg.connect(look.url)
        async with connection.transaction():
            async for row in connection.cursor(f"SUBSCRIBE {relation} WITH (PROGRESS)"):
                rows.append(tuple(row))
                if row["progress"] and look.last.is_set() and row["epoch"] > look.last_epoch:
                    break
        await connection.close()
        return rows

    look.follow(relation, asyncio.run(run()))


def late_subscriber(look: Lookout, relation: str, epoch: int) -> None:
    """From an epoch of the past on."""
    sql = f"SUBSCRIBE {relation} WITH (PROGRESS) AS OF EPOCH {epoch}"
    with psycopg.connect(look.url, autocommit=True) as connection:
        with closing(connection.cursor().stream(sql)) as rows:  # type: ignore[call-overload]
            look.follow(relation, rows)


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_the_total_is_right_at_every_epoch(tmp_path: Path) -> None:
    with Flow(tmp_path / "flow", sync=False) as flow, serving(flow) as url:
        flow.sql("CREATE TABLE account (id INT PRIMARY KEY, balance INT)")
        flow.sql("CREATE MATERIALIZED VIEW bank AS SELECT sum(balance) AS total FROM account")
        flow.sql(
            "CREATE MATERIALIZED VIEW branches AS "
            "SELECT id % 3 AS branch, sum(balance) AS total, count(*) AS n FROM account GROUP BY 1"
        )
        flow.sql(f"INSERT INTO account SELECT i, {BALANCE} FROM range({ACCOUNTS}) t(i)")
        start = flow.epoch
        look = Lookout(url)
        lookers = [
            threading.Thread(target=reader, args=(look,)),
            threading.Thread(target=rows_subscriber, args=(look, "account")),
            threading.Thread(target=rows_subscriber, args=(look, "branches")),
            threading.Thread(target=rows_subscriber, args=(look, "bank")),
            threading.Thread(target=cursor_subscriber, args=(look, "account")),
            threading.Thread(target=asyncpg_subscriber, args=(look, "branches")),
        ]
        for thread in lookers:
            thread.start()
        run_all(
            [
                *[threading.Thread(target=writer, args=(url, seed)) for seed in range(4)],
                threading.Thread(target=async_writers, args=(url, range(4, 8))),
            ]
        )
        late = threading.Thread(target=late_subscriber, args=(look, "account", start))
        late.start()
        look.last_epoch = flow.epoch
        look.last.set()
        flow.sql("CREATE TABLE bell (a INT)")
        flow.sql("INSERT INTO bell VALUES (1)")  # an epoch after the last: everybody is told that all is over
        for thread in [*lookers, late]:
            thread.join()
        assert flow.epoch == start + 8 * TRANSFERS + 1
        assert look.reads > 0
        assert look.totals == {(TOTAL, ACCOUNTS, TOTAL)}
        check(flow, look, start)
        assert all(check.equal for check in flow.verify())


def check(flow: Flow, look: Lookout, start: int) -> None:
    """What each subscriber added up is what the relation held, at each epoch."""
    assert len(look.histories) == 6
    held: dict[tuple[str, int], Counter[tuple[Any, ...]]] = {}
    for relation, history in look.histories:
        assert set(range(max(start, min(history)), look.last_epoch + 1)) <= set(history)
        for epoch, state in history.items():
            if (relation, epoch) not in held:
                rows = flow.snapshot(relation, as_of=epoch).to_pylist()
                held[relation, epoch] = Counter(tuple(row.values()) for row in rows)
            assert state == held[relation, epoch], (relation, epoch)
            column = 0 if relation == "bank" else 1
            assert sum(row[column] * n for row, n in state.items()) == TOTAL, (relation, epoch)
