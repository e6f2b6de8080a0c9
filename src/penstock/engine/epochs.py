"""The flow's heart: the catalog, the circuit, and how an epoch happens.

Every change goes through `propose` (which works out what an epoch would do, and changes nothing)
and `commit` (which cannot fail for a reason that lies in the data).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.base.errors import PenstockError, StateBroken, WrongObjectType
from penstock.base.undivided import Undivided
from penstock.circuit.build import Source
from penstock.circuit.circuit import Circuit
from penstock.circuit.operator import Delta
from penstock.engine.audit import AuditLog
from penstock.engine.catalog import Catalog, MaterializedView, Table
from penstock.engine.frames import Frame
from penstock.run.compile import Outputs
from penstock.run.distributed import Executor, FrameExecutor
from penstock.run.inline import Epoch, run
from penstock.state.batch import Batch
from penstock.state.scattered import Rows, Scattered
from penstock.zset.zset import ZSet, union

Change = tuple[Rows, Batch | None]  # a table's delta, and (unless tasks have arranged it) the same by its key


class Epochs:
    """What there is, and what happens to its rows. What there is comes and goes in `core.py`."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self.clock_us = clock_us
        self.catalog = Catalog()
        self.circuit = Circuit()
        self.epoch = 0
        self.executor: Executor | None = None  # where epochs run; None: here
        self.audit = AuditLog(clock_us, lambda: self.epoch)
        self.failure: str | None = None  # why the state is that of no epoch, if it is

    # -- epochs ----------------------------------------------------------------------------

    def propose(self, changes: Mapping[str, Change]) -> Epoch:
        """What an epoch with these (accepted) changes of tables would do."""
        deltas = self._deltas(changes)
        try:
            if self.executor is not None:
                return self.executor.run(self.circuit, deltas, self.outputs())
            return run(self.circuit, deltas)
        except PenstockError as error:
            raise self._located(error, list(changes)) from None

    def _deltas(self, changes: Mapping[str, Change]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for name, (delta, batch) in changes.items():
            table = self.table(name)
            deltas[table.node] = delta.zset() if isinstance(delta, Scattered) else delta
            if table.key_node is not None:
                deltas[table.key_node] = batch
        return deltas

    def propose_frames(self, changes: Mapping[str, Change], frames: Sequence[Frame]) -> Epoch:
        """The same with DataFrames among the changes, which tasks check first."""
        deltas = self._deltas(changes)
        assert isinstance(self.executor, FrameExecutor)
        try:
            return self.executor.run_frames(self.circuit, deltas, self.outputs(), frames)
        except PenstockError as error:
            raise self._located(error, [*changes, *(f.source.name for f in frames)]) from None

    def outputs(self) -> Outputs:
        """The nodes that give the rows of materialized views."""
        return {view.node: view.schema.types for view in self.catalog.materialized()}

    def _located(self, error: PenstockError, tables: Sequence[str]) -> PenstockError:
        """The error of an operator, with the tables whose rows it met and the view it worked for."""
        if error.node is None:
            return error
        below = {n.id for n in self.circuit.below([error.node])}
        met = [f'"{name}"' for name in tables if self.table(name).node in below]
        views = [v.name for v in self.catalog.materialized() if error.node in self._needed_by(v)]
        where = f'in a row of table {" or ".join(met)}, for view "{views[0]}"' if views else ""
        return type(error)(f"{error.message}, {where}" if where else error.message, hint=error.hint)

    def _needed_by(self, view: MaterializedView) -> set[int]:
        return {n.id for n in self.circuit.below([view.node])}

    def commit(self, changes: Mapping[str, Change], epoch: Epoch) -> dict[str, Rows]:
        """Make it so: the changes of the materialized views, by name. Whoever calls holds off signals, since more
        than this belongs to an epoch."""
        try:
            self._commit_tables(changes)
            epoch.commit()
            self.epoch += 1
            return self._commit_views(epoch)
        except BaseException as error:
            self._stop(error)
            raise

    def _stop(self, error: BaseException) -> None:
        """What must happen whole has failed half-way: the state is good for nothing any more."""
        self.failure = str(error) or type(error).__name__
        self.audit.record("stopped", error=self.failure)

    def check(self) -> None:
        """Raise if an epoch has been applied by half."""
        if self.failure is not None:
            raise StateBroken(
                f"the flow has stopped: an epoch could not be applied whole ({self.failure})",
                hint="Open it again: storage has every epoch that was acknowledged. In memory it is lost.",
            )

    def _commit_tables(self, changes: Mapping[str, Change]) -> None:
        for name, (delta, batch) in changes.items():
            table = self.table(name)
            if batch is not None:
                assert table.keyed is not None
                table.keyed.append(batch)
            elif table.keyed is not None:
                assert isinstance(delta, Scattered)
                for part in delta.parts:
                    table.keyed.append(part)
            else:
                assert table.bag is not None
                table.bag.append(delta)
            table.version += 1

    def follow(self, changes: Mapping[str, Change], views: Mapping[str, ZSet]) -> None:
        """Take over an epoch that another process worked out: rows alone, no operator runs."""
        with Undivided():
            try:
                self._commit_tables(changes)
                for name, rows in views.items():
                    view = self.catalog.get(name)
                    assert isinstance(view, MaterializedView)
                    view.contents.append(rows)
                    view.version += 1
                self.epoch += 1
            except BaseException as error:
                self._stop(error)
                raise

    def _commit_views(self, epoch: Epoch) -> dict[str, Rows]:
        changed: dict[str, Rows] = {}
        deltas = epoch.deltas
        for view in self.catalog.materialized():
            delta = deltas.get(view.node)
            if delta is None:
                continue
            rows = delta.zset() if isinstance(delta, Batch) else delta
            view.contents.append(rows)
            view.version += 1
            changed[view.name] = rows
        return changed

    # -- names -----------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        known = self.catalog.folded_tables.get(name)  # every tick asks several times
        if known is not None:
            return known
        found = self.catalog.get(name)
        if not isinstance(found, Table):
            raise WrongObjectType(
                f'"{found.name}" is a {found.kind}, not a table', hint="Change its tables instead."
            )
        return found

    def source(self, name: str) -> Source:
        found = self.catalog.get(name)
        assert isinstance(found, (Table, MaterializedView))
        return Source(found.node, found.schema.types, found.schema.names)


def as_zset(delta: Delta | Scattered) -> ZSet:
    assert delta is not None
    return delta if isinstance(delta, ZSet) else delta.zset()


def added(rows: ZSet, delta: ZSet | None) -> ZSet:
    """Rows with a change added, for reads inside a transaction; equal rows are not yet added up."""
    return rows if delta is None or not len(delta) else union([rows, delta])
