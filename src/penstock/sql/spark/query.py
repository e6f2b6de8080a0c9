"""Queries: FROM, WHERE, GROUP BY and the rest, with every column resolved to its table and given its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.base.errors import BindError, UndefinedTable
from penstock.sql.spark.cast import coerced
from penstock.sql.spark.dialect import Tree, exp, only, place, refuse
from penstock.sql.spark.expressions import Expressions
from penstock.sql.spark.names import spark_name
from penstock.sql.spark.relations import Relations
from penstock.sql.spark.scope import Columns, Scope
from penstock.sql.spark.typed import Typed
from penstock.sql.spark.types import common_type
from penstock.sql.tokens import fold, quote

ColumnsOf = Callable[[str], Columns | None]

UNNAMED = "__unnamed_column_"  # for columns whose name in Spark is not known: good where nobody can see it

_SET = {"Union": "UNION", "Intersect": "INTERSECT", "Except": "EXCEPT"}
_USED = (
    "with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "order", "limit", "offset",
    "distinct", "hint",  # a hint changes how Spark runs a query, never its answer
)  # fmt: skip


class Translator:
    """Translates queries over the relations of a catalog and the common tables around them."""

    def __init__(self, columns_of: ColumnsOf, common: Mapping[str, Columns] | None = None) -> None:
        self.columns_of = columns_of
        self.common = dict(common or {})  # folded names of WITH

    def relation(self, name: str, tree: Tree) -> Columns:
        """The columns of a table, a view or a common table."""
        found = self.common.get(fold(name)) or self.columns_of(name)
        if found is None:
            raise UndefinedTable(f'table or view "{name}" does not exist', position=place(tree))
        return found

    def query(self, tree: Tree, outer: Scope | None = None) -> tuple[str, Columns]:
        """The text of a query and its columns."""
        with_ = tree.args.get("with_")
        if with_ is not None:
            return self._with(with_, tree, outer)
        if isinstance(tree, exp.Subquery):
            only(tree, "this")
            return self.query(tree.this, outer)
        if isinstance(tree, exp.Select):
            return self._select(tree, outer)
        if type(tree).__name__ in _SET:
            return self._set_operation(tree, outer)
        if isinstance(tree, exp.Values):
            return Relations(self, Scope(outer)).values(tree)
        raise refuse(f"{type(tree).__name__} is not translated as a query", tree)

    def shown(self, tree: Tree) -> tuple[str, Columns]:
        """A query whose columns somebody will see: all have names."""
        sql, columns = self.query(tree)
        for i, (name, _) in enumerate(columns):
            if name.startswith(UNNAMED):
                raise refuse(f"column {i + 1} of the query has no name", tree, "Give it one with AS.")
        return sql, columns

    def _with(self, with_: Tree, tree: Tree, outer: Scope | None) -> tuple[str, Columns]:
        if with_.args.get("recursive"):
            raise refuse("WITH RECURSIVE is not translated", with_)
        inner = Translator(self.columns_of, self.common)
        texts = []
        for each in with_.expressions:
            only(each, "this", "alias")
            sql, columns = inner.query(each.this, outer)
            names = [column.name for column in each.args["alias"].args.get("columns") or ()]
            columns = renamed(columns, names, each)
            listed = ", ".join(quote(name) for name, _ in columns)
            texts.append(f"{quote(each.alias)}({listed}) AS ({sql})")
            inner.common[fold(each.alias)] = columns
        rest = tree.copy()
        rest.set("with_", None)
        sql, columns = inner.query(rest, outer)
        return f"WITH {', '.join(texts)} {sql}", columns

    # -- SELECT ------------------------------------------------------------------------------

    def _select(self, tree: Tree, outer: Scope | None) -> tuple[str, Columns]:
        only(tree, *_USED)
        scope = Scope(outer)
        source = Relations(self, scope).from_(tree)
        make = Expressions(scope, self)
        where = tree.args.get("where")
        condition = "" if where is None else f" WHERE {make.condition(where.this).sql}"
        items = self._items(tree, scope, make)
        listed = ", ".join(f"{value.sql} AS {quote(name)}" for name, value, _ in items)
        group = self._group(tree, items, make)
        having = tree.args.get("having")
        if having is not None:
            group += f" HAVING {make.condition(having.this).sql}"
        word = "DISTINCT " if tree.args.get("distinct") else ""
        tail = self._order(tree, Expressions(_ordering(scope, items), self), [name for name, _, _ in items])
        sql = f"SELECT {word}{listed}{source}{condition}{group}{tail}"
        return sql, tuple((name, value.type) for name, value, _ in items)

    def _items(self, tree: Tree, scope: Scope, make: Expressions) -> list[tuple[str, Typed, Tree]]:
        items: list[tuple[str, Typed, Tree]] = []
        for i, each in enumerate(tree.expressions):
            stars = _star(each, scope)
            if stars is not None:
                items += [(name, value, each) for name, value in stars]
                continue
            name = spark_name(each) or f"{UNNAMED}{i}"
            value = make(each.this if isinstance(each, exp.Alias) else each)
            items.append((name, value, each))
            scope.selected.setdefault(fold(name), value)
        return items

    def _group(self, tree: Tree, items: list[tuple[str, Typed, Tree]], make: Expressions) -> str:
        group = tree.args.get("group")
        if group is None:
            return ""
        if group.args.get("all"):
            keys = [value.sql for _, value, _ in items if not value.aggregate]
        else:
            keys = [self._key(each, items, make) for each in group.expressions]
        only(group, "expressions", "all")
        return f" GROUP BY {', '.join(keys)}" if keys else ""

    def _key(self, each: Tree, items: list[tuple[str, Typed, Tree]], make: Expressions) -> str:
        if isinstance(each, exp.Literal) and not each.is_string:
            return _numbered(each, items)[1].sql
        return make(each).sql

    def _order(self, tree: Tree, make: Expressions, names: list[str]) -> str:
        order, tail = tree.args.get("order"), ""
        if order is not None:
            terms = []
            only(order, "expressions")
            for each in order.expressions:
                inner = each.this
                if isinstance(inner, exp.Literal) and not inner.is_string:
                    place_ = int(inner.this)
                    if not 1 <= place_ <= len(names):
                        raise BindError(
                            f"ORDER BY {place_} is beyond the columns of SELECT", position=place(inner)
                        )
                    each = each.copy()
                    each.set("this", exp.column(exp.to_identifier(names[place_ - 1], quoted=True)))
                terms.append(make.ordered(each))
            tail = f" ORDER BY {', '.join(terms)}"
        for word in ("limit", "offset"):
            value = tree.args.get(word)
            if value is not None:
                count = value.expression
                if not isinstance(count, exp.Literal) or not count.this.isdigit():
                    raise refuse(f"{word.upper()} that is no literal is not translated", tree)
                tail += f" {word.upper()} {count.this}"
        return tail

    # -- UNION, INTERSECT, EXCEPT ------------------------------------------------------------

    def _set_operation(self, tree: Tree, outer: Scope | None) -> tuple[str, Columns]:
        only(tree, "this", "expression", "distinct", "order", "limit", "offset")
        (left, a), (right, b) = self.query(tree.this, outer), self.query(tree.expression, outer)
        if len(a) != len(b):
            raise BindError(f"{len(a)} columns and {len(b)} columns do not go together", position=place(tree))
        types = [common_type(one, other) for (_, one), (_, other) in zip(a, b, strict=True)]
        if None in types:
            name, bad = a[types.index(None)][0], types.index(None)
            raise refuse(
                f'column "{name}" is {a[bad][1].duck} here and {b[bad][1].duck} there', tree, "Add a CAST."
            )
        columns = tuple((name, type) for (name, _), type in zip(a, types, strict=True) if type is not None)
        word = _SET[type(tree).__name__] + ("" if tree.args.get("distinct") else " ALL")
        sql = f"({_cast_all(left, a, columns)}) {word} ({_cast_all(right, b, columns)})"
        if any(tree.args.get(part) for part in ("order", "limit", "offset")):
            scope = Scope(outer)
            scope.add("all", columns, tree)
            listed = ", ".join(f'"all".{quote(name)}' for name, _ in columns)
            tail = self._order(tree, Expressions(scope, self), [name for name, _ in columns])
            sql = f'SELECT {listed} FROM ({sql}) AS "all"{tail}'
        return sql, columns


def renamed(columns: Columns, names: list[str], tree: Tree) -> Columns:
    """The columns under the names that were given, if any were."""
    if not names:
        return columns
    if len(names) != len(columns):
        raise BindError(f"{len(names)} names for {len(columns)} columns", position=place(tree))
    return tuple((name, type) for name, (_, type) in zip(names, columns, strict=True))


def _star(tree: Tree, scope: Scope) -> list[tuple[str, Typed]] | None:
    """What * or t.* stands for; None if it is neither."""
    star = tree.this if isinstance(tree, exp.Column) else tree
    if not isinstance(star, exp.Star):
        return None
    table = tree.args.get("table") if isinstance(tree, exp.Column) else None
    if any(star.args.get(part) for part in ("replace", "rename", "ilike")):
        raise refuse("* with a replacement is not translated", tree)
    if table is None:
        found = [(column.name, column.value) for column in scope.output]
    else:
        columns = scope.relations.get(fold(table.name))
        if columns is None:
            raise UndefinedTable(f'"{table.name}" is not in FROM', position=place(tree))
        names = {column.value.sql: column.name for column in scope.everything}
        found = [(names[value.sql], value) for value in columns.values()]
    left_out = {fold(each.name) for each in star.args.get("except_") or ()}
    unknown = left_out - {fold(name) for name, _ in found}
    if unknown:
        raise refuse(f"* EXCEPT ({min(unknown)}), which is not there", tree)
    return [(name, value) for name, value in found if fold(name) not in left_out]


def _ordering(scope: Scope, items: list[tuple[str, Typed, Tree]]) -> Scope:
    """ORDER BY sees the columns of SELECT first: by name where that is enough."""
    selected = {fold(name): Typed(quote(name), value.type) for name, value, _ in items}
    return Scope(scope.outer, scope.relations, scope.output, scope.everything, selected, aliases_first=True)


def _numbered(tree: Tree, items: list[tuple[str, Typed, Tree]]) -> tuple[str, Typed]:
    number = int(tree.this)
    if not 1 <= number <= len(items):
        raise BindError(f"GROUP BY {number} is beyond the columns of SELECT", position=place(tree))
    return items[number - 1][0], items[number - 1][1]


def _cast_all(sql: str, columns: Columns, wanted: Columns) -> str:
    if [type for _, type in columns] == [type for _, type in wanted]:
        return sql
    names = [f"c{i}" for i in range(len(columns))]
    listed = ", ".join(
        f"{coerced(Typed(name, type), to).sql} AS {quote(shown)}"
        for name, (_, type), (shown, to) in zip(names, columns, wanted, strict=True)
    )
    return f'SELECT {listed} FROM ({sql}) AS "side"({", ".join(names)})'
