"""The name that Spark gives to a column of SELECT that has none."""

from __future__ import annotations

from penstock.sql.spark.dialect import Tree, exp

_SYMBOLS = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div", "EQ": "=", "LT": "<",
    "LTE": "<=", "GT": ">", "GTE": ">=", "And": "AND", "Or": "OR",
}  # fmt: skip


def spark_name(tree: Tree) -> str | None:
    """The column's name; None where Spark's name follows rules that are not known here.

    >>> from penstock.sql.spark.dialect import parse
    >>> [spark_name(each) for each in parse("SELECT a, t.b, a + 1, sum(x), count(*), a AS n, a LIKE 'x'")[0].expressions]
    ['a', 'b', '(a + 1)', 'sum(x)', 'count(1)', 'n', None]
    """
    if isinstance(tree, exp.Alias):
        return str(tree.alias)
    if isinstance(tree, exp.Column):
        return str(tree.name)
    if isinstance(tree, exp.Dot):
        return str(tree.expression.name)
    return _inner(tree)


def _inner(tree: Tree) -> str | None:
    if isinstance(tree, exp.Column):
        table = tree.args.get("table")
        return str(tree.name) if table is None else f"{table.name}.{tree.name}"
    if isinstance(tree, exp.Literal):
        return str(tree.this)
    if isinstance(tree, (exp.Null, exp.Boolean)):
        return "NULL" if isinstance(tree, exp.Null) else str(tree.this).lower()
    if isinstance(tree, exp.Paren):
        return _inner(tree.this)
    symbol = _SYMBOLS.get(type(tree).__name__)
    if symbol is not None:
        left, right = _inner(tree.this), _inner(tree.expression)
        return None if left is None or right is None else f"({left} {symbol} {right})"
    if isinstance(tree, exp.Anonymous) and str(tree.this).lower() in _PLAIN:
        name = str(tree.this).lower()
        args = ["1" if isinstance(arg, exp.Star) else _inner(arg) for arg in tree.expressions]
        return None if None in args else f"{name}({', '.join(str(arg) for arg in args)})"
    return None


# Functions whose arguments Spark shows as they were written, under this name.
_PLAIN = (
    "count", "sum", "avg", "min", "max", "upper", "lower", "length", "coalesce", "abs", "concat", "year", "month",
    "count_if", "size", "nullif", "greatest", "least",
)  # fmt: skip
