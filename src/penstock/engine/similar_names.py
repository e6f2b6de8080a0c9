"""The relation that may be meant by a name that is none: only the flow knows all that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from penstock.base.errors import UndefinedTable
from penstock.engine.catalog import Catalog
from penstock.engine.system import BY_NAME, SCHEMA
from penstock.sql.tokens import fold

_MISSING = re.compile(r'^table or view "(.+)" does not exist$')


@contextmanager
def suggesting(catalog: Catalog) -> Iterator[None]:
    """An error about a relation that is not there offers a similar one: DuckDB knows those alone that it was shown."""
    try:
        yield
    except UndefinedTable as error:
        found = _MISSING.match(error.message)
        if found is not None and not (error.hint or "").startswith("Did you mean"):
            name = similar(catalog, found[1])
            error.hint = f'Did you mean "{name}"?' if name is not None else error.hint
        raise


def similar(catalog: Catalog, wanted: str) -> str | None:
    known = {fold(r.name): r.name for r in catalog}
    for name in BY_NAME:
        known[f"{SCHEMA}.{name}"] = known[name] = f"{SCHEMA}.{name}"
    close = get_close_matches(fold(wanted), known, n=1)
    return known[close[0]] if close else None
