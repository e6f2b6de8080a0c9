"""What a function that builds a DataFrame means: Spark analyses it over empty tables, and nothing runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.base.errors import BindError, DuplicateObject, NotMaintainable, PenstockError
from penstock.run.spark.plan_sql import ANSI_HINT, PlanText, ReadsStream
from penstock.run.spark.ready import make_ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class NotThere(BindError):
    """The function reads a table that is not there, or not yet."""


@dataclass(frozen=True)
class Analysed:
    """A query in Spark SQL, or a stream to feed a table from; with its columns and their types in Spark's words."""

    columns: tuple[tuple[str, str], ...]
    sql: str | None = None
    stream: Any = None  # a streaming DataFrame
    reads: frozenset[str] = field(default_factory=frozenset)


def active_session() -> SparkSession:
    """The session that a pipeline's functions use: the one there is, else a new one."""
    make_ready()
    from pyspark.sql import SparkSession

    session = (
        SparkSession.getActiveSession() or SparkSession.builder.appName("penstock pipelines").getOrCreate()
    )
    if session.conf.get("spark.sql.ansi.enabled") != "true":
        raise NotMaintainable(
            "Spark's ANSI mode is off, and views are maintained by its rules", hint=ANSI_HINT
        )
    if session.conf.get("spark.sql.session.timeZone") not in ("UTC", "Etc/UTC", "Z", "GMT"):
        raise NotMaintainable(
            "the session's time zone is not UTC, and views are maintained in UTC",
            hint='Set spark.sql.session.timeZone to "UTC".',
        )
    return session


def analyse(
    function: Callable[[], DataFrame], relations: Mapping[str, str], session: SparkSession
) -> Analysed:
    """What a function returns; `relations` are the flow's tables and views, with their columns as Spark's DDL.

    A function that reads a table as a stream is given it as one, which Spark tells apart.
    """
    from pyspark.errors import AnalysisException

    taken = {each.name for each in session.catalog.listTables() if each.isTemporary}
    for name in relations:
        if name in taken:
            raise DuplicateObject(
                f'the Spark session has a temporary view "{name}" of its own',
                hint="Drop it: it hides the flow's.",
            )
    first: PenstockError | None = None
    for streaming in (False, True):
        with tempfile.TemporaryDirectory() as empty:
            _register(session, relations, empty if streaming else None)
            try:
                return _analysed(function(), set(relations))
            except AnalysisException as error:
                if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
                    raise NotThere(_sentence(error)) from None
                first = first or BindError(_sentence(error))
            finally:
                for name in relations:
                    session.catalog.dropTempView(name)
    assert first is not None
    raise first


def _register(session: SparkSession, relations: Mapping[str, str], empty: str | None) -> None:
    for name, columns in relations.items():
        if empty is None:
            rows = session.createDataFrame([], columns)
        else:
            rows = session.readStream.schema(columns).format("json").load(empty)
        rows.createOrReplaceTempView(name)


def _analysed(made: Any, known: set[str]) -> Analysed:
    from pyspark.sql import DataFrame

    if not isinstance(made, DataFrame):
        raise BindError(
            f"a pipeline's function gave {type(made).__name__}, not a DataFrame", hint="Return the DataFrame."
        )
    columns = tuple((each.name, each.dataType.simpleString()) for each in made.schema.fields)
    text = PlanText(known)
    try:
        sql = text.text(made._jdf.queryExecution().analyzed())
    except ReadsStream:
        if text.used:
            raise NotMaintainable(
                f'a stream from outside together with "{min(text.used)}" cannot be maintained',
                hint="Make the stream a @table of its own, and a view of both.",
            ) from None
        return Analysed(columns, stream=made)
    return Analysed(columns, sql, None, frozenset(text.used))


def _sentence(error: Any) -> str:
    """Spark's message without its class, its plan and its SQLSTATE."""
    text = str(error).split("\n")[0].split(" SQLSTATE:")[0]
    return text.split("] ", 1)[-1] if text.startswith("[") else text
