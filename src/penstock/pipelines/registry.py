"""What the decorators of a pipeline's files have declared, until it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from penstock.base.errors import BindError, DuplicateObject

Query = Callable[[], Any]  # gives a DataFrame of PySpark


@dataclass(frozen=True)
class Dataset:
    """A table or view that the pipeline declares."""

    name: str
    kind: str  # "table", "materialized view" or "view"
    comment: str | None = None
    schema: str | None = None  # the columns that were promised, as Spark's DDL


@dataclass(frozen=True)
class Feeding:
    """A function whose rows are those of a dataset, or are appended to it."""

    name: str
    target: str
    query: Query


@dataclass
class Registry:
    """The declarations of one pipeline, in their order."""

    datasets: dict[str, Dataset] = field(default_factory=dict)
    feedings: list[Feeding] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)  # files of SQL: name and text
    storage: str | None = None  # the spec's place for checkpoints

    def declare(self, dataset: Dataset) -> None:
        if dataset.name in self.datasets:
            raise DuplicateObject(
                f'the pipeline declares "{dataset.name}" twice', hint="Give one another name."
            )
        self.datasets[dataset.name] = dataset

    def feed(self, feeding: Feeding) -> None:
        if any(each.name == feeding.name for each in self.feedings):
            raise DuplicateObject(
                f'the pipeline has two flows named "{feeding.name}"', hint="Give one another name."
            )
        self.feedings.append(feeding)


_current: ContextVar[Registry | None] = ContextVar("penstock pipeline", default=None)


@contextmanager
def collecting(registry: Registry) -> Iterator[Registry]:
    """Inside of it the decorators declare to this registry."""
    token = _current.set(registry)
    try:
        yield registry
    finally:
        _current.reset(token)


def current() -> Registry:
    """The registry that the decorators declare to."""
    found = _current.get()
    if found is None:
        raise BindError(
            "a pipeline's decorators do nothing outside of a run",
            hint="Run the file: penstock pipelines run, or penstock.pipelines.run(flow, path).",
        )
    return found
