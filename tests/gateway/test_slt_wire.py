"""The SQL test files through psycopg, over the wire, in text and in binary: the same answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.slt.driver import _value, read

FILES = sorted((Path(__file__).parents[1] / "slt").glob("*.slt"))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(connection: psycopg.Connection, path: Path, binary: bool) -> None:
    cursor: Any = connection.cursor(binary=binary)
    for record in read(path):
        place = f"{path.name}:{record.line}"
        refusal = None
        try:
            cursor.execute(record.sql)
        except psycopg.Error as error:
            refusal = error
        if record.kind == "error":
            told = "" if refusal is None else f"{refusal.diag.message_primary} {refusal.diag.message_hint}"
            in_its_place = re.match(r"\s*(COMMIT|ROLLBACK)", record.sql)  # Postgres warns instead
            assert refusal is not None or in_its_place, f"{place}: should have been refused"
            assert in_its_place or re.search(record.argument, told, re.I), f"{place}: {told}"
            continue
        assert refusal is None, f"{place}: {refusal}"
        if record.kind == "query":
            types, *rest = record.argument.split()
            found = [
                " ".join(_value(v, t) for v, t in zip(row, types, strict=True)) for row in cursor.fetchall()
            ]
            assert (sorted(found) if "rowsort" in rest else found) == record.expected, place
