"""FROM: tables, subqueries, VALUES, joins and LATERAL VIEW."""

from __future__ import annotations

from typing import Protocol

from penstock.sql.spark.dialect import Tree, exp, only, refuse
from penstock.sql.spark.expressions import Expressions
from penstock.sql.spark.functions_arrays import element_type
from penstock.sql.spark.functions_numbers import alike
from penstock.sql.spark.scope import Columns, Output, Scope
from penstock.sql.spark.typed import Typed
from penstock.sql.tokens import fold, quote
from penstock.zset import types as t

GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer")


class Queries(Protocol):
    """What FROM needs of the translator of queries."""

    def query(self, tree: Tree, outer: Scope | None) -> tuple[str, Columns]: ...

    def relation(self, name: str, tree: Tree) -> Columns: ...


class Relations:
    """Translates FROM, and adds what it gives to a scope."""

    def __init__(self, queries: Queries, scope: Scope) -> None:
        self.queries = queries
        self.scope = scope
        self.made = 0  # relations that have no alias

    def from_(self, tree: Tree) -> str:
        """The text of FROM with its joins; explode() among the columns of SELECT becomes one of them."""
        from_ = tree.args.get("from_")
        parts = [] if from_ is None else [self._item(from_.this)]
        parts += [self._join(join) for join in tree.args.get("joins") or ()]
        parts += [self._lateral_view(lateral) for lateral in tree.args.get("laterals") or ()]
        parts += self._generators(tree)
        return f" FROM {' '.join(parts)}" if parts else ""

    def _item(self, tree: Tree) -> str:
        only(tree, "this", "alias", "joins", "db", "catalog", "expressions")
        nested = tree.args.get("joins") or ()
        text = self._plain(tree)
        return " ".join([text, *(self._join(join) for join in nested)])

    def _plain(self, tree: Tree) -> str:
        alias = tree.alias
        names = (
            [column.name for column in (tree.args["alias"].args.get("columns") or ())]
            if tree.args.get("alias")
            else []
        )
        if isinstance(tree, exp.Table):
            return self._table(tree, alias, names)
        if isinstance(tree, exp.Subquery):
            sql, columns = self.queries.query(tree.this, self.scope.outer)
        elif isinstance(tree, exp.Values):
            sql, columns = self.values(tree)
        elif isinstance(tree, exp.Lateral) and isinstance(tree.this, exp.Subquery):
            sql, columns = self.queries.query(tree.this.this, self.scope)
            return f"LATERAL {self._aliased(sql, columns, names, alias or self._name(), tree)}"
        else:
            raise refuse(f"{type(tree).__name__} in FROM is not translated", tree)
        return self._aliased(sql, columns, names, alias or self._name(), tree)

    def _table(self, tree: Tree, alias: str, names: list[str]) -> str:
        if not isinstance(tree.this, exp.Identifier):
            raise refuse(f"{tree.sql('spark')} in FROM is not translated", tree)
        if tree.args.get("db"):
            raise refuse(
                f"{tree.sql('spark')}: a flow has no schemas or catalogs", tree, "Use the name alone."
            )
        columns = self.queries.relation(tree.name, tree)
        shown = _renamed(columns, names, tree)
        self.scope.add(alias or tree.name, shown, tree)
        listed = f"({', '.join(quote(name) for name, _ in shown)})" if names else ""
        return f"{quote(tree.name)} AS {quote(alias or tree.name)}{listed}"

    def _aliased(self, sql: str, columns: Columns, names: list[str], alias: str, tree: Tree) -> str:
        shown = _renamed(columns, names, tree)
        self.scope.add(alias, shown, tree)
        return f"({sql}) AS {quote(alias)}({', '.join(quote(name) for name, _ in shown)})"

    def _name(self) -> str:
        self.made += 1
        return f"__unnamed_{self.made}"

    def values(self, tree: Tree) -> tuple[str, Columns]:
        """VALUES; a column's type is what all its values can be."""
        make = Expressions(self.scope, self.queries)
        rows = [
            [make(each) for each in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in tree.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            raise refuse("VALUES with rows of different lengths", tree)
        columns = [alike(column, "VALUES") for column in zip(*rows, strict=True)]
        lines = ", ".join(f"({', '.join(value.sql for value in row)})" for row in zip(*columns, strict=True))
        return f"VALUES {lines}", tuple((f"col{i}", column[0].type) for i, column in enumerate(columns, 1))

    # -- joins -------------------------------------------------------------------------------

    def _join(self, join: Tree) -> str:
        only(join, "this", "side", "kind", "method", "on", "using")
        side, kind, method = (str(join.args.get(part) or "").upper() for part in ("side", "kind", "method"))
        if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"):
            raise refuse(f"{method} {kind} JOIN is not translated", join)
        before = list(self.scope.output)
        known = dict(self.scope.relations)
        item = self._item(join.this)
        new = self.scope.output[len(before) :]
        using = [each.name for each in join.args.get("using") or ()]
        if method == "NATURAL":
            names = {fold(column.name) for column in new}
            using = [column.name for column in before if fold(column.name) in names]
        word = kind if kind in ("SEMI", "ANTI") else side or ("CROSS" if kind == "CROSS" else "INNER")
        on = self._on(join, using, before, new, word)
        if word in ("SEMI", "ANTI"):
            self.scope.output, self.scope.relations = before, known
        elif using:
            self.scope.output = self._merged(using, before, new, word)
        if word in ("INNER", "CROSS") and not on:
            return f"CROSS JOIN {item}"
        return f"{'INNER' if word == 'CROSS' else word} JOIN {item} ON {on or 'true'}"

    def _on(self, join: Tree, using: list[str], before: list[Output], new: list[Output], word: str) -> str:
        if using:
            pairs = [alike([_one(before, name, join), _one(new, name, join)], "using") for name in using]
            return " AND ".join(f"{a.sql} = {b.sql}" for a, b in pairs)
        on = join.args.get("on")
        return "" if on is None else Expressions(self.scope, self.queries).condition(on).sql

    def _merged(self, using: list[str], before: list[Output], new: list[Output], word: str) -> list[Output]:
        """The columns after a join by USING: those that it joins by come first, once."""
        shared = []
        for name in using:
            left, right = alike([_one(before, name, None), _one(new, name, None)], "using")
            value = right if word == "RIGHT" else left
            if word == "FULL":
                value = Typed(f"coalesce({left.sql}, {right.sql})", left.type)
            shown = next(column.name for column in before if fold(column.name) == fold(name))
            shared.append(Output(shown, value, ""))
        gone = {fold(name) for name in using}
        return shared + [column for column in (*before, *new) if fold(column.name) not in gone]

    # -- explode -----------------------------------------------------------------------------

    def _lateral_view(self, tree: Tree) -> str:
        only(tree, "this", "view", "outer", "alias")
        if not isinstance(tree.this, exp.Anonymous):
            raise refuse("LATERAL VIEW of this is not translated", tree)
        alias = tree.args["alias"]
        names = [column.name for column in alias.args.get("columns") or ()]
        return self._exploded(tree.this, bool(tree.args.get("outer")), alias.name or self._name(), names)

    def _exploded(self, tree: Tree, outer: bool, alias: str, names: list[str]) -> str:
        name = str(tree.this).lower()
        if name not in GENERATORS or len(tree.expressions) != 1:
            raise refuse(f"the generator {name} is not translated", tree)
        value = Expressions(self.scope, self.queries)(tree.expressions[0])
        columns: Columns = (("col", element_type(value)),)
        listed = f"unnest({value.sql})"
        if name.startswith("posexplode"):
            columns = (("pos", t.INTEGER), *columns)
            listed = (
                f"unnest(list_transform(range(len({value.sql})), lambda i: CAST(i AS INTEGER))), {listed}"
            )
        text = self._aliased(f"SELECT {listed}", columns, names, alias, tree)
        if outer or name.endswith("_outer"):
            return f"LEFT JOIN LATERAL {text} ON true"
        return f"CROSS JOIN LATERAL {text}"

    def _generators(self, tree: Tree) -> list[str]:
        """SELECT explode(x) AS y is LATERAL VIEW with a column in its place."""
        parts: list[str] = []
        for i, each in enumerate(tree.expressions):
            inner = each.this if isinstance(each, exp.Alias) else each
            if not (isinstance(inner, exp.Anonymous) and str(inner.this).lower() in GENERATORS):
                continue
            if parts or str(inner.this).lower().startswith("pos"):
                raise refuse(
                    "more than one column of explode in SELECT is not translated", each, "Use LATERAL VIEW."
                )
            alias, name = self._name(), each.alias if isinstance(each, exp.Alias) else "col"
            before = list(self.scope.output)
            parts.append(self._exploded(inner, False, alias, [name]))
            self.scope.output = before  # * does not stand for it
            column = exp.column(
                exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True)
            )
            tree.expressions[i].replace(exp.alias_(column, exp.to_identifier(name, quoted=True)))
        return parts


def _one(columns: list[Output], name: str, tree: Tree | None) -> Typed:
    found = [column.value for column in columns if fold(column.name) == fold(name)]
    if len(found) != 1:
        raise refuse(f'USING "{name}", which is {"ambiguous" if found else "missing"} on one side', tree)
    return found[0]


def _renamed(columns: Columns, names: list[str], tree: Tree) -> Columns:
    if not names:
        return columns
    if len(names) != len(columns):
        raise refuse(f"{len(names)} names for {len(columns)} columns", tree)
    return tuple((name, type) for name, (_, type) in zip(names, columns, strict=True))
