"""`v AS OF EPOCH 5` and `v AS OF TIMESTAMP '...'`: what DuckDB does not read, taken out of the text.

Each such table reference becomes a name that stands for the past rows while the statement runs. The
text keeps its length and everything else its place, so positions in errors still point into what the
user wrote. `x AS of` is an alias and ASOF JOIN a join: only AS OF EPOCH and AS OF TIMESTAMP are ours,
which are no SQL otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from penstock.base.errors import SqlSyntaxError
from penstock.base.limits import AS_OF_MAX
from penstock.sql.cursor import RESERVED, Cursor
from penstock.sql.statements import (
    AsOf,
    CreateMaterializedView,
    CreateView,
    ExplainIncremental,
    Slice,
    Statement,
)
from penstock.sql.tokens import Token, fold, quote, string_value, tokenize, unquote

# DuckDB's words that are no alias without AS, beside the reserved ones.
_JOIN_WORDS = """
    ANTI ASOF AT AUTHORIZATION BINARY BY COLLATION CONCURRENTLY CROSS FREEZE FULL GLOB ILIKE INNER IS ISNULL
    JOIN LEFT LIKE NATURAL NOTNULL OUTER OVERLAPS POSITIONAL RIGHT SEMI SIMILAR TABLESAMPLE UNPACK VERBOSE
"""
NO_ALIAS = RESERVED | frozenset(_JOIN_WORDS.split())
# After these a table reference follows; the second ones take no alias.
_BEFORE_TABLE = frozenset(("FROM", "JOIN", "USING", "PIVOT", "UNPIVOT"))
_BEFORE_NAME = frozenset(("TABLE", "SUMMARIZE"))
_CLAUSES = ("SELECT", "FROM", "USING", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT",
            "OFFSET", "SET", "VALUES", "RETURNING", "WITH")  # fmt: skip
_OPENING = ("(", "[", "{")
_HINT = "Write it after the name of a table or view in a query: FROM orders AS OF EPOCH 5 AS o."


def has_as_of(tokens: Sequence[Token]) -> bool:
    """Whether some relation is read as of an epoch or a time."""
    return any(t.keyword == "OF" and _is_as_of(tokens, i - 1) for i, t in enumerate(tokens))


def take_out(c: Cursor) -> tuple[Cursor, tuple[AsOf, ...]]:
    """The statement as DuckDB reads it, and the past relations that it names.

    >>> def cursor(sql):
    ...     return Cursor(sql, [t for t in tokenize(sql) if t.kind != "space"], len(sql))
    >>> c, found = take_out(cursor("SELECT v.a FROM v AS OF EPOCH 5 WHERE b"))
    >>> c.whole
    'SELECT v.a FROM "as of 1" "v"   WHERE b'
    >>> found[0].relation, found[0].unit, found[0].value
    ('v', 'epoch', 5)
    """
    found: list[AsOf] = []
    whole = c.whole
    ctes = _common_tables(c)
    taken = {fold(unquote(t)) for t in c.tokens if t.kind == "quoted"}
    numbers = (n for n in range(1, 2 * AS_OF_MAX) if f"as of {n}" not in taken)
    for index in range(len(c.tokens)):
        if not _is_as_of(c.tokens, index):
            continue
        if len(found) == AS_OF_MAX:
            _fail(c, index, f"a statement has AS OF at most {AS_OF_MAX} times", "Split the statement.")
        reference = _reference(c, index)
        name = _relation(c, reference)
        for cte, first, last in ctes:
            if cte == fold(name) and first < index < last:
                what = f'"{name}" is a common table expression of this statement, which has no past'
                _fail(c, reference.name, what, "Write AS OF after the tables inside of it.")
        value, end = _moment(c, index)
        stands_for = f"as of {next(numbers)}"
        start = c.tokens[reference.first].offset
        stop = c.tokens[end - 1].end
        text = quote(stands_for) + _alias(c, reference, end)
        assert len(text) < stop - start
        whole = whole[:start] + text.ljust(stop - start) + whole[stop:]
        unit = c.tokens[index + 2].keyword.lower()
        found.append(AsOf(stands_for, name, "epoch" if unit == "epoch" else "timestamp", value, start))
    first, last = c.tokens[0].offset, c.end_offset
    tokens = [
        token._replace(offset=token.offset + first)
        for token in tokenize(whole[first:last])
        if token.kind not in ("space", "comment")
    ]
    return Cursor(whole, tokens, last), tuple(found)


def check_place(statement: Statement) -> None:
    """A definition is of rows that change: one of the past would never."""
    if not statement.as_of or not isinstance(
        statement, (CreateView, CreateMaterializedView, ExplainIncremental)
    ):
        return
    name = getattr(statement, "name", None)
    of = f' of view "{name}"' if name else " of a materialized view"
    raise SqlSyntaxError(
        f"AS OF cannot stand in the definition{of}: a view follows what its tables hold now",
        hint="Ask for the view AS OF the epoch, or keep the past rows: CREATE TABLE ... AS SELECT ... AS OF ...",
        position=statement.as_of[0].offset,
    )


@dataclass(frozen=True)
class _Reference:
    """Tokens of a table reference: where it begins, its name, and its alias where one stands before AS OF."""

    first: int
    name: int
    alias: int | None
    takes_alias: bool


def _is_as_of(tokens: Sequence[Token], index: int) -> bool:
    return (
        0 <= index < len(tokens) - 2
        and tokens[index].keyword == "AS"
        and tokens[index + 1].keyword == "OF"
        and tokens[index + 2].keyword in ("EPOCH", "TIMESTAMP", "TIMESTAMPTZ")
    )


def _fail(c: Cursor, index: int, message: str, hint: str) -> NoReturn:
    raise SqlSyntaxError(message, hint=hint, position=c.tokens[index].offset)


def _is_name(c: Cursor, index: int) -> bool:
    if index < 0:
        return False
    token = c.tokens[index]
    return token.kind == "quoted" or (token.kind == "word" and token.keyword not in NO_ALIAS)


def _reference(c: Cursor, index: int) -> _Reference:
    """The table reference before the AS OF at `index`: `v`, `main.v`, `v x`, `v AS x`."""
    name, alias = index - 1, None
    if not _is_name(c, name):
        _fail(c, index, "AS OF follows the name of a table or view", _HINT)
    before = c.tokens[name - 1].keyword if name else ""
    if before == "AS" and _is_name(c, name - 2):
        name, alias = name - 2, name
    elif before != "UPDATE" and _is_name(c, name - 1):
        name, alias = name - 1, name
    first = name
    if name >= 2 and c.tokens[name - 1].keyword == "." and _is_name(c, name - 2):
        first = name - 2
    place = first - 1
    takes_alias = True
    if place >= 1 and c.tokens[place].keyword == ":" and _is_name(c, place - 1):  # DuckDB's FROM x: v
        place, takes_alias = place - 2, False
    keyword = c.tokens[place].keyword if place >= 0 else ""
    if keyword in ("INTO", "UPDATE") or (place > 0 and c.at_index(place - 1, "DELETE", "FROM")):
        _fail(c, index, "the past cannot be changed: AS OF is for what is read", _HINT)
    if keyword in _BEFORE_NAME:
        takes_alias = False
    elif not _is_table_place(c, place):
        _fail(c, index, "AS OF follows the name of a table or view", _HINT)
    return _Reference(first, name, alias, takes_alias)


def _is_table_place(c: Cursor, index: int) -> bool:
    """Whether a table reference may follow the token at `index`."""
    while index >= 0:
        keyword = c.tokens[index].keyword
        if keyword == ",":
            index = _clause_before(c, index)
        elif keyword == "(":
            index -= 1
        else:
            return keyword in _BEFORE_TABLE and _is_clause(c, index)
    return False


def _is_clause(c: Cursor, index: int) -> bool:
    """As the cursor says, but for CREATE TABLE t AS FROM v, where FROM is no alias."""
    return c.is_clause(index) or (c.tokens[index].keyword == "FROM" and c.tokens[index - 1].keyword == "AS")


def _clause_before(c: Cursor, comma: int) -> int:
    """The word that begins the list with this comma, or the bracket around it; -1 where there is none."""
    opening = {c.closing(i): i for i in range(comma) if c.tokens[i].keyword in _OPENING}
    at = comma - 1
    while at >= 0:
        at = opening.get(at, at)
        keyword = c.tokens[at].keyword
        if keyword in _OPENING and c.closing(at) > comma:
            return at
        # `FROM a JOIN b ON a.x = b.x, c` and `FROM a JOIN b USING (x), c`: the list is still that of FROM.
        within = keyword == "ON" or (keyword == "USING" and c.at_index(at + 1, "("))
        if keyword in _CLAUSES and not within and _is_clause(c, at):
            return at
        at -= 1
    return -1


def _relation(c: Cursor, reference: _Reference) -> str:
    part = Cursor.until(_at(c, reference.first), reference.name + 1)
    return part.object_name("the name of a table or view")[0]


def _at(c: Cursor, index: int) -> Cursor:
    """The same tokens, from `index` on."""
    whole = Cursor(c.whole, c.tokens, c.end_offset)
    whole.position = index
    return whole


def _alias(c: Cursor, reference: _Reference, end: int) -> str:
    """What the reference is called in the rest of the statement: its alias, or else its own name."""
    token = c.tokens[reference.name if reference.alias is None else reference.alias]
    follows = end < len(c.tokens) and (c.tokens[end].keyword == "AS" or _is_name(c, end))
    if reference.alias is None and (follows or not reference.takes_alias):
        return ""
    return " " + (token.text if token.kind == "quoted" else quote(token.text))


def _moment(c: Cursor, index: int) -> tuple[int | str | Slice, int]:
    """The epoch's number, the time's text, or the expression in parentheses; and where the clause ends."""
    is_epoch = c.tokens[index + 2].keyword == "EPOCH"
    at = index + 3
    token = c.tokens[at] if at < len(c.tokens) else None
    expected = "the number of an epoch" if is_epoch else "a time such as '2026-01-31 12:00:00+00:00'"
    part = _at(c, at)
    if token is not None and token.keyword == "(":
        inside = part.group()
        for i in range(at, part.position):
            if c.tokens[i].kind == "parameter":
                _fail(
                    c, i, f"AS OF takes no placeholder such as {c.tokens[i].text}", "Write the value itself."
                )
        return inside.rest(expected), part.position
    if token is not None and not is_epoch and token.kind == "string":
        return string_value(token), at + 1
    if token is not None and is_epoch:
        if token.keyword == "-":
            _fail(c, at, "the number of an epoch is not negative", "Epochs are counted from 0.")
        digits = token.text.replace("_", "")
        if token.kind == "number" and digits.isdecimal() and len(digits) <= 18:
            return int(digits), at + 1
    return part.fail(expected, hint="Anything else stands in parentheses: AS OF EPOCH (5 + 1).")


def _common_tables(c: Cursor) -> list[tuple[str, int, int]]:
    """The folded name of each WITH query, and the tokens between which it hides a relation of that name."""
    found: list[tuple[str, int, int]] = []
    for start, token in enumerate(c.tokens):
        if token.keyword != "WITH" or not c.is_clause(start):
            continue
        end = min((c.closing(i) for i in range(start) if _encloses(c, i, start)), default=len(c.tokens))
        at = start + 1
        recursive = at < end and c.tokens[at].keyword == "RECURSIVE"
        at += recursive
        while at < end and _is_name(c, at):
            name, body = fold(unquote(c.tokens[at])), _body(c, at + 1, end)
            if body is None:
                break
            found.append((name, body if recursive else c.closing(body), end))
            at = c.closing(body) + 1
            if at >= end or c.tokens[at].keyword != ",":
                break
            at += 1
    return found


def _encloses(c: Cursor, bracket: int, index: int) -> bool:
    return c.tokens[bracket].keyword in _OPENING and c.closing(bracket) > index


def _body(c: Cursor, at: int, end: int) -> int | None:
    """The parenthesis that opens a WITH query whose name ends before `at`."""
    seen_as = False
    while at < end:
        keyword = c.tokens[at].keyword
        if keyword == "(":
            if seen_as:
                return at
            at = c.closing(at)
        elif keyword == "AS":
            seen_as = True
        elif keyword not in ("USING", "KEY", "NOT", "MATERIALIZED"):
            return None
        at += 1
    return None
