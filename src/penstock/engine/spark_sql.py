"""flow.spark_sql: statements of Spark SQL, translated one after the other and run."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pyarrow as pa

from penstock.base.errors import PenstockError, SparkUnavailable
from penstock.engine.catalog import Catalog, View
from penstock.sql.tokens import quote
from penstock.zset.interchange import sql_type_of
from penstock.zset.types import SqlType

Run = Callable[[str], pa.Table]


def run_spark_sql(text: str, catalog: Callable[[], Catalog], run: Run) -> pa.Table:
    """The answer of the last statement. Each is translated when those before it have run."""
    if find_spec("sqlglot") is None:
        raise SparkUnavailable(
            "Spark's dialect needs sqlglot, which is not installed", hint="pip install 'penstock[spark]'"
        )
    # sqlglot is imported by the first who needs it: it is not installed with penstock alone.
    from penstock.sql.spark.dialect import parse
    from penstock.sql.spark.statements import to_postgres

    answer = pa.table({})
    for tree in parse(text):
        translated = to_postgres(tree, lambda name: columns_of(name, catalog(), run))
        try:
            answer = run(translated)
        except PenstockError as error:
            error.position = None  # it is a place in the translation, which nobody has written
            raise
    return answer


def columns_of(name: str, catalog: Catalog, run: Run) -> tuple[tuple[str, SqlType], ...] | None:
    """The columns of a table or view, None if there is none of that name."""
    found = catalog.find(name)
    if found is None:
        return None
    if isinstance(found, View):
        schema = run(f"SELECT * FROM {quote(found.name)} LIMIT 0").schema
        return tuple((field.name, sql_type_of(field.type)) for field in schema)
    return tuple(zip(found.schema.names, found.schema.types, strict=True))


def spark_columns(catalog: Catalog, run: Run) -> dict[str, str]:
    """The columns of every table and view, as Spark's DDL; those with a type that Spark does not have are left out."""
    from penstock.sql.spark.types import spark_type

    found = {}
    for relation in catalog:
        columns = columns_of(relation.name, catalog, run) or ()
        types = [spark_type(type) for _, type in columns]
        if None not in types:
            pairs = zip(columns, types, strict=True)
            found[relation.name] = ", ".join(
                f"`{name.replace('`', '``')}` {type}" for (name, _), type in pairs
            )
    return found
