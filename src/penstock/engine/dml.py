"""INSERT, UPDATE, DELETE and TRUNCATE: each becomes a delta of one table.

DuckDB evaluates the statement's expressions and queries over the rows as they are; what comes back
is the rows to add and to remove. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.base.errors import (
    BindError,
    CardinalityViolation,
    UndefinedColumn,
    WrongColumnCount,
)
from penstock.engine.catalog import Table, expand
from penstock.engine.core import Core
from penstock.engine.error_places import positions_from
from penstock.engine.plain_values import plain_rows
from penstock.engine.point import named_keys
from penstock.engine.showing import arrow_table
from penstock.sql import statements as st
from penstock.sql.parse_dml import values_rows
from penstock.sql.tokens import fold, quote
from penstock.state.batch import Layout, build
from penstock.state.grouping import group_rows
from penstock.zset.interchange import from_arrow
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, empty_zset, union


class View(Protocol):
    """How a statement sees the flow: the committed rows, with its transaction's own changes."""

    core: Core

    def query(
        self, sql: str, overrides: dict[str, ZSet] | None = None, extra: dict[str, pa.Table] | None = None
    ) -> pa.Table: ...

    def pending(self, table: Table) -> ZSet | None: ...

    def rows(self, table: Table) -> ZSet: ...

    def rows_at(self, table: Table, keys: ZSet) -> ZSet: ...


@dataclass(frozen=True)
class Effect:
    """What a statement does: a table's delta, and the rows that RETURNING sees."""

    table: Table
    delta: ZSet
    affected: ZSet


# -- INSERT ----------------------------------------------------------------------------------------


def insert(view: View, statement: st.Insert) -> Effect:
    table = view.core.table(statement.table)
    rows = _proposed(view, table, statement)
    if statement.on_conflict is None:
        return Effect(table, rows, rows)
    return _on_conflict(view, table, statement, rows)


def _proposed(view: View, table: Table, statement: st.Insert) -> ZSet:
    """The rows that an INSERT brings, with defaults and casts."""
    plain = plain_rows(table, statement)
    if plain is not None:
        return plain
    schema = table.schema
    source = statement.source.text
    targets = positions(table, statement.columns) if statement.columns is not None else None
    if statement.default_values:
        source, targets = "SELECT 1", []
    elif not statement.by_name:
        source = _values_list(table, statement, targets)
    with_text = f"{statement.with_text.text} " if statement.with_text else ""
    if statement.by_name:
        with positions_from(with_text + source, _insert_pieces(statement)):
            given = [name for name, _ in view.core.reader.columns(with_text + source)]
        targets = positions(table, given)
    if targets is None:
        targets = list(range(len(schema)))
    names = [quote(f"p{i}") for i in range(max(len(targets), 1))]
    if not statement.default_values:
        _check_width(view, statement, with_text + source, targets)
    place = {t: names[i] for i, t in enumerate(targets)}
    items = []
    for i, (name, type) in enumerate(zip(schema.names, schema.types, strict=True)):
        value = place.get(i) or f"({table.default_texts[i] or 'NULL'})"
        items.append(f"CAST({value} AS {type.duck}) AS {quote(name)}")
    sql = f"{with_text}SELECT {', '.join(items)} FROM ({source}) AS penstock_source({', '.join(names)})"
    with positions_from(sql, _insert_pieces(statement)):
        return as_rows(table, view.query(sql))


def _insert_pieces(statement: st.Insert) -> Iterator[st.Slice | None]:
    """The pieces of the statement that stand in the query for its rows."""
    yield from (statement.with_text, statement.source)
    for row in values_rows(statement.source) or ():  # it may have been put together anew
        yield from row


def _check_width(view: View, statement: st.Insert, source: str, targets: Sequence[int]) -> None:
    with positions_from(source, _insert_pieces(statement)):
        given = len(view.core.reader.columns(source))
    if given != len(targets):
        more = "more" if given > len(targets) else "fewer"
        raise WrongColumnCount(
            f'INSERT has {more} values ({given}) than columns ({len(targets)}) of "{statement.table}"',
            hint="Name the columns: INSERT INTO t (a, b) VALUES ...",
        )


def _values_list(table: Table, statement: st.Insert, targets: list[int] | None) -> str:
    """The source; of a VALUES list with each value cast to its column's type by itself, and defaults in their places.

    Left as they are, the values of a column are first brought to one type: of (1.5), ('99.995') that is DECIMAL(2,1).
    """
    rows = values_rows(statement.source)
    if rows is None:
        if statement.has_default:
            raise BindError("DEFAULT is only known in a VALUES list")
        return statement.source.text
    positions = targets if targets is not None else range(len(table.schema))
    if not statement.has_default and any(len(row) != len(positions) for row in rows):
        return statement.source.text  # which is wrong, and said to be so by whoever counts its columns
    types = [table.schema.types[p].duck for p in positions]
    texts = []
    for row in rows:
        if len(row) > len(positions):
            raise WrongColumnCount(f'INSERT has more values than columns of "{table.name}"')
        items = [
            f"({table.default_texts[p] or 'NULL'})" if item.text.upper() == "DEFAULT" else item.text
            for item, p in zip(row, positions, strict=False)
        ]
        casts = [f"CAST({item} AS {type})" for item, type in zip(items, types, strict=False)]
        texts.append(f"({', '.join(casts)})")
    return "VALUES " + ", ".join(texts)


def positions(table: Table, columns: Sequence[str]) -> list[int]:
    """The places of columns by name."""
    known = {fold(n): i for i, n in enumerate(table.schema.names)}
    for column in columns:
        if fold(column) not in known:
            raise UndefinedColumn(
                f'table "{table.name}" has no column "{column}"',
                hint=f"Its columns are {', '.join(table.schema.names)}.",
            )
    return [known[fold(c)] for c in columns]


def _on_conflict(view: View, table: Table, statement: st.Insert, rows: ZSet) -> Effect:
    conflict = statement.on_conflict
    assert conflict is not None
    if table.keyed is None:
        raise BindError(f'table "{table.name}" has no primary key that could conflict')
    if conflict.target is not None and set(positions(table, conflict.target)) != set(table.key):
        key = ", ".join(table.schema.names[k] for k in table.key)
        raise BindError("ON CONFLICT must name the primary key", hint=f"It is ({key}).")
    rows = expand(rows)
    keys = [rows.columns[k] for k in table.key]
    groups = group_rows(keys, len(rows))
    first = np.sort(groups.first_rows())
    if len(first) < len(rows):
        if conflict.action == "update":
            raise CardinalityViolation(
                "ON CONFLICT DO UPDATE cannot change a row a second time",
                hint="Give each key once in one INSERT.",
            )
        rows = rows.take(first)
    old = view.rows_at(table, rows)
    taken = _keys_in(table, rows, old)
    fresh = rows.filter(~taken)
    if conflict.action == "nothing" or not len(old):
        return Effect(table, fresh, fresh)
    before, after = _conflict_update(view, table, statement, rows.filter(taken), old)
    return Effect(table, union([fresh, before.negate(), after]), union([fresh, after]))


def _keys_in(table: Table, rows: ZSet, others: ZSet) -> np.ndarray:
    """True for the rows whose key is among the others'."""
    if not len(others):
        return np.zeros(len(rows), np.bool_)
    both = union([rows.select(table.key), others.select(table.key)])
    groups = group_rows(both.columns, len(both))
    member = groups.member_of(len(both))
    hit = np.zeros(len(groups.starts), np.bool_)
    hit[member[len(rows) :]] = True
    return hit[member[: len(rows)]]


def _conflict_update(
    view: View, table: Table, statement: st.Insert, proposed: ZSet, old: ZSet
) -> tuple[ZSet, ZSet]:
    """The rows that DO UPDATE takes out and those that it puts in. `excluded` is a struct beside the old
    row's columns, so that a bare name means the old row, as in Postgres."""
    conflict = statement.on_conflict
    assert conflict is not None
    names = table.schema.names
    excluded = ", ".join(
        f"{quote(n)} := CAST(e.c{i} AS {t.duck})" for i, (n, t) in enumerate(_columns(table))
    )
    on = " AND ".join(f"o.c{k} = e.c{k}" for k in table.key)
    own = ", ".join(f"CAST(o.c{i} AS {t.duck}) AS {quote(n)}" for i, (n, t) in enumerate(_columns(table)))
    pairs = (
        f"(SELECT {own}, struct_pack({excluded}) AS excluded FROM penstock_old AS o "
        f"JOIN penstock_new AS e ON {on}) AS {quote(statement.alias or statement.table)}"
    )
    where = f" WHERE {conflict.where.text}" if conflict.where else ""
    before = ", ".join(f"{quote(n)} AS b{i}" for i, n in enumerate(names))
    after = _assigned(table, conflict.assignments, [quote(n) for n in names])
    sql = f"SELECT {before}, {after.columns} FROM {after.source(pairs)}{where}"
    plain = {"penstock_old": _numbered(table, old), "penstock_new": _numbered(table, proposed)}
    with positions_from(sql, [*_values(conflict.assignments), conflict.where]):
        return _before_and_after(table, view.query(sql, extra=plain))


# -- UPDATE and DELETE -----------------------------------------------------------------------------


def update(view: View, statement: st.Update) -> Effect:
    table = view.core.table(statement.table)
    alias = quote(statement.alias or statement.table)
    before = ", ".join(f"{alias}.{quote(n)} AS b{i}" for i, n in enumerate(table.schema.names))
    after = _assigned(table, statement.assignments, [f"{alias}.{quote(n)}" for n in table.schema.names])
    tail = _tail(statement.from_text, statement.where)
    with_text = f"{statement.with_text.text} " if statement.with_text else ""
    source = after.source(f"{quote(table.name)} AS {alias}{tail[0]}")
    sql = f"{with_text}SELECT {before}, {after.columns} FROM {source}{tail[1]}"
    pieces = [statement.with_text, *_values(statement.assignments), statement.from_text, statement.where]
    with positions_from(sql, pieces):
        answer = _over_touched(view, table, sql)
    old, new = _before_and_after(table, answer)
    if statement.from_text is not None:
        kept = _once_each(view, table, old)
        old, new = old.take(kept), new.take(kept)
    return Effect(table, union([old.negate(), new]), new)


def delete(view: View, statement: st.Delete) -> Effect:
    table = view.core.table(statement.table)
    alias = quote(statement.alias or statement.table)
    columns = ", ".join(f"{alias}.{quote(n)} AS b{i}" for i, n in enumerate(table.schema.names))
    tail = _tail(statement.using_text, statement.where)
    with_text = f"{statement.with_text.text} " if statement.with_text else ""
    sql = f"{with_text}SELECT {columns} FROM {quote(table.name)} AS {alias}{tail[0]}{tail[1]}"
    with positions_from(sql, [statement.with_text, statement.using_text, statement.where]):
        rows = as_rows(table, _over_touched(view, table, sql))
    if statement.using_text is not None:
        rows = rows.take(_once_each(view, table, rows))
    return Effect(table, rows.negate(), rows)


def truncate(view: View, table: Table) -> Effect:
    rows = view.rows(table)
    return Effect(table, rows.negate(), rows)


def _tail(from_text: st.Slice | None, where: st.Slice | None) -> tuple[str, str]:
    return (f", {from_text.text}" if from_text else ""), (f" WHERE {where.text}" if where else "")


def _over_touched(view: View, table: Table, sql: str) -> pa.Table:
    """The query over the table, or over only the rows under the keys that its WHERE names."""
    keys = named_keys(view.core.binder, table, sql)
    return view.query(sql, overrides=None if keys is None else {fold(table.name): view.rows_at(table, keys)})


@dataclass(frozen=True)
class Assigned:
    """New values: select items named a0, a1, ..., over a source that evaluates row subqueries once."""

    columns: str
    structs: tuple[str, ...]

    def source(self, base: str) -> str:
        extra = "".join(
            f", LATERAL (SELECT {s} AS s{i}) AS penstock_s{i}" for i, s in enumerate(self.structs)
        )
        return base + extra


def _assigned(table: Table, assignments: Sequence[st.Assignment], old: Sequence[str]) -> Assigned:
    """What each column becomes; `old` are the columns as they are."""
    values = list(old)
    structs: list[str] = []
    for assignment in assignments:
        places = positions(table, assignment.columns)
        if assignment.is_default:
            values[places[0]] = f"({table.default_texts[places[0]] or 'NULL'})"
        elif len(places) == 1:
            values[places[0]] = f"({assignment.expression})"
        else:
            for field, position in enumerate(places):
                values[position] = f'penstock_s{len(structs)}.s{len(structs)}."_c{field}"'
            structs.append(assignment.expression)
    types = table.schema.types
    columns = ", ".join(
        f"CAST({v} AS {t.duck}) AS a{i}" for i, (v, t) in enumerate(zip(values, types, strict=True))
    )
    return Assigned(columns, tuple(structs))


def _values(assignments: Sequence[st.Assignment]) -> list[st.Slice]:
    return [assignment.value for assignment in assignments]


def _before_and_after(table: Table, answer: pa.Table) -> tuple[ZSet, ZSet]:
    width = len(table.schema)
    return as_rows(table, answer, 0), as_rows(table, answer, width)


def _once_each(view: View, table: Table, old: ZSet) -> np.ndarray:
    """With FROM or USING a row may match several times: it is changed once, as often as it is there."""
    groups = group_rows(old.columns, len(old))
    if len(groups.starts) == len(old):
        return np.arange(len(old))
    order = np.arange(len(old)) if groups.order is None else groups.order
    one_each = old.take(groups.first_rows())
    limit = (
        np.ones(len(one_each), np.int64) if table.keyed is not None else _multiplicity(view, table, one_each)
    )
    place = np.arange(len(old)) - np.repeat(groups.starts, np.diff(np.append(groups.starts, len(old))))
    allowed = np.repeat(limit, np.diff(np.append(groups.starts, len(old))))
    return np.sort(order[place < allowed])


def _multiplicity(view: View, table: Table, rows: ZSet) -> np.ndarray:
    assert table.bag is not None
    counts = table.bag.weights_of(rows)
    pending = view.pending(table)
    if pending is not None and len(pending):
        types = table.schema.types
        layout = Layout(types, tuple(range(len(types))), unique=True)
        both = union([ZSet(rows.columns, np.zeros(len(rows), np.int64)), pending])
        extra = build(layout, both.columns, (both.weights,)).zset()
        for i in range(len(rows)):
            one = rows.take(np.array([i]))
            hits = group_rows(union([one, extra]).columns, 1 + len(extra)).member_of(1 + len(extra))
            counts[i] += int(extra.weights[hits[1:] == hits[0]].sum())
    return counts


# -- rows ------------------------------------------------------------------------------------------


def as_rows(table: Table, answer: pa.Table, start: int = 0) -> ZSet:
    """Columns of an answer as rows of the table."""
    types = table.schema.types
    if not answer.num_rows:
        return empty_zset(types)
    columns = tuple(from_arrow(answer.column(start + i), t) for i, t in enumerate(types))
    return ZSet(columns, np.ones(answer.num_rows, np.int64))


def returning(view: View, table: Table, alias: str | None, rows: ZSet, items: st.Slice) -> pa.Table:
    columns = ", ".join(f"CAST(c{i} AS {t.duck}) AS {quote(n)}" for i, (n, t) in enumerate(_columns(table)))
    source = f"(SELECT {columns} FROM penstock_affected) AS {quote(alias or table.name)}"
    sql = f"SELECT {items.text} FROM {source}"
    with positions_from(sql, [items]):
        return view.query(sql, extra={"penstock_affected": _numbered(table, rows)})


def _columns(table: Table) -> list[tuple[str, SqlType]]:
    return list(zip(table.schema.names, table.schema.types, strict=True))


def _numbered(table: Table, rows: ZSet) -> pa.Table:
    plain = type(table.schema)(tuple(f"c{i}" for i in range(len(table.schema))), table.schema.types)
    return arrow_table(rows, plain, plain=False)
