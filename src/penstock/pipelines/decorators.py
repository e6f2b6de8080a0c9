"""The decorators of pyspark.pipelines, with the same names and arguments.

What an argument would change in Spark alone, in how it stores or runs things, is refused: a flow has its own
way to store and run, and would have to ignore it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from penstock.base.errors import InvalidOption, NotMaintainable
from penstock.pipelines.registry import Dataset, Feeding, Query, current

Decorator = Callable[[Query], None]


def materialized_view(
    query_function: Query | None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    schema: Any = None,
    spark_conf: dict[str, str] | None = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    format: str | None = None,
) -> Decorator | None:
    """A view that is kept fresh: the function gives its query."""
    _stored(spark_conf, table_properties, partition_cols, cluster_by, format)
    return _declared(query_function, "materialized view", name, comment, schema)


def table(
    query_function: Query | None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    schema: Any = None,
    spark_conf: dict[str, str] | None = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    format: str | None = None,
) -> Decorator | None:
    """A table that is fed from a stream; over the flow's own tables it is a view that is kept fresh."""
    _stored(spark_conf, table_properties, partition_cols, cluster_by, format)
    return _declared(query_function, "table", name, comment, schema)


def temporary_view(
    query_function: Query | None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: dict[str, str] | None = None,
) -> Decorator | None:
    """A view that keeps no rows: it is put in where others use it."""
    _stored(spark_conf, None, None, None, None)
    return _declared(query_function, "view", name, comment, None)


def create_streaming_table(
    name: str,
    *,
    comment: str | None = None,
    schema: Any = None,
    table_properties: dict[str, str] | None = None,
    partition_cols: list[str] | None = None,
    cluster_by: list[str] | None = None,
    format: str | None = None,
) -> None:
    """A table that append flows feed."""
    _stored(None, table_properties, partition_cols, cluster_by, format)
    current().declare(Dataset(_text(name, "name"), "table", comment, _columns(schema)))


def append_flow(
    *, target: str, name: str | None = None, spark_conf: dict[str, str] | None = None
) -> Decorator:
    """The rows of the function's stream are appended to a table."""
    _stored(spark_conf, None, None, None, None)
    _text(target, "target")

    def decorate(function: Query) -> None:
        current().feed(Feeding(name or _name_of(function, "append_flow"), target, function))

    return decorate


def create_sink(name: str, format: str, options: dict[str, str] | None = None) -> NoReturn:
    """Not there: what leaves a flow are deltas, which Spark's sinks of appended rows cannot take."""
    raise NotMaintainable(
        f'create_sink("{name}") is not covered',
        hint="Use flow.sink(view, writer), which gives each epoch's delta.",
    )


def _declared(
    function: Query | None, kind: str, name: str | None, comment: str | None, schema: Any
) -> Decorator | None:
    if name is not None:
        _text(name, "name")
    columns = _columns(schema)

    def decorate(decorated: Query) -> None:
        made = name or _name_of(decorated, kind)
        current().declare(Dataset(made, kind, comment, columns))
        current().feed(Feeding(made, made, decorated))

    if function is None:
        return decorate
    decorate(function)
    return None


def _name_of(function: Query, kind: str) -> str:
    if not callable(function):
        raise InvalidOption(f"the decorator of a {kind} wants a function, not {type(function).__name__}")
    return str(function.__name__)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidOption(f"{what} is a text, not {type(value).__name__}")
    if "." in value:
        raise InvalidOption(
            f'{what} "{value}" has a dot, and a flow has no databases or catalogs',
            hint="Use the last part alone.",
        )
    return value


def _columns(schema: Any) -> str | None:
    """A schema as Spark's DDL: a text already, or a StructType."""
    if schema is None or isinstance(schema, str):
        return schema
    fields = getattr(schema, "fields", None)
    if fields is None:
        raise InvalidOption(f"schema is a text or a StructType, not {type(schema).__name__}")
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in fields)


def _stored(
    spark_conf: object, table_properties: object, partition_cols: object, cluster_by: object, format: object
) -> None:
    given = {
        "spark_conf": spark_conf, "table_properties": table_properties, "partition_cols": partition_cols,
        "cluster_by": cluster_by, "format": format,
    }  # fmt: skip
    for name, value in given.items():
        if value:
            raise InvalidOption(
                f"{name} is not covered: a flow stores and runs its views in its own way",
                hint="Leave it out.",
            )
