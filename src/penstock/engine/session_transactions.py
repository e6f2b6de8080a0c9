"""The side of a session that has a transaction.

What a transaction sees, and when it is refused:

- A statement outside BEGIN ... COMMIT is an epoch of its own.
- Inside, every statement sees the newest committed epoch and the transaction's own changes, in tables and views
  alike. One statement always sees one epoch.
- Nobody else sees its changes before COMMIT, which makes them one epoch.
- What INSERT, UPDATE and DELETE read (the rows under the keys that a WHERE names, or else whole tables and views)
  must not have changed by others before COMMIT, and their changes must still fit: no key that exists now, no row
  that is gone. Else the transaction is refused with SerializationFailure (40001), at its next statement or at
  COMMIT; run again it may well succeed. So no update is ever lost.
- With ISOLATION LEVEL REPEATABLE READ or SERIALIZABLE this goes for what SELECT read as well (whole tables and
  views): such transactions are serialisable, as if each had happened at its COMMIT. READ COMMITTED is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from penstock.base.errors import (
    ActiveTransaction,
    InvalidOption,
    TransactionError,
    TransactionFailed,
    UndefinedSavepoint,
)
from penstock.engine import statements as run
from penstock.engine.read import RowsOf
from penstock.engine.session_parts import SessionParts
from penstock.engine.transaction import Transaction
from penstock.sql import statements as st

ISOLATION_LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")
_SERIALISABLE = ISOLATION_LEVELS[2:]


class TransactionSide(SessionParts):
    """Where changes go, what is seen of them, and the statements that begin and end a transaction."""

    def _rows_of(self) -> RowsOf:
        """The rows that a query sees."""
        transaction = self.transaction
        if transaction is None:
            return lambda _: None
        return transaction.read if self._serialisable else transaction.look

    def view(self) -> Transaction:
        """How the flow looks to this session."""
        self.check_not_aborted()
        return self.transaction if self.transaction is not None else Transaction(self._flow._core)

    def change(self, work: Callable[[Transaction], pa.Table]) -> pa.Table:
        """Run what changes rows: in the open transaction, or as an epoch of its own."""
        if self.transaction is not None:
            return work(self.transaction)
        transaction = Transaction(self._flow._core)
        answer = work(transaction)
        self._flow._commit(transaction, self._arrived_us)
        return answer

    def begin(self, read_only: bool = False, isolation: str | None = None) -> None:
        """BEGIN."""
        if self.transaction is not None:
            raise ActiveTransaction("a transaction is open already", hint="COMMIT or ROLLBACK first.")
        self.transaction = Transaction(self._flow._core, read_only, several=True)
        self._level = isolation or self.isolation
        self._savepoints.clear()

    @property
    def _serialisable(self) -> bool:
        return self._level in _SERIALISABLE

    @property
    def isolation_now(self) -> str:
        """Of the transaction that is open, or of the next one."""
        return self.isolation if self.transaction is None else self._level

    def isolate(self, level: str) -> None:
        """SET TRANSACTION ISOLATION LEVEL: for what the open transaction reads from now on."""
        _check_isolation(level)
        self._level = level

    def abort(self) -> None:
        """A statement has failed, and with it the open transaction: until its end nothing else is accepted."""
        self.aborted = self.transaction is not None

    def check_not_aborted(self) -> None:
        if self.aborted:
            raise TransactionFailed(
                "current transaction is aborted, commands ignored until end of transaction block",
                hint="ROLLBACK, or ROLLBACK TO a savepoint.",
            )

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        """Around a statement."""
        try:
            yield
        except ActiveTransaction:
            raise  # Postgres only warns, and the transaction goes on
        except BaseException:
            self.abort()
            raise

    def rollback(self) -> None:
        """Forget the open transaction, if there is one."""
        self.transaction = None
        self.aborted = False
        self._savepoints.clear()

    def _transact(self, s: st.Statement) -> pa.Table:
        if isinstance(s, st.Begin):
            self.begin(s.read_only, s.isolation)
            return run.status("BEGIN")
        transaction = self.transaction
        if transaction is None:
            raise TransactionError("there is no transaction to end", hint="BEGIN one first.")
        if isinstance(s, (st.Savepoint, st.Release, st.RollbackTo)):
            return self._savepoint(s, transaction)
        aborted = self.aborted
        self.rollback()
        if aborted or isinstance(s, st.Rollback):  # Postgres answers to COMMIT with this tag, too
            return run.status("ROLLBACK")
        transaction.refresh(self._flow._core)
        self._flow._commit(transaction, self._arrived_us)
        return run.status("COMMIT")

    def _savepoint(self, s: st.Savepoint | st.Release | st.RollbackTo, transaction: Transaction) -> pa.Table:
        if isinstance(s, st.Savepoint):
            self._savepoints.append((s.name, transaction.mark()))
            return run.status("SAVEPOINT")
        places = [i for i, (name, _) in enumerate(self._savepoints) if name == s.name]
        if not places:
            raise UndefinedSavepoint(f'savepoint "{s.name}" does not exist')
        if isinstance(s, st.Release):
            del self._savepoints[places[-1] :]
            return run.status("RELEASE")
        transaction.go_back(self._savepoints[places[-1]][1])
        del self._savepoints[places[-1] + 1 :]
        self.aborted = False
        return run.status("ROLLBACK")

    def set_isolation(self, level: str) -> None:
        """For transactions that begin from now on and do not say."""
        _check_isolation(level)
        self.isolation = level


def _check_isolation(level: str) -> None:
    if level not in ISOLATION_LEVELS:
        raise InvalidOption(
            f'there is no isolation level "{level}"', hint=f"They are {', '.join(ISOLATION_LEVELS)}."
        )
