"""A transaction: the changes that several statements have gathered, to be one epoch.

Its own statements see its changes, in tables and in views alike: a read inside it works out what
the epoch would do and reads that. Nothing is committed before COMMIT.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.accept import accept
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.consolidate import consolidated
from penstock.engine.core import Change, Core, added, as_zset
from penstock.run.inline import Epoch
from penstock.zset.zset import ZSet


class Transaction:
    """Also how a single statement sees the flow: a transaction that has changed nothing yet."""

    def __init__(self, core: Core, read_only: bool = False) -> None:
        self.core = core
        self.read_only = read_only
        self.changes: dict[str, Change] = {}  # by table name
        self._epoch: Epoch | None = None  # what the changes would do; None where not worked out

    def apply(self, table: Table, delta: ZSet) -> None:
        """Add a delta to the transaction, or raise and leave it as it was."""
        if len(delta):
            self.changes[table.name] = accept(table, delta, self.pending(table))
            self._epoch = None

    def pending(self, table: Table) -> ZSet | None:
        change = self.changes.get(table.name)
        return change[0] if change is not None else None

    def epoch(self) -> Epoch:
        """What committing would do."""
        if self._epoch is None:
            changes = {n: c for n, c in self.changes.items() if len(c[0])}
            self._epoch = self.core.propose(changes)
        return self._epoch

    def commit(self) -> dict[str, ZSet]:
        """Commit as one epoch: the changes of the views."""
        epoch = self.epoch()
        changes = {n: c for n, c in self.changes.items() if len(c[0])}
        return self.core.commit(changes, epoch)

    # -- reads -----------------------------------------------------------------------------

    def rows(self, relation: Table | MaterializedView) -> ZSet:
        """A relation's rows as this transaction sees them."""
        if isinstance(relation, Table):
            delta = self.pending(relation)
        else:
            found = self.epoch().deltas.get(relation.node)
            delta = None if found is None else as_zset(found)
        rows = relation.rows()
        if delta is None or not len(delta):
            return rows
        return consolidated(added(rows, delta), relation.schema.types)

    def query(
        self, sql: str, overrides: dict[str, ZSet] | None = None, extra: dict[str, pa.Table] | None = None
    ) -> pa.Table:
        rows_of = self.rows if self.changes else None
        return self.core.reader.query(sql, rows_of, overrides, extra)
