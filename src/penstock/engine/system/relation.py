"""What a relation of the schema `penstock` is: columns, and a function from the flow to its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.sql.tokens import quote

if TYPE_CHECKING:
    from penstock.engine.flow import Flow

SCHEMA = "penstock"

# The types that their columns have, in DuckDB's words.
_ARROW = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "JSON": pa.string(),
}
TIME = "TIMESTAMP WITH TIME ZONE"


@dataclass(frozen=True)
class SystemRelation:
    """`rows` gives tuples in the order of the columns; a time is microseconds since 1970.

    `at_any_time` says that it needs no lock of the flow's: it can be read while the flow is busy or has stopped.
    """

    name: str
    about: str
    columns: tuple[tuple[str, str], ...]  # names, and types in DuckDB's words
    rows: Callable[[Flow], Iterable[Sequence[Any]]]
    at_any_time: bool = False

    def table(self, flow: Flow) -> pa.Table:
        """The rows as Arrow, columns c0, c1, ..."""
        rows = list(self.rows(flow))
        return self._arrow(list(zip(*rows, strict=True)) if rows else [()] * len(self.columns))

    def empty(self) -> pa.Table:
        return self._arrow([()] * len(self.columns))

    def _arrow(self, values: Sequence[Sequence[Any]]) -> pa.Table:
        arrays = [pa.array(v, _ARROW[t]) for v, (_, t) in zip(values, self.columns, strict=True)]
        return pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])

    @property
    def data_name(self) -> str:
        """What its rows are called inside DuckDB."""
        return f"penstock rows of {SCHEMA}.{self.name}"

    @property
    def view(self) -> str:
        """The statement that gives the rows their names and types."""
        items = ", ".join(f"CAST(c{i} AS {t}) AS {quote(n)}" for i, (n, t) in enumerate(self.columns))
        return (
            f"CREATE VIEW IF NOT EXISTS {SCHEMA}.{self.name} AS SELECT {items} FROM {quote(self.data_name)}"
        )
