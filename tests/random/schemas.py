"""Random tables and random changes of them: few distinct values, so that joins and groups meet."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

# kind -> (type in SQL, values); floats are multiples of 1/4, so that every sum of them is exact.
KINDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "int": ("INTEGER", (-2, -1, 0, 1, 2, 3)),
    "big": ("BIGINT", (-3, 0, 1, 2, 5_000_000_000)),
    "text": ("TEXT", ("", "a", "b", "ab", "Ba", "c%")),
    "dec": ("DECIMAL(8,2)", tuple(Decimal(v) for v in ("-1.50", "0.00", "0.01", "1.00", "2.25"))),
    "bool": ("BOOLEAN", (True, False)),
    "date": ("DATE", tuple(datetime.date(2024, 2, 28) + datetime.timedelta(days=d) for d in range(4))),
    "float": ("DOUBLE PRECISION", (-0.25, 0.0, 0.5, 1.0, 1.75)),
}
KIND_WEIGHTS = {"int": 6, "big": 2, "text": 4, "dec": 3, "bool": 1, "date": 2, "float": 2}


@dataclass
class Table:
    """A table, the rows it holds now, and random deltas of it."""

    name: str
    columns: list[tuple[str, str]]  # name, kind
    keyed: bool
    rows: list[dict[str, Any]] = field(default_factory=list)
    next_key: int = 1

    @property
    def statement(self) -> str:
        parts = [
            f"{name} {KINDS[kind][0]}" + (" PRIMARY KEY" if self.keyed and name == "id" else "")
            for name, kind in self.columns
        ]
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"

    def fresh(self, chance: random.Random) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, kind in self.columns:
            if self.keyed and name == "id":
                row[name] = self.next_key
                self.next_key += 1
            else:
                row[name] = None if chance.random() < 0.15 else chance.choice(KINDS[kind][1])
        return row

    def delta(self, chance: random.Random, most: int) -> list[dict[str, Any]]:
        """Inserts, deletes and updates of some rows, as one delta in any order."""
        out: list[dict[str, Any]] = []
        for _ in range(chance.randint(0, most)):
            action = chance.choices(["insert", "delete", "update", "twice"], [5, 4, 3, 1])[0]
            if action != "insert" and not self.rows:
                continue
            if action == "insert":
                self._add(self.fresh(chance), out)
            elif action == "twice" and not self.keyed:  # one more copy of a row that is there
                self._add(dict(chance.choice(self.rows)), out)
            else:
                old = self.rows.pop(chance.randrange(len(self.rows)))
                out.append({**old, "_weight": -1})
                if action == "update":
                    self._add(self._changed(old, chance), out)
        if chance.random() < 0.05:  # all of it goes
            out += [{**row, "_weight": -1} for row in self.rows]
            self.rows = []
        chance.shuffle(out)
        return out

    def _add(self, row: dict[str, Any], out: list[dict[str, Any]]) -> None:
        self.rows.append(row)
        out.append({**row, "_weight": 1})

    def _changed(self, old: dict[str, Any], chance: random.Random) -> dict[str, Any]:
        fresh = self.fresh(chance)
        names = chance.sample(list(old), chance.randint(1, len(old)))
        return {**old, **{name: fresh[name] for name in names}}


def random_tables(chance: random.Random, *, portable: bool) -> list[Table]:
    """Two to four tables; every one has an integer column, so that any two can be joined."""
    kinds = list(KIND_WEIGHTS)
    tables = []
    for index in range(chance.randint(2, 4)):
        keyed = chance.random() < 0.4
        columns = [("id", "int")] if keyed else []
        columns.append(("k", "int"))
        drawn = chance.choices(kinds, list(KIND_WEIGHTS.values()), k=chance.randint(1, 4))
        columns += [
            (f"{kind[0]}{n}", kind) for n, kind in enumerate(drawn) if not (portable and kind == "float")
        ]
        tables.append(Table(f"t{index}", columns, keyed))
    return tables
