"""Random scalar expressions and predicates, of a wanted kind, over the columns in scope."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.random.schemas import KINDS

Column = tuple[str, str]  # how it is written (a.x), kind
NUMBERS = ("int", "big", "dec", "float")
COMPARISONS = ("=", "=", "=", "<>", "<", "<=", ">", ">=")


@dataclass
class Scope:
    """The columns that an expression may use, those of the query outside, and how deep we are."""

    columns: list[Column]
    outer: list[Column] = field(default_factory=list)

    def of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.columns if kind in kinds]

    def outer_of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.outer if kind in kinds]


def literal(value: Any, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {KINDS[kind][0]})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    if kind == "text":
        return f"CAST('{value}' AS TEXT)"  # Postgres leaves a bare literal without a type
    if kind == "float":
        return f"CAST({value} AS DOUBLE PRECISION)"
    if isinstance(value, Decimal):
        return f"CAST({value} AS DECIMAL(8,2))"
    if kind == "big":
        return f"CAST({value} AS BIGINT)"
    return f"({value})" if value < 0 else str(value)


def expression(chance: random.Random, scope: Scope, kind: str, depth: int) -> str:
    """An expression of the kind: a column, a literal, or a function of smaller ones."""
    columns = scope.of(kind)
    if depth <= 0 or chance.random() < 0.45:
        if columns and chance.random() < 0.85:
            return chance.choice(columns)
        return literal(None if chance.random() < 0.05 else chance.choice(KINDS[kind][1]), kind)

    def part(of: str) -> str:
        return expression(chance, scope, of, depth - 1)

    if chance.random() < 0.25:
        return f"CASE WHEN {predicate(chance, scope, depth - 1)} THEN {part(kind)} ELSE {part(kind)} END"
    if chance.random() < 0.2:
        return f"coalesce({part(kind)}, {part(kind)})"
    if chance.random() < 0.1:
        return f"nullif({part(kind)}, {part(kind)})"
    forms: dict[str, list[Callable[[], str]]] = {
        "int": [
            lambda: f"({part('int')} {chance.choice('+-')} {part('int')})",
            lambda: f"({part('int')} * {literal(chance.choice((0, 1, 2)), 'int')})",
            lambda: f"({part('int')} / nullif({part('int')}, 0))",
            lambda: f"({part('int')} % nullif({part('int')}, 0))",
            lambda: f"abs({part('int')})",
            lambda: f"(- {part('int')})",
        ],
        "big": [
            lambda: f"({part('big')} {chance.choice('+-')} {part('int')})",
            lambda: f"CAST({part('int')} AS BIGINT)",
            lambda: f"CAST(length({part('text')}) AS BIGINT)",
        ],
        "text": [
            lambda: f"({part('text')} || {part('text')})",
            lambda: f"upper({part('text')})",
            lambda: f"substring({part('text')} FROM 1 FOR 1)",
            lambda: f"CAST({part('int')} AS VARCHAR)",
            lambda: f"trim({part('text')})",
        ],
        "dec": [
            lambda: f"CAST({part('dec')} {chance.choice('+-')} {part('dec')} AS DECIMAL(8,2))",
            lambda: f"CAST({part('int')} AS DECIMAL(8,2))",
            lambda: f"abs({part('dec')})",
        ],
        "bool": [lambda: f"({predicate(chance, scope, depth - 1)})"],
        "date": [lambda: f"({part('date')} + {chance.choice((1, 2))})"],
        "float": [
            lambda: f"({part('float')} {chance.choice('+-')} {part('float')})",
            lambda: f"({part('float')} * 2)",
        ],
    }
    return chance.choice(forms[kind])()


def comparable(chance: random.Random, scope: Scope, depth: int) -> tuple[str, str]:
    """Two expressions that may be compared."""
    kinds = sorted({kind for _, kind in scope.columns} & set(KINDS)) or ["int"]
    kind = chance.choice(kinds)
    other = chance.choice(("int", "big", "dec")) if kind in ("int", "big", "dec") else kind
    return expression(chance, scope, kind, depth), expression(chance, scope, other, depth)


def predicate(chance: random.Random, scope: Scope, depth: int) -> str:
    """A condition without subqueries."""
    if depth > 0 and chance.random() < 0.4:
        left, right = predicate(chance, scope, depth - 1), predicate(chance, scope, depth - 1)
        form = chance.choice(("({} AND {})", "({} OR {})", "(NOT ({}))", "({} OR {})"))
        return form.format(left, right)
    choice = chance.random()
    if choice < 0.55:
        left, right = comparable(chance, scope, depth - 1)
        return f"{left} {chance.choice(COMPARISONS)} {right}"
    if choice < 0.63:
        left, right = comparable(chance, scope, 0)
        return f"{left} IS {chance.choice(('', 'NOT '))}DISTINCT FROM {right}"
    if choice < 0.75:
        kind = chance.choice([kind for _, kind in scope.columns if kind in KINDS] or ["int"])
        return f"{expression(chance, scope, kind, 1)} IS {chance.choice(('', 'NOT '))}NULL"
    if choice < 0.87:
        kind = chance.choice(
            [kind for _, kind in scope.columns if kind in KINDS and kind != "bool"] or ["int"]
        )
        values = ", ".join(literal(v, kind) for v in chance.sample(KINDS[kind][1], 2))
        nulls = chance.choice(("", "", f", {literal(None, kind)}"))
        return f"{expression(chance, scope, kind, 0)} {chance.choice(('', 'NOT '))}IN ({values}{nulls})"
    if choice < 0.94:
        low, high = sorted(chance.sample(KINDS["int"][1], 2))
        return f"{expression(chance, scope, 'int', 1)} BETWEEN {low} AND {high}"
    pattern = chance.choice(("a%", "%b", "_", "%"))
    return f"{expression(chance, scope, 'text', 0)} LIKE '{pattern}'"
