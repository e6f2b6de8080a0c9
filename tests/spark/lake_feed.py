"""A program for test_connectors.py: the change feed of a real lake table, FORMAT FOLDER, into a flow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import penstock

CATALOG = "spark.sql.catalog.lake"
COLUMNS = "id BIGINT, customer STRING, amount BIGINT"
CHANGES = (
    "INSERT INTO {t} VALUES (1, 'ann', 10), (2, 'bob', 4), (3, 'ann', 7)",
    "UPDATE {t} SET amount = 11 WHERE id = 1",
    "DELETE FROM {t} WHERE id = 2",
)


def delta(session: Any, name: str, version: int) -> Any:
    feed = session.read.format("delta").option("readChangeFeed", "true")
    return feed.option("startingVersion", version).option("endingVersion", version).table(name)


def iceberg(session: Any, name: str, version: int) -> Any:
    session.sql(
        f"CALL lake.system.create_changelog_view(table => '{name.removeprefix('lake.')}', "
        "changelog_view => 'changes', identifier_columns => array('id'))"
    )
    return session.table("changes").where(f"_change_ordinal = {version - 1}")


def run(form: str, folder: Path) -> None:
    name = "orders" if form == "delta" else "lake.db.orders"
    option = "TBLPROPERTIES (delta.enableChangeDataFeed = true)" if form == "delta" else ""
    config = {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    if form == "iceberg":
        config |= {
            CATALOG: "org.apache.iceberg.spark.SparkCatalog",
            f"{CATALOG}.type": "hadoop",
            f"{CATALOG}.warehouse": f"{folder}/lake",
        }
    engine = penstock.Spark(master="local[2]", config=config, connectors=[form])
    with penstock.Flow(folder / "flow", engine=engine) as flow:
        flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount BIGINT)")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount)::BIGINT AS sum FROM orders GROUP BY customer"
        )
        session = flow.spark
        session.sql(f"CREATE TABLE {name} ({COLUMNS}) USING {form} {option}")
        for version, change in enumerate(CHANGES, 1):
            session.sql(change.format(t=name))
            flow.tick({"orders": (delta if form == "delta" else iceberg)(session, name, version)})
        there = sorted(tuple(row) for row in session.table(name).collect())
        ours = sorted(tuple(row.values()) for row in flow.snapshot("orders").to_pylist())
        assert ours == there == [(1, "ann", 11), (3, "ann", 7)], (ours, there)
        print(flow.snapshot("totals").to_pylist())


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
