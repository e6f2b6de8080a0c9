"""bytea: constants in a text mean what they mean to PostgreSQL, and what drivers put into a text comes back."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.postgres import Postgres

CONSTANTS = [
    r"'\xdeadbeef'::bytea",
    r"'\xDEAD' :: bytea",
    r"CAST('\x00ff' AS bytea)",
    r"bytea '\x61'",
    r"'\x'::bytea",
    r"'abc'::bytea",
    r"'a\\b\000'::bytea",
    r"E'\\xdead'::bytea",
    r"E'\\336\\255z'::bytea",
]


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_is_what_postgres_reads(url: str, postgres: Postgres, constant: str) -> None:
    sql = f"SELECT {constant}, octet_length({constant}), '\\xdead'::text"
    with psycopg.connect(url, autocommit=True) as ours:
        assert ours.execute(sql).fetchone() == postgres.connection.execute(sql).fetchone()


def test_what_is_no_bytea_is_refused(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for wrong in (r"'\xabc'::bytea", r"'\9'::bytea"):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(f"SELECT {wrong}")
            assert refused.value.sqlstate == "22P02"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(some.lists(some.binary(max_size=12), min_size=1, max_size=3))
def test_bytes_of_a_driver_that_writes_them_into_the_text(url: str, values: list[bytes]) -> None:
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n INT, b BYTEA)")
        connection.execute("TRUNCATE kept")
        for n, value in enumerate(values):
            connection.execute("INSERT INTO kept VALUES (%s, %s)", [n, value])
            hexed = "\\x" + value.hex()
            if value:
                connection.execute(f"INSERT INTO kept VALUES ({n}, '{hexed}')")
            found = connection.execute("SELECT n FROM kept WHERE b = %s AND n = %s", [value, n]).fetchall()
            assert len(found) == (2 if value else 1)
        rows = connection.execute("SELECT DISTINCT n, b FROM kept ORDER BY n").fetchall()
        assert rows == list(enumerate(values))
