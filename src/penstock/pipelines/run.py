"""Running a pipeline: its declarations become tables and views of a flow, each after those that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from types import ModuleType
from typing import Any

from penstock.base.errors import BindError, NotMaintainable
from penstock.engine.flow import Flow
from penstock.pipelines.load import load
from penstock.pipelines.registry import Dataset, Feeding, Registry
from penstock.pipelines.streams import feed
from penstock.run.spark.analyse import Analysed, Analyser, NotThere, active_session
from penstock.sql.tokens import fold


@dataclass(frozen=True)
class Made:
    """What a run has made: the kind of each relation by name, and what feeds the tables, if anything does."""

    relations: dict[str, str]
    comments: dict[str, str] = field(default_factory=dict)
    stream: Any = None


def run(flow: Flow, source: str | PathLike[str] | ModuleType | Registry, *, trigger: Any = None) -> Made:
    """Make the tables and views of a pipeline in a flow, and feed those that read streams.

    `source` is a file of Python or SQL, a folder, a spec (spark-pipeline.yml) or a module that has been
    imported inside of `collecting`. `trigger` goes to flow.stream.
    """
    _ = flow.spark  # the files of a pipeline ask for the active session when they are read
    registry = source if isinstance(source, Registry) else load(source)
    with Analyser(active_session()) as analyser:
        runner = _Runner(flow, registry, analyser)
        runner.make_all()
    made = Made(runner.made, {d.name: d.comment for d in registry.datasets.values() if d.comment})
    if not runner.streams:
        return made
    return Made(made.relations, made.comments, feed(flow, runner.streams, trigger))


class _Runner:
    def __init__(self, flow: Flow, registry: Registry, analyser: Analyser) -> None:
        self.flow = flow
        self.analyser = analyser
        self.registry = registry
        self.made: dict[str, str] = {}
        self.streams: dict[str, Any] = {}  # tables, and the streaming DataFrames that feed them
        for name, text in registry.texts:
            self._statements(name, text)
        for each in registry.feedings:
            if each.target not in registry.datasets:
                raise BindError(
                    f'the flow "{each.name}" feeds "{each.target}", which the pipeline does not declare'
                )

    def _statements(self, name: str, text: str) -> None:
        before = set(self._relations())
        self.flow.spark_sql(text)
        self.made.update(dict.fromkeys(set(self._relations()) - before, "from " + name))

    def make_all(self) -> None:
        """Each dataset as soon as what it reads is there: the order in the files means nothing."""
        waiting = list(self.registry.datasets.values())
        while waiting:
            left = []
            missing: NotThere | None = None
            for dataset in waiting:
                try:
                    self._make(dataset)
                except NotThere as error:
                    left.append(dataset)
                    missing = missing or NotThere(f'in "{dataset.name}": {error.message}', hint=error.hint)
            if len(left) == len(waiting):
                assert missing is not None
                raise missing
            waiting = left

    def _make(self, dataset: Dataset) -> None:
        feedings = [each for each in self.registry.feedings if each.target == dataset.name]
        found = [self._analysed(each) for each in feedings]
        if not found and dataset.schema is None:
            raise BindError(f'nothing feeds "{dataset.name}", and it has no schema')
        columns = [each.columns for each in found]
        self._check(dataset, columns)
        streams = [each.stream for each in found if each.stream is not None]
        if streams and len(streams) < len(found):
            raise NotMaintainable(
                f'"{dataset.name}" is fed by a stream and by the flow itself, which is not covered'
            )
        if streams or not found:
            self._source(dataset, columns[0] if columns else None, streams)
        else:
            self._view(dataset, found)

    def _analysed(self, feeding: Feeding) -> Analysed:
        return self.analyser(feeding.query, self._relations())

    def _check(self, dataset: Dataset, columns: list[tuple[tuple[str, str], ...]]) -> None:
        for each in columns[1:]:
            if each != columns[0]:
                raise BindError(
                    f'the flows into "{dataset.name}" have different columns', hint="Select the same."
                )
        if dataset.schema is not None and columns:
            promised = self.analyser.columns(dataset.schema)
            if promised != columns[0]:
                shown = ", ".join(f"{name} {type}" for name, type in columns[0])
                raise BindError(
                    f'"{dataset.name}" was promised as {dataset.schema}, and its query gives {shown}'
                )

    def _source(
        self, dataset: Dataset, columns: tuple[tuple[str, str], ...] | None, streams: list[Any]
    ) -> None:
        if dataset.kind != "table":
            raise NotMaintainable(
                f'"{dataset.name}" reads a stream, and a {dataset.kind} cannot',
                hint="Declare it with @table.",
            )
        listed = ", ".join(
            f"`{name}` {type}" for name, type in columns or self.analyser.columns(dataset.schema or "")
        )
        self.flow.spark_sql(f"CREATE TABLE IF NOT EXISTS `{dataset.name}` ({listed})")
        self.made[dataset.name] = "table"
        if streams:
            whole = streams[0]
            for other in streams[1:]:
                whole = whole.union(other)
            self.streams[dataset.name] = whole

    def _view(self, dataset: Dataset, found: list[Analysed]) -> None:
        text = " UNION ALL ".join(str(each.sql) for each in found)
        kind = "VIEW" if dataset.kind == "view" else "MATERIALIZED VIEW"
        self.flow.spark_sql(f"CREATE OR REPLACE {kind} `{dataset.name}` AS {text}")
        self.made[dataset.name] = kind.lower()
        self._same_types(dataset, found[0])

    def _same_types(self, dataset: Dataset, found: Analysed) -> None:
        """That the view has Spark's own types: if not, something has been understood in another way."""
        ours = next(text for name, text in self._relations().items() if fold(name) == fold(dataset.name))
        theirs = ", ".join(f"`{name}` {type}" for name, type in found.columns)
        if self.analyser.columns(ours) != self.analyser.columns(theirs):
            self.flow.spark_sql(f"DROP {self.made.pop(dataset.name).upper()} `{dataset.name}`")
            raise NotMaintainable(f'"{dataset.name}" would be ({ours}), and in Spark it is ({theirs})')

    def _relations(self) -> dict[str, str]:
        return self.flow.spark_columns()
