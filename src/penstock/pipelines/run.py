"""Running a pipeline: its declarations become tables and views of a flow, each after those that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from types import ModuleType
from typing import Any

from penstock.engine.flow import Flow
from penstock.pipelines.change import carry_out, compare
from penstock.pipelines.load import load
from penstock.pipelines.registry import Registry
from penstock.pipelines.streams import check, feed
from penstock.pipelines.trial import Trial
from penstock.run.spark.analyse import Analyser, active_session


@dataclass(frozen=True)
class Made:
    """What a run has made: the kind of each relation by name, and what feeds the tables, if anything does."""

    relations: dict[str, str]
    comments: dict[str, str] = field(default_factory=dict)
    stream: Any = None
    kept: frozenset[str] = frozenset()  # those that were there, with the same definition


def run(
    flow: Flow,
    source: str | PathLike[str] | ModuleType | Registry,
    *,
    trigger: Any = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Made:
    """Make the tables and views of a pipeline in a flow, and feed those that read streams.

    `source` is a file of Python or SQL, a folder, a spec (spark-pipeline.yml) or a module that has been
    imported inside of `collecting`. `trigger` and `checkpoint` go to flow.stream; without a checkpoint the
    spec's `storage` is taken. What is there already with the same definition stays as it is.
    """
    _ = flow.spark  # the files of a pipeline ask for the active session when they are read
    registry = source if isinstance(source, Registry) else load(source)
    place = registry.storage if checkpoint is None else checkpoint
    with Analyser(active_session()) as analyser, Trial(flow, registry, analyser) as trial:
        trial.make_all()
        definitions, streams = trial.definitions, trial.streams
        change = compare(flow, definitions, trial.flow.spark_columns())
    if streams:
        check(flow, trigger, place)
    carry_out(flow, change)
    return Made(
        {each.name: each.kind for each in definitions},
        {d.name: d.comment for d in registry.datasets.values() if d.comment},
        feed(flow, streams, trigger, place) if streams else None,
        change.kept,
    )
