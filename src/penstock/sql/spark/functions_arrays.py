"""Spark's functions of arrays, maps and structs."""

from __future__ import annotations

from penstock.sql.spark.cast import coerced
from penstock.sql.spark.dialect import refuse
from penstock.sql.spark.functions_numbers import alike
from penstock.sql.spark.functions_text import whole
from penstock.sql.spark.typed import Functions, Typed, string
from penstock.sql.spark.types import common_type
from penstock.sql.tokens import fold, quote
from penstock.zset import types as t


def _array(*values: Typed) -> Typed:
    if not values:
        raise refuse(
            "an empty array has no type", None, "Cast it: CAST(array() AS ARRAY<INT>) is not translated."
        )
    same = alike(values, "array")
    return Typed(f"list_value({', '.join(value.sql for value in same)})", t.list_of(same[0].type))


def element_type(array: Typed) -> t.SqlType:
    if array.type.id != "LIST":
        raise refuse(f"an array is wanted here, and this is {array.type.duck}", array.tree)
    return array.type.children[0][1]


def _size(value: Typed) -> Typed:
    if value.type.id not in ("LIST", "MAP"):
        raise refuse(f"an array or map is wanted here, and this is {value.type.duck}", value.tree)
    function = "len" if value.type.id == "LIST" else "cardinality"
    return Typed(f"CAST({function}({value.sql}) AS INTEGER)", t.INTEGER)


def _contains(array: Typed, value: Typed) -> Typed:
    inner = element_type(array)
    if common_type(inner, value.type) != inner:
        raise refuse(
            f"a search for {value.type.duck} in an array of {inner.duck} is not translated", value.tree
        )
    found = f"list_contains({array.sql}, {coerced(value, inner).sql})"
    # An array with a NULL in it may contain anything.
    unsure = f"len({array.sql}) > list_count({array.sql})"
    return Typed(
        f"CASE WHEN {array.sql} IS NULL OR {value.sql} IS NULL THEN NULL WHEN {found} THEN true "
        f"WHEN {unsure} THEN NULL ELSE false END",
        t.BOOLEAN,
    )


def _get(array: Typed, index: Typed) -> Typed:
    inner = element_type(array)
    place = whole(index)
    return Typed(f"CASE WHEN {place} >= 0 THEN list_extract({array.sql}, {place} + 1) END", inner)


def item(value: Typed, index: Typed) -> Typed:
    """value[index]: of an array, from 0 and with an error beyond its ends; of a map, NULL if it is not there."""
    if value.type.id == "MAP":
        key = value.type.children[0][1]
        if common_type(key, index.type) != key:
            raise refuse(f"a key of {index.type.duck} for {value.type.duck} is not translated", index.tree)
        return Typed(f"map_extract_value({value.sql}, {coerced(index, key).sql})", value.type.children[1][1])
    inner, place = element_type(value), whole(index)
    # There is no way to raise an error in an expression but to do what fails.
    known = f"{value.sql} IS NULL OR {place} IS NULL OR ({place} >= 0 AND {place} < len({value.sql}))"
    wrong = f"concat('the index ', CAST({place} AS VARCHAR), ' is out of bounds')"
    checked = f"CASE WHEN {known} THEN CAST({place} + 1 AS VARCHAR) ELSE {wrong} END"
    return Typed(f"list_extract({value.sql}, CAST({checked} AS BIGINT))", inner)


def field(value: Typed, name: str) -> Typed:
    """value.name, whatever the case of the name."""
    if value.type.id != "STRUCT":
        raise refuse(f"{name} of {value.type.duck}, which has no fields", value.tree)
    for given, type in value.type.children:
        if fold(given) == fold(name):
            return Typed(f"struct_extract({value.sql}, {string(given)})", type, value.tree)
    raise refuse(f"{value.type.duck} has no field {name}", value.tree)


def named_struct(*parts: Typed) -> Typed:
    if len(parts) % 2 or not all(name.literal for name in parts[::2]):
        raise refuse("named_struct wants names, as literals, and values in turn")
    names = [str(name.literal) for name in parts[::2]]
    fields = ", ".join(
        f"{quote(name)} := {value.sql}" for name, value in zip(names, parts[1::2], strict=True)
    )
    types = tuple((name, value.type) for name, value in zip(names, parts[1::2], strict=True))
    return Typed(f"struct_pack({fields})", t.struct_of(types))


ARRAYS: Functions = {
    "array": (0, None, _array), "size": (1, 1, _size), "cardinality": (1, 1, _size), "array_size": (1, 1, _size),
    "array_contains": (2, 2, _contains), "get": (2, 2, _get), "named_struct": (2, None, named_struct),
}  # fmt: skip
