"""Connectors: the Java libraries that Spark needs for Kafka, Delta and Iceberg, and that PySpark does not bring.

Spark fetches them from Maven Central when a session starts that names them (`spark.jars.packages`), so nobody waits for
those who are not asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.base.errors import InvalidOption

PACKAGES = "spark.jars.packages"
EXTENSIONS = "spark.sql.extensions"
_LISTS = (PACKAGES, EXTENSIONS)  # settings that are lists: what is ours goes beside what the user has


@dataclass(frozen=True)
class Connector:
    """A library by its Maven coordinates, and the settings that its makers ask for."""

    package: str
    settings: Mapping[str, str] = field(default_factory=dict)


# For the Spark that pyproject.toml asks for. A library is made for one minor version of Spark.
CONNECTORS = {
    "kafka": Connector("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"),
    "delta": Connector(
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        {
            EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ),
    "iceberg": Connector(
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        {EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
    ),
}


def with_connectors(names: Iterable[str], config: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session with these connectors. What the user has set himself goes first.

    >>> with_connectors(["kafka"], {"spark.jars.packages": "a:b:1"})
    {'spark.jars.packages': 'a:b:1,org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3'}
    """
    found = dict(config)
    for name in names:
        connector = CONNECTORS.get(name)
        if connector is None:
            raise InvalidOption(
                f'there is no connector "{name}"',
                hint=f"There are {', '.join(CONNECTORS)}; any other library: config={{'{PACKAGES}': ...}}.",
            )
        for setting, value in {PACKAGES: connector.package, **connector.settings}.items():
            if setting in _LISTS and found.get(setting):
                found[setting] += f",{value}"
            else:
                found.setdefault(setting, value)
    return found


def missing_connector(message: str) -> str | None:
    """What to do, if Spark says that it has no library for a format of ours.

    >>> missing_connector("Failed to find the data source: delta. Make sure ...")
    'Start Spark with it: penstock.Spark(connectors=["delta"]), or --connector delta. It comes from Maven Central.'
    >>> missing_connector("Failed to find the data source: dleta. Make sure ...") is None
    True
    """
    found = re.search(r"[Ff]ailed to find (?:the )?data source: (\w+)", message)
    if found is None or found[1] not in CONNECTORS:
        return None
    name = found[1]
    return f'Start Spark with it: penstock.Spark(connectors=["{name}"]), or --connector {name}. It comes from Maven Central.'
