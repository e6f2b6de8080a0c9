"""Rows that come as a Spark DataFrame: converted and checked in tasks, never brought to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import InvalidDelta
from penstock.base.limits import FRAME_ROWS_AT_ONCE
from penstock.engine.accept import accept, describe_row, upsert
from penstock.engine.catalog import Table
from penstock.engine.ingest import Matching, to_zset
from penstock.engine.plain_dicts import WEIGHT
from penstock.engine.row_check import RowCheck
from penstock.run.compile import slot_of
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, build
from penstock.state.contents import Contents
from penstock.state.grouping import group_rows
from penstock.zset.types import Schema
from penstock.zset.zeros import places_of_zeros, unsigned_rows
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class FrameSource:
    """A table as tasks know it: enough to read rows for it, and to check them against its state."""

    name: str
    schema: Schema
    node: int
    key_node: int | None
    key: tuple[int, ...]
    not_null: tuple[int, ...]
    defaults: tuple[Any, ...]
    checks: tuple[tuple[str, RowCheck], ...]
    slot: str
    upserts: bool
    removes: bool  # rows come with weights, which may be negative
    edge: int = -1
    rows_at_once: int = FRAME_ROWS_AT_ONCE

    @staticmethod
    def of(table: Table, defaults: Sequence[Any], upserts: bool, names: Sequence[str]) -> FrameSource:
        """`names` are those of the DataFrame's columns."""
        if upserts and not table.key:
            raise InvalidDelta(
                f'table "{table.name}" has no primary key to upsert by', hint="Declare a PRIMARY KEY."
            )
        return FrameSource(
            table.name,
            table.schema,
            table.node,
            table.key_node,
            table.key,
            table.not_null,
            tuple(defaults),
            table.checks,
            f"r{table.id}" if table.key_node is None else slot_of(table.key_node, 0),
            upserts,
            WEIGHT in names,
        )

    def placed(self, edge: int) -> FrameSource:
        return replace(self, edge=edge)

    @property
    def needs_state(self) -> bool:
        """Rows that are only added to a bag are right whatever it holds."""
        return bool(self.key) or self.removes

    @property
    def columns(self) -> tuple[int, ...]:
        """Those whose hash says which partition checks a row: the table's state is sorted by it."""
        return self.key or tuple(range(len(self.schema)))

    @cached_property
    def _matching(self) -> Matching:
        return Matching(self.schema, self.name)

    def rows(self, data: pa.Table) -> ZSet:
        # Before they are dealt out: partitions go by hashes of nested values, which see the sign of a zero.
        return unsigned_rows(to_zset(data, self._matching, self.defaults), places_of_zeros(self.schema.types))

    def accept(self, rows: ZSet, state: Arrangement) -> tuple[ZSet, Batch]:
        """What the whole flow does with a delta, on one range of hashes."""
        table = Table(
            self.name, self.schema, self.node, self.not_null, self.defaults, (), self.key, self.checks
        )
        if self.key:
            table.keyed = state
        else:
            table.bag = Contents(f"table {self.name}", self.schema.types)
            table.bag.attach(state.batches, kept=False)
        if self.upserts:
            self._check_one_row_a_key(table, rows)
            rows = upsert(table, rows, None)
        delta, batch = accept(table, rows)
        if batch is None:
            batch = build(state.layout, delta.columns, (delta.weights,))
        return delta, batch

    def _check_one_row_a_key(self, table: Table, rows: ZSet) -> None:
        groups = group_rows([rows.columns[k] for k in self.key], len(rows))
        if len(groups.starts) < len(rows):
            order = np.arange(len(rows)) if groups.order is None else groups.order
            sizes = np.diff(np.append(groups.starts, len(rows)))
            row = int(order[groups.starts[np.flatnonzero(sizes > 1)[0]]])
            raise InvalidDelta(
                f'the DataFrame for "{self.name}" has several rows for one key, and no order says which of them '
                f"is the last: {describe_row(table, rows, row)}",
                hint="Keep the newest of each key: row_number() over (partition by key order by time desc) = 1.",
            )


@dataclass(frozen=True)
class Frame:
    """A DataFrame for a table."""

    source: FrameSource
    data: Any
    state: Arrangement  # the table's rows as they are
