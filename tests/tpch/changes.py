"""Random epochs for the TPC-H tables: inserts, updates and deletes that the 22 queries notice.

Values are drawn mostly from what the queries select (their dates, nations, brands, ...), so that rows
enter and leave every view. All randomness comes from one seed.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tpch.data import KEYS, TABLES
from tpch.values import COLUMNS, LINE_TEMPLATES, PART_TEMPLATES, Chance

Row = dict[str, Any]

# How often each table is drawn: the small ones rarely, because one nation moves thousands of rows.
TABLE_WEIGHTS = {
    "region": 1, "nation": 5, "supplier": 25, "part": 40, "partsupp": 40, "customer": 45, "orders": 80, "lineitem": 130,
}  # fmt: skip

SUPPLIER_NATIONS = (2, 3, 20)  # BRAZIL, CANADA and SAUDI ARABIA: queries 8, 20 and 21
CUSTOMER_NATIONS = (1, 2, 3, 17, 24)  # AMERICA: query 8


class Changes:
    """The tables as they are now, and `epoch`, which changes some rows and returns the deltas."""

    def __init__(self, tables: dict[str, pa.Table], seed: int) -> None:
        self.schemas = {name: table.schema for name, table in tables.items()}
        self.base = tables
        self.gone: dict[str, set[int]] = {name: set() for name in tables}
        self.extra: dict[str, list[Row]] = {name: [] for name in tables}
        self.chance = Chance(seed)
        self.next_key = 10_000_000
        self.next_line = 100
        self.hot_parts: list[int] = []
        offers = tables["partsupp"]
        self.pairs = set(zip(offers["ps_partkey"].to_pylist(), offers["ps_suppkey"].to_pylist(), strict=True))
        self.hot_suppliers = _keys_in(tables["supplier"], "s_suppkey", "s_nationkey", SUPPLIER_NATIONS)
        self.hot_customers = _keys_in(tables["customer"], "c_custkey", "c_nationkey", CUSTOMER_NATIONS)

    def epoch(self, operations: int = 80) -> dict[str, pa.Table]:
        """Some operations on some tables, as one delta with _weight for each table that changes."""
        deltas: dict[str, list[Row]] = {name: [] for name in TABLES}
        names, weights = list(TABLE_WEIGHTS), list(TABLE_WEIGHTS.values())
        for _ in range(operations):
            table = self.chance.choices(names, weights)[0]
            action = self.chance.choices(["insert", "update", "delete"], [3, 5, 2])[0]
            if table in ("region", "nation") and action == "delete" and self.count(table) < 4:
                action = "insert"
            getattr(self, f"_{action}")(table, deltas)
        return {name: self._table(name, rows) for name, rows in deltas.items() if rows}

    def count(self, table: str) -> int:
        return len(self.base[table]) - len(self.gone[table]) + len(self.extra[table])

    # -- the three operations -------------------------------------------------------------------

    def _insert(self, table: str, deltas: dict[str, list[Row]]) -> None:
        row = self._fresh(table)
        self._add(table, row, deltas)
        if table == "orders":
            lines = 8 if self.chance.random() < 0.2 else self.chance.randint(0, 4)
            for _ in range(lines):
                line = {**self._fresh("lineitem"), "l_orderkey": row["o_orderkey"]}
                if lines == 8:
                    line["l_quantity"] = self.chance.decimal(4500, 5000)  # large enough for query 18
                self._add("lineitem", line, deltas)
        if table == "part":
            self.hot_parts.append(row["p_partkey"])
            for _ in range(2):
                offer = self._fresh("partsupp")
                self._add("partsupp", {**offer, **self._pair(row["p_partkey"])}, deltas)

    def _update(self, table: str, deltas: dict[str, list[Row]]) -> None:
        old = self._take(table, deltas)
        if old is None:
            return
        new = dict(old)
        fresh = self._fresh(table)
        keys = KEYS[table]
        others = [column for column in fresh if column not in keys]
        for column in self.chance.sample(others, self.chance.randint(1, min(4, len(others)))):
            new[column] = fresh[column]
        if self.chance.random() < 0.1:  # the key itself changes
            new.update({column: fresh[column] for column in keys})
        self._add(table, new, deltas)

    def _delete(self, table: str, deltas: dict[str, list[Row]]) -> None:
        self._take(table, deltas)

    # -- rows -----------------------------------------------------------------------------------

    def _add(self, table: str, row: Row, deltas: dict[str, list[Row]]) -> None:
        self.extra[table].append(row)
        deltas[table].append({**row, "_weight": 1})

    def _take(self, table: str, deltas: dict[str, list[Row]]) -> Row | None:
        """A random row leaves the table."""
        extra, base, gone = self.extra[table], self.base[table], self.gone[table]
        if self.count(table) == 0:
            return None
        left = len(base) - len(gone)
        if extra and (left == 0 or self.chance.random() < 0.3):
            row = extra.pop(self.chance.randrange(len(extra)))
        else:
            index = self.chance.randrange(len(base))
            while index in gone:
                index = (index + 1) % len(base)
            gone.add(index)
            row = base.slice(index, 1).to_pylist()[0]
        deltas[table].append({**row, "_weight": -1})
        return row

    def _key(self, table: str, column: str) -> int:
        """A key of a row that is, or once was, there; sometimes one that never was."""
        if self.chance.random() < 0.03:
            return 9_999_999
        if self.extra[table] and self.chance.random() < 0.3:
            return int(self.chance.choice(self.extra[table])[column])
        return int(self.base[table][column][self.chance.randrange(len(self.base[table]))].as_py())

    def _fresh(self, table: str) -> Row:
        """A new row with a new key, foreign keys to rows that mostly exist, and values the queries look for."""
        self.next_key += 1
        row = {column: draw(self.chance) for column, draw in COLUMNS[table].items()}
        for column in KEYS[table]:
            row[column] = self.next_key
        if table == "part":
            row.update(self.chance.choice(PART_TEMPLATES))
        elif table == "partsupp":
            row.update(self._pair(self._part()))
        elif table == "orders":
            hot = self.chance.random() < 0.4
            row["o_custkey"] = (
                self.chance.choice(self.hot_customers) if hot else self._key("customer", "c_custkey")
            )
        elif table == "lineitem":
            self.next_line += 1
            row.update(l_orderkey=self._key("orders", "o_orderkey"), l_linenumber=self.next_line)
            row.update(self._offer())
            row.update({k: draw(self.chance) for k, draw in self.chance.choice(LINE_TEMPLATES).items()})
        return {column: row[column] for column in self.schemas[table].names}

    def _offer(self) -> Row:
        """A part and a supplier: often a pair of partsupp, often a supplier of the queries 20 and 21."""
        if self.extra["partsupp"] and self.chance.random() < 0.4:
            pair = self.chance.choice(self.extra["partsupp"])
            return {"l_partkey": pair["ps_partkey"], "l_suppkey": pair["ps_suppkey"]}
        return {"l_partkey": self._part(), "l_suppkey": self._supplier()}

    def _pair(self, part: int) -> Row:
        """The part and a supplier that never had this part: a pair is a key of partsupp."""
        supplier = self._supplier()
        if (part, supplier) in self.pairs:
            supplier = self.next_key  # of no supplier there is
        self.pairs.add((part, supplier))
        return {"ps_partkey": part, "ps_suppkey": supplier}

    def _supplier(self) -> int:
        if self.chance.random() < 0.5:
            return self.chance.choice(self.hot_suppliers)
        return self._key("supplier", "s_suppkey")

    def _part(self) -> int:
        if self.hot_parts and self.chance.random() < 0.5:
            return self.chance.choice(self.hot_parts)
        return self._key("part", "p_partkey")

    def _table(self, table: str, rows: list[Row]) -> pa.Table:
        shuffled = list(rows)
        self.chance.shuffle(shuffled)  # a delta has no order
        schema = self.schemas[table].append(pa.field("_weight", pa.int64()))
        return pa.Table.from_pylist(shuffled, schema)


def _keys_in(table: pa.Table, key: str, column: str, values: tuple[int, ...]) -> list[int]:
    return [row[key] for row in table.select([key, column]).to_pylist() if row[column] in values]
