"""What the parser gives: one frozen dataclass for each kind of statement.

Names are plain strings with their quotes removed; compare them with `tokens.fold`. Queries and
expressions stay text: each is a `Slice` that knows where it stands in the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from penstock.sql.tokens import quote

OptionValue = str | int | float | bool


def kind_of(statement: object) -> str:
    """What a statement is, in words: for counting.

    >>> kind_of(Slice("", 0))
    'slice'
    """
    return _words(type(statement).__name__)


@cache
def _words(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r" \1", name).lower()


@dataclass(frozen=True)
class Slice:
    """A piece of the text that was parsed: `offset` is where it begins in the whole text.

    >>> piece = Slice("a + 1", offset=20)
    >>> str(piece), piece.end, piece.whole(4)
    ('a + 1', 25, 24)
    """

    text: str
    offset: int

    def __str__(self) -> str:
        return self.text

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    def whole(self, position: int) -> int:
        """The place in the whole text of a position in this slice."""
        return self.offset + position


@dataclass(frozen=True)
class Parameter:
    """A placeholder: `$2` has the key 2, `$name` the key "name", the n-th `?` the key n."""

    key: int | str
    text: str
    offset: int


@dataclass(frozen=True)
class AsOf:
    """`orders AS OF EPOCH 5`: in the statement's text the name `stands_for` has taken its place.

    `unit` is "epoch" or "timestamp"; `value` the number, the text of the time, or an expression.
    """

    stands_for: str
    relation: str
    unit: str
    value: int | str | Slice
    offset: int


@dataclass(frozen=True)
class Statement:
    """What all statements have: their text, without the semicolon, their placeholders in order, and the
    relations that they read as of an epoch or a time."""

    text: Slice
    parameters: tuple[Parameter, ...]
    as_of: tuple[AsOf, ...] = field(default=(), kw_only=True)

    @cached_property
    def parameter_count(self) -> int:
        """How many values a caller has to bind: the highest number, or the number of different names."""
        keys = {p.key for p in self.parameters}
        return max((k for k in keys if isinstance(k, int)), default=len(keys))

    def parameters_in(self, piece: Slice) -> tuple[Parameter, ...]:
        """The placeholders that stand in one slice of this statement."""
        return tuple(p for p in self.parameters if piece.offset <= p.offset < piece.end)


@dataclass(frozen=True)
class Query(Statement):
    """`SELECT ...`, `WITH ... SELECT ...`, `VALUES ...`, `FROM t`, `TABLE t`, `(SELECT ...) UNION ...`"""


@dataclass(frozen=True)
class CreateTable(Statement):
    """`CREATE OR REPLACE TABLE t (id BIGINT PRIMARY KEY, v TEXT) WITH (dedup = 'content')`; `body` is
    `(id ... TEXT)`."""

    name: str
    name_offset: int
    or_replace: bool
    if_not_exists: bool
    body: Slice
    options: dict[str, OptionValue] = field(hash=False)


@dataclass(frozen=True)
class CreateTableAs(Statement):
    """`CREATE TABLE t (a, b) AS SELECT 1, 2 WITH NO DATA`; `columns` is None where no names are given."""

    name: str
    name_offset: int
    or_replace: bool
    if_not_exists: bool
    columns: tuple[str, ...] | None
    query: Slice
    with_data: bool
    options: dict[str, OptionValue] = field(hash=False)


@dataclass(frozen=True)
class CreateView(Statement):
    """`CREATE OR REPLACE VIEW v (a, b) AS SELECT x, y FROM t`"""

    name: str
    name_offset: int
    or_replace: bool
    if_not_exists: bool
    columns: tuple[str, ...] | None
    query: Slice


@dataclass(frozen=True)
class CreateMaterializedView(Statement):
    """`CREATE MATERIALIZED VIEW v (a) WITH (retain = 10) AS SELECT x FROM t`; option keys in lower case."""

    name: str
    name_offset: int
    or_replace: bool
    if_not_exists: bool
    columns: tuple[str, ...] | None
    query: Slice
    options: dict[str, OptionValue] = field(hash=False)


@dataclass(frozen=True)
class Drop(Statement):
    """`DROP MATERIALIZED VIEW IF EXISTS a, b CASCADE`; `kind` is "table", "view" or "materialized view"."""

    kind: str
    names: tuple[str, ...]
    if_exists: bool
    cascade: bool


@dataclass(frozen=True)
class AlterMaterializedView(Statement):
    """`ALTER MATERIALIZED VIEW v SET (freshness = '1s')`, or RESET of the options that are named."""

    name: str
    options: dict[str, OptionValue]
    reset: tuple[str, ...]


@dataclass(frozen=True)
class AlterSystem(Statement):
    """`ALTER SYSTEM PAUSE` or `RESUME`."""

    action: str


@dataclass(frozen=True)
class Assignment:
    """`a = b + 1` of a SET list; `(a, b) = (SELECT x, y ...)` is one with two columns.

    `(a, b) = (1, 2)` and `= ROW(1, 2)` are split by the parser into one for each column.
    """

    columns: tuple[str, ...]
    value: Slice

    @property
    def is_default(self) -> bool:
        """True for `a = DEFAULT`."""
        return self.value.text.upper() == "DEFAULT"

    @property
    def expression(self) -> str:
        """One scalar expression for the value: of several columns, a struct with the fields _c0, _c1, ...

        It is one expression so that it is evaluated once for a row: a subquery for each column could
        take them from different rows. No row gives a NULL struct, whose fields are NULL.

        >>> Assignment(("a",), Slice("b + 1", 0)).expression
        'b + 1'
        >>> Assignment(("a", "b"), Slice("(SELECT 1, 2)", 0)).expression
        '(SELECT {"_c0": "_c0", "_c1": "_c1"} FROM (SELECT 1, 2) AS "_row"("_c0", "_c1"))'
        """
        if len(self.columns) == 1:
            return self.value.text
        names = [quote(f"_c{i}") for i in range(len(self.columns))]
        fields = ", ".join(f"{name}: {name}" for name in names)
        return f'(SELECT {{{fields}}} FROM {self.value.text} AS "_row"({", ".join(names)}))'


@dataclass(frozen=True)
class OnConflict:
    """`ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE t.v < 5`; `action` is "nothing" or "update"."""

    target: tuple[str, ...] | None
    action: str
    assignments: tuple[Assignment, ...] = ()
    where: Slice | None = None


@dataclass(frozen=True)
class Insert(Statement):
    """`WITH c AS (...) INSERT INTO t AS x (a, b) SELECT ... ON CONFLICT DO NOTHING RETURNING a`

    `source` is the text of the rows: `VALUES ...`, a query, or `DEFAULT VALUES`. `has_default` says that
    a VALUES list has DEFAULT as a value, which no query has: `parse_dml.values_rows` takes it apart.
    """

    table: str
    name_offset: int
    alias: str | None
    columns: tuple[str, ...] | None
    by_name: bool
    source: Slice
    default_values: bool
    has_default: bool
    on_conflict: OnConflict | None
    returning: Slice | None
    with_text: Slice | None


@dataclass(frozen=True)
class Update(Statement):
    """`UPDATE t AS x SET a = 1, (b, c) = (2, 3) FROM u WHERE u.id = x.id RETURNING *`

    The texts have neither their keyword (`FROM`, `WHERE`, `RETURNING`) nor a comment at their end.
    """

    table: str
    name_offset: int
    alias: str | None
    assignments: tuple[Assignment, ...]
    from_text: Slice | None
    where: Slice | None
    returning: Slice | None
    with_text: Slice | None


@dataclass(frozen=True)
class Delete(Statement):
    """`DELETE FROM t AS x USING u WHERE u.id = x.id RETURNING x.id`"""

    table: str
    name_offset: int
    alias: str | None
    using_text: Slice | None
    where: Slice | None
    returning: Slice | None
    with_text: Slice | None


@dataclass(frozen=True)
class Truncate(Statement):
    """`TRUNCATE TABLE a, b`"""

    tables: tuple[str, ...]


@dataclass(frozen=True)
class Begin(Statement):
    """`BEGIN`, `START TRANSACTION READ ONLY`; `modes` as written, in lower case: ("read only",)"""

    modes: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        return "read only" in self.modes

    @property
    def isolation(self) -> str | None:
        """ "serializable", "repeatable read", ...; None where BEGIN does not say."""
        levels = [m.removeprefix("isolation level ") for m in self.modes if m.startswith("isolation level ")]
        return levels[-1] if levels else None


@dataclass(frozen=True)
class Commit(Statement):
    """`COMMIT`, `END TRANSACTION`"""


@dataclass(frozen=True)
class Rollback(Statement):
    """`ROLLBACK`, `ABORT WORK`"""


@dataclass(frozen=True)
class Savepoint(Statement):
    """`SAVEPOINT s`"""

    name: str


@dataclass(frozen=True)
class Release(Statement):
    """`RELEASE SAVEPOINT s`"""

    name: str


@dataclass(frozen=True)
class RollbackTo(Statement):
    """`ROLLBACK TO SAVEPOINT s`"""

    name: str


@dataclass(frozen=True)
class Show(Statement):
    """`SHOW TABLES LIKE 'o%'`, `SHOW VIEWS`, `SHOW MATERIALIZED VIEWS`, `SHOW COLUMNS FROM t`

    `what` is "tables", "views", "materialized views" or "columns"; only the last has a `name`.
    """

    what: str
    name: str | None
    like: str | None


@dataclass(frozen=True)
class Describe(Statement):
    """`DESCRIBE t` has a `name`, `DESCRIBE SELECT 1` a `query`: always exactly one of the two."""

    name: str | None
    query: Slice | None


@dataclass(frozen=True)
class Explain(Statement):
    """`EXPLAIN SELECT 1`, `EXPLAIN ANALYZE SELECT 1`, `EXPLAIN (FORMAT json) SELECT 1`"""

    query: Slice
    options: dict[str, OptionValue] = field(hash=False)


@dataclass(frozen=True)
class ExplainIncremental(Statement):
    """`EXPLAIN INCREMENTAL v`, `EXPLAIN INCREMENTAL VIEW v`, `EXPLAIN INCREMENTAL SELECT ...`

    Always exactly one of `name` and `query`. `EXPLAIN INCREMENTAL (ESTIMATE) v` tells what a change costs the view.
    """

    name: str | None
    query: Slice | None
    estimate: bool = False


@dataclass(frozen=True)
class Subscribe(Statement):
    """`SUBSCRIBE TO v WITH (SNAPSHOT = false, PROGRESS) AS OF EPOCH 5`; `since` is the epoch or the time, None: now."""

    name: str
    name_offset: int
    snapshot: bool
    progress: bool
    since: int | str | None

    def columns(self, of_the_view: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Names and types of what it gives."""
        progress = [("progress", "BOOLEAN")] if self.progress else []
        return [("epoch", "BIGINT"), *progress, ("diff", "BIGINT"), *of_the_view]
