"""Spark's types and its rules for them (ANSI mode, which is Spark 4's own): what two operands become."""

from __future__ import annotations

from penstock.sql.spark.dialect import Tree, refuse
from penstock.sql.tokens import fold
from penstock.zset import types as t
from penstock.zset.types import SqlType

PRECISION_MAX = 38
SCALE_KEPT = 6  # the digits after the point that Spark does not give up for digits before it
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 20}
INSTANT = "TIMESTAMP WITH TIME ZONE"

_BY_NAME = {
    "BOOLEAN": t.BOOLEAN, "TINYINT": t.by_name("TINYINT"), "SMALLINT": t.by_name("SMALLINT"),
    "INT": t.INTEGER, "BIGINT": t.BIGINT, "FLOAT": t.by_name("FLOAT"), "DOUBLE": t.DOUBLE,
    "TEXT": t.VARCHAR, "BINARY": t.by_name("BLOB"), "DATE": t.by_name("DATE"),
    "TIMESTAMPTZ": t.by_name(INSTANT), "TIMESTAMPLTZ": t.by_name(INSTANT), "TIMESTAMP": t.by_name(INSTANT),
    "TIMESTAMPNTZ": t.by_name("TIMESTAMP"),
}  # fmt: skip


def read_type(tree: Tree) -> SqlType:
    """The type that a tree of sqlglot names."""
    name = str(getattr(tree.this, "value", tree.this)).upper()
    if name == "DECIMAL":
        sizes = [int(param.this.name) for param in tree.expressions]
        precision, scale = (*sizes, 10, 0)[:2] if not sizes else (sizes[0], sizes[1] if sizes[1:] else 0)
        if not (1 <= precision <= PRECISION_MAX and 0 <= scale <= precision):
            raise refuse(
                f"DECIMAL({precision},{scale})", tree, "The precision is 1 to 38, the scale 0 to that."
            )
        return t.decimal(precision, scale)
    if name == "ARRAY" and tree.expressions:
        return t.list_of(read_type(tree.expressions[0]))
    if name == "MAP" and len(tree.expressions) == 2:
        return t.map_of(read_type(tree.expressions[0]), read_type(tree.expressions[1]))
    if name == "STRUCT" and tree.expressions:
        return t.struct_of(tuple((field.name, read_type(field.args["kind"])) for field in tree.expressions))
    found = _BY_NAME.get(name)
    if found is None or tree.expressions:
        raise refuse(f"the type {tree.sql('spark')} is not translated", tree)
    return found


def is_instant(type: SqlType) -> bool:
    return type.id == INSTANT


def is_decimal(type: SqlType) -> bool:
    return type.id == "DECIMAL"


def bounded(precision: int, scale: int) -> SqlType:
    """A decimal type that Spark cuts at 38 digits, without giving up scale for it (sums, averages)."""
    return t.decimal(min(precision, PRECISION_MAX), min(scale, PRECISION_MAX))


def adjusted(precision: int, scale: int) -> SqlType:
    """A decimal type of arithmetic: beyond 38 digits scale goes first, down to six.

    >>> adjusted(49, 6).duck, adjusted(43, 23).duck, adjusted(12, 2).duck
    ('DECIMAL(38,6)', 'DECIMAL(38,18)', 'DECIMAL(12,2)')
    """
    if precision <= PRECISION_MAX:
        return t.decimal(precision, scale)
    whole = precision - scale
    return t.decimal(PRECISION_MAX, max(PRECISION_MAX - whole, min(scale, SCALE_KEPT)))


def as_decimal(type: SqlType) -> SqlType:
    """The decimal type that an integer or decimal type takes part in arithmetic as."""
    return type if is_decimal(type) else t.decimal(DIGITS[type.id], 0)


def common_type(a: SqlType, b: SqlType) -> SqlType | None:
    """The type at which two values are compared, or put into one column; None if there is none.

    >>> common_type(t.INTEGER, t.decimal(4, 2)).duck, common_type(t.BIGINT, t.DOUBLE).duck
    ('DECIMAL(12,2)', 'DOUBLE')
    >>> common_type(t.VARCHAR, t.INTEGER).duck, common_type(t.BOOLEAN, t.INTEGER)
    ('BIGINT', None)
    """
    if a == b or b.id == "NULL":
        return a
    if a.id == "NULL":
        return b
    if a.is_numeric and b.is_numeric:
        return _common_number(a, b)
    for text, other in ((a, b), (b, a)):
        if text.id == "VARCHAR":
            if other.id in INTEGERS:
                return t.BIGINT
            return t.DOUBLE if other.is_numeric else (other if other.id in _FROM_TEXT else None)
    moments = {a.id, b.id}
    if moments <= {"DATE", "TIMESTAMP", INSTANT}:
        return a if (a.id == INSTANT or b.id == "DATE") else b
    return _common_nested(a, b)


_FROM_TEXT = ("DATE", "TIMESTAMP", INSTANT, "BOOLEAN")


def _common_number(a: SqlType, b: SqlType) -> SqlType:
    if a.id in INTEGERS and b.id in INTEGERS:
        return a if INTEGERS.index(a.id) >= INTEGERS.index(b.id) else b
    if a.is_float or b.is_float:
        return t.DOUBLE  # FLOAT with anything else, too: it would lose digits of an integer
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    return bounded(max(a.width - a.scale, b.width - b.scale) + scale, scale)


def _common_nested(a: SqlType, b: SqlType) -> SqlType | None:
    if a.id != b.id or len(a.children) != len(b.children) or not a.children:
        return None
    children = []
    for (name, left), (other_name, right) in zip(a.children, b.children, strict=True):
        found = common_type(left, right)
        if found is None or (a.id == "STRUCT" and fold(name) != fold(other_name)):
            return None
        children.append((name, found))
    return SqlType(a.id, children=tuple(children))


_SPARK_NAMES = {
    "BOOLEAN": "boolean", "TINYINT": "tinyint", "SMALLINT": "smallint", "INTEGER": "int", "BIGINT": "bigint",
    "FLOAT": "float", "DOUBLE": "double", "VARCHAR": "string", "JSON": "string", "UUID": "string", "BLOB": "binary",
    "DATE": "date", "TIMESTAMP": "timestamp_ntz", INSTANT: "timestamp", "HUGEINT": "decimal(38,0)",
}  # fmt: skip


def spark_type(type: SqlType) -> str | None:
    """The type's name in Spark; None if Spark has nothing like it.

    >>> spark_type(t.list_of(t.decimal(10, 2))), spark_type(t.TIME)
    ('array<decimal(10,2)>', None)
    """
    if type.id == "DECIMAL":
        return f"decimal({type.width},{type.scale})"
    children = [spark_type(child) for _, child in type.children]
    if None in children:
        return None
    if type.id == "LIST":
        return f"array<{children[0]}>"
    if type.id == "MAP":
        return f"map<{children[0]},{children[1]}>"
    if type.id == "STRUCT":
        named = zip(type.children, children, strict=True)
        return f"struct<{','.join(f'`{name}`:{child}' for (name, _), child in named)}>"
    return _SPARK_NAMES.get(type.id)
