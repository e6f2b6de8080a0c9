"""The only door to DuckDB: connections that behave like Postgres, and errors in our own words."""

from __future__ import annotations

import json
import re

import duckdb

from penstock.base import errors as e
from penstock.duck.connection import DuckConnection as DuckConnection  # part of the door

DuckError = duckdb.Error

# What makes DuckDB answer as Postgres does. The order matters: external access goes last, because
# nothing can be loaded after it.
SETTINGS = (
    ("integer_division", "true"),
    ("default_null_order", "'postgres'"),
    ("error_on_division_by_zero", "true"),
    ("ieee_floating_point_ops", "false"),  # 1.0 / 0.0 is an error, as it is for integers
    ("TimeZone", "'UTC'"),
    ("errors_as_json", "true"),  # the only form that says where in the text an error lies
    ("python_enable_replacements", "false"),  # a table name never means a Python variable
    ("enable_external_access", "false"),  # SQL text from users reads no files and loads no code
)


def connect(threads: int | None = None) -> DuckConnection:
    """A private in-memory database with the settings above.

    >>> connect(threads=1).execute("SELECT 7 / 2 AS n").fetchall()
    [(3,)]
    """
    connection = DuckConnection(duckdb.connect(":memory:"))
    for name, value in SETTINGS:
        connection.execute(f"SET {name} = {value}")
    if threads is not None:
        connection.execute(f"SET threads = {int(threads)}")
    return connection


def cursor_of(connection: DuckConnection) -> DuckConnection:
    """A second connection to the same database, with temporary relations and settings of its own."""
    cursor = connection.cursor()
    for name, value in SETTINGS[:-1]:  # access to files is the database's, and off already
        cursor.execute(f"SET {name} = {value}")
    return cursor


def translate(error: Exception, sql: str | None = None) -> e.PenstockError:
    """Our error for one of DuckDB's: one sentence, a hint where there is one, a position if `sql` is given.

    >>> try:
    ...     connect(threads=1).sql("SELECT 1 + nope")
    ... except DuckError as caught:
    ...     print(translate(caught, "SELECT 1 + nope"))
    column "nope" does not exist
    """
    if isinstance(error, e.PenstockError):
        return error
    kind, _, rest = str(error).partition(" Error: ")
    if not rest:
        kind, rest = type(error).__name__.removesuffix("Exception"), str(error)
    if rest.startswith("{"):
        try:
            fields = json.loads(rest)
        except ValueError:
            fields = {"exception_message": rest}
    else:
        fields = {"exception_message": rest}
    position = fields.get("position")
    return describe(kind, str(fields.get("exception_message", rest)), position, sql)


def describe(
    kind: str, message: str, position: str | int | None = None, sql: str | None = None
) -> e.PenstockError:
    """The error for DuckDB's kind of error ("Binder", "catalog", ...), message and byte position.

    `json_serialize_plan` reports errors as such fields instead of raising them.

    >>> describe("binder", 'Referenced column "amont" not found in FROM clause!\\nCandidate bindings: "amount"')
    UndefinedColumn('column "amont" does not exist')
    """
    message = message.split("\n\nLINE ")[0].strip()
    message = re.sub(r" when casting from source column \w+", "", message)
    message = re.sub(
        r"\b(U?INT(?:8|16|32|64|128))\b", lambda found: _SQL_NAMES.get(found[1], found[1]), message
    )
    where = _characters(position, sql)
    for pattern, error_class, text, fixed_hint in _MESSAGES:
        found = re.search(pattern, message, re.DOTALL)
        if found:
            groups = [g or "" for g in found.groups()]
            hint = fixed_hint or _hint(message)
            if hint is not None and error_class is e.UndefinedTable:
                hint = _relation_hint(hint, groups[0], sql)
            return error_class(text.format(*groups), hint=hint, position=where)
    error_class = _class_of(kind, message, where, sql)
    text = _first_sentence(message)
    return error_class(text, hint=_hint(message) or _advice(error_class, text), position=where)


def _advice(error_class: type[e.PenstockError], text: str) -> str | None:
    """What to do about an error on which DuckDB has nothing to say."""
    if error_class in (e.InvalidValue, e.InvalidDatetimeFormat, e.DatetimeOutOfRange):
        return "Give a value of that type, or use TRY_CAST, which gives NULL for what is none."
    if error_class is e.CannotCast:
        return "There is no cast between these types: compute the value with a function."
    if text.startswith("syntax error at or near"):
        return "Something before it, or after it, is missing or misspelt; a reserved word as a name needs double quotes."
    return "See whether something is missing or misspelt." if error_class is e.SqlSyntaxError else None


def _class_of(kind: str, message: str, where: int | None, sql: str | None) -> type[e.PenstockError]:
    """By the message where it is a known one, else by DuckDB's kind."""
    found = next((error_class for pattern, error_class in _CODES if re.search(pattern, message)), None)
    if found is e.InvalidLimit and where is not None and sql is not None:
        # DuckDB's message is the same for both, and its place is that of the number.
        return e.InvalidOffset if re.search(r"\bOFFSET\s*$", sql[:where], re.IGNORECASE) else found
    return found or _KINDS.get(kind.strip().lower().replace("_", " "), e.EvaluationError)


def _characters(position: str | int | None, sql: str | None) -> int | None:
    """DuckDB counts bytes of UTF-8, we count characters."""
    if position is None or sql is None:
        return None
    return len(sql.encode()[: int(position)].decode(errors="ignore"))


def _first_sentence(message: str) -> str:
    """The message without its candidates, advice on settings and exclamation marks."""
    text = message.split("\n")[0].strip()
    text = re.split(r"\. (?:You might need|Use TRY|Use \"SET|Use SET|Either )", text)[0]
    text = text.rstrip("!. ")
    return text[:1].lower() + text[1:] if text[:2] != text[:2].upper() else text


def _hint(message: str) -> str | None:
    """What DuckDB suggests: a similar name, or what may be meant."""
    found = re.search(r"Did you mean:? (.+?)\??$", message, re.MULTILINE)
    if found:
        return f"Did you mean {found[1].strip()}?"
    found = re.search(r"Candidate (?:bindings|tables|Entries):[ :]*(.+)$", message, re.MULTILINE)
    if found:
        return f"Did you mean {_alternatives(found[1])}?"
    found = re.search(r"\(use: (.+)\)", message)
    if found:
        return f"Say {found[1]}.".replace("'", "")
    if "Candidate functions:" in message:
        candidates = [
            line.strip() for line in message.split("Candidate functions:")[1].splitlines() if line.strip()
        ]
        if len(candidates) <= 4:
            return f"It exists as {'; '.join(candidates)}."
        return "Add an explicit cast, such as CAST(x AS BIGINT)."
    found = re.search(r"^(Either .+)$", message, re.MULTILINE)
    return found[1] if found else None


def _relation_hint(hint: str, name: str, sql: str | None) -> str:
    """A relation that may be meant: one of the user's, or of schema penstock, and not of those that DuckDB has.

    >>> _relation_hint('Did you mean "pg_sequence"?', "seq", "SELECT * FROM seq")
    'SHOW TABLES and SHOW VIEWS say what there is.'
    """
    hint = re.sub(r'"penstock rows of (.+?)"', r'"\1"', hint)  # as readers call them inside
    if re.search(r'"(?:pg_|duckdb_|sqlite_|pragma_|information_schema\b|pg_catalog\b|system\b)', hint):
        return "SHOW TABLES and SHOW VIEWS say what there is."
    if sql is not None and f"penstock.{name}".lower() in sql.lower():
        hint = re.sub(r'"(?!penstock\.)', '"penstock.', hint, count=1)
    return hint


def _alternatives(names: str) -> str:
    return " or ".join(part.strip() for part in names.split(",") if part.strip())


# The kinds of error that DuckDB prefixes its messages with.
_KINDS: dict[str, type[e.PenstockError]] = {
    "parser": e.SqlSyntaxError,
    "syntax": e.SqlSyntaxError,
    "binder": e.BindError,
    "catalog": e.BindError,
    "mismatch type": e.TypeMismatch,
    "invalid type": e.TypeMismatch,
    "typemismatch": e.TypeMismatch,
    "conversion": e.InvalidValue,
    "out of range": e.NumericOutOfRange,
    "constraint": e.CheckViolation,
    "not implemented": e.BindError,
    "permission": e.BindError,
    "missing extension": e.BindError,
    "invalid input": e.EvaluationError,
    "interrupt": e.QueryCanceled,
}

# What DuckDB calls these types inside.
_SQL_NAMES = {
    "INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INTEGER", "INT64": "BIGINT", "INT128": "HUGEINT",
    "UINT8": "UTINYINT", "UINT16": "USMALLINT", "UINT32": "UINTEGER", "UINT64": "UBIGINT", "UINT128": "UHUGEINT",
}  # fmt: skip

_DIVISION_HINT = "Guard it with NULLIF(divisor, 0) or CASE."

# Messages that have a place of their own in our tree: pattern, error, text, hint (or DuckDB's own).
_MESSAGES: tuple[tuple[str, type[e.PenstockError], str, str | None], ...] = (
    (r"^Interrupted", e.QueryCanceled, "the statement was cancelled", None),
    (r"^Division by zero in expression (.+?)\. Use TRY", e.DivisionByZero, "division by zero in {0}", _DIVISION_HINT),
    (r"[Dd]ivision by zero", e.DivisionByZero, "division by zero", _DIVISION_HINT),
    (r'^Referenced column "(.+?)" (?:was )?not found', e.UndefinedColumn, 'column "{0}" does not exist', None),
    (r'^(?:Table|table|Values list) "(.+?)" does not have a column named "(.+?)"', e.UndefinedColumn,
     'table "{0}" has no column "{1}"', None),
    (r'^Table does not contain column "?(.+?)"? referenced in check constraint', e.UndefinedColumn,
     'column "{0}" does not exist', None),
    (r"^Referenced update column (\S+) not found", e.UndefinedColumn, 'column "{0}" does not exist', None),
    (r'^Ambiguous reference to column name "(.+?)"', e.AmbiguousColumn, 'column "{0}" is ambiguous', None),
    (r'^Referenced table "(.+?)" not found', e.UndefinedTable, 'table "{0}" is not in the FROM clause', None),
    (r"^(?:Table|View) with name \"?(.+?)\"? does not exist", e.UndefinedTable,
     'table or view "{0}" does not exist', None),
    (r"^(?:Table|View) with name \"?(.+?)\"? already exists", e.DuplicateObject, '"{0}" already exists', None),
    (r"^Column with name \"?(.+?)\"? already exists", e.DuplicateColumn, 'column "{0}" is named twice', None),
    (r"^(Scalar |Aggregate |Table |Macro )*Function with name (.+?) does not exist", e.UndefinedFunction,
     "function {1} does not exist", None),
    (r"^Type with name (.+?) does not exist", e.UndefinedType, "type {0} does not exist", None),
    (r"^No function matches the given name and argument types '(.+?)'\.", e.UndefinedFunction,
     "no function {0} exists", None),
    (r"^More than one row returned by a subquery", e.CardinalityViolation,
     "a subquery used as a value returned more than one row", "Add LIMIT 1, an aggregate or a narrower WHERE."),
    (r"^NOT NULL constraint failed: (.+)$", e.NotNullViolation, "NULL in {0}, which is NOT NULL", None),
    (r"constraint violation: duplicate key \"(.+?)\"", e.UniqueViolation, "key {0} exists already", None),
    (r"^CHECK constraint failed(.*)$", e.CheckViolation, "a row breaks a CHECK constraint{0}", None),
    (r"^Type (\S+) with value (.+?) can't be cast because the value is out of range for the destination type (\S+)",
     e.NumericOutOfRange, "{1} does not fit {2}", "Use a larger type."),
    (r"^Could not cast value (.+?) (?:from \S+ )?to (DECIMAL\S+)", e.NumericOutOfRange, "{0} does not fit {1}",
     "Use a larger type."),
)  # fmt: skip

# Messages that say it well enough, with the error that they are: DuckDB's own kinds are coarser than Postgres's codes.
_CODES: tuple[tuple[str, type[e.PenstockError]], ...] = (
    (r"^Cannot combine types", e.NothingInCommon),
    (r"must appear in the GROUP BY clause", e.GroupingError),
    (r"^[Aa]ggregate function calls cannot (?:be nested|contain window function calls)", e.GroupingError),
    (r"cannot contain aggregates", e.GroupingError),
    (r"cannot contain window functions", e.WindowingError),
    (r"^(?:ORDER|GROUP BY) term out of range", e.InvalidColumnReference),
    (
        r"^Set operations can only apply to expressions with the same number of result columns",
        e.WrongColumnCount,
    ),
    (r"^Subquery returns \d+ columns - expected", e.WrongColumnCount),
    (r"^LIMIT/OFFSET cannot be negative", e.InvalidLimit),
    (r'^time field value out of range: "\D', e.InvalidDatetimeFormat),
    (r"^(?:date|time|timestamp) field value out of range", e.DatetimeOutOfRange),
    (r"^invalid (?:date|timestamp) field format", e.InvalidDatetimeFormat),
    (r"^Could not convert string '.*' to INTERVAL", e.InvalidDatetimeFormat),
    (r"^Unimplemented type for cast", e.CannotCast),
    (r"^cannot take logarithm of", e.InvalidLogarithm),
    (r"^cannot take square root of|^zero raised to a negative power", e.InvalidPower),
)
