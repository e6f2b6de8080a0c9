"""The SQL files of a pipeline: each CREATE in them is a declaration as one of Python is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVar

from penstock.base.errors import DuplicateObject, NotMaintainable, PenstockError, SparkUnavailable
from penstock.pipelines.registry import Registry
from penstock.sql.tokens import fold

T = TypeVar("T")


@dataclass(frozen=True)
class Create:
    """A statement of a file: `text` is the whole file's."""

    name: str
    file: str
    text: str
    tree: object  # sqlglot's

    def explained(self, act: Callable[[], T]) -> T:
        """Have errors say where they are."""
        try:
            return act()
        except PenstockError as error:
            raise _placed(error, self.file, self.text) from None


def creates(registry: Registry) -> list[Create]:
    """What the SQL files of a pipeline make."""
    found: list[Create] = []
    taken = {fold(name) for name in registry.datasets}
    for file, text in registry.texts:
        try:
            trees = parsed(text)
            names = [_name(tree) for tree in trees]
        except PenstockError as error:
            raise _placed(error, file, text) from None
        for name, tree in zip(names, trees, strict=True):
            if fold(name) in taken:
                raise DuplicateObject(f'the pipeline declares "{name}" twice', hint="Give one another name.")
            taken.add(fold(name))
            found.append(Create(name, file, text, tree))
    return found


def parsed(text: str) -> list[object]:
    """The statements of Spark SQL in a text."""
    if find_spec("sqlglot") is None:
        raise SparkUnavailable(
            "Spark's dialect needs sqlglot, which is not installed", hint="pip install 'penstock[spark]'"
        )
    from penstock.sql.spark.dialect import parse

    with _quiet():
        return list(parse(text))


def _name(tree: object) -> str:
    from penstock.sql.spark.dialect import exp, refuse
    from penstock.sql.spark.statements import name_of

    if isinstance(tree, exp.Create) and str(tree.args.get("kind")).upper() in ("TABLE", "VIEW"):
        return name_of(tree.this)
    words = str(tree).upper().split()
    if isinstance(tree, exp.Command) and words[:2] == ["CREATE", "FLOW"]:
        raise refuse("CREATE FLOW is not covered", None, "Use @append_flow in Python.")
    shown = " ".join(words[:2]) if words[0] == "CREATE" else words[0]
    raise NotMaintainable(
        f"{shown} is not run by a pipeline, which only declares tables and views: each start would repeat it",
        hint="Run it with flow.spark_sql.",
    )


def _placed(error: PenstockError, file: str, text: str) -> PenstockError:
    line = "" if error.position is None else f", line {text.count(chr(10), 0, error.position) + 1}"
    return type(error)(f"in {file}{line}: {error.message}", hint=error.hint)


@contextmanager
def _quiet() -> Iterator[None]:
    """sqlglot warns of what it does not know; it is refused by name a moment later."""
    log = logging.getLogger("sqlglot")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
