"""flow.verify on the random cases: it finds nothing where all is well, and a row that was spoiled."""

from __future__ import annotations

import random

import numpy as np
import pytest

from judge import Judge
from penstock.zset.zset import ZSet
from tests.random.scenario import Outcome, run_case

CASES = 12


class _Verified(Judge):
    """A judge that verifies its flow in the end."""

    seed = 0

    def close(self) -> None:
        try:
            wrong = [check for check in self.flow.verify() if not check.equal]
            assert not wrong, f"seed {self.seed}: {wrong}"
            self._spoil()
        finally:
            super().close()

    def _spoil(self) -> None:
        chance = random.Random(self.seed)
        views = [view for view in self.flow._core.catalog.materialized() if len(view.rows())]
        if not views:
            return
        view = chance.choice(views)
        rows = view.rows()
        row = rows.take(np.array([chance.randrange(len(rows))]))
        view.contents.append(ZSet(row.columns, np.array([chance.choice((-1, 1))])))
        found = {check.name: check for check in self.flow.verify(view.name)}[view.name]
        assert (found.equal, found.missing + found.extra) == (False, 1), f"seed {self.seed}: {view.sql}"


@pytest.mark.parametrize("seed", range(CASES))
def test_verify_on_random_flows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.random.scenario.Judge", _Verified)
    monkeypatch.setattr(_Verified, "seed", 5_000 + seed)
    run_case(5_000 + seed, Outcome())
