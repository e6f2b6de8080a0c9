"""Random queries over tables and views: joins, aggregates, subqueries, set operations, CTEs, top-k."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.random.expressions import COMPARISONS, NUMBERS, Column, Scope, expression, literal, predicate
from tests.random.schemas import KINDS


@dataclass
class Relation:
    """Something to select from: a table or view by name, or a query in parentheses."""

    text: str
    columns: list[tuple[str, str]]  # name, kind; kind "loose" is a float that is not exact


class QueryGenerator:
    """Draws queries; `features` says which of its parts a query has used."""

    def __init__(self, chance: random.Random, relations: list[Relation]) -> None:
        self.chance = chance
        self.relations = relations
        self.aliases = 0
        self.features: set[str] = set()

    # -- queries --------------------------------------------------------------------------------

    def query(self, depth: int = 2) -> Relation:
        """A whole query: the text of it and its columns."""
        draw = self.chance.random()
        if depth > 0 and draw < 0.14:
            return self.set_operation(depth)
        if depth > 0 and draw < 0.22:
            return self.with_cte(depth)
        if draw < 0.32:
            return self.top(self.select(depth - 1))
        return self.select(depth)

    def select(self, depth: int) -> Relation:
        sources, scope = self.from_clause(depth)
        where = self.where(scope, depth)
        draw = self.chance.random()
        if draw < 0.45:
            return self.aggregate(sources, scope, where, depth)
        distinct = "DISTINCT " if draw < 0.6 else ""
        items, columns = [], []
        for n in range(self.chance.randint(1, 4)):
            text, kind = self.item(scope, depth)
            items.append(f"{text} AS c{n}")
            columns.append((f"c{n}", kind))
        if distinct:
            self.features.add("distinct")
        return Relation(f"SELECT {distinct}{', '.join(items)} FROM {sources}{where}", columns)

    def item(self, scope: Scope, depth: int) -> tuple[str, str]:
        if depth > 0 and self.chance.random() < 0.12:
            return self.scalar_subquery(scope), "big"
        if depth > 0 and self.chance.random() < 0.05:
            return f"({self.membership(scope, depth)})", "bool"
        kinds = sorted({kind for _, kind in scope.columns if kind in KINDS}) or ["int"]
        kind = self.chance.choice(kinds)
        return expression(self.chance, scope, kind, 2), kind

    def set_operation(self, depth: int) -> Relation:
        operation = self.chance.choice(
            ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
        )
        self.features.add(operation)
        kinds = [self.chance.choice(("int", "text", "dec", "big")) for _ in range(self.chance.randint(1, 2))]
        arms = [self.arm(kinds, depth - 1) for _ in range(2)]
        columns = [(f"c{n}", kind) for n, kind in enumerate(kinds)]
        alias = self.alias()
        text = f"SELECT {', '.join(name for name, _ in columns)} FROM (({arms[0]}) {operation} ({arms[1]})) {alias}"
        return Relation(text, columns)

    def arm(self, kinds: list[str], depth: int) -> str:
        sources, scope = self.from_clause(depth)
        items = ", ".join(
            f"{expression(self.chance, scope, kind, 1)} AS c{n}" for n, kind in enumerate(kinds)
        )
        return f"SELECT {items} FROM {sources}{self.where(scope, depth)}"

    def with_cte(self, depth: int) -> Relation:
        self.features.add("cte")
        inner = self.query(depth - 1)
        name = f"w{self.alias()}"
        self.relations.append(Relation(name, inner.columns))
        outer = self.select(depth - 1)
        self.relations.pop()
        return Relation(f"WITH {name} AS ({inner.text}) {outer.text}", outer.columns)

    def top(self, inner: Relation) -> Relation:
        """The first rows in an order of all columns, so that only equal rows can tie."""
        if any(kind == "loose" for _, kind in inner.columns):
            return inner
        self.features.add("limit")
        order = [
            f"{n + 1}{self.chance.choice(('', ' DESC', ' DESC NULLS LAST', ' NULLS FIRST'))}"
            for n in range(len(inner.columns))
        ]
        self.chance.shuffle(order)
        offset = self.chance.choice(("", "", f" OFFSET {self.chance.randint(0, 3)}"))
        return Relation(
            f"{inner.text} ORDER BY {', '.join(order)} LIMIT {self.chance.randint(1, 5)}{offset}",
            inner.columns,
        )

    # -- FROM and WHERE ---------------------------------------------------------------------------

    def alias(self) -> str:
        self.aliases += 1
        return f"r{self.aliases}"

    def source(self, depth: int) -> tuple[str, list[Column]]:
        if depth > 0 and self.chance.random() < 0.2:
            self.features.add("derived")
            inner = self.query(depth - 1)
            relation = Relation(f"({inner.text})", inner.columns)
        else:
            relation = self.chance.choice(self.relations)
        alias = self.alias()
        return f"{relation.text} {alias}", [(f"{alias}.{name}", kind) for name, kind in relation.columns]

    def from_clause(self, depth: int) -> tuple[str, Scope]:
        text, columns = self.source(depth)
        for _ in range(self.chance.choices([0, 1, 2], [4, 5, 2])[0]):
            kind = self.chance.choices(
                ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"], [5, 4, 2, 2, 1]
            )[0]
            right, more = self.source(depth - 1)
            self.features.add(kind)
            if kind == "CROSS JOIN":
                text, columns = f"{text} CROSS JOIN {right}", columns + more
                continue
            text = f"{text} {kind} {right} ON {self.on(columns, more, kind)}"
            columns = columns + more
        return text, Scope(columns)

    def on(self, left: list[Column], right: list[Column], kind: str) -> str:
        pairs = [(a, b) for a, x in left for b, y in right if x == y and x in KINDS and x != "bool"]
        both = Scope(left + right)
        if not pairs:
            self.features.add("full theta" if kind == "FULL JOIN" else "theta")
            return predicate(self.chance, both, 1)
        terms = [
            f"{a} = {b}" for a, b in self.chance.sample(pairs, min(len(pairs), self.chance.choice((1, 1, 2))))
        ]
        draw = self.chance.random()
        if draw < 0.25:
            self.features.add("residual")
            terms.append(predicate(self.chance, both, 1))
        elif draw < 0.32:
            self.features.add("full theta" if kind == "FULL JOIN" else "theta")
            terms = [predicate(self.chance, both, 1)]
        elif draw < 0.4:
            self.features.add("full theta" if kind == "FULL JOIN" else "null-safe")
            terms = [term.replace(" = ", " IS NOT DISTINCT FROM ") for term in terms]
        return " AND ".join(terms)

    def where(self, scope: Scope, depth: int) -> str:
        terms = []
        if self.chance.random() < 0.5:
            terms.append(predicate(self.chance, scope, 2))
        if depth > 0 and self.chance.random() < 0.4:
            term = self.membership(scope, depth)
            if self.chance.random() < 0.2:
                term = f"({term} OR {predicate(self.chance, scope, 1)})"
            terms.append(term)
        return f" WHERE {' AND '.join(terms)}" if terms else ""

    # -- subqueries -------------------------------------------------------------------------------

    def correlation(self, scope: Scope, inner: Scope) -> str:
        """A condition between the inner and the outer columns."""
        pairs = [(i, o) for i, x in inner.columns for o, y in scope.columns if x == y and x in KINDS]
        if not pairs:
            return predicate(self.chance, inner, 1)
        terms = [
            f"{i} = {o}" for i, o in self.chance.sample(pairs, min(len(pairs), self.chance.choice((1, 1, 2))))
        ]
        if self.chance.random() < 0.25:
            i, o = self.chance.choice(pairs)
            terms.append(f"{i} {self.chance.choice(('<>', '<', '>='))} {o}")
        if self.chance.random() < 0.3:
            terms.append(predicate(self.chance, inner, 1))
        return " AND ".join(terms)

    def membership(self, scope: Scope, depth: int) -> str:
        """IN, NOT IN, EXISTS, NOT EXISTS, ANY, ALL, or a comparison with a scalar subquery."""
        source, columns = self.source(depth - 1)
        inner = Scope(columns)
        form = self.chance.choice(("in", "not in", "exists", "not exists", "any", "all", "scalar"))
        self.features.add(form)
        correlated = self.chance.random() < 0.5
        condition = self.correlation(scope, inner) if correlated else predicate(self.chance, inner, 1)
        where = f" WHERE {condition}" if correlated or self.chance.random() < 0.6 else ""
        if form in ("exists", "not exists"):
            return f"{form.upper()} (SELECT 1 FROM {source} WHERE {self.correlation(scope, inner)})"
        if form == "scalar":
            left = expression(self.chance, scope, "int", 1)
            return f"{left} {self.chance.choice(COMPARISONS)} {self.scalar_subquery(scope)}"
        kinds = sorted(
            {k for _, k in scope.columns} & {k for _, k in columns} & {"int", "text", "dec", "date", "big"}
        )
        kind = self.chance.choice(kinds or ["int"])
        needle, item = expression(self.chance, scope, kind, 1), expression(self.chance, inner, kind, 1)
        test = {
            "in": "IN",
            "not in": "NOT IN",
            "any": f"{self.chance.choice(COMPARISONS)} ANY",
            "all": f"{self.chance.choice(COMPARISONS)} ALL",
        }[form]
        return f"{needle} {test} (SELECT {item} FROM {source}{where})"

    def scalar_subquery(self, scope: Scope) -> str:
        """A subquery of one value, correlated or not."""
        self.features.add("scalar subquery")
        source, columns = self.source(0)
        inner = Scope(columns)
        value = expression(self.chance, inner, "int", 1)
        function = self.chance.choice(
            ("max({})", "min({})", "count({})", "sum({})", "count(*)", "count(DISTINCT {})")
        )
        where = f" WHERE {self.correlation(scope, inner)}" if self.chance.random() < 0.65 else ""
        return f"(SELECT CAST({function.format(value)} AS BIGINT) FROM {source}{where})"

    # -- aggregates -------------------------------------------------------------------------------

    def aggregate(self, sources: str, scope: Scope, where: str, depth: int) -> Relation:
        self.features.add("aggregate")
        items, columns = [], []
        keys = self.chance.choices([0, 1, 2], [2, 5, 2])[0]
        for n in range(keys):
            kinds = sorted({kind for _, kind in scope.columns if kind in KINDS}) or ["int"]
            kind = self.chance.choice(kinds)
            text = expression(self.chance, scope, kind, 1)
            # A bare number in GROUP BY is a position, so keys are written by position throughout.
            items.append(f"{text} AS c{n}")
            columns.append((f"c{n}", kind))
        for n in range(keys, keys + self.chance.randint(1, 3)):
            text, kind = self.call(scope)
            items.append(f"{text} AS c{n}")
            columns.append((f"c{n}", kind))
        group = f" GROUP BY {', '.join(str(n + 1) for n in range(keys))}" if keys else ""
        having = ""
        if self.chance.random() < 0.25:
            self.features.add("having")
            having = f" HAVING {self.having(scope, depth)}"
        return Relation(f"SELECT {', '.join(items)} FROM {sources}{where}{group}{having}", columns)

    def having(self, scope: Scope, depth: int) -> str:
        text, kind = self.call(scope)
        if kind == "bool":
            return text
        if kind in ("text", "date"):
            return f"{text} IS NOT NULL"
        right = literal(self.chance.choice((0, 1, 2)), "int")
        if kind == "loose":
            right = "0.37"  # no average of ours is this, so the last digit does not decide
        elif depth > 0 and self.chance.random() < 0.2:
            right = self.scalar_subquery(Scope([]))
        return f"{text} {self.chance.choice(('>', '<', '>=', '<>'))} {right}"

    def call(self, scope: Scope) -> tuple[str, str]:
        """An aggregate, with FILTER and DISTINCT now and then."""
        chance = self.chance
        filters = ""
        if chance.random() < 0.2:
            self.features.add("filter")
            filters = f" FILTER (WHERE {predicate(chance, scope, 1)})"
        distinct = ""
        if chance.random() < 0.2:
            self.features.add("aggregate distinct")
            distinct = "DISTINCT "
        draw = chance.random()
        if draw < 0.15:
            return f"count(*){filters}", "big"
        kinds = sorted({kind for _, kind in scope.columns if kind in KINDS}) or ["int"]
        kind = chance.choice(kinds)
        value = expression(chance, scope, kind, 1)
        if draw < 0.3:
            return f"count({distinct}{value}){filters}", "big"
        if kind == "bool":
            return f"{chance.choice(('bool_and', 'bool_or'))}({value}){filters}", "bool"
        if draw < 0.55 or kind not in NUMBERS:
            return f"{chance.choice(('min', 'max'))}({value}){filters}", kind
        if draw < 0.8:
            casts = {"int": "BIGINT", "big": "BIGINT", "dec": "DECIMAL(8,2)", "float": "DOUBLE PRECISION"}
            result = "big" if kind == "int" else kind
            return f"CAST(sum({distinct}{value}){filters} AS {casts[kind]})", result
        number = expression(chance, scope, "int", 1)
        function = chance.choice(("avg", "avg", "stddev_pop", "var_samp"))
        return f"{function}({'' if function != 'avg' else distinct}{number}){filters}", "loose"


def portable(features: set[str]) -> bool:
    """Whether PostgreSQL can run a query with these parts: it has no full joins without equalities."""
    return "full theta" not in features
