"""What a flow's catalog looks like from outside: relations with their columns, no rows and no circuit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.access import Access
from penstock.engine.catalog import Catalog, Relation, Table, View

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


@dataclass(frozen=True)
class ColumnOutline:
    """`type` is in DuckDB's words; `default` and the checks of a table are SQL."""

    name: str
    type: str
    not_null: bool = False
    default: str | None = None


@dataclass(frozen=True)
class RelationOutline:
    """A relation. `id` is its number in the flow, which no other relation ever has; `kind` is "table", "view" or
    "materialized view"; `definition` the query of a view."""

    id: int
    schema: str
    name: str
    kind: str
    columns: tuple[ColumnOutline, ...]
    key: tuple[int, ...] = ()
    checks: tuple[str, ...] = ()
    definition: str | None = None


@dataclass(frozen=True)
class Outline:
    """All of them, at one version of the catalog: the same version is the same outline."""

    version: tuple[int, int]
    relations: tuple[RelationOutline, ...] = ()
    access: Access = field(default_factory=Access)


def outline(flow: Flow, known: Outline | None = None) -> Outline:
    """The flow's outline; the one that is known if nothing has changed since."""
    with flow._lock:
        flow._check_open()
        catalog = flow._core.catalog
        version = id(catalog), catalog.changes  # a reader of another process's flow may get a new catalog
        if known is not None and known.version == version:
            return known
        return Outline(version, tuple(_relation(r) for r in catalog), catalog.access)


def relation_names(flow: Flow) -> Callable[[str], bool]:
    """Whether a name is one of the flow's relations."""

    def is_known(name: str) -> bool:
        with flow._lock:
            catalog: Catalog = flow._core.catalog
            return catalog.find(name) is not None

    return is_known


def _relation(relation: Relation) -> RelationOutline:
    if isinstance(relation, View):
        columns = tuple(ColumnOutline(name, type) for name, type in relation.columns)
        return RelationOutline(
            relation.id, "public", relation.name, relation.kind, columns, definition=relation.sql
        )
    pairs = list(zip(relation.schema.names, (t.duck for t in relation.schema.types), strict=True))
    if not isinstance(relation, Table):
        columns = tuple(ColumnOutline(name, type) for name, type in pairs)
        return RelationOutline(
            relation.id, "public", relation.name, relation.kind, columns, definition=relation.sql
        )
    defaults = relation.default_texts or (None,) * len(pairs)
    columns = tuple(
        ColumnOutline(name, type, i in relation.not_null, defaults[i]) for i, (name, type) in enumerate(pairs)
    )
    checks = tuple(text for text, _ in relation.checks)
    return RelationOutline(relation.id, "public", relation.name, relation.kind, columns, relation.key, checks)
