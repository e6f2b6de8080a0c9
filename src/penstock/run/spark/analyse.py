"""What a function that builds a DataFrame means: Spark analyses it over empty tables, and nothing runs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.base.errors import BindError, DuplicateObject, NotMaintainable
from penstock.run.spark.connectors import missing_connector
from penstock.run.spark.plan_sql import ANSI_HINT, PlanText, ReadsStream, quoted
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


class Analyser:
    """Analyses functions over the flow's relations, which stand in the session as temporary views without rows."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._registered: dict[str, str] = {}
        self._read: dict[str, tuple[tuple[str, str], ...]] = {}

    def __enter__(self) -> Analyser:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._registered:
            self.session.catalog.dropTempView(name)
        self._registered = {}

    def __call__(self, function: Callable[[], DataFrame], relations: Mapping[str, str]) -> Analysed:
        """What a function returns; `relations` are tables and views with their columns as Spark's DDL.

        A function that reads a table as a stream is given it as one, which Spark tells apart.
        """
        from pyspark.errors import AnalysisException

        self._register(relations)
        try:
            return _analysed(function(), set(relations))
        except AnalysisException as error:
            if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
                raise NotThere(_sentence(error)) from None
            first = BindError(_sentence(error), hint=missing_connector(str(error)))
        with tempfile.TemporaryDirectory() as empty:
            try:
                for name, columns in relations.items():
                    made = self.session.readStream.schema(columns).format("json").load(empty)
                    made.createOrReplaceTempView(quoted(name))
                return _analysed(function(), set(relations))
            except AnalysisException:
                raise first from None
            finally:
                self._registered = dict.fromkeys(relations, "")
                self._register(relations)

    def columns(self, ddl: str) -> tuple[tuple[str, str], ...]:
        """The columns that a DDL names, in the words that Spark has for their types."""
        from pyspark.sql.types import StructType

        if ddl not in self._read:  # asking Java takes a while
            made = StructType.fromDDL(ddl)
            assert isinstance(made, StructType)
            self._read[ddl] = tuple((each.name, each.dataType.simpleString()) for each in made.fields)
        return self._read[ddl]

    def _register(self, relations: Mapping[str, str]) -> None:
        new = {name: ddl for name, ddl in relations.items() if self._registered.get(name) != ddl}
        catalog = self.session._jsparkSession.sessionState().catalog()
        for name in new.keys() - self._registered.keys():
            if catalog.getTempView(name).isDefined():
                raise DuplicateObject(
                    f'the Spark session has a temporary view "{name}" of its own',
                    hint="Drop it: it hides the flow's.",
                )
        for name, ddl in new.items():
            nothing = [f"CAST(NULL AS {type}) AS {quoted(column)}" for column, type in self.columns(ddl)]
            self.session.sql(f"SELECT {', '.join(nothing)} WHERE false").createOrReplaceTempView(quoted(name))
            self._registered[name] = ddl


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
    return Analysed(columns, renumbered(sql), None, frozenset(text.used))


_NUMBERED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|\bc[0-9]+\b""", re.DOTALL)


def renumbered(sql: str) -> str:
    """A text of `PlanText` with columns numbered as they come: Spark goes on counting, and the same function
    shall give the same text each time.

    >>> renumbered("SELECT c71 AS `c71` FROM (SELECT `x` AS c71, 'c9' AS c20 FROM `t`) AS q")
    "SELECT c0 AS `c71` FROM (SELECT `x` AS c0, 'c9' AS c1 FROM `t`) AS q"
    """
    numbers: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        text = found.group()
        return text if text[0] in "'\"`" else numbers.setdefault(text, f"c{len(numbers)}")

    return _NUMBERED.sub(name, sql)


def _sentence(error: Any) -> str:
    """Spark's message without its class, its plan and its SQLSTATE."""
    text = str(error).split("\n")[0].split(" SQLSTATE:")[0]
    return text.split("] ", 1)[-1] if text.startswith("[") else text
