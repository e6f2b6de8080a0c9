"""A change feed as a delta, on Spark: the same meaning as engine/change_feed.py, without collecting a row."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock.base.errors import InvalidDelta
from penstock.zset.change_feeds import AFTER, BEFORE, DEBEZIUM, IMAGES, PAYLOAD, Feed, find_feed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

WEIGHT = "_weight"
_MARK = "penstock change feed: "  # at the head of the errors that tasks raise


def from_change_feed(rows: DataFrame, wanted: str, own: Collection[str] = ()) -> DataFrame:
    """Rows with weights for the rows of a feed; with "auto", what is no feed is given back as it is.

    An operation that means nothing fails the job that reads it: `feed_error` finds our sentence in its error.
    """
    opened = _unwrapped(rows)
    feed = find_feed(wanted, opened.columns, own)
    if feed is None:
        return rows
    missing = {feed.operation, *((BEFORE, AFTER) if feed.envelope else ())} - set(opened.columns)
    if missing:
        raise InvalidDelta(f'a {feed.name} change feed has a column "{min(missing)}", and this has none')
    return _from_envelopes(opened) if feed.envelope else _from_operations(opened, feed)


def feed_error(error: BaseException) -> InvalidDelta | None:
    """Our own error inside of one that Spark raised; None if there is none."""
    found = re.search(re.escape(_MARK) + r"(.*?)(?: SQLSTATE: |\n|$)", str(error))
    return (
        None if found is None else InvalidDelta(found[1].rstrip("."), hint="The feed is not as it should be.")
    )


def _unwrapped(rows: DataFrame) -> DataFrame:
    from pyspark.sql.types import StructType

    if PAYLOAD in rows.columns:
        payload = rows.schema[PAYLOAD].dataType
        if isinstance(payload, StructType) and "op" in payload.fieldNames():
            return rows.select(f"{PAYLOAD}.*")
    return rows


def _from_operations(rows: DataFrame, feed: Feed) -> DataFrame:
    from pyspark.sql import functions as f

    operation = f.col(f"`{feed.operation}`")
    weight = _refused(rows, feed, operation).cast("long")
    for code, value in feed.weights.items():
        weight = f.when(operation == code, f.lit(value).cast("long")).otherwise(weight)
    kept = [f.col(f"`{name}`") for name in rows.columns if name != feed.operation and name not in feed.about]
    return rows.select(*kept, weight.alias(WEIGHT))


def _from_envelopes(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    operation = f.col("op")
    types = {name: rows.schema[name].dataType for name in (BEFORE, AFTER)}
    structs = [type for type in types.values() if isinstance(type, StructType)]
    if not structs:
        raise InvalidDelta("a debezium change feed has structs in before and after, and this has none")
    names = structs[-1].fieldNames()

    def image(which: str, weight: int) -> Column:
        known = isinstance(types[which], StructType)
        fields = [
            (f.col(f"{which}.`{name}`") if known else f.lit(None))
            .cast(structs[-1][name].dataType)
            .alias(name)
            for name in names
        ]
        found = f.struct(*fields, f.lit(weight).cast("long").alias(WEIGHT))
        lost = _said(rows, f.lit(f'"{which}" is missing, operation '), operation).cast(_row(structs[-1]))
        return f.when(f.col(which).isNotNull(), found).otherwise(lost)

    images = [
        (code, [image(w, v) for w, v in zip((BEFORE, AFTER), IMAGES[code], strict=True) if v])
        for code in IMAGES
    ]
    made = _refused(rows, DEBEZIUM, operation).cast(f"array<{_row(structs[-1])}>")
    for code, parts in images:
        made = f.when(operation == code, f.array(*parts)).otherwise(made)
    tombstone = operation.isNull() & f.col(BEFORE).isNull() & f.col(AFTER).isNull()
    return rows.where(~tombstone).select(f.inline(made))


def _row(fields: StructType) -> str:
    """The type of a row with its weight, for an expression that always fails: it has no type by itself."""
    inner = ", ".join(f"`{field.name}`: {field.dataType.simpleString()}" for field in fields)
    return f"struct<{inner}, {WEIGHT}: bigint>"


def _refused(rows: DataFrame, feed: Feed, operation: Column) -> Column:
    from pyspark.sql import functions as f

    return _said(rows, f.lit(f"unknown operation in a {feed.name} change feed: "), operation)


def _said(rows: DataFrame, what: Column, operation: Column) -> Column:
    """An expression that fails with a sentence and the row."""
    from pyspark.sql import functions as f

    whole = f.to_json(f.struct(*(f.col(f"`{name}`") for name in rows.columns)))
    code = f.coalesce(operation.cast("string"), f.lit("NULL"))
    return f.raise_error(f.concat(f.lit(_MARK), what, code, f.lit(" in "), whole))
