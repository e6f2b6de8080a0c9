"""Every .slt file, in every mode, with the real and with the colliding key hash.

PENSTOCK_SLT_REWRITE=1 writes what the queries give into the files (read the difference before you
commit it).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import penstock
from tests.slt.driver import MODES, Driver, Record, read

FILES = sorted(Path(__file__).parent.glob("*.slt"))
REWRITE = os.environ.get("PENSTOCK_SLT_REWRITE") == "1"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path: Path, mode: str, each_hash: str) -> None:
    flow = penstock.Flow()
    driver = Driver(flow, mode)
    changed: list[tuple[Record, list[str]]] = []
    for record in read(path):
        place = f"{path.name}:{record.line}"
        given, refusal = attempt(driver, record)
        if record.kind == "error":
            assert refusal is not None, f"{place}: should have been refused"
            assert re.search(record.argument, str(refusal), re.I), f"{place}: the message is: {refusal}"
            continue
        assert refusal is None, f"{place}: {refusal}"
        if record.kind == "query" and given != record.expected:
            assert REWRITE, f"{place}\n{record.sql}\nexpected {record.expected}\ngiven    {given}"
            changed.append((record, given or []))
    driver.finish()
    flow.close()
    if changed and mode == MODES[0]:
        rewrite(path, changed)


def attempt(driver: Driver, record: Record) -> tuple[list[str] | None, penstock.PenstockError | None]:
    try:
        return driver.run(record), None
    except penstock.PenstockError as error:
        return None, error


def rewrite(path: Path, changed: list[tuple[Record, list[str]]]) -> None:
    """Puts the given rows under their queries, from the end so that line numbers stay true."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for record, given in reversed(changed):
        start = lines.index("----", record.line) + 1
        lines[start : start + len(record.expected)] = given
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
