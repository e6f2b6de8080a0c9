"""Tables, views and materialized views by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.base.errors import DuplicateObject, UndefinedTable
from penstock.base.limits import SAMPLE_ROWS_MAX
from penstock.engine.access import Access
from penstock.engine.ingest import Matching
from penstock.engine.row_check import RowCheck
from penstock.plan.nodes import Node
from penstock.sql.tokens import fold
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.state.contents import Contents
from penstock.state.finder import Finder
from penstock.state.grouping import group_rows
from penstock.state.visible import Visible, visible
from penstock.zset.types import Schema
from penstock.zset.zeros import places_of_zeros
from penstock.zset.zset import ZSet, empty_zset


@dataclass(frozen=True)
class VolatileDefault:
    """A default such as now(): evaluated when a row is written, not when the table is made."""

    text: str


@dataclass
class Table:
    """A table: rows that users change. With a primary key its rows are arranged by that key."""

    name: str
    schema: Schema
    node: int  # the circuit's source
    not_null: tuple[int, ...] = ()
    defaults: tuple[Any, ...] = ()  # in the form of Const.value, None is NULL; or a VolatileDefault
    default_texts: tuple[str | None, ...] = ()
    key: tuple[int, ...] = ()
    checks: tuple[tuple[str, RowCheck], ...] = ()
    key_node: int | None = None  # the node that arranges the rows by key
    keyed: Arrangement | None = None
    bag: Contents | None = None
    version: int = 0  # of the rows: grows with every change
    kind: str = "table"
    id: int = 0  # given by the catalog
    since: int = 0  # the epoch at which it was made
    retain_s: float | None = None  # how long its history is kept; None: as the flow says
    dedup: bool = False  # a delta that repeats the one before it is dropped
    finders: dict[tuple[int, ...], Finder] = field(
        default_factory=dict, repr=False, compare=False
    )  # by columns

    def __post_init__(self) -> None:
        self.matching = Matching(self.schema, self.name)
        self.zeros = places_of_zeros(self.schema.types)
        self.has_wide_key = any(self.schema.types[k].kind == "wide" for k in self.key)
        self.has_volatile_defaults = any(isinstance(d, VolatileDefault) for d in self.defaults)

    def rows(self) -> ZSet:
        """Everything in the table."""
        if self.bag is not None:
            return self.bag.rows()
        assert self.keyed is not None
        whole = self.keyed.contents()
        return empty_zset(self.schema.types) if whole is None else whole.zset()

    def visible(self, plain: Batch | None) -> Visible | None:
        """Everything without merging it, where that is possible: see state/visible.py."""
        if self.bag is not None:
            return self.bag.visible(plain)
        assert self.keyed is not None
        return visible(self.keyed.layout, self.keyed.batches, plain)

    def row_count(self) -> int:
        if self.bag is not None:
            return self.bag.row_count()
        assert self.keyed is not None
        return self.keyed.rows()

    def piece(self) -> tuple[str, Arrangement]:
        """The name of its piece of state (see `engine.slots`), and the rows arranged."""
        if self.bag is not None:
            return f"r{self.id}", self.bag.arranged()
        assert self.keyed is not None
        return f"n{self.key_node}.0", self.keyed


@dataclass
class View:
    """A plain view: text, expanded where it is used."""

    name: str
    sql: str  # the query
    columns: list[tuple[str, str]]  # names and types
    depends: frozenset[str]  # folded names
    aliases: tuple[str, ...] | None = None  # the column names that CREATE VIEW gave
    kind: str = "view"
    id: int = 0  # given by the catalog


@dataclass
class MaterializedView:
    """A view that is kept fresh."""

    name: str
    sql: str
    schema: Schema
    depends: frozenset[str]
    plan: Node
    node: int
    contents: Contents
    options: dict[str, Any] = field(default_factory=dict)  # freshness_s
    version: int = 0
    kind: str = "materialized view"
    id: int = 0  # given by the catalog
    since: int = 0  # the epoch at which it was made
    retain_s: float | None = None  # how long its history is kept; None: as the flow says
    made_us: int | None = None  # None: before this process opened the flow
    finders: dict[tuple[int, ...], Finder] = field(
        default_factory=dict, repr=False, compare=False
    )  # by columns

    @property
    def freshness_s(self) -> float | None:
        """How far behind its tables it may be; None: nobody has said."""
        return self.options.get("freshness_s")

    def rows(self) -> ZSet:
        return self.contents.rows()

    def visible(self, plain: Batch | None) -> Visible | None:
        return self.contents.visible(plain)

    def row_count(self) -> int:
        return self.contents.row_count()

    def piece(self) -> tuple[str, Arrangement]:
        """The name of its piece of state (see `engine.slots`), and the rows arranged."""
        return f"r{self.id}", self.contents.arranged()


Relation = Table | View | MaterializedView


class Catalog:
    """Relations by folded name. Each gets a number that no other will have, not even one of its name."""

    def __init__(self) -> None:
        self.last_id = 0
        self.changes = 0  # grows with every relation that comes or goes, and every change of rights
        self.access = Access()
        self._relations: dict[str, Relation] = {}
        self._materialized: list[MaterializedView] = []
        self._by_id: dict[int, Relation] = {}
        self.folded_tables: dict[str, Table] = {}  # by folded name

    def __iter__(self) -> Iterator[Relation]:
        return iter(self._relations.values())

    def find(self, name: str) -> Relation | None:
        # A name that is folded already needs no folding: the usual case, and asked several times a tick.
        return self._relations.get(name) or self._relations.get(fold(name))

    def get(self, name: str) -> Relation:
        found = self.find(name)
        if found is None:
            known = sorted(r.name for r in self)
            hint = f"There is {', '.join(known[:8])}." if known else "Create it first."
            raise UndefinedTable(f'table or view "{name}" does not exist', hint=hint)
        return found

    def check_free(self, name: str) -> None:
        found = self.find(name)
        if found is not None:
            raise DuplicateObject(f'{found.kind} "{found.name}" exists already', hint="Drop it first.")

    def add(self, relation: Relation) -> None:
        if not relation.id:
            self.last_id += 1
            relation.id = self.last_id
        self._relations[fold(relation.name)] = relation
        self._list()

    def remove(self, name: str) -> None:
        del self._relations[fold(name)]
        self._list()

    def by_id(self, id: int) -> Relation | None:
        return self._by_id.get(id)

    def stored(self) -> list[Table | MaterializedView]:
        """The relations that have rows of their own."""
        return [r for r in self if not isinstance(r, View)]

    def _list(self) -> None:
        self.changes += 1
        self._by_id = {r.id: r for r in self}
        self._materialized = [r for r in self if isinstance(r, MaterializedView)]
        self.folded_tables = {fold(r.name): r for r in self if isinstance(r, Table)}

    def tables(self) -> list[Table]:
        return [r for r in self if isinstance(r, Table)]

    def materialized(self) -> list[MaterializedView]:
        return self._materialized

    def dependents(self, name: str) -> list[Relation]:
        """What is built on this relation, directly or not, in the order in which to drop it."""
        found: list[Relation] = []

        def visit(wanted: str) -> None:
            for relation in self:
                if not isinstance(relation, Table) and wanted in relation.depends and relation not in found:
                    visit(fold(relation.name))
                    found.append(relation)

        visit(fold(name))
        return found


def estimated_distinct(relation: Table | MaterializedView, columns: Sequence[int]) -> float:
    """About how many different values these columns have, from a sample of the rows."""
    rows = relation.row_count()
    if isinstance(relation, Table) and relation.keyed is not None:
        # Batches are sorted by hash, so their first rows are a random sample.
        largest = max(relation.keyed.batches, key=len, default=None)
        sample = empty_zset(()) if largest is None else largest.slice(0, SAMPLE_ROWS_MAX).zset()
    else:
        bag = relation.contents if isinstance(relation, MaterializedView) else relation.bag
        assert bag is not None
        sample = bag.sample(SAMPLE_ROWS_MAX)
    if not len(sample):
        return 1.0
    groups = group_rows([sample.columns[c] for c in columns], len(sample))
    sizes = np.diff(np.append(groups.starts, len(sample)))
    once = int((sizes == 1).sum())
    # Values seen once stand for many unseen ones: the guaranteed-error estimator of Charikar et al.
    scale = (rows / len(sample)) ** 0.5
    return len(sizes) + max(0.0, scale - 1) * once


def expand(rows: ZSet, columns: Sequence[int] | None = None) -> ZSet:
    """One row for each multiplicity."""
    if columns is not None:
        rows = rows.select(columns)
    if (rows.weights == 1).all():
        return rows
    return rows.take(np.repeat(np.arange(len(rows)), np.maximum(rows.weights, 0)))
