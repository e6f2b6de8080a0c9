"""Every .slt file, in every mode, with the real and with the colliding key hash.

PENSTOCK_SLT_REWRITE=1 writes what the queries give into the files (read the difference before you
commit it).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import penstock
from tests.slt.driver import MODES, Driver, Record, run_file

FILES = sorted(Path(__file__).parent.glob("*.slt"))
REWRITE = os.environ.get("PENSTOCK_SLT_REWRITE") == "1"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path: Path, mode: str, each_hash: str) -> None:
    differ = run_file(path, Driver(penstock.Flow(), mode))
    assert REWRITE or not differ, differ
    if differ and mode == MODES[0]:
        rewrite(path, differ)


def rewrite(path: Path, changed: list[tuple[Record, list[str]]]) -> None:
    """Puts the given rows under their queries, from the end so that line numbers stay true."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for record, given in reversed(changed):
        start = lines.index("----", record.line) + 1
        lines[start : start + len(record.expected)] = given
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
