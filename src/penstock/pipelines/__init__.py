"""Declarative Pipelines on a flow: `from penstock import pipelines as dp` in place of `from pyspark import ...`.

    from penstock import pipelines as dp

    @dp.materialized_view
    def totals():
        return spark.read.table("orders").groupBy("customer").agg(sum("amount").alias("total"))

docs/pipelines.md says what is covered.
"""

from penstock.pipelines.decorators import (
    append_flow,
    create_sink,
    create_streaming_table,
    materialized_view,
    table,
    temporary_view,
)
from penstock.pipelines.run import Made, run

__all__ = [
    "Made",
    "append_flow",
    "create_sink",
    "create_streaming_table",
    "materialized_view",
    "run",
    "table",
    "temporary_view",
]
