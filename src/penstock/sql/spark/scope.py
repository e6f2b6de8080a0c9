"""The names that an expression can use: what FROM gives, and what the query around it gives."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.base.errors import BindError, UndefinedColumn
from penstock.sql.spark.dialect import Tree, place
from penstock.sql.spark.functions_arrays import field as struct_field
from penstock.sql.spark.typed import Typed
from penstock.sql.tokens import fold, quote
from penstock.zset import types as t
from penstock.zset.types import SqlType

Columns = tuple[tuple[str, SqlType], ...]


@dataclass(frozen=True)
class Output:
    """A column that * stands for."""

    name: str
    value: Typed
    relation: str  # the folded alias it comes from; empty for a column that USING has made of two


@dataclass
class Scope:
    """What FROM gives so far, and the scope of the query around this one."""

    outer: Scope | None = None
    relations: dict[str, dict[str, Typed]] = field(default_factory=dict)
    output: list[Output] = field(default_factory=list)
    everything: list[Output] = field(default_factory=list)  # also what USING has hidden
    selected: dict[str, Typed] = field(
        default_factory=dict
    )  # aliases of SELECT: used where no column is meant
    aliases_first: bool = False  # ORDER BY looks at the aliases first

    def add(self, alias: str, columns: Columns, tree: Tree) -> list[Output]:
        """Another relation of FROM."""
        key = fold(alias)
        if key in self.relations:
            raise BindError(
                f'"{alias}" stands for two things in FROM', hint="Give one an alias.", position=place(tree)
            )
        made = [Output(name, _known(f"{quote(alias)}.{quote(name)}", type), key) for name, type in columns]
        self.relations[key] = {fold(column.name): column.value for column in made}
        self.output += made
        self.everything += made
        return made

    def find(self, parts: list[str], tree: Tree) -> Typed:
        """The column, or the field of one, that a dotted name means."""
        found = self._find(parts, tree)
        if found is None:
            raise UndefinedColumn(
                f'column "{".".join(parts)}" does not exist', hint=self._hint(), position=place(tree)
            )
        return found.at(tree)

    def _find(self, parts: list[str], tree: Tree) -> Typed | None:
        name = fold(parts[0])
        if self.aliases_first and len(parts) == 1 and name in self.selected:
            return self.selected[name]
        found, rest = None, parts[1:]
        if rest and name in self.relations and fold(rest[0]) in self.relations[name]:
            found, rest = self.relations[name][fold(rest[0])], rest[1:]
        else:
            matches = [column.value for column in self.output if fold(column.name) == name]
            if len(matches) > 1:
                raise BindError(
                    f'column "{parts[0]}" is ambiguous', hint="Say of which table.", position=place(tree)
                )
            found = matches[0] if matches else self.selected.get(name)
        if found is None:
            return None if self.outer is None else self.outer._find(parts, tree)
        for each in rest:
            found = struct_field(found, each)
        return found

    def _hint(self) -> str | None:
        names = sorted({column.name for column in self.output})
        return f"There are {', '.join(names[:12])}." if names else None


# Types that Spark does not have, and those that stand for them.
_STAND_INS = {
    "HUGEINT": t.decimal(38, 0), "UTINYINT": t.SMALLINT, "USMALLINT": t.INTEGER, "UINTEGER": t.BIGINT,
    "UBIGINT": t.decimal(20, 0), "JSON": t.VARCHAR, "UUID": t.VARCHAR,
}  # fmt: skip


def _known(sql: str, type: SqlType) -> Typed:
    other = _STAND_INS.get(type.id)
    return Typed(sql, type) if other is None else Typed(f"CAST({sql} AS {other.duck})", other)
