"""What is wrong with a client, rather than with its SQL."""

from __future__ import annotations

from penstock.base.errors import PenstockError, TransactionError


class ProtocolError(PenstockError):
    """The client's bytes are not the protocol's: it is told so and disconnected."""

    sqlstate = "08P01"


class WrongNumber(PenstockError):
    """A Bind message has more or fewer values or formats than its statement: the connection goes on."""

    sqlstate = "08P01"


class AuthenticationFailed(PenstockError):
    """No such role, or the wrong password: which of the two is not said."""

    sqlstate = "28P01"


class InvalidAuthorization(PenstockError):
    """The connection is not one that the server accepts."""

    sqlstate = "28000"


class TooManyConnections(PenstockError):
    """The server has as many clients as it takes."""

    sqlstate = "53300"


class NotificationsLost(PenstockError):
    """More notifications wait for a client than the server keeps."""

    sqlstate = "53400"


class UndefinedStatement(PenstockError):
    """No prepared statement of that name."""

    sqlstate = "26000"


class DuplicateStatement(PenstockError):
    """A prepared statement of that name exists."""

    sqlstate = "42P05"


class UndefinedCursor(PenstockError):
    """No portal or cursor of that name."""

    sqlstate = "34000"


class DuplicateCursor(PenstockError):
    """A portal or cursor of that name exists."""

    sqlstate = "42P03"


class PortalHasRun(PenstockError):
    """A portal whose statement gives no rows is run once."""

    sqlstate = "55000"


class NoTransaction(TransactionError):
    """A statement that belongs in a transaction, outside of one."""

    sqlstate = "25P01"


class UndefinedSetting(PenstockError):
    """SET or SHOW of a setting that is not known."""

    sqlstate = "42704"


class NotSupported(PenstockError):
    """Something of Postgres that is not here."""

    sqlstate = "0A000"


class ResultTypeChanged(NotSupported):
    """A prepared statement's columns are no longer those that the client was told."""

    routine = "RevalidateCachedQuery"  # by which pgjdbc knows that it has to prepare it again


class BadCopyData(PenstockError):
    """A line of COPY FROM STDIN that is no row of the table."""

    sqlstate = "22P04"


class InvalidEncoding(PenstockError):
    """Text that is not UTF-8."""

    sqlstate = "22021"


class ServerStops(PenstockError):
    """The server is being stopped."""

    sqlstate = "57P01"


class CatalogUnavailable(PenstockError):
    """pg_catalog cannot be asked: what answers it is not installed, or has stopped."""

    sqlstate = "58000"


class TooLarge(PenstockError):
    """An answer that is larger than it may be."""

    sqlstate = "54000"
