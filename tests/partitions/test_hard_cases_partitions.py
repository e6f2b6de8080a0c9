"""The hard cases in several partitions, beside an inline flow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beside import Beside, few
from judge import Judge
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


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """In the place of the judge that the cases have elsewhere; limits are small, so that every path is taken."""
    with few():
        judge = Judge(Beside(request.node.name))
        yield judge
        judge.close()
