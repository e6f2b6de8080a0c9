"""The hard cases with restarts between their steps."""

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

pytestmark = pytest.mark.slow
del test_case_12_a_million_changes_end_at_the_exact_empty_state  # noqa: F821  # one view, many rows


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
