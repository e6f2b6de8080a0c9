"""Verification: are the views what their queries give over the tables, and the files what was written?

DuckDB computes every view anew from the rows of the base tables, through the views that it is built on,
and the two are compared as multisets. The only thing that two right answers may differ in is the last
digits of floats, and which rows a LIMIT takes of several that its ORDER BY does not tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from penstock.base.errors import CorruptState, PenstockError, WrongObjectType
from penstock.base.limits import VERIFY_ABSOLUTE_TOLERANCE, VERIFY_SHUFFLES
from penstock.engine.as_of import Past
from penstock.engine.catalog import MaterializedView, Relation, Table, View
from penstock.engine.core import Core
from penstock.engine.differ import HELD, WEIGHT, Difference, differ, hold, hold_table
from penstock.engine.recompute import Recompute, rows_table
from penstock.engine.ties import is_one_answer
from penstock.plan import tree
from penstock.plan.nodes import Aggregate, Node, TopK
from penstock.sql.tokens import fold, quote
from penstock.state.batch import concat_batches
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class Check:
    """What was found out about one table, view or file.

    `missing` rows should be there and are not, `extra` rows are there and should not be: the counts, and
    the first of each, with the column `_count` at the end. A file has no rows; `note` says what is wrong with it."""

    kind: str  # "table", "view", "file" for one that is not well, or "files" for all that are: `rows` of them
    name: str
    equal: bool
    rows: int = 0
    missing: int = 0
    extra: int = 0
    missing_rows: pa.Table | None = None
    extra_rows: pa.Table | None = None
    note: str = ""


@dataclass(frozen=True)
class Subject:
    """What there is to verify: the relations of a flow by folded name, and the rows of an epoch."""

    relations: Mapping[str, Relation]
    tables: tuple[Table, ...]
    views: tuple[MaterializedView, ...]  # each after those that it is built on
    rows: Mapping[str, ZSet]
    batches: Mapping[str, ZSet]  # of tables with a key, as they stand there: what `rows` are made of
    unreadable: Mapping[str, str]  # the relations whose rows could not be read, and why
    asked_for: frozenset[str]  # the others are only what these are built on


def gather(core: Core, view: str | None, past: Past | None, as_of: int | datetime | str | None) -> Subject:
    """The tables and views to verify (all, or those that one view is built on), with their rows."""
    relations = {fold(r.name): r for r in core.catalog}
    if view is None:
        asked_for = frozenset(relations)
    else:
        found = core.catalog.get(view)
        if not isinstance(found, MaterializedView):
            raise WrongObjectType(
                f'"{found.name}" is a {found.kind}, not a materialized view',
                hint="Only materialized views are kept, so only they can differ from their queries.",
            )
        asked_for = frozenset((fold(found.name),))
    epoch = None
    if past is not None and as_of is not None:
        epoch = past.epoch(as_of)
    ordered = [r for r in _in_order(relations, asked_for) if not isinstance(r, View)]
    if epoch is not None and view is None:
        ordered = [r for r in ordered if r.since <= epoch]  # the others were not there then
    rows: dict[str, ZSet] = {}
    batches: dict[str, ZSet] = {}
    unreadable: dict[str, str] = {}
    for relation in ordered:
        name = fold(relation.name)
        try:
            rows[name] = relation.rows() if past is None or epoch is None else past.rows(relation, epoch)
        except CorruptState as error:
            unreadable[name] = error.message
            continue
        if (
            epoch is None
            and isinstance(relation, Table)
            and relation.keyed is not None
            and relation.keyed.batches
        ):
            batches[name] = concat_batches(relation.keyed.batches).zset()
    tables = tuple(r for r in ordered if isinstance(r, Table))
    views = tuple(r for r in ordered if isinstance(r, MaterializedView))
    return Subject(relations, tables, views, rows, batches, unreadable, asked_for)


def _in_order(relations: Mapping[str, Relation], wanted: Iterable[str]) -> list[Relation]:
    """These relations and what they are built on, each after what it is built on itself."""
    order: dict[str, Relation] = {}

    def visit(name: str) -> None:
        if name not in order:
            relation = relations[name]
            for below in sorted(getattr(relation, "depends", ())):
                visit(below)
            order[name] = relation

    for name in sorted(wanted):
        visit(name)
    return list(order.values())


class Verifier:
    """Verifies the tables and views of one epoch."""

    def __init__(self, subject: Subject, limit: int) -> None:
        self._subject = subject
        self._limit = limit
        self._duck = Recompute(subject.relations, subject.rows)

    def __len__(self) -> int:
        return len(self._subject.tables) + len(self._subject.views)

    def run(self, done: Callable[[], None] = lambda: None) -> list[Check]:
        """A check for each table and view, those that others are built on first."""
        found = []
        try:
            relations: list[Table | MaterializedView] = [*self._subject.tables, *self._subject.views]
            for relation in relations:
                check = self._checked(relation)
                if not check.equal or fold(relation.name) in self._subject.asked_for:
                    found.append(check)
                done()
        finally:
            self._duck.close()
        return found

    def _checked(self, relation: Table | MaterializedView) -> Check:
        kind, name = "table" if isinstance(relation, Table) else "view", fold(relation.name)
        if name in self._subject.unreadable:
            return Check(kind, relation.name, False, note=self._subject.unreadable[name])
        rows = self._subject.rows[name]
        total = int(rows.weights.sum())
        try:
            # Reading a table with a key takes the newest row of each key: that hides what does not add up.
            hold(self._duck, relation.schema, self._subject.batches.get(name, rows))
            note = ""
            if isinstance(relation, Table):
                found = self._table(relation)
            else:
                found, note = self._view(relation, rows)
        except PenstockError as error:
            return Check(kind, relation.name, False, total, note=error.message)
        if not found or note:
            return Check(kind, relation.name, True, total, note=note)
        return Check(
            kind,
            relation.name,
            False,
            total,
            found.missing,
            found.extra,
            found.missing_rows,
            found.extra_rows,
        )

    def _table(self, table: Table) -> Difference:
        """No row may be there less than no times, and no primary key twice."""
        columns = ", ".join(quote(n) for n in table.schema.names)
        sums = f"SELECT {columns}, sum({WEIGHT})::BIGINT AS {WEIGHT} FROM {HELD} GROUP BY {columns}"
        missing = f"FROM ({sums}) WHERE {WEIGHT} < 0"
        extra = f"FROM ({sums}) WHERE false"
        if table.key:
            key = ", ".join(quote(table.schema.names[k]) for k in table.key)
            twice = f"QUALIFY sum({WEIGHT}) OVER (PARTITION BY {key}) > 1"
            extra = f"FROM (SELECT * FROM ({sums}) WHERE {WEIGHT} > 0 {twice})"
        counts = [
            int(self._duck.run(f"SELECT coalesce(sum(abs({WEIGHT})), 0) {q}")[0][0]) for q in (missing, extra)
        ]
        shown = [
            self._duck.table(
                f"SELECT {columns}, abs({WEIGHT}) AS _count {q} ORDER BY ALL LIMIT {self._limit}"
            )
            for q in (missing, extra)
        ]
        return Difference(*counts, *shown)

    def _view(self, view: MaterializedView, rows: ZSet) -> tuple[Difference, str]:
        """How it differs from its query, and why it may where it may."""
        lost = self._subject.unreadable.keys() & {
            fold(r.name) for r in self._below(view) if isinstance(r, Table)
        }
        if lost:
            raise CorruptState(f'it cannot be computed anew, since table "{min(lost)}" cannot be read')
        self._duck.make(view.name)
        found = differ(self._duck, view.schema, quote(view.name), self._limit, lambda: self._magnitude(view))
        return found, self._excuse(view, rows, found) if found else ""

    def _below(self, view: MaterializedView) -> list[Relation]:
        return _in_order(self._subject.relations, [fold(view.name)])

    # -- what may differ -------------------------------------------------------------------

    def _excuse(self, view: MaterializedView, rows: ZSet, found: Difference) -> str:
        """Why a view may differ from what DuckDB makes of it, if it may: its query has several answers."""
        if not any(_may_choose(node) for node in tree.walk(view.plan)):
            return ""
        one = is_one_answer(self._duck, view, VERIFY_ABSOLUTE_TOLERANCE * self._magnitude(view))
        if one is False or (one is None and not self._depends_on_order(view)):
            return ""
        self._duck.settle(view, rows_table(rows, view.schema))
        if one:
            return "rows that its ORDER BY does not tell apart lie at the border of its LIMIT"
        return (
            "its query has several answers, because of a LIMIT or DISTINCT ON inside it: this may be one, and "
            f"DuckDB's is another (it has {found.missing} rows that are not here, and lacks {found.extra})"
        )

    def _depends_on_order(self, view: MaterializedView) -> bool:
        """Whether DuckDB itself gives another answer when the tables' rows come in another order."""
        for seed in range(VERIFY_SHUFFLES):
            other = Recompute(
                self._subject.relations, self._subject.rows, shuffle=seed, settled=self._duck.settled
            )
            try:
                other.make(view.name)
                hold_table(self._duck, other.table(f"SELECT * FROM {quote(view.name)}"))
            finally:
                other.close()
            if differ(self._duck, view.schema, quote(view.name), 0, lambda: self._magnitude(view)):
                return True
        return False

    def _magnitude(self, view: MaterializedView) -> float:
        """The largest float in the tables below a view, and in itself."""
        largest = 0.0
        for relation in self._below(view):
            rows = self._subject.rows.get(fold(relation.name))
            for column in () if rows is None else rows.columns:
                if column.type.is_float and len(column):
                    values = np.abs(np.where(column.is_null(), 0, column.values).astype(np.float64))
                    largest = max(largest, float(values[np.isfinite(values)].max(initial=0.0)))
        return largest


def _may_choose(node: Node) -> bool:
    """Whether a node takes some of several rows, and which is not always said."""
    return isinstance(node, TopK) or (
        isinstance(node, Aggregate) and any(a.name == "first" for a in node.aggs)
    )
