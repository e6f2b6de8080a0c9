"""Every .slt file in several partitions, another number of them at each epoch, beside an inline flow."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from beside import Beside, few
from tests.slt.driver import Driver, run_file
from tests.slt.test_slt import FILES


@pytest.mark.parametrize("mode", ["as written", "one batch"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_in_partitions(path: Path, mode: str, each_hash: str) -> None:
    """With the colliding hash limits are small as well: files, cut packets and hot keys for a few rows."""
    with few() if each_hash == "colliding hash" else nullcontext():
        assert not run_file(path, Driver(Beside(f"{path.stem} {mode}"), mode))
