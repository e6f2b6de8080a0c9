"""Expressions: each kind of tree that is translated has a function here, and every other is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.sql.spark.aggregates import AGGREGATES, aggregate
from penstock.sql.spark.arithmetic import arithmetic
from penstock.sql.spark.cast import cast
from penstock.sql.spark.dialect import Tree, exp, only, refuse
from penstock.sql.spark.functions import call
from penstock.sql.spark.functions_arrays import field, item, named_struct
from penstock.sql.spark.functions_dates import INTERVAL_UNITS, PARTS, add_days, shift, subtract_days
from penstock.sql.spark.functions_numbers import alike, if_, truth
from penstock.sql.spark.functions_text import concat, matches, place_of, substring, trim, words
from penstock.sql.spark.names import spark_name
from penstock.sql.spark.scope import Columns, Scope
from penstock.sql.spark.typed import Typed, integer_of, number, string, text
from penstock.sql.spark.types import INTEGERS, is_instant, read_type
from penstock.zset import types as t


class Queries(Protocol):
    """Translates the queries inside of expressions."""

    def query(self, tree: Tree, outer: Scope | None) -> tuple[str, Columns]: ...


class Expressions:
    """Translates the expressions of one scope."""

    def __init__(self, scope: Scope, queries: Queries) -> None:
        self.scope = scope
        self.queries = queries

    def __call__(self, tree: Tree) -> Typed:
        make = _KINDS.get(type(tree).__name__)
        if make is None:
            raise refuse(f"{_words(tree)} is not translated", tree)
        if any(value for part, value in tree.args.items() if part not in _PARTS):
            raise refuse(f"{_words(tree)} is not translated", tree)
        found = make(self, tree)
        if tree.args.get("negate"):  # s NOT LIKE ..., x IS NOT NULL
            found = Typed(f"(NOT {truth(found).sql})", t.BOOLEAN)
        if found.tree is not None and found.aggregate:
            return found
        aggregate = found.aggregate or any(_is_aggregate(part) for part in tree.walk())
        return Typed(found.sql, found.type, tree, found.literal, aggregate)

    def condition(self, tree: Tree) -> Typed:
        return truth(self(tree))

    # -- names and literals ------------------------------------------------------------------

    def column(self, tree: Tree) -> Typed:
        parts = [tree.args.get(part) for part in ("catalog", "db", "table", "this")]
        return self.scope.find([part.name for part in parts if part is not None], tree)

    def dot(self, tree: Tree) -> Typed:
        return field(self(tree.this), tree.expression.name)

    def literal(self, tree: Tree) -> Typed:
        return text(tree.this) if tree.is_string else _number(tree.this)

    def negative(self, tree: Tree) -> Typed:
        value = self(tree.this)
        if value.literal is not None and value.type.is_numeric:
            return number(f"-{value.literal}", value.type)
        if value.type.id == "VARCHAR":
            value = cast(value, t.DOUBLE)
        return Typed(f"(-{_wanted(value, value.type.is_numeric).sql})", value.type)

    def boolean(self, tree: Tree) -> Typed:
        return Typed("true" if tree.this else "false", t.BOOLEAN)

    def null(self, tree: Tree) -> Typed:
        return Typed("NULL", t.NULL)

    # -- operators ---------------------------------------------------------------------------

    def arithmetic(self, tree: Tree) -> Typed:
        operator = _OPERATORS[type(tree).__name__]
        for one, other in ((tree.this, tree.expression), (tree.expression, tree.this)):
            if isinstance(other, exp.Interval) and (operator == "+" or other is tree.expression):
                return self._shift(one, operator, other)
        a, b = self(tree.this), self(tree.expression)
        if a.type.id == "DATE" and b.type.is_integer and operator in "+-":
            return add_days(a, b) if operator == "+" else subtract_days(a, b)
        if operator == "+" and b.type.id == "DATE" and a.type.is_integer:
            return add_days(b, a)
        return arithmetic(operator, a, b)

    def _shift(self, tree: Tree, sign: str, interval: Tree) -> Typed:
        unit = interval.args.get("unit")
        name = "" if unit is None else unit.name.lower().rstrip("s")
        count = None if interval.this is None else interval.this.name
        if name not in INTERVAL_UNITS or not str(count).lstrip("-").isdigit():
            raise refuse("an interval that is no literal of one unit is not translated", interval)
        return shift(self(tree), sign, str(count), name)

    def comparison(self, tree: Tree) -> Typed:
        operator = _OPERATORS[type(tree).__name__]
        a, b = alike([self(tree.this), self(tree.expression)], f"the comparison {operator}")
        if a.type.id == "MAP":
            raise refuse("a comparison of maps is not translated", tree)
        return Typed(f"({a.sql} {operator} {b.sql})", t.BOOLEAN)

    def logic(self, tree: Tree) -> Typed:
        word = type(tree).__name__.upper()
        return Typed(
            f"({self.condition(tree.this).sql} {word} {self.condition(tree.expression).sql})", t.BOOLEAN
        )

    def negation(self, tree: Tree) -> Typed:
        return Typed(f"(NOT {self.condition(tree.this).sql})", t.BOOLEAN)

    def bits(self, tree: Tree) -> Typed:
        a, b = alike([self(tree.this), self(tree.expression)], "bits")
        _wanted(a, a.type.id in INTEGERS)
        if isinstance(tree, exp.BitwiseXor):
            return Typed(f"xor({a.sql}, {b.sql})", a.type)
        return Typed(f"({a.sql} {'&' if isinstance(tree, exp.BitwiseAnd) else '|'} {b.sql})", a.type)

    def bits_not(self, tree: Tree) -> Typed:
        value = self(tree.this)
        return Typed(f"(~{_wanted(value, value.type.id in INTEGERS).sql})", value.type)

    def joined(self, tree: Tree) -> Typed:
        parts = tree.expressions if isinstance(tree, exp.Concat) else [tree.this, tree.expression]
        return concat(*(self(part) for part in parts))

    def parenthesis(self, tree: Tree) -> Typed:
        return self(tree.this)

    def is_(self, tree: Tree) -> Typed:
        value = self(tree.this)
        if isinstance(tree.expression, exp.Null):
            return Typed(f"({value.sql} IS NULL)", t.BOOLEAN)
        if isinstance(tree.expression, exp.Boolean):
            return Typed(f"({truth(value).sql} IS {'TRUE' if tree.expression.this else 'FALSE'})", t.BOOLEAN)
        raise refuse("IS with anything but NULL, TRUE and FALSE is not translated", tree)

    def between(self, tree: Tree) -> Typed:
        if tree.args.get("symmetric"):
            raise refuse("BETWEEN SYMMETRIC is not translated", tree)
        value, low, high = (self(tree.args[part]) for part in ("this", "low", "high"))
        a, b = alike([value, low], "between")
        c, d = alike([value, high], "between")
        return Typed(f"({a.sql} >= {b.sql} AND {c.sql} <= {d.sql})", t.BOOLEAN)

    def like(self, tree: Tree) -> Typed:
        pattern, escape = tree.expression, "\\"
        if isinstance(pattern, exp.Escape):
            pattern, escape = pattern.this, pattern.expression.name
        if isinstance(pattern, (exp.Any, exp.All)):
            raise refuse(
                "LIKE ANY and LIKE ALL are not translated", tree, "Join several LIKE with OR or AND."
            )
        word = "ILIKE" if isinstance(tree, exp.ILike) else "LIKE"
        return Typed(
            f"({words(self(tree.this))} {word} {words(self(pattern))} ESCAPE {string(escape)})", t.BOOLEAN
        )

    def like_escape(self, tree: Tree) -> Typed:
        inner = tree.this.copy()
        inner.set("expression", exp.Escape(this=inner.expression, expression=tree.expression))
        return self.like(inner)

    def regexp(self, tree: Tree) -> Typed:
        return matches(self(tree.this), self(tree.expression))

    def in_(self, tree: Tree) -> Typed:
        value, query = self(tree.this), tree.args.get("query")
        if query is None:
            same = alike([value, *(self(each) for each in tree.expressions)], "in")
            return Typed(f"({same[0].sql} IN ({', '.join(each.sql for each in same[1:])}))", t.BOOLEAN)
        sql, columns = self.queries.query(
            query.this if isinstance(query, exp.Subquery) else query, self.scope
        )
        if len(columns) != 1:
            raise refuse(f"IN with a subquery of {len(columns)} columns is not translated", tree)
        inner = Typed('"in"."value"', columns[0][1])
        left, right = alike([value, inner], "in")
        return Typed(f'({left.sql} IN (SELECT {right.sql} FROM ({sql}) AS "in"("value")))', t.BOOLEAN)

    # -- conditions, casts, queries ----------------------------------------------------------

    def case(self, tree: Tree) -> Typed:
        base = tree.args.get("this")
        default = tree.args.get("default")
        conditions = []
        for branch in tree.args["ifs"]:
            if base is None:
                conditions.append(self.condition(branch.this).sql)
            else:
                a, b = alike([self(base), self(branch.this)], "case")
                conditions.append(f"{a.sql} = {b.sql}")
        results = [self(branch.args["true"]) for branch in tree.args["ifs"]]
        results.append(Typed("NULL", t.NULL) if default is None else self(default))
        *results, last = alike(results, "case")
        branches = " ".join(f"WHEN {c} THEN {r.sql}" for c, r in zip(conditions, results, strict=True))
        return Typed(f"CASE {branches} ELSE {last.sql} END", last.type)

    def if_(self, tree: Tree) -> Typed:
        no = tree.args.get("false")
        return if_(self(tree.this), self(tree.args["true"]), self.null(tree) if no is None else self(no))

    def cast(self, tree: Tree) -> Typed:
        # sqlglot reads every CAST of Spark as TRY_CAST, and marks those that are one.
        if tree.args.get("format"):
            raise refuse("CAST with FORMAT is not translated", tree)
        value, type = self(tree.this), read_type(tree.args["to"])
        attempt = bool(tree.args.get("safe"))
        digits = integer_of(value)
        if digits is not None and type.id in INTEGERS and abs(digits) < 2 ** (type.numpy.itemsize * 8 - 1):
            return number(str(digits), type)  # 5L and 5S are written as casts
        if not attempt and value.type.is_numeric and is_instant(type):
            raise refuse("a number as a timestamp is not translated", tree)
        return cast(value, type, attempt)

    def scalar(self, tree: Tree) -> Typed:
        sql, columns = self.queries.query(tree.this, self.scope)
        if len(columns) != 1:
            raise refuse(f"a subquery of {len(columns)} columns is no value", tree)
        return Typed(f"({sql})", columns[0][1])

    def exists(self, tree: Tree) -> Typed:
        return Typed(f"EXISTS ({self.queries.query(tree.this, self.scope)[0]})", t.BOOLEAN)

    # -- functions ---------------------------------------------------------------------------

    def function(self, tree: Tree) -> Typed:
        name = str(tree.this).lower()
        if name in AGGREGATES:
            return self._aggregate(tree, lambda sql: sql)
        if name == "struct":
            named = [
                (text(spark_name(part) or f"col{i}"), self(_bare(part)))
                for i, part in enumerate(tree.expressions, 1)
            ]
            return named_struct(*(each for pair in named for each in pair))
        return call(name, [self(part) for part in tree.expressions], tree)

    def filtered(self, tree: Tree) -> Typed:
        condition = self.condition(tree.expression.this).sql
        return self._aggregate(tree.this, lambda sql: f"{sql} FILTER (WHERE {condition})")

    def window(self, tree: Tree) -> Typed:
        inner, condition = tree.this, ""
        if tree.args.get("alias") is not None:
            raise refuse("a named window is not translated", tree, "Write the window out.")
        if isinstance(inner, exp.Filter):
            condition = f" FILTER (WHERE {self.condition(inner.expression.this).sql})"
            inner = inner.this
        over = self._over(tree)
        return self._aggregate(inner, lambda sql: f"{sql}{condition} OVER ({over})", windowed=True)

    def _over(self, tree: Tree) -> str:
        parts = [self(each).sql for each in tree.args.get("partition_by") or ()]
        words = [f"PARTITION BY {', '.join(parts)}"] if parts else []
        if tree.args.get("order"):
            words.append(
                f"ORDER BY {', '.join(self.ordered(each) for each in tree.args['order'].expressions)}"
            )
        spec = tree.args.get("spec")
        if spec is not None:
            words.append(_frame(spec))
        return " ".join(words)

    def ordered(self, tree: Tree) -> str:
        """A term of ORDER BY; in Spark NULL is the smallest value."""
        only(tree, "this", "desc", "nulls_first")
        desc = bool(tree.args.get("desc"))
        first = tree.args.get("nulls_first")
        nulls = "FIRST" if (first if first is not None else not desc) else "LAST"
        return f"{self(tree.this).sql} {'DESC' if desc else 'ASC'} NULLS {nulls}"

    def _aggregate(self, tree: Tree, around: Callable[[str], str], windowed: bool = False) -> Typed:
        if not isinstance(tree, exp.Anonymous):
            raise refuse(f"{_words(tree)} is not translated here", tree)
        name, args, distinct = str(tree.this).lower(), list(tree.expressions), False
        if len(args) == 1 and isinstance(args[0], exp.Distinct):
            args, distinct = list(args[0].expressions), True
        if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
            return Typed(around("count(*)"), t.BIGINT, tree, aggregate=not windowed)
        return aggregate(name, [self(arg) for arg in args], distinct, around, windowed, tree)

    def bracket(self, tree: Tree) -> Typed:
        if len(tree.expressions) != 1:
            raise refuse("a slice of an array is not translated", tree)
        return item(self(tree.this), self(tree.expressions[0]))

    def extract(self, tree: Tree) -> Typed:
        names = {"DOW": "dayofweek", "DOY": "dayofyear", "WEEK": "weekofyear", "DAYOFWEEK": "dayofweek"}
        name = str(tree.this.name).upper()
        make = PARTS.get(names.get(name, name.lower()))
        if make is None or name == "SECOND":
            raise refuse(f"EXTRACT({name}) is not translated", tree)
        return make(self(tree.expression))

    def trimmed(self, tree: Tree) -> Typed:
        side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(tree.args.get("position")).upper(), "trim")
        characters = tree.args.get("expression")
        return trim(side)(self(tree.this), None if characters is None else self(characters))

    def substring(self, tree: Tree) -> Typed:
        length = tree.args.get("length")
        return substring(self(tree.this), self(tree.args["start"]), None if length is None else self(length))

    def position(self, tree: Tree) -> Typed:
        if tree.args.get("position") is not None:
            raise refuse("position from a place on is not translated", tree)
        return place_of(self(tree.this), self(tree.args["substr"]))


def _number(digits: str) -> Typed:
    """A number as Spark reads it.

    >>> [_number(each).type.duck for each in ("1", "3000000000", "1.50", "0.05", "1e3")]
    ['INTEGER', 'BIGINT', 'DECIMAL(3,2)', 'DECIMAL(2,2)', 'DOUBLE']
    """
    if "e" in digits.lower():
        return number(digits, t.DOUBLE)
    whole, _, fraction = digits.partition(".")
    if fraction or "." in digits:
        significant = len((whole + fraction).lstrip("0")) or 1
        width = max(significant, len(fraction), 1)
        return number(digits.rstrip(".") if fraction else whole, t.decimal(width, len(fraction)))
    value = int(whole)
    if value < 2**31:
        return number(whole, t.INTEGER)
    return number(whole, t.BIGINT if value < 2**63 else t.decimal(len(whole), 0))


def _wanted(value: Typed, right: bool) -> Typed:
    if not right:
        raise refuse(f"this is not translated for {value.type.duck}", value.tree)
    return value


def _bare(tree: Tree) -> Tree:
    return tree.this if isinstance(tree, exp.Alias) else tree


def _is_aggregate(tree: Tree) -> bool:
    return isinstance(tree, exp.Anonymous) and str(tree.this).lower() in AGGREGATES


def _words(tree: Tree) -> str:
    return tree.sql("spark") if len(tree.sql("spark")) <= 60 else type(tree).__name__


def _frame(spec: Tree) -> str:
    only(spec, "kind", "start", "start_side", "end", "end_side")
    ends = []
    for which in ("start", "end"):
        value, side = spec.args.get(which), spec.args.get(f"{which}_side")
        if value is None:
            value = "CURRENT ROW"
        shown = value if isinstance(value, str) else value.name
        if not isinstance(value, str) and not shown.isdigit():
            raise refuse("a window frame that is no literal is not translated", spec)
        if not isinstance(value, str) and spec.args.get("kind") != "ROWS":
            raise refuse("RANGE by a number is not translated", spec)
        ends.append(f"{shown} {side}" if side else shown)
    return f"{spec.args.get('kind')} BETWEEN {ends[0]} AND {ends[1]}"


_OPERATORS = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div", "EQ": "=", "NEQ": "<>",
    "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
}  # fmt: skip
# The parts of trees that the functions above look at; a tree with any other is refused, whatever its kind.
_PARTS = frozenset(
    ("this", "expression", "expressions", "catalog", "db", "table", "is_string", "typed", "safe", "negate", "coalesce",
     "low", "high", "symmetric", "query", "ifs", "default", "true", "false", "to", "format", "_type", "partition_by",
     "order", "spec", "over", "alias", "start", "length", "position", "substr", "quoted")
)  # fmt: skip
_E = Expressions
_KINDS: dict[str, Callable[[Expressions, Tree], Typed]] = {
    "Column": _E.column, "Dot": _E.dot, "Literal": _E.literal, "Neg": _E.negative, "Boolean": _E.boolean,
    "Null": _E.null, "Paren": _E.parenthesis,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "IntDiv"), _E.arithmetic),
    **dict.fromkeys(("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "NullSafeNEQ"), _E.comparison),
    "And": _E.logic, "Or": _E.logic, "Not": _E.negation, "BitwiseAnd": _E.bits, "BitwiseOr": _E.bits,
    "BitwiseXor": _E.bits, "BitwiseNot": _E.bits_not, "DPipe": _E.joined, "Concat": _E.joined, "Is": _E.is_,
    "Between": _E.between, "Like": _E.like, "ILike": _E.like, "Escape": _E.like_escape, "RegexpLike": _E.regexp,
    "In": _E.in_, "Case": _E.case, "If": _E.if_, "Cast": _E.cast, "TryCast": _E.cast, "Subquery": _E.scalar,
    "Exists": _E.exists, "Anonymous": _E.function, "Filter": _E.filtered, "Window": _E.window,
    "Bracket": _E.bracket, "Extract": _E.extract, "Trim": _E.trimmed, "StrPosition": _E.position,
    "Substring": _E.substring,
}  # fmt: skip
