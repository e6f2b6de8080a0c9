"""penstock.views: plain and materialized views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.catalog import MaterializedView, View
from penstock.engine.system.relation import SystemRelation

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    for view in flow._core.catalog:
        if isinstance(view, View):
            yield (view.id, view.name, view.kind, view.sql, sorted(view.depends), *[None] * 5)
        elif isinstance(view, MaterializedView):
            rows, size = view.row_count(), view.contents.nbytes()
            about = (view.id, view.name, view.kind, view.sql, sorted(view.depends))
            yield (*about, rows, size, view.since, view.freshness_s, view.retain_s)


VIEWS = SystemRelation(
    "views",
    "plain and materialized views",
    (
        ("id", "BIGINT"),
        ("name", "VARCHAR"),
        ("kind", "VARCHAR"),  # "view" or "materialized view"
        ("definition", "VARCHAR"),
        ("depends_on", "VARCHAR[]"),
        ("stored_rows", "BIGINT"),  # those that later deltas take away counted too
        ("bytes", "BIGINT"),  # of its contents; its operators' state is in penstock.arrangements
        ("since_epoch", "BIGINT"),
        ("freshness_target_s", "DOUBLE"),
        ("retain_history_s", "DOUBLE"),
    ),
    _rows,
)
