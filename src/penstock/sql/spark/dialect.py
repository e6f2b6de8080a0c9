"""The only door to sqlglot: Spark's text as a tree, with functions under the names that Spark gives them."""

from __future__ import annotations

from typing import Any

from sqlglot import exp as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from penstock.base.errors import NotMaintainable, SqlSyntaxError

Tree = Any  # sqlglot's Expression: its types say less than they promise


class _ByName(Spark):
    """Spark's grammar, but f(x) stays f(x): sqlglot's own names for functions forget which one it was."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # 'it''s': Spark 4 has both ways

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: dict[str, Any] = {}
        FUNCTION_PARSERS = {
            name: parser
            for name, parser in Spark.Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "SUBSTR")
        }
        NO_PAREN_FUNCTION_PARSERS = {
            name: parser
            for name, parser in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items()
            if name in ("ANY", "CASE")
        }


def parse(text: str) -> list[Tree]:
    """The statements of a text.

    >>> [type(tree).__name__ for tree in parse("SELECT `a b` FROM t; INSERT INTO t VALUES (1)")]
    ['Select', 'Insert']
    """
    try:
        trees = _ByName().parse(text)
    except RecursionError:
        raise SqlSyntaxError("the statement is nested too deeply") from None
    except SqlglotError as error:
        raise _syntax_error(text, error) from None
    return [tree for tree in trees if tree is not None]


def place(tree: Tree) -> int | None:
    """Where a tree begins in the text, if sqlglot has kept it for the tree or for anything in it."""
    starts = [node.meta["start"] for node in tree.walk() if "start" in node.meta]
    return min(starts) if starts else None


def refuse(what: str, tree: Tree | None = None, hint: str | None = None) -> NotMaintainable:
    """The error for a part of Spark SQL that is not translated, at its place."""
    return NotMaintainable(what, hint=hint, position=None if tree is None else place(tree))


def only(tree: Tree, *known: str) -> None:
    """Refuse a tree that has other parts than those that the caller looks at."""
    for part, value in tree.args.items():
        if value and part not in known:
            raise refuse(f"{part.strip('_').upper().replace('_', ' ')} is not translated", tree)


def _syntax_error(text: str, error: Exception) -> SqlSyntaxError:
    details = getattr(error, "errors", None) or [{}]
    line, column = details[0].get("line"), details[0].get("col")
    said = str(details[0].get("description") or str(error).split("\n")[0]).rstrip(". ")
    position = None
    if line is not None and column is not None:
        before = text.split("\n")[: line - 1]
        near = str(details[0].get("highlight") or "")
        position = max(0, sum(len(each) + 1 for each in before) + column - max(1, len(near)))
        said = f"{said}, in line {line}, column {column}"
    return SqlSyntaxError(f"Spark SQL: {said[:1].lower()}{said[1:]}", position=position)
