"""Definitions in the audit log: what a statement made, replaced or dropped, by comparing the catalog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.engine.catalog import Relation, View
from penstock.engine.core import Core


@contextmanager
def audited(core: Core, actor: str | None, session: int | None) -> Iterator[None]:
    """Around a definition: what came and went, once it has succeeded."""
    before = {r.name: r for r in core.catalog}
    began = time.perf_counter()
    yield
    seconds = round(time.perf_counter() - began, 3)
    after = {r.name: r for r in core.catalog}

    def note(event: str, relation: Relation, **figures: object) -> None:
        core.audit.record(
            event, actor=actor, session=session, with_catalog=True,
            kind=relation.kind, name=relation.name, **figures,
        )  # fmt: skip

    for name in [n for n in before if n not in after]:
        note("drop", before[name])
    for name, relation in after.items():
        if before.get(name) is not relation:
            rows = {} if isinstance(relation, View) else {"rows": relation.row_count()}
            note("replace" if name in before else "create", relation, seconds=seconds, **rows)
