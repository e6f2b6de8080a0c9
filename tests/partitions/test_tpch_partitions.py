"""TPC-H in several partitions, beside an inline flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from beside import Beside, few
from tpch import beside_tpch, data

pytestmark = pytest.mark.slow


def test_22_views_in_partitions(tmp_path: Path) -> None:
    tables = data.generate(0.01, tmp_path)
    # Limits between those of a laptop and none: files, cut packets and hot keys, but not for every row.
    with few(PACKET_BYTES_MAX=20_000, RECEIPT_BYTES_MAX=2_000, HOT_KEY_ROWS_MIN=50):
        flow = Beside("tpch")
        beside_tpch.run(flow, tables, epochs=8, seed=3)
        flow.close()
