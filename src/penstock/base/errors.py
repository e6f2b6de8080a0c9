"""One tree of errors, each with an SQLSTATE, whether a retry helps, and a hint that says what to do."""

from __future__ import annotations


class PenstockError(Exception):
    """The root of everything that penstock raises on purpose.

    >>> error = TypeMismatch("column \\"n\\" is BIGINT but got text", hint="Cast it.")
    >>> error.sqlstate, error.retry
    ('42804', False)
    >>> print(error)
    column "n" is BIGINT but got text
    HINT: Cast it.
    """

    sqlstate = "XX000"
    retry = False

    def __init__(self, message: str, *, hint: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.position = position  # 0-based offset into the text, where one is known
        self.statement: int | None = None  # where the statement begins in a text of several
        self.node: int | None = None  # the operator that raised it, where one did
        self.counted = False  # among the errors that a flow has met

    def __str__(self) -> str:
        return f"{self.message}\nHINT: {self.hint}" if self.hint else self.message


class SqlSyntaxError(PenstockError):
    """The statement does not parse."""

    sqlstate = "42601"


class ColumnGivenTwice(SqlSyntaxError):
    """A list of columns in the text has one of them twice."""

    sqlstate = "42701"


class UnboundParameter(SqlSyntaxError):
    """A statement with a placeholder came without values."""

    sqlstate = "42P02"


class UndefinedTable(PenstockError):
    """No table or view of that name."""

    sqlstate = "42P01"


class UndefinedColumn(PenstockError):
    """No column of that name."""

    sqlstate = "42703"


class UndefinedFunction(PenstockError):
    """No function of that name takes these arguments."""

    sqlstate = "42883"


class BindError(PenstockError):
    """The statement parses but does not make sense against the catalog."""

    sqlstate = "42000"


class UndefinedType(BindError):
    """No type of that name."""

    sqlstate = "42704"


class NothingInCommon(BindError):
    """Values of one column that have no type in common."""

    sqlstate = "42804"


class AmbiguousColumn(BindError):
    """Several tables of the query have a column of that name."""

    sqlstate = "42702"


class DuplicateColumn(BindError):
    """A column is named twice where it may be once."""

    sqlstate = "42701"


class ReservedName(BindError):
    """A name that has a meaning of its own here."""

    sqlstate = "42939"


class GroupingError(BindError):
    """A column that is not grouped, or an aggregate where none may stand."""

    sqlstate = "42803"


class WindowingError(BindError):
    """A window function where none may stand."""

    sqlstate = "42P20"


class InvalidColumnReference(BindError):
    """ORDER BY or GROUP BY counts beyond the columns of the query."""

    sqlstate = "42P10"


class WrongColumnCount(BindError):
    """Two sides that go together have different numbers of columns."""

    sqlstate = "42601"


class InvalidLimit(BindError):
    """LIMIT is negative."""

    sqlstate = "2201W"


class InvalidOffset(BindError):
    """OFFSET is negative."""

    sqlstate = "2201X"


class TypeMismatch(PenstockError):
    """A value or column has the wrong type."""

    sqlstate = "42804"


class DuplicateObject(PenstockError):
    """A table or view of that name exists."""

    sqlstate = "42P07"


class WrongObjectType(PenstockError):
    """A view where a table is needed, or the reverse."""

    sqlstate = "42809"


class DependentObjects(PenstockError):
    """Something else is built on this object."""

    sqlstate = "2BP01"


class NotMaintainable(PenstockError):
    """A view uses an operator that cannot be maintained incrementally (yet)."""

    sqlstate = "0A000"


class InvalidValue(PenstockError):
    """A value cannot be converted to the type that is asked for."""

    sqlstate = "22P02"


class InvalidDatetimeFormat(InvalidValue):
    """A text is no date or time at all."""

    sqlstate = "22007"


class DatetimeOutOfRange(InvalidValue):
    """A text has the form of a date or time that does not exist."""

    sqlstate = "22008"


class CannotCast(InvalidValue):
    """There is no cast between two types."""

    sqlstate = "42846"


class DivisionByZero(PenstockError):
    """An expression divided by zero."""

    sqlstate = "22012"


class NumericOutOfRange(PenstockError):
    """A number does not fit its type."""

    sqlstate = "22003"


class InvalidLogarithm(NumericOutOfRange):
    """A logarithm of zero or of a negative number."""

    sqlstate = "2201E"


class InvalidPower(NumericOutOfRange):
    """A root of a negative number, or a negative power of zero."""

    sqlstate = "2201F"


class EvaluationError(PenstockError):
    """An expression failed on a row for another reason."""

    sqlstate = "22000"


class CardinalityViolation(PenstockError):
    """A scalar subquery returned more than one row."""

    sqlstate = "21000"


class UniqueViolation(PenstockError):
    """A primary key exists already."""

    sqlstate = "23505"


class NotNullViolation(PenstockError):
    """NULL in a column that refuses it."""

    sqlstate = "23502"


class CheckViolation(PenstockError):
    """A row breaks a CHECK constraint."""

    sqlstate = "23514"


class MissingRow(PenstockError):
    """A delta removes a row that is not there."""

    sqlstate = "23P01"


class InvalidDelta(PenstockError):
    """What was handed to tick() is not a delta of that table."""

    sqlstate = "22023"


class TransactionError(PenstockError):
    """BEGIN, COMMIT or ROLLBACK where it does not belong."""

    sqlstate = "25000"


class ActiveTransaction(TransactionError):
    """A statement that belongs outside, in a transaction."""

    sqlstate = "25001"


class ReadOnlyTransaction(TransactionError):
    """A change in a transaction that said it would make none."""

    sqlstate = "25006"


class SerializationFailure(TransactionError):
    """What another session committed meanwhile does not go together with this transaction."""

    sqlstate = "40001"
    retry = True


class TransactionFailed(TransactionError):
    """A statement of the transaction has failed before: it can only be rolled back."""

    sqlstate = "25P02"


class UndefinedSavepoint(TransactionError):
    """No savepoint of that name in this transaction."""

    sqlstate = "3B001"


class QueryCanceled(PenstockError):
    """The statement was cancelled while it ran."""

    sqlstate = "57014"


class UndefinedParameter(PenstockError):
    """A placeholder without a value, or a value without a placeholder."""

    sqlstate = "08P01"


class FlowClosed(PenstockError):
    """The flow, or the watch, has been closed."""

    sqlstate = "55000"


class FlowPaused(PenstockError):
    """Changes are refused until somebody says ALTER SYSTEM RESUME."""

    sqlstate = "55000"
    retry = True


class WatchOverflow(PenstockError):
    """A watch was not read while its bounded queue filled."""

    sqlstate = "53400"


class SubscriptionEnded(PenstockError):
    """What a subscription followed is no longer there."""

    sqlstate = "55000"


class NotVisibleYet(PenstockError):
    """The epoch of a freshness token has not become visible in time."""

    sqlstate = "57014"
    retry = True


class LimitExceeded(PenstockError):
    """Something is larger than a limit in base/limits.py."""

    sqlstate = "54000"


class InvalidLocation(PenstockError):
    """A storage URL, or an option given with it, makes no sense."""

    sqlstate = "22023"


class StorageError(PenstockError):
    """The storage failed, in a way that a second try does not mend."""

    sqlstate = "58030"


class StorageUnavailable(StorageError):
    """The storage did not answer or was overloaded; what was asked for may have happened or not."""

    sqlstate = "58000"
    retry = True


class StorageFull(StorageError):
    """No space is left on the storage."""

    sqlstate = "53100"


class StorageDenied(StorageError):
    """The storage refuses these credentials, or this user."""

    sqlstate = "42501"


class StorageNotFound(StorageError):
    """An object, a folder or a bucket is not there."""

    sqlstate = "58P01"


class FlowNotFound(StorageNotFound):
    """There is no flow at a location."""

    sqlstate = "3D000"


class ObjectExists(StorageError):
    """An object of that name is there already, and objects are never overwritten."""

    sqlstate = "58P02"


class CorruptState(StorageError):
    """Stored bytes are not those that were written."""

    sqlstate = "XX001"


class FormatTooNew(StorageError):
    """The flow was written by a newer penstock, in a format that this one does not read."""

    sqlstate = "0A000"


class Fenced(PenstockError):
    """Another process has taken over this flow; this one can write no more."""

    sqlstate = "57P01"


class StateBroken(PenstockError):
    """An error in the middle of an epoch left the flow in memory in the state of no epoch."""

    sqlstate = "58030"


class HistoryGone(PenstockError):
    """An epoch that is older than what the flow retains."""

    sqlstate = "22023"


class InvalidOption(PenstockError):
    """An option of a flow or of a call that makes no sense."""

    sqlstate = "22023"


class ReadOnly(PenstockError):
    """A change was asked of a flow that is open for reading."""

    sqlstate = "25006"


class MemoryLimitExceeded(PenstockError):
    """A tick needs more memory than the flow may use."""

    sqlstate = "53200"


class SinkFailed(PenstockError):
    """An epoch is committed, and the function that was to take it has failed."""

    sqlstate = "58000"
    retry = True


class SparkFailed(PenstockError):
    """A job on Spark failed for a reason that lies in the cluster."""

    sqlstate = "58000"
    retry = True


class SparkUnavailable(PenstockError):
    """Spark cannot run here: Java, PySpark or a Java library of a connector is missing."""

    sqlstate = "0A000"


class InsufficientPrivilege(PenstockError):
    """The role may not do this."""

    sqlstate = "42501"


class UndefinedRole(PenstockError):
    """No role of that name."""

    sqlstate = "42704"


class DuplicateRole(PenstockError):
    """A role of that name exists."""

    sqlstate = "42710"


class Unsupported(PenstockError):
    """Something of SQL that is not here."""

    sqlstate = "0A000"


# At the end of the file: what stands below it would not be exported.
__all__ = [name for name, value in list(globals().items()) if isinstance(value, type)]
