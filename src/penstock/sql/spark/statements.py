"""Statements of Spark SQL as our own: CREATE VIEW, CREATE TABLE, INSERT, SELECT, DROP."""

from __future__ import annotations

from penstock.base.errors import BindError, UndefinedColumn
from penstock.sql.spark.cast import cast
from penstock.sql.spark.dialect import Tree, exp, only, place, refuse
from penstock.sql.spark.expressions import Expressions
from penstock.sql.spark.query import ColumnsOf, Translator
from penstock.sql.spark.scope import Columns, Scope
from penstock.sql.spark.typed import Typed
from penstock.sql.spark.types import read_type
from penstock.sql.tokens import fold, quote
from penstock.zset.types import SqlType

_STORED = "Leave it out: a flow keeps its tables itself, in its own form."


def to_postgres(tree: Tree, columns_of: ColumnsOf) -> str:
    """A statement of Spark SQL in the SQL that a flow understands.

    `columns_of` gives the columns of a table or view by name, or None if there is none.

    >>> from penstock.sql.spark.dialect import parse
    >>> from penstock.zset import types as t
    >>> columns = {"t": (("a", t.INTEGER), ("s", t.VARCHAR))}
    >>> to_postgres(parse("SELECT a / 2 AS half FROM t")[0], columns.get)
    'SELECT (CAST("t"."a" AS DOUBLE) / CAST(2 AS DOUBLE)) AS "half" FROM "t" AS "t"'
    """
    if isinstance(tree, exp.Create):
        kind = str(tree.args.get("kind")).upper()
        if kind == "VIEW":
            return _create_view(tree, columns_of)
        if kind == "TABLE":
            return _create_table(tree, columns_of)
        raise refuse(f"CREATE {kind} is not translated", tree)
    if isinstance(tree, exp.Insert):
        return _insert(tree, columns_of)
    if isinstance(tree, exp.Drop):
        return _drop(tree)
    if isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)):
        return Translator(columns_of).shown(tree)[0]
    raise refuse(
        f"{type(tree).__name__.upper()} is not translated from Spark SQL",
        tree,
        "flow.sql has UPDATE, DELETE and more.",
    )


def name_of(tree: Tree) -> str:
    """The name of the table or view that a statement is about."""
    table = tree.this if isinstance(tree, exp.Schema) else tree
    if table.args.get("db"):
        raise refuse(f"{table.sql('spark')}: a flow has no schemas or catalogs", table, "Use the name alone.")
    return str(table.name)


def _properties(tree: Tree, known: tuple[str, ...]) -> set[str]:
    given = tree.args.get("properties")
    names = set()
    for each in given.expressions if given is not None else ():
        kind = type(each).__name__
        if kind not in known:
            shown = each.sql("spark").split("\n")[0]
            if kind == "StreamingTableProperty":
                raise refuse("CREATE STREAMING TABLE is not translated", tree, "Use flow.stream(...).")
            raise refuse(f"{shown} is not translated", each, _STORED)
        names.add(kind)
    only(tree, "this", "kind", "replace", "exists", "expression", "properties")
    return names


def _head(tree: Tree, what: str) -> str:
    replacing = "OR REPLACE " if tree.args.get("replace") else ""
    guarded = "IF NOT EXISTS " if tree.args.get("exists") else ""
    return f"CREATE {replacing}{what} {guarded}{quote(name_of(tree.this))}"


def _create_view(tree: Tree, columns_of: ColumnsOf) -> str:
    found = _properties(tree, ("TemporaryProperty", "MaterializedProperty"))
    if tree.expression is None:
        raise refuse("CREATE VIEW without a query is not translated", tree)
    named = isinstance(tree.this, exp.Schema)
    translator = Translator(columns_of)
    sql, columns = translator.query(tree.expression) if named else translator.shown(tree.expression)
    names = []
    if named:
        for each in tree.this.expressions:
            if each.args.get("constraints"):
                raise refuse("a column of a view with anything but a name is not translated", each)
            names.append(each.name)
        if len(names) != len(columns):
            raise BindError(f"{len(names)} names for {len(columns)} columns", position=place(tree))
    _unique([*(names or [name for name, _ in columns])], tree)
    listed = f" ({', '.join(quote(name) for name in names)})" if names else ""
    what = "MATERIALIZED VIEW" if "MaterializedProperty" in found else "VIEW"
    return f"{_head(tree, what)}{listed} AS {sql}"


def _unique(names: list[str], tree: Tree) -> None:
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            raise BindError(
                f'column "{name}" is named twice', hint="Give one another name.", position=place(tree)
            )
        seen.add(fold(name))


def _create_table(tree: Tree, columns_of: ColumnsOf) -> str:
    _properties(tree, ())
    if tree.expression is not None:
        if isinstance(tree.this, exp.Schema):
            raise refuse("CREATE TABLE with columns and a query is not translated", tree)
        sql, columns = Translator(columns_of).shown(tree.expression)
        _unique([name for name, _ in columns], tree)
        return f"{_head(tree, 'TABLE')} AS {sql}"
    if not isinstance(tree.this, exp.Schema):
        raise refuse("CREATE TABLE without columns is not translated", tree)
    return f"{_head(tree, 'TABLE')} ({', '.join(_column(each, tree) for each in tree.this.expressions)})"


def _column(each: Tree, tree: Tree) -> str:
    if isinstance(each, exp.PrimaryKey):
        return f"PRIMARY KEY ({', '.join(quote(key.name) for key in each.expressions)})"
    if (
        isinstance(each, exp.Constraint)
        and len(each.expressions) == 1
        and isinstance(each.expressions[0], exp.PrimaryKey)
    ):
        return _column(each.expressions[0], tree)
    if not isinstance(each, exp.ColumnDef) or each.args.get("kind") is None:
        raise refuse(f"{each.sql('spark')} in CREATE TABLE is not translated", each)
    type = read_type(each.args["kind"])
    words = [quote(each.name), type.duck]
    for constraint in each.args.get("constraints") or ():
        kind = constraint.args["kind"]
        if isinstance(kind, exp.NotNullColumnConstraint):
            words += [] if kind.args.get("allow_null") else ["NOT NULL"]
        elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
            words.append("PRIMARY KEY")
        elif isinstance(kind, exp.DefaultColumnConstraint):
            made = Expressions(Scope(), Translator(lambda name: None))(kind.this)
            words.append(f"DEFAULT {cast(made, type).sql}")
        else:
            raise refuse(f"{kind.sql('spark')} is not translated", each, _STORED)
    return " ".join(words)


def _insert(tree: Tree, columns_of: ColumnsOf) -> str:
    for part in (
        "overwrite",
        "partition",
        "by_name",
        "where",
        "exists",
        "conflict",
        "returning",
        "alternative",
    ):
        if tree.args.get(part):
            raise refuse(f"INSERT with {part.upper().replace('_', ' ')} is not translated", tree)
    target = name_of(tree.this)
    translator = Translator(columns_of)
    columns = translator.relation(target, tree)
    if isinstance(tree.this, exp.Schema):
        columns = tuple(_named(columns, each) for each in tree.this.expressions)
    sql, given = translator.query(tree.expression)
    if len(given) != len(columns):
        raise BindError(f'{len(given)} values for {len(columns)} columns of "{target}"', position=place(tree))
    names = [f"c{i}" for i in range(len(given))]
    values = [
        cast(Typed(name, type), wanted).sql
        for name, (_, type), (_, wanted) in zip(names, given, columns, strict=True)
    ]
    listed = ", ".join(quote(name) for name, _ in columns)
    return (
        f"INSERT INTO {quote(target)} ({listed}) SELECT {', '.join(values)} "
        f'FROM ({sql}) AS "given"({", ".join(names)})'
    )


def _named(columns: Columns, tree: Tree) -> tuple[str, SqlType]:
    for name, type in columns:
        if fold(name) == fold(tree.name):
            return name, type
    raise UndefinedColumn(f'column "{tree.name}" does not exist', position=place(tree))


def _drop(tree: Tree) -> str:
    kind = str(tree.args.get("kind")).upper()
    if tree.args.get("materialized"):
        kind = "MATERIALIZED VIEW"
    only(tree, "tables", "kind", "exists", "materialized")
    tables = list(tree.args.get("tables") or ())
    if kind not in ("TABLE", "VIEW", "MATERIALIZED VIEW") or len(tables) != 1:
        raise refuse("this DROP is not translated", tree)
    guarded = "IF EXISTS " if tree.args.get("exists") else ""
    return f"DROP {kind} {guarded}{quote(name_of(tables[0]))}"
