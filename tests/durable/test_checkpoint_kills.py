"""A process that is killed while it writes a checkpoint, a branch or a restored flow harms none of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from durable.test_checkpoint import contents, is_right, make
from penstock import Flow
from penstock.base.errors import DuplicateObject, PenstockError
from penstock.base.faults import POINTS

DO = """
import sys
from penstock import Flow
what, flow, kept, target = sys.argv[1:]
if what == "restore":
    Flow.restore(kept, into=target)
else:
    with Flow(flow) as writer:
        writer.checkpoint(kept) if what == "checkpoint" else writer.branch(target)
"""
KILLED = [p for p in POINTS if p.startswith(("checkpoint.", "branch.", "restore."))]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")]


def run(what: str, place: Path, point: str = "") -> int:
    environment = {**os.environ, "PENSTOCK_FAULT": point}
    arguments = [str(place / name) for name in ("flow", "kept", "target")]
    done = subprocess.run(
        [sys.executable, "-c", DO, what, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.parametrize("point", KILLED)
def test_killed_at(point: str, tmp_path: Path) -> None:
    what = point.split(".")[0]
    with make(tmp_path / "flow") as flow:
        flow.checkpoint(tmp_path / "kept")
        first = contents(flow)
        if what == "checkpoint":  # something new to be copied
            flow.sql("UPDATE orders SET amount = amount + 1")
        second = contents(flow)
    assert run(what, tmp_path, point) == -signal.SIGKILL

    with Flow(tmp_path / "flow") as flow:  # the flow itself is as it was
        assert contents(flow) == second
        assert is_right(flow)
    if what == "checkpoint":
        # The checkpoint is there whole or not at all, and the one before it in any case.
        Flow.restore(tmp_path / "kept", into=tmp_path / "again")
        with Flow(tmp_path / "again") as again:
            assert contents(again) == (second if point == "checkpoint.write:after" else first)
        assert run(what, tmp_path) == 0
        Flow.restore(tmp_path / "kept", into=tmp_path / "target")
    elif point in ("branch.write:after", "restore.write:after"):
        with Flow(tmp_path / "flow") as flow, pytest.raises(DuplicateObject):  # it was done
            flow.branch(tmp_path / "target")
    else:
        with pytest.raises(PenstockError, match="no flow"):
            Flow(tmp_path / "target", read_only=True)
        assert run(what, tmp_path) == 0
    with Flow(tmp_path / "target") as target:
        assert contents(target) == second
        target.sql("DELETE FROM orders WHERE id % 2 = 1")
        assert is_right(target)
