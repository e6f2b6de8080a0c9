"""What a flow's catalog looks like from outside: relations with their columns, no rows and no circuit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

    version: tuple[Catalog, int]
    relations: tuple[RelationOutline, ...] = ()
    access: Access = field(default_factory=Access)


def outline(flow: Flow, known: Outline | None = None, extra: Iterable[RelationOutline] = ()) -> Outline:
    """The flow's outline, with further relations; the one that is known if nothing has changed since."""
    if known is not None and known.version == _version(flow):  # without the lock: a tick may have it for long
        return known
    with flow._lock:
        flow._check_open()
        catalog = flow._core.catalog
        relations = (*(_relation(r) for r in catalog), *extra)
        return Outline(_version(flow), relations, catalog.access)


def extra_relations(
    schema: str, relations: Iterable[tuple[str, Iterable[tuple[str, str]]]]
) -> tuple[RelationOutline, ...]:
    """Relations of a schema of the server's own, given as names with their columns (names and DuckDB's types).

    >>> extra_relations("penstock", [("epochs", [("epoch", "BIGINT")])])[0].columns
    (ColumnOutline(name='epoch', type='BIGINT', not_null=False, default=None),)
    """
    return tuple(  # below zero, where no relation of a flow has its number
        RelationOutline(-number, schema, name, "view", tuple(ColumnOutline(n, t) for n, t in columns))
        for number, (name, columns) in enumerate(relations, start=1)
    )


def _version(flow: Flow) -> tuple[Catalog, int]:
    """A reader of another process's flow may get a new catalog."""
    catalog = flow._core.catalog
    return catalog, catalog.changes


def relation_names(flow: Flow) -> Callable[[str], bool]:
    """Whether a name is one of the flow's relations."""

    return lambda name: flow._core.catalog.find(name) is not None


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
