"""Every .slt file in several partitions, another number of them at each epoch, beside an inline flow."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from beside import Beside, few
from tests.slt.driver import Driver, read
from tests.slt.test_slt import FILES, attempt


@pytest.mark.parametrize("mode", ["as written", "one batch"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_in_partitions(path: Path, mode: str, each_hash: str) -> None:
    """With the colliding hash limits are small as well: files, cut packets and hot keys for a few rows."""
    with few() if each_hash == "colliding hash" else nullcontext():
        run_file(path, mode)


def run_file(path: Path, mode: str) -> None:
    flow = Beside(f"{path.stem} {mode}")
    driver = Driver(flow, mode)
    for record in read(path):
        place = f"{path.name}:{record.line}"
        given, refusal = attempt(driver, record)
        if record.kind == "error":
            assert refusal is not None, f"{place}: should have been refused"
            assert re.search(record.argument, str(refusal), re.I), f"{place}: the message is: {refusal}"
            continue
        assert refusal is None, f"{place}: {refusal}"
        assert record.kind != "query" or given == record.expected, place
    driver.finish()
    flow.close()
