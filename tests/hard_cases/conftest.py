"""Every hard case runs with the real key hash and with the colliding one (case 34)."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _both_hashes(each_hash: str) -> str:
    return each_hash
