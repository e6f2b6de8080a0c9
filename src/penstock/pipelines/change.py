"""What a pipeline's definitions change in a flow that has some of them already, and changing it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from penstock.base.errors import DependentObjects, DuplicateObject, PenstockError, WrongObjectType
from penstock.engine.catalog import Catalog, Relation, Table
from penstock.engine.flow import Flow
from penstock.pipelines.definition import Definition, create_text
from penstock.sql.tokens import fold, quote


@dataclass(frozen=True)
class Change:
    """`make` are new or have changed, in the order of making; `drop` is what stands in their way, in that order."""

    make: tuple[Definition, ...]
    drop: tuple[Relation, ...]
    kept: frozenset[str]  # the names of those that are as before


def compare(flow: Flow, definitions: list[Definition], columns: dict[str, str]) -> Change:
    """What has to change; refused is what would take away rows, or what somebody else has built on.

    `columns` are those of the definitions, in Spark's words.
    """
    catalog = flow._core.catalog
    declared = {fold(each.name) for each in definitions}
    changed: set[str] = set()
    kept: set[str] = set()
    make: list[Definition] = []
    drop: dict[str, Relation] = {}
    for each in definitions:
        there = catalog.find(each.name)
        if there is not None:
            _check_kind(each, there)
            if each.is_as(there) and not (_depends(each.relation) & changed):
                kept.add(each.name)
                continue
            if isinstance(there, Table):
                raise _other_columns(there, flow.spark_columns(), columns)
            for dependent in _own_dependents(catalog, there, declared):
                drop.setdefault(fold(dependent.name), dependent)
            if there.kind != each.kind:
                drop.setdefault(fold(there.name), there)
            changed.add(fold(each.name))
        make.append(each)
    return Change(tuple(make), tuple(drop.values()), frozenset(kept))


def carry_out(flow: Flow, change: Change) -> None:
    """A view whose new definition fails stays as it was, and what had been built on it comes back."""
    gone: list[Relation] = []
    try:
        for relation in change.drop:
            flow.sql(f"DROP {relation.kind.upper()} {quote(relation.name)}")
            gone.append(relation)
        for each in change.make:
            flow.sql(each.text(or_replace=flow._core.catalog.find(each.name) is not None))
    except PenstockError as error:
        error.position = None  # it is a place in the translation, which nobody has written
        for relation in reversed(gone):
            with suppress(PenstockError):  # what it reads is another by now, or it has been made again
                flow.sql(create_text(relation))
        raise


def _depends(relation: Relation) -> frozenset[str]:
    return frozenset() if isinstance(relation, Table) else relation.depends


def _check_kind(wanted: Definition, there: Relation) -> None:
    if (wanted.kind == "table") != (there.kind == "table"):
        raise WrongObjectType(
            f'"{there.name}" is a {there.kind} of the flow, and the pipeline declares a {wanted.kind}',
            hint="Give one another name, or drop it first.",
        )


def _own_dependents(catalog: Catalog, changing: Relation, declared: set[str]) -> list[Relation]:
    found = catalog.dependents(changing.name)
    others = [each for each in found if fold(each.name) not in declared]
    if others:
        names = ", ".join(f'{each.kind} "{each.name}"' for each in others)
        raise DependentObjects(
            f'the definition of "{changing.name}" has changed, and {names}, which the pipeline does not '
            f"declare, {'is' if len(others) == 1 else 'are'} built on it",
            hint="Drop it first, and make it again after the run.",
        )
    return found


def _other_columns(there: Table, ours: dict[str, str], theirs: dict[str, str]) -> DuplicateObject:
    has, wanted = ours.get(there.name), theirs.get(there.name)
    differ = f"has the columns ({has}), and the pipeline declares ({wanted})"
    if has == wanted:
        differ = "has another key, or other NOT NULL columns, than the pipeline declares"
    return DuplicateObject(
        f'the table "{there.name}" {differ}',
        hint="A table keeps its rows, so it is not replaced: drop it first, or declare another name.",
    )
