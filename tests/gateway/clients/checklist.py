"""What each client has to show, and where: client c shows item i in `test_<i>` of its file, or its file says in `CANNOT`
why it never can. `NOTES` says what is particular about how it does.

`python tests/gateway/clients/checklist.py` prints the table of docs/server.md.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ITEMS = {
    "types": "values of every type, there and back, in text and in binary",
    "nulls": "NULL as parameter and as value, in every type",
    "errors": "errors with SQLSTATE, hint and position; the connection goes on",
    "transactions": "commit, rollback, savepoints, a transaction that has failed",
    "prepared_statements": "prepared statements",
    "copy": "COPY, in and out, and one that fails",
    "cancel": "a statement that runs is cancelled",
    "cursors": "cursors",
    "subscribe": "SUBSCRIBE, and how it ends",
    "listen": "LISTEN to what changes a view",
}


@dataclass(frozen=True)
class Client:
    """A client and the file of its tests."""

    name: str
    file: str

    @cached_property
    def _code(self) -> ast.Module:
        return ast.parse(Path(__file__).with_name(self.file).read_text(encoding="utf-8"))

    @property
    def shown(self) -> set[str]:
        """The items that a test of its file is named after."""
        functions = [f.name for f in self._code.body if isinstance(f, ast.FunctionDef)]
        return {name.removeprefix("test_") for name in functions if name.startswith("test_")} & set(ITEMS)

    @property
    def cannot(self) -> dict[str, str]:
        """The items that it never can show, each with the reason."""
        return self._told("CANNOT")

    def cell(self, item: str) -> str:
        """What the table says of it."""
        if item not in self.shown:
            return "no: " + self.cannot.get(item, "?")
        note = self._told("NOTES").get(item)
        return "yes" if note is None else f"yes, {note}"

    def _told(self, name: str) -> dict[str, str]:
        for statement in self._code.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
                return dict(ast.literal_eval(statement.value))
        return {}


CLIENTS = (
    Client("psql", "test_psql.py"),
    Client("psycopg", "test_psycopg.py"),
    Client("psycopg async", "test_psycopg_async.py"),
    Client("psycopg pipeline", "test_psycopg_pipeline.py"),
    Client("asyncpg", "test_asyncpg.py"),
    Client("SQLAlchemy", "test_sqlalchemy.py"),
    Client("pgjdbc", "test_pgjdbc.py"),
)


def table() -> str:
    """The checklist as Markdown."""
    lines = [
        "| | " + " | ".join(client.name for client in CLIENTS) + " |",
        "|---" * (len(CLIENTS) + 1) + "|",
    ]
    for item, meaning in ITEMS.items():
        lines.append(f"| {meaning} | " + " | ".join(client.cell(item) for client in CLIENTS) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
