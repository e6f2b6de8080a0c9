"""A transaction: the changes that several statements have gathered, to be one epoch.

Its own statements see its changes, in tables and in views alike: a read inside it works out what
the epoch would do and reads that. Nothing is committed before COMMIT.

Others commit while it is open. Before each of its statements, and at COMMIT, `refresh` looks at what they did: the
rows that its changes were made from must be as they were, and its changes must fit the rows that are there now.
Then it is as if all of it had happened now; else it is refused and can be tried again.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.base.errors import MissingRow, SerializationFailure, UniqueViolation
from penstock.base.undivided import Undivided
from penstock.engine.accept import accept, rows_at
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.consolidate import consolidated
from penstock.engine.core import Core
from penstock.engine.epochs import added, as_zset
from penstock.run.inline import Epoch
from penstock.state.batch import Batch
from penstock.state.scattered import Rows
from penstock.zset.few import Few
from penstock.zset.zset import ZSet, union

Accepted = tuple[ZSet, Batch | None]  # a table's delta, checked, and the same arranged by its key


@dataclass(frozen=True)
class WholeRead:
    """All rows of a relation were looked at, in a version of them."""

    relation: Table | MaterializedView
    version: int

    def holds(self) -> bool:
        return self.relation.version == self.version


@dataclass(frozen=True)
class KeyRead:
    """The rows under some keys were looked at, and these were found."""

    relation: Table
    version: int
    keys: ZSet
    found: ZSet

    def holds(self) -> bool:
        if self.relation.version == self.version:
            return True
        now = rows_at(self.relation, self.keys, None)
        return not len(consolidated(union([now, self.found.negate()]), self.relation.schema.types))


@dataclass(frozen=True)
class Mark:
    """A place in a transaction to which it can go back: a savepoint."""

    changes: dict[str, Accepted]
    reads: tuple[WholeRead | KeyRead, ...]


class Transaction:
    """Also how a single statement sees the flow: a transaction that has changed nothing yet.

    `several` says that it is more than one statement: only then can others commit in between, and only then is it
    noted what was read.
    """

    __slots__ = (
        "_all_effective", "_epoch", "_reads", "_seen", "_several", "_tables", "changes", "core", "read_only",
    )  # fmt: skip

    def __init__(self, core: Core, read_only: bool = False, several: bool = False) -> None:
        self.core = core
        self.read_only = read_only
        self.changes: dict[str, Accepted] = {}  # by table name
        self._all_effective = True  # no change is known that leaves nothing to do
        self._tables: dict[str, Table] = {}  # those of the changes: a name may come to mean another one
        self._several = several
        self._reads: list[WholeRead | KeyRead] = []
        self._seen = core.epoch, core.catalog.changes
        self._epoch: Epoch | None = None  # what the changes would do; None where not worked out

    def apply(self, table: Table, delta: ZSet) -> None:
        """Add a delta to the transaction, or raise and leave it as it was."""
        if delta.rows if delta.__class__ is Few else len(delta):
            accepted = accept(table, delta, self.pending(table) if self.changes else None)
            self.changes[table.name] = accepted
            self._tables[table.name] = table
            self._all_effective = self._all_effective and accepted[0] is delta
            self._epoch = None

    def pending(self, table: Table) -> ZSet | None:
        change = self.changes.get(table.name)
        return change[0] if change is not None else None

    def epoch(self) -> Epoch:
        """What committing would do."""
        if self._epoch is None:
            self._epoch = self.core.propose(self.changes if self._all_effective else self.effective())
        return self._epoch

    def effective(self) -> dict[str, Accepted]:
        """The changes that leave something to do."""
        if self._all_effective:
            return self.changes
        return {n: c for n, c in self.changes.items() if len(c[0])}

    def commit(self) -> dict[str, Rows]:
        """Commit as one epoch: the changes of the views."""
        epoch = self.epoch()
        with Undivided():
            return self.core.commit(self.effective(), epoch)

    # -- other sessions --------------------------------------------------------------------

    def _state(self) -> tuple[int, int]:
        return self.core.epoch, self.core.catalog.changes

    def refresh(self, core: Core) -> None:
        """Take note of what others have committed; raise if this transaction does not go together with it."""
        if core is not self.core:  # a reader has read everything anew
            if self.changes or self._reads:
                raise _conflict("the flow was read anew")
            self.core = core
        if self._state() == self._seen:
            return
        for read in self._reads:
            self._check_there(read.relation)
            if not read.holds():
                raise _conflict(f'rows of "{read.relation.name}" that it is built on have changed')
        changes = {}
        for name, (delta, _) in self.changes.items():
            table = self._tables[name]
            self._check_there(table)
            try:
                changes[name] = accept(table, delta)
            except (MissingRow, UniqueViolation) as error:
                raise _conflict(error.message) from None
        self.changes = changes
        self._all_effective = False
        self._epoch = None
        self._seen = self._state()

    def _check_there(self, relation: Table | MaterializedView) -> None:
        if self.core.catalog.find(relation.name) is not relation:
            raise _conflict(f'{relation.kind} "{relation.name}" was dropped')

    def mark(self) -> Mark:
        return Mark(dict(self.changes), tuple(self._reads))

    def go_back(self, mark: Mark) -> None:
        """Forget what came after a mark."""
        self.changes, self._reads = dict(mark.changes), list(mark.reads)
        self._all_effective = False
        self._seen = (-1, -1)  # the mark may be older than what others did: look again
        self._epoch = None
        self.refresh(self.core)

    # -- reads -----------------------------------------------------------------------------

    def rows(self, relation: Table | MaterializedView) -> ZSet:
        """A relation's rows as this transaction sees them."""
        self._note(relation)
        own = self._own_rows(relation)
        return relation.rows() if own is None else own

    def rows_at(self, table: Table, keys: ZSet) -> ZSet:
        """The rows under the keys of these rows, as this transaction sees them."""
        if self._several:
            self._reads.append(KeyRead(table, table.version, keys, rows_at(table, keys, None)))
        return rows_at(table, keys, self.pending(table))

    def query(
        self, sql: str, overrides: dict[str, ZSet] | None = None, extra: dict[str, pa.Table] | None = None
    ) -> pa.Table:
        """A query that this transaction's changes are made from."""
        return self.core.reader.query(sql, self.read, overrides, extra)

    def look(self, relation: Table | MaterializedView) -> ZSet | None:
        """Rows for somebody who looks at them and changes nothing by them; None: the committed ones."""
        return self._own_rows(relation)

    def read(self, relation: Table | MaterializedView) -> ZSet | None:
        """The same for somebody whose changes depend on them."""
        self._note(relation)
        return self._own_rows(relation)

    def _note(self, relation: Table | MaterializedView) -> None:
        if self._several:
            self._reads.append(WholeRead(relation, relation.version))

    def _own_rows(self, relation: Table | MaterializedView) -> ZSet | None:
        """The relation's rows with this transaction's changes; None where it changes none of them."""
        if not self.changes:
            return None
        if isinstance(relation, Table):
            delta = self.pending(relation)
        else:
            found = self.epoch().deltas.get(relation.node)
            delta = None if found is None else as_zset(found)
        if delta is None or not len(delta):
            return None
        return consolidated(added(relation.rows(), delta), relation.schema.types)


def _conflict(why: str) -> SerializationFailure:
    return SerializationFailure(
        f"the transaction does not go together with what another session committed: {why}",
        hint="Roll it back and run it again.",
    )
