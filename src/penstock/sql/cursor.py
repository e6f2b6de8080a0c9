"""A cursor over the significant tokens of one statement: what every parse function is written with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from penstock.base.errors import ColumnGivenTwice, SqlSyntaxError
from penstock.sql.statements import Slice
from penstock.sql.tokens import Token, fold, unquote

# DuckDB's reserved words: never a name unless quoted.
_RESERVED_WORDS = """
    ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE COLUMN CONSTRAINT
    CREATE DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT FALSE FETCH FOR FOREIGN FROM GROUP
    HAVING IN INITIALLY INTERSECT INTO LAMBDA LATERAL LEADING LIMIT NOT NULL OFFSET ON ONLY OR ORDER PIVOT
    PIVOT_LONGER PIVOT_WIDER PLACING PRIMARY QUALIFY REFERENCES RETURNING SELECT SHOW SOME SUMMARIZE
    SYMMETRIC TABLE THEN TO TRAILING TRUE UNION UNIQUE UNPIVOT USING VARIADIC WHEN WHERE WINDOW
    WITH
"""
RESERVED = frozenset(_RESERVED_WORDS.split())
SCHEMAS = ("main", "public")  # one schema with two names: DuckDB's default and PostgreSQL's
QUERY_WORDS = frozenset(("SELECT", "WITH", "VALUES", "FROM", "TABLE", "PIVOT", "UNPIVOT", "SUMMARIZE"))
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SHOWN_CHARS_MAX = 40

# By the first word of a statement, for hints.
FORMS = {
    "INSERT": "INSERT INTO t (a, b) VALUES (1, 2)",
    "UPDATE": "UPDATE t SET a = 1 WHERE id = 2",
    "DELETE": "DELETE FROM t WHERE id = 2",
    "TRUNCATE": "TRUNCATE TABLE t",
    "CREATE": "CREATE TABLE t (id BIGINT PRIMARY KEY, a TEXT), or CREATE [MATERIALIZED] VIEW v AS SELECT a FROM t",
    "DROP": "DROP TABLE t, DROP VIEW v, or DROP MATERIALIZED VIEW v",
    "ALTER": "ALTER MATERIALIZED VIEW v SET (freshness = '1 second')",
    "SAVEPOINT": "SAVEPOINT s",
    "RELEASE": "RELEASE SAVEPOINT s",
    "ROLLBACK": "ROLLBACK, or ROLLBACK TO SAVEPOINT s",
    "BEGIN": "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "EXPLAIN": "EXPLAIN SELECT a FROM t, or EXPLAIN INCREMENTAL v",
    "DESCRIBE": "DESCRIBE t",
    "SHOW": "SHOW TABLES, or SHOW VIEWS",
    "SUBSCRIBE": "SUBSCRIBE v",
    "GRANT": "GRANT SELECT ON t TO ann",
    "REVOKE": "REVOKE SELECT ON t FROM ann",
}


class Cursor:
    """Tokens from `position` up to `stop`, with the matching bracket of each opening one known."""

    def __init__(self, whole: str, tokens: list[Token], end_offset: int) -> None:
        self.whole = whole
        self.tokens = tokens
        self.position = 0
        self.stop = len(tokens)
        self.end_offset = end_offset  # where the statement ends: the place of errors about what is missing
        self._closing = _match_brackets(tokens)
        self._taken: set[int] = set()  # tokens read as keywords: errors write those in upper case

    def until(self, stop: int) -> Cursor:
        """A cursor over the tokens from here to `stop`; this one goes on after them."""
        part = Cursor.__new__(Cursor)
        part.whole, part.tokens = self.whole, self.tokens
        part._closing, part._taken = self._closing, self._taken
        part.position, part.stop = self.position, stop
        part.end_offset = self.tokens[stop].offset if stop < len(self.tokens) else self.end_offset
        self.position = stop
        return part

    # Looking

    @property
    def at_end(self) -> bool:
        return self.position >= self.stop

    @property
    def offset(self) -> int:
        """Where the cursor stands in the whole text."""
        return self.tokens[self.position].offset if self.position < self.stop else self.end_offset

    def keyword(self, ahead: int = 0) -> str:
        """The keyword or symbol `ahead` tokens from here, "" where there is none."""
        index = self.position + ahead
        return self.tokens[index].keyword if index < self.stop else ""

    def at(self, *keywords: str) -> bool:
        """Whether these keywords stand here, one after the other."""
        return self.at_index(self.position, *keywords)

    def at_index(self, index: int, *keywords: str) -> bool:
        """Whether these keywords stand at `index`, one after the other."""
        if index + len(keywords) > self.stop:
            return False
        return all(self.tokens[index + i].keyword == k for i, k in enumerate(keywords))

    def closing(self, index: int) -> int:
        """The index of the bracket that closes the one at `index`."""
        return self._closing[index]

    def at_name(self) -> bool:
        """Whether an identifier stands here."""
        if self.at_end:
            return False
        token = self.tokens[self.position]
        return token.kind == "quoted" or (token.kind == "word" and token.keyword not in RESERVED)

    def at_query(self, ahead: int = 0) -> bool:
        """Whether a query begins here, in parentheses or not."""
        while self.keyword(ahead) == "(":
            ahead += 1
        if self.keyword(ahead) == "VALUES":  # not reserved: VALUES is a name unless rows follow
            return self.keyword(ahead + 1) == "("
        return self.keyword(ahead) in QUERY_WORDS

    def top_level(self) -> Iterator[int]:
        """The indices of the tokens from here on that stand in no bracket opened after here."""
        index = self.position
        while index < self.stop:
            yield index
            index = self._closing.get(index, index) + 1

    def is_clause(self, index: int) -> bool:
        """Whether the keyword at `index` begins a clause.

        `AS where` and `t.where` are names in SQL, quoted or not, and IS DISTINCT FROM and WITHIN GROUP
        are parts of expressions.
        """
        before = [self.tokens[i].keyword for i in range(max(index - 3, self.position), index)]
        if before and before[-1] in (".", "AS"):
            return False
        keyword = self.tokens[index].keyword
        if keyword == "GROUP":
            return before[-1:] != ["WITHIN"]
        if keyword != "FROM":
            return True
        return before[-2:] != ["IS", "DISTINCT"] and before != ["IS", "NOT", "DISTINCT"]

    def find(self, *keywords: str) -> int:
        """The index of the first of these clauses from here on, at depth zero; `stop` where there is none."""
        wanted = frozenset(keywords)
        for index in self.top_level():
            if self.tokens[index].keyword in wanted and self.is_clause(index):
                return index
        return self.stop

    # Taking

    def take(self, *keywords: str) -> bool:
        """Step over these keywords if they stand here."""
        if not self.at(*keywords):
            return False
        self._taken.update(range(self.position, self.position + len(keywords)))
        self.position += len(keywords)
        return True

    def expect(self, *keywords: str) -> None:
        for keyword in keywords:
            if not self.take(keyword):
                self.fail(keyword)

    def next(self) -> Token:
        token = self.tokens[self.position]
        self.position += 1
        return token

    def identifier(self, what: str) -> str:
        """The identifier here; `what` names it in the error, as in "a column name"."""
        if not self.at_name():
            self.fail(what)
        token = self.next()
        name = unquote(token)
        if not name:
            raise SqlSyntaxError("an identifier between quotes is empty", position=token.offset)
        return name

    def object_name(self, what: str) -> tuple[str, int]:
        """The name of a table or view and its offset; the schema main or public is accepted and dropped."""
        offset = self.offset
        name = self.identifier(what)
        if not self.take("."):
            return name, offset
        if fold(name) == "penstock":
            raise SqlSyntaxError(
                'the relations of schema "penstock" can only be read',
                hint="SELECT from them, or DESCRIBE them.",
                position=offset,
            )
        if fold(name) not in SCHEMAS:
            hint = 'There is one schema, "main", which is also called "public". Leave the schema out.'
            raise SqlSyntaxError(f'schema "{name}" does not exist', hint=hint, position=offset)
        offset = self.offset
        return self.identifier(what), offset

    def object_names(self, what: str) -> tuple[str, ...]:
        names = [self.object_name(what)[0]]
        while self.take(","):
            names.append(self.object_name(what)[0])
        return tuple(names)

    def column_list(self) -> tuple[str, ...]:
        """`(a, b)`, each column once."""
        self.expect("(")
        names: dict[str, str] = {}
        while True:
            offset = self.offset
            add_once(names, self.identifier("a column name"), offset)
            if not self.take(","):
                break
        self.expect(")")
        return tuple(names.values())

    def group(self) -> Cursor:
        """What stands between the parenthesis here and the one that closes it; steps over both."""
        self.expect("(")
        inside = self.until(self.closing(self.position - 1))
        self.position += 1
        return inside

    def slice(self, stop: int, what: str) -> Slice:
        """The text from here up to the token at `stop`, which must not be empty."""
        if self.position >= stop:
            self.fail(what)
        start = self.tokens[self.position].offset
        end = self.tokens[stop - 1].end
        self.position = stop
        return Slice(self.whole[start:end], start)

    def rest(self, what: str) -> Slice:
        return self.slice(self.stop, what)

    def query(self) -> Slice:
        """A query that reaches to the end."""
        if not self.at_query():
            self.fail("a query")
        return self.rest("a query")

    # Refusing

    def done(self) -> None:
        """Nothing may be left."""
        if not self.at_end:
            token = self.tokens[self.position]
            hint = "Leave it out, or begin the next statement with a semicolon before it."
            raise SqlSyntaxError(
                f"unexpected {shown(token)}{self._after()}", hint=hint, position=token.offset
            )

    def fail(self, expected: str, hint: str | None = None) -> NoReturn:
        """Raise 'expected INTO after INSERT at "orders"'."""
        expected = f'"{expected}"' if expected in ("(", ")", "=") else expected
        found = shown(self.tokens[self.position]) if self.position < len(self.tokens) else "the end"
        message = f"expected {expected}{self._after()} at {found}"
        raise SqlSyntaxError(message, hint=hint or self._form(), position=self.offset)

    def _form(self) -> str | None:
        """How a statement that begins like this one looks."""
        form = FORMS.get(self.tokens[0].keyword) if self.tokens else None
        return None if form is None else f"Such a statement looks like this: {form}."

    def _after(self) -> str:
        if self.position == 0:
            return ""
        token = self.tokens[self.position - 1]
        is_keyword = token.kind == "word" and self.position - 1 in self._taken
        return f" after {token.keyword if is_keyword else shown(token)}"


def shown(token: Token) -> str:
    """A token in an error message."""
    text = token.text
    return f'"{text}"' if len(text) <= _SHOWN_CHARS_MAX else f'"{text[:_SHOWN_CHARS_MAX]}..."'


def add_once(
    names: dict[str, str], name: str, offset: int, error: type[SqlSyntaxError] = ColumnGivenTwice
) -> None:
    """Add a column to names by their folded form, unless it is among them."""
    if fold(name) in names:
        raise error(f'column "{name}" is given twice', position=offset)
    names[fold(name)] = name


def _match_brackets(tokens: list[Token]) -> dict[int, int]:
    """The index of the closing bracket of each opening one."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.keyword in ("(", "[", "{"):
            opened.append(index)
        elif token.keyword in (")", "]", "}"):
            if not opened or _CLOSING[tokens[opened[-1]].keyword] != token.keyword:
                raise SqlSyntaxError(
                    f"{shown(token)} closes nothing",
                    hint="Leave it out, or open it first.",
                    position=token.offset,
                )
            closing[opened.pop()] = index
    if opened:
        token = tokens[opened[-1]]
        hint = f'Add "{_CLOSING[token.keyword]}" where it ends.'
        raise SqlSyntaxError(f"{shown(token)} is never closed", hint=hint, position=token.offset)
    return closing
