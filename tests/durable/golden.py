"""The golden flow: tables of every type and views with every kind of operator, written in one format.

`python -m durable.make_golden` writes the archive of the current format. Archives of formats that a
release has had are never written again: they show that its flows can still be opened.
"""

from __future__ import annotations

from pathlib import Path

import penstock
from durable.small_limits import small_limits

FOLDER = Path(__file__).parent / "golden"
EPOCHS = 40

TABLES = (
    "CREATE TABLE types (id BIGINT PRIMARY KEY, flag BOOLEAN, small SMALLINT, n INTEGER, f REAL, d DOUBLE, "
    "dec DECIMAL(12,2), wide DECIMAL(38,4), day DATE, clock TIME, stamp TIMESTAMP, stamptz TIMESTAMPTZ, "
    "span INTERVAL, name TEXT, data BLOB, uid UUID, list INTEGER[], pair STRUCT(a INTEGER, b TEXT), "
    "m MAP(TEXT, INTEGER))",
    "CREATE TABLE bag (k INTEGER, word TEXT, amount DECIMAL(10,3), x DOUBLE)",
    "CREATE TABLE other (k INTEGER, tag TEXT, PRIMARY KEY (k, tag))",
)
VIEWS = {
    "halved": "SELECT * FROM types WHERE id % 2 = 0",
    "joined": "SELECT b.word, o.tag, b.amount FROM bag b JOIN other o ON o.k = b.k",
    "padded": "SELECT b.k, b.word, o.tag FROM bag b LEFT JOIN other o ON o.k = b.k",
    "full_join": "SELECT b.k AS bk, o.k AS ok, o.tag FROM bag b FULL JOIN other o ON o.k = b.k",
    "sums": "SELECT word, COUNT(*) AS n, COUNT(x) AS nx, SUM(amount) AS amount, SUM(x) AS x, AVG(x) AS mean, "
    "MIN(x) AS low, MAX(amount) AS high FROM bag GROUP BY word",
    "whole": "SELECT COUNT(*) AS n, SUM(wide) AS wide, MIN(day) AS oldest, MAX(stamptz) AS newest FROM types",
    "words": "SELECT DISTINCT word FROM bag",
    "shared": "SELECT k FROM bag INTERSECT SELECT k FROM other",
    "alone": "SELECT k FROM bag EXCEPT ALL SELECT k FROM other",
    "either": "SELECT k FROM bag UNION ALL SELECT k FROM other",
    "there": "SELECT id, name FROM types WHERE id IN (SELECT k FROM bag)",
    "gone": "SELECT id, name FROM types WHERE id NOT IN (SELECT k FROM other)",
    "missing": "SELECT k FROM other o WHERE NOT EXISTS (SELECT 1 FROM bag b WHERE b.k = o.k)",
    "dearest": "SELECT id, dec FROM types ORDER BY dec DESC NULLS LAST, id LIMIT 4",
    "on_top": "SELECT COUNT(*) AS words, SUM(n) AS n FROM sums",
}
PLAIN = "CREATE VIEW plain AS SELECT word, n FROM sums WHERE n > 1"


def _typed(i: int) -> str:
    if i % 7 == 3:
        return f"INSERT INTO types (id) VALUES ({i})"
    return (
        f"INSERT INTO types VALUES ({i}, {i % 2 == 0}, {i % 100}, {i * 1000}, {i}.25, {i}.125, {i}.50, "
        f"{i}00000000000000000000.1234, DATE '2024-01-01' + {i}, TIME '12:00:{i % 60:02d}', "
        f"TIMESTAMP '2024-01-01 00:00:{i % 60:02d}', TIMESTAMPTZ '2024-01-01 00:00:{i % 60:02d}+00', "
        f"INTERVAL {i} DAY, 'näme {i}', '\\x0{i % 10}'::BLOB, "
        f"'00000000-0000-0000-0000-{i:012d}'::UUID, [{i}, NULL], {{'a': {i}, 'b': 'b'}}, MAP {{'k': {i}}})"
    )


def statements(first: int, last: int) -> list[str]:
    """What the epochs from the first to the last do: one statement each."""
    found = []
    for i in range(first, last + 1):
        if i % 10 == 9:
            found.append(f"UPDATE types SET name = 'changed {i}', dec = {i} WHERE id > {i - 9}")
        elif i % 5 == 4:
            found.append(f"DELETE FROM bag WHERE k = {i % 8} OR word IS NULL")
        elif i % 3 == 0:
            found.append(_typed(i))
        elif i % 3 == 1:
            rows = ", ".join(f"({(i + j) % 8}, 'word {j % 5}', {j}.125, {i}.{j})" for j in range(6))
            found.append(f"INSERT INTO bag VALUES {rows}, (NULL, NULL, NULL, NULL)")
        else:
            found.append(f"INSERT INTO other VALUES ({i % 12}, 'tag {i}')")
    return found


def make(folder: Path) -> None:
    """The golden flow, as a process that was killed leaves it: with epochs after the last manifest."""
    with small_limits():
        flow = penstock.Flow(folder, retain_history="36500 days")
        for statement in (
            *TABLES,
            *[f"CREATE MATERIALIZED VIEW {n} AS {q}" for n, q in VIEWS.items()],
            PLAIN,
        ):
            flow.sql(statement)
        for statement in statements(1, EPOCHS):
            flow.sql(statement)
        flow.tick("bag", [{"k": 1, "word": "offset"}], offset={"bag": 7}, idempotency_key="golden")
        flow.close()
