"""What is refused, by the name under which it stands in the text: DuckDB makes other things of some."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from penstock.base.errors import NotMaintainable
from penstock.sql.tokens import fold, tokenize, unquote

_AGGREGATE = re.compile(r"^the aggregate (\w+) ")
_LAMBDA = re.compile(r"^lambda functions \((\w+)\) ")
_STANDARD = ("percentile_cont", "percentile_disc")  # which the parser calls quantile_cont and quantile_disc


def as_written(error: NotMaintainable, texts: Sequence[str], aggregates: Collection[str]) -> None:
    """Name in the error what the texts (a query's, and those of the views in it) have. `aggregates` are the functions
    that could be meant where the text has no aggregate of the name that was refused.

    >>> error = NotMaintainable("the aggregate arg_max cannot be maintained yet")
    >>> as_written(error, ["SELECT mode(v) FROM t"], {"mode"})
    >>> error.message
    'the aggregate mode cannot be maintained yet'
    """
    called, words = _called(texts)
    found = _AGGREGATE.match(error.message)
    if found is not None and found[1] not in called:
        written = [name for name in called if name in aggregates or name in _STANDARD]
        if written:
            _rename(error, f"the aggregate {found[1]}", f"the aggregate {written[0]}")
    found = _LAMBDA.match(error.message)
    if found is not None and found[1] not in called and "lambda" not in words:
        _rename(error, found[0].strip(), "lists of INTERVAL as keys (of GROUP BY, DISTINCT or a join)")
    if error.message.startswith("window functions (or "):
        what = "a correlated subquery over columns of type LIST, MAP or STRUCT"
        if "over" in words:
            what = "window functions"
        elif words & {"limit", "fetch", "offset"}:
            what = "LIMIT in a correlated subquery"
        _rename(error, "window functions (or LIMIT in a correlated subquery)", what)


def _rename(error: NotMaintainable, old: str, new: str) -> None:
    error.message = error.message.replace(old, new, 1)
    error.args = (error.message,)


def _called(texts: Sequence[str]) -> tuple[list[str], set[str]]:
    """The functions that are called, in order, and all words."""
    called: list[str] = []
    words: set[str] = set()
    for text in texts:
        tokens = [t for t in tokenize(text) if t.kind not in ("space", "comment")]
        words |= {fold(t.text) for t in tokens if t.kind == "word"}
        pairs = pairwise(tokens)
        called += [fold(unquote(a)) for a, b in pairs if a.kind in ("word", "quoted") and b.keyword == "("]
    return called, words
