"""The hard cases and random queries, with a restart before every statement and every tick."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from judge import Judge
from tests.circuit.restart import RestartingFlow
from tests.hard_cases.test_cases_aggregates import *  # noqa: F403
from tests.hard_cases.test_cases_errors import *  # noqa: F403
from tests.hard_cases.test_cases_floats import *  # noqa: F403
from tests.hard_cases.test_cases_joins import *  # noqa: F403
from tests.hard_cases.test_cases_keys import *  # noqa: F403
from tests.hard_cases.test_cases_sets import *  # noqa: F403
from tests.hard_cases.test_cases_subqueries import *  # noqa: F403
from tests.hard_cases.test_cases_values import *  # noqa: F403
from tests.hard_cases.test_cases_views import *  # noqa: F403


class RestartingJudge(Judge):
    def __init__(self) -> None:
        super().__init__()
        self.flow.close()
        self.flow = RestartingFlow()


@pytest.fixture
def judge() -> Iterator[Judge]:
    """In the place of the judge that the cases have elsewhere."""
    judge = RestartingJudge()
    yield judge
    judge.close()
