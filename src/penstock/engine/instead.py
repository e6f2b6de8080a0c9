"""What to do instead of a view that cannot be maintained."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.base.errors import NotMaintainable
from penstock.sql.bind import Binder

_HINTS = (
    (r"^the aggregate any_value ", "Use min or max, which do not depend on the order of rows."),
    (
        r"^DISTINCT ON ",
        "Group by its columns, with min or max of what decides, and join that to the rows; or make a plain view of it "
        "(CREATE VIEW), which is computed when it is read.",
    ),
)
_PLAIN_VIEW = "Make a plain view of it (CREATE VIEW), which is computed when it is read."


@contextmanager
def advising(binder: Binder, sql: str) -> Iterator[None]:
    """What is refused of a query has the name that it has there, and comes with a way around it."""
    try:
        yield
    except NotMaintainable as error:
        binder.name_as_written(error, sql)
        if error.hint is None:
            found = [hint for pattern, hint in _HINTS if re.search(pattern, error.message)]
            error.hint = found[0] if found else _PLAIN_VIEW
        raise
