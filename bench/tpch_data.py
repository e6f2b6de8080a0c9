"""TPC-H data in DuckDB, and plausible changes to it.

DuckDB holds the tables: each flow starts from what is in them, and every change is applied to both.
A change of 1,000 rows is spread over the tables that a query reads:

    lineitem 560   200 inserted, 160 deleted, 200 updated; new and cancelled orders take all of their
    orders   200   50 inserted, 40 deleted, 110 updated    lines with them
    partsupp 100, customer 50, part 40, supplier 10        30 % inserted, 20 % deleted, half updated

and scaled up to 1,000 where it does not read them all. Nations and regions never change.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

SHARES = {"lineitem": 560, "orders": 200, "partsupp": 100, "customer": 50, "part": 40, "supplier": 10}
TABLES = (*SHARES, "nation", "region")
KEYS = {
    "lineitem": ("l_orderkey", "l_linenumber"),
    "orders": ("o_orderkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "supplier": ("s_suppkey",),
}
# What an update changes, and how the copy of a row becomes a new one.
UPDATES = {
    "lineitem": "l_quantity + 1 AS l_quantity, l_extendedprice + 10 AS l_extendedprice, l_shipdate + 1 AS l_shipdate",
    "orders": "o_totalprice + 10 AS o_totalprice, o_orderdate + 1 AS o_orderdate",
    "partsupp": "ps_availqty + 1 AS ps_availqty, ps_supplycost + 1 AS ps_supplycost",
    "customer": "c_acctbal + 1 AS c_acctbal",
    "part": "p_retailprice + 1 AS p_retailprice, p_size % 50 + 1 AS p_size",
    "supplier": "s_acctbal + 1 AS s_acctbal",
}
COPIES = {
    "lineitem": "fresh AS l_orderkey",
    "orders": "fresh AS o_orderkey",
    "partsupp": "ps_suppkey % (SELECT max(s_suppkey) FROM supplier WHERE s_suppkey < 1_000_000_000) + 1 AS ps_suppkey",
    "customer": "fresh AS c_custkey",
    "part": "fresh AS p_partkey",
    "supplier": "fresh AS s_suppkey",
}
LINES_PER_ORDER = 4
FIRST_FRESH_KEY = 1_000_000_000


def make_files(factor: float, folder: Path) -> Path:
    """Parquet files from tpchgen-cli, made once."""
    target = folder / f"tpch-{factor:g}"
    done = target / "done"
    if not done.exists():
        program = Path(sys.executable).parent / "tpchgen-cli"
        options = ["-s", f"{factor:g}", "-o", str(target), "--quiet", "--overwrite"]
        subprocess.run([str(program), "parquet", *options], check=True)
        done.touch()
    return target


def tables_of(query: str) -> tuple[str, ...]:
    """The tables that a query reads.

    >>> tables_of("select 1 from lineitem, Part where p_partkey = l_partkey and p_name <> 'customer'")
    ('lineitem', 'part')
    """
    bare = re.sub(r"'[^']*'", "", query)
    return tuple(t for t in TABLES if re.search(rf"\b{t}\b", bare, re.IGNORECASE))


class Data:
    """The tables in DuckDB, without indexes, on two threads."""

    def __init__(self, files: Path, schema: str, seed: int) -> None:
        self.database = duckdb.connect(":memory:", config={"threads": 2})
        self.random = np.random.default_rng(seed)
        self.next_fresh = FIRST_FRESH_KEY
        self.database.execute(re.sub(r",\s*PRIMARY KEY \([^)]*\)", "", schema))
        for table in TABLES:
            self.database.execute(f"INSERT INTO {table} FROM '{files}/{table}.parquet'")

    def arrow(self, table: str) -> pa.Table:
        return self.database.sql(f"FROM {table}").to_arrow_table()

    def change(self, tables: Iterable[str], rows: int) -> dict[str, pa.Table]:
        """Make a change of about that many rows as deltas; `apply` brings it into DuckDB's tables."""
        shares = {table: SHARES[table] for table in tables if table in SHARES}
        counts = {table: round(rows * share / sum(shares.values())) for table, share in shares.items()}
        deltas: dict[str, pa.Table] = {}
        if "orders" in counts or "lineitem" in counts:
            self._pick_orders(counts)
            for table in ("orders", "lineitem"):
                if table in counts:
                    deltas[table] = self._delta(table, f"picked_{table}")
        for table, count in counts.items():
            if table not in deltas:
                self._pick_rows(table, count)
                deltas[table] = self._delta(table, "picked")
        return deltas

    def apply(self, deltas: dict[str, pa.Table]) -> None:
        """The change to DuckDB's own tables."""
        for table, delta in deltas.items():
            self._apply(table, delta)

    def _pick_orders(self, counts: dict[str, int]) -> None:
        """Choose orders: to copy, to delete, to update, and to update in their lines only."""
        orders = counts.get("orders", counts.get("lineitem", 0) * SHARES["orders"] // SHARES["lineitem"])
        lines_of = round(counts.get("lineitem", 0) * 200 / 560 / LINES_PER_ORDER)
        parts = {"copy": orders * 50 // 200, "delete": orders * 40 // 200, "update": orders * 110 // 200}
        kinds = [kind for kind, count in {**parts, "lines": lines_of}.items() for _ in range(count)]
        source, key = ("orders", "o_orderkey") if "orders" in counts else ("lineitem", "l_orderkey")
        self._sample(f"SELECT DISTINCT {key} AS key FROM {source} WHERE {key} < {FIRST_FRESH_KEY}", kinds)
        self.database.execute("""
            CREATE OR REPLACE TEMP TABLE picked_orders AS
            SELECT o.rowid AS row, kind, fresh FROM orders o JOIN sampled ON o_orderkey = key WHERE kind <> 'lines'""")
        self.database.execute("""
            CREATE OR REPLACE TEMP TABLE picked_lineitem AS
            SELECT l.rowid AS row, CASE kind WHEN 'lines' THEN 'update' ELSE kind END AS kind, fresh
            FROM lineitem l JOIN sampled ON l_orderkey = key WHERE kind <> 'update'""")

    def _pick_rows(self, table: str, count: int) -> None:
        """Choose rows of a table: to copy, to delete, to update."""
        copies, deletes = count * 3 // 10, count * 2 // 10
        kinds = ["copy"] * copies + ["delete"] * deletes + ["update"] * (count - copies - deletes)
        self._sample(f"SELECT rowid AS key FROM {table} WHERE {KEYS[table][0]} < {FIRST_FRESH_KEY}", kinds)
        self.database.execute(
            "CREATE OR REPLACE TEMP TABLE picked AS SELECT key AS row, kind, fresh FROM sampled"
        )

    def _sample(self, keys: str, kinds: list[str]) -> None:
        """The temporary table `sampled`: some of the keys at random, what happens to each, a fresh key."""
        every = self.database.sql(keys).to_arrow_table()["key"].to_numpy()
        chosen = self.random.choice(every, len(kinds), replace=False)
        fresh = np.arange(self.next_fresh, self.next_fresh + len(kinds))
        self.next_fresh += len(kinds)
        self.database.register("incoming", pa.table({"key": chosen, "kind": kinds, "fresh": fresh}))
        self.database.execute("CREATE OR REPLACE TEMP TABLE sampled AS FROM incoming")
        self.database.unregister("incoming")

    def _delta(self, table: str, picked: str) -> pa.Table:
        """The rows of a change with their weights: an update is the old row out and the new row in."""
        rows = f"FROM {table} t JOIN {picked} p ON t.rowid = p.row"
        same = " AND ".join(f"o.{key} = n.{key}" for key in KEYS[table])
        return self.database.sql(f"""
            SELECT t.*, -1::BIGINT AS _weight {rows} WHERE kind IN ('delete', 'update')
            UNION ALL SELECT t.* REPLACE ({UPDATES[table]}), 1 {rows} WHERE kind = 'update'
            UNION ALL FROM (SELECT t.* REPLACE ({COPIES[table]}), 1 {rows} WHERE kind = 'copy') n
                WHERE NOT EXISTS (FROM {table} o WHERE {same})""").to_arrow_table()

    def _apply(self, table: str, delta: pa.Table) -> None:
        """The delta to DuckDB's table, by key."""
        self.database.register("delta", delta)
        same = " AND ".join(f"t.{key} = delta.{key}" for key in KEYS[table])
        self.database.execute(f"DELETE FROM {table} t USING delta WHERE {same} AND delta._weight < 0")
        self.database.execute(f"INSERT INTO {table} SELECT * EXCLUDE (_weight) FROM delta WHERE _weight > 0")
        self.database.unregister("delta")
