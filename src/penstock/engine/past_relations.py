"""The relations that a statement reads AS OF an epoch or a time: they are there while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from penstock.base.errors import DuplicateObject, InvalidOption, PenstockError, SqlSyntaxError
from penstock.base.undivided import Undivided
from penstock.engine.as_of import Past
from penstock.engine.catalog import View
from penstock.engine.core import Core
from penstock.engine.read import plain_names
from penstock.engine.showing import arrow_table
from penstock.sql.statements import AsOf, Slice
from penstock.sql.tokens import quote
from penstock.zset.types import BIGINT, VARCHAR, Schema

Columns = Sequence[tuple[str, str]]  # names and types


@contextmanager
def past_relations(core: Core, as_of: Sequence[AsOf], past: Callable[[], Past]) -> Iterator[None]:
    """Give DuckDB, under the name that stands for each, the rows as they were."""
    found: dict[tuple[str, int], tuple[pa.Table, Columns]] = {}
    shown: list[str] = []
    try:
        for item in as_of:
            with _placed(item):
                if core.catalog.find(item.stands_for) is not None:
                    raise DuplicateObject(
                        f'"{item.stands_for}" is a name that AS OF needs', hint="Rename what is called so."
                    )
                relation = core.catalog.get(item.relation)
                history = past()
                key = relation.name, history.epoch(_moment(core, item))
                if key not in found:
                    found[key] = _rows(core, history, *key)
                with Undivided():
                    _show(core, item.stands_for, *found[key])
                    shown.append(item.stands_for)
        yield
    finally:
        with Undivided():
            for name in shown:
                core.reader.drop(name)
                core.binder.drop(name)


@contextmanager
def _placed(item: AsOf) -> Iterator[None]:
    """What is wrong with one of them is said with its place in the text."""
    try:
        yield
    except PenstockError as error:
        error.position = item.offset
        raise


def _rows(core: Core, past: Past, name: str, epoch: int) -> tuple[pa.Table, Columns]:
    relation = core.catalog.get(name)
    if isinstance(relation, View):
        answer = past.query(f"SELECT * FROM {quote(relation.name)}", epoch)
        return answer.rename_columns([f"c{i}" for i in range(answer.num_columns)]), relation.columns
    schema = relation.schema
    rows = arrow_table(past.rows(relation, epoch), Schema(plain_names(schema), schema.types), plain=False)
    return rows, [(n, t.duck) for n, t in zip(schema.names, schema.types, strict=True)]


def _show(core: Core, name: str, rows: pa.Table, columns: Columns) -> None:
    core.binder.add_columns(name, columns)
    try:
        core.reader.add_past(name, rows, columns)
    except BaseException:
        core.binder.drop(name)
        raise


def _moment(core: Core, item: AsOf) -> int | str:
    """The epoch's number or the time; an expression is worked out by DuckDB, and reads no table."""
    if not isinstance(item.value, Slice):
        return item.value
    text = item.value.text
    if core.binder.references(f"SELECT ({text})"):
        raise SqlSyntaxError("AS OF takes a constant: it cannot depend on a table or view")
    if item.unit == "epoch":
        value = core.evaluate(text, BIGINT)
        what = "the number of an epoch"
    else:  # as text, so that it has its offset
        value = core.evaluate(f"CAST(CAST(({text}) AS TIMESTAMPTZ) AS VARCHAR)", VARCHAR)
        what = "a time"
    if value is None:
        raise InvalidOption(f"{what} is not NULL")
    found: int | str = value
    return found
