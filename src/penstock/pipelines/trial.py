"""A pipeline is made in a trial first: a flow in memory with the same relations, all of them without rows.

So whatever is wrong with a declaration is said before anything is touched, and what comes out can be compared
with what the flow has: a run that declares the same again changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import BindError, NotMaintainable, PenstockError, UndefinedTable
from penstock.engine.catalog import View
from penstock.engine.flow import Flow
from penstock.engine.spark_sql import columns_of
from penstock.pipelines.definition import Definition, create_text, define
from penstock.pipelines.registry import Dataset, Feeding, Registry
from penstock.pipelines.sql_files import Create, creates, parsed
from penstock.run.spark.analyse import Analysed, Analyser, NotThere
from penstock.run.spark.plan_sql import quoted
from penstock.sql.tokens import fold, quote

MISSING_SHOWN_MAX = 3  # of what a pipeline waits for in vain


@dataclass(frozen=True)
class _Step:
    """A declaration that has not been made yet."""

    name: str
    make: Callable[[], Definition]


class Trial:
    """Makes the declarations of a pipeline in a flow of its own: `definitions` are in the order of making."""

    def __init__(self, flow: Flow, registry: Registry, analyser: Analyser) -> None:
        self.registry = registry
        self.analyser = analyser
        self.definitions: list[Definition] = []
        self.streams: dict[str, Any] = {}  # tables, and the streaming DataFrames that feed them
        for each in registry.feedings:
            if each.target not in registry.datasets:
                raise BindError(
                    f'the flow "{each.name}" feeds "{each.target}", which the pipeline does not declare'
                )
            kind = registry.datasets[each.target].kind
            if kind != "table" and each.name != each.target:  # its own query has its name
                raise BindError(
                    f'the flow "{each.name}" appends to "{each.target}", which is a {kind}',
                    hint="Declare the target with create_streaming_table or @table.",
                )
        self.statements = creates(registry)
        self.flow = Flow(engine="inline")
        try:
            self._copy(
                flow, {fold(name) for name in [*registry.datasets, *(s.name for s in self.statements)]}
            )
        except BaseException:
            self.flow.close()
            raise

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.flow.close()

    def _copy(self, flow: Flow, declared: set[str]) -> None:
        """What the pipeline does not declare: a plain view as it is, since it is put in where it is used; of
        others, and of a view over what the pipeline declares, only the columns matter, so they are tables."""
        catalog = flow._core.catalog
        for relation in list(catalog):
            if fold(relation.name) in declared:
                continue
            if isinstance(relation, View) and self._succeeds(create_text(relation)):
                continue
            columns = columns_of(relation.name, catalog, flow.sql) or ()
            listed = ", ".join(f"{quote(name)} {type.duck}" for name, type in columns)
            self._succeeds(f"CREATE TABLE {quote(relation.name)} ({listed})")

    def _succeeds(self, text: str) -> bool:
        try:
            self.flow.sql(text)
        except PenstockError:
            return False
        return True

    def make_all(self) -> None:
        """Each declaration as soon as what it reads is there: the order in the files means nothing."""
        waiting = [self._statement(each) for each in self.statements]
        waiting += [self._dataset(each) for each in self.registry.datasets.values()]
        while waiting:
            left: list[_Step] = []
            missing: list[PenstockError] = []
            for step in waiting:
                try:
                    self.definitions.append(step.make())
                except (NotThere, UndefinedTable) as error:
                    left.append(step)
                    missing.append(error)
            if len(left) == len(waiting):
                raise _in_vain(left, missing)
            waiting = left

    # -- SQL -------------------------------------------------------------------------------------

    def _statement(self, create: Create) -> _Step:
        return _Step(create.name, lambda: create.explained(lambda: define(self.flow, create.tree)))

    # -- datasets of Python ----------------------------------------------------------------------

    def _dataset(self, dataset: Dataset) -> _Step:
        def make() -> Definition:
            try:
                return self._make(dataset)
            except NotThere as error:
                raise NotThere(f'in "{dataset.name}": {error.message}', hint=error.hint) from None

        return _Step(dataset.name, make)

    def _make(self, dataset: Dataset) -> Definition:
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
            return self._source(dataset, columns[0] if columns else None, streams)
        return self._view(dataset, found)

    def _analysed(self, feeding: Feeding) -> Analysed:
        return self.analyser(feeding.query, self.flow.spark_columns())

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
    ) -> Definition:
        if dataset.kind != "table":
            raise NotMaintainable(
                f'"{dataset.name}" reads a stream, and a {dataset.kind} cannot',
                hint="Declare it with @table.",
            )
        listed = ", ".join(
            f"{quoted(name)} {type}" for name, type in columns or self.analyser.columns(dataset.schema or "")
        )
        made = self._define(f"CREATE TABLE {quoted(dataset.name)} ({listed})")
        if streams:
            whole = streams[0]
            for other in streams[1:]:
                whole = whole.union(other)
            self.streams[dataset.name] = whole
        return made

    def _view(self, dataset: Dataset, found: list[Analysed]) -> Definition:
        text = " UNION ALL ".join(str(each.sql) for each in found)
        kind = "VIEW" if dataset.kind == "view" else "MATERIALIZED VIEW"
        made = self._define(f"CREATE {kind} {quoted(dataset.name)} AS {text}")
        self._same_types(dataset, found[0])
        return made

    def _define(self, text: str) -> Definition:
        (tree,) = parsed(text)
        try:
            return define(self.flow, tree)
        except PenstockError as error:
            error.position = None  # it is a place in the translation, which nobody has written
            raise

    def _same_types(self, dataset: Dataset, found: Analysed) -> None:
        """That the view has Spark's own types: if not, something has been understood in another way."""
        relations = self.flow.spark_columns()
        ours = next(text for name, text in relations.items() if fold(name) == fold(dataset.name))
        theirs = ", ".join(f"{quoted(name)} {type}" for name, type in found.columns)
        if self.analyser.columns(ours) != self.analyser.columns(theirs):
            raise NotMaintainable(f'"{dataset.name}" would be ({ours}), and in Spark it is ({theirs})')


def _in_vain(left: list[_Step], errors: list[PenstockError]) -> PenstockError:
    """What is missing: not those that wait for another one that waits."""
    waiting = {fold(step.name) for step in left}
    roots = [error for error in errors if not _named(error) & waiting]
    if not roots:
        names = " and ".join(f'"{step.name}"' for step in left)
        return BindError(f"{names} wait for each other: none of them can be made first")
    said = "; ".join(error.message.rstrip(".") for error in roots[:MISSING_SHOWN_MAX])
    return type(roots[0])(said, hint=roots[0].hint)


def _named(error: PenstockError) -> set[str]:
    """The relation that was not found: the only one in such a message, after what it was missed by."""
    found = re.findall(r'[`"]([^`"]+)[`"]', error.message.split(": ", 1)[-1])
    return {fold(found[0])} if found else set()
