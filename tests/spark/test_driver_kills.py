"""The driver is killed while its epochs run on Spark: before and after the write that makes an epoch exist, and while
tasks are at work. Each next life judges what it finds, as in the crash matrix of durable state."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from beside import FEW
from durable.executioner import Executioner
from durable.victim import Case

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
]

# How the lives end. The first sets the flow up without Spark; the last is judged once more when it has closed.
LIVES: tuple[dict[str, object], ...] = (
    {"steps": 16, "engine": "files"},
    {"point": "define.write:before", "count": 2},
    {"point": "define.write:after", "count": 2},
    {"kill_after_s": 3.5},
    {"steps": 4, "close": True},
)


def test_the_driver_is_killed(spark_ready: None, tmp_path: Path) -> None:
    executioner = Executioner()
    case = Case(str(tmp_path / "flow"), 31, limits=FEW, engine="spark", seconds_max=300.0)
    try:
        for end in LIVES:
            life = replace(case, **end)  # type: ignore[arg-type]
            death = executioner.run(life)
            assert not death.failure, f"{life}\n{death.failure}"
            assert death.killed == ("steps" not in end), life
            assert death.verified
            case = replace(case, acknowledged=death.acknowledged, started=death.started)
    finally:
        executioner.close()
