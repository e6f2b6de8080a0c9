"""The TPC-H tables as Arrow, from tpchgen-cli, with the types of schema.sql."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")
KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "customer": ("c_custkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
_INTEGERS = {  # the generator writes some of these as 64 bits
    "r_regionkey", "n_nationkey", "n_regionkey", "s_nationkey", "c_nationkey", "p_size", "ps_availqty",
    "o_shippriority", "l_linenumber",
}  # fmt: skip


def generate(scale: float, folder: Path) -> dict[str, pa.Table]:
    """The eight tables at a scale factor; the files stay in the folder and are not made twice."""
    if not (folder / "lineitem.parquet").exists():
        beside = Path(sys.executable).with_name("tpchgen-cli")
        command = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
        assert command, "tpchgen-cli is not installed"
        arguments = [
            command,
            "parquet",
            "--scale-factor",
            str(scale),
            "--output-dir",
            str(folder),
            "--overwrite",
        ]
        subprocess.run(arguments, check=True, capture_output=True)
    return {table: _typed(pq.read_table(folder / f"{table}.parquet")) for table in TABLES}


def _typed(table: pa.Table) -> pa.Table:
    fields = []
    for field in table.schema:
        kind = field.type
        if field.name in _INTEGERS:
            kind = pa.int32()
        elif pa.types.is_string_view(kind) or pa.types.is_dictionary(kind):
            kind = pa.string()
        fields.append(pa.field(field.name, kind))
    return table.cast(pa.schema(fields)).combine_chunks()


def statements() -> list[str]:
    """The CREATE TABLE statements of schema.sql."""
    return [s.strip() for s in (HERE / "schema.sql").read_text().split(";") if s.strip()]


def queries() -> dict[str, str]:
    """The 22 queries by name: q01 to q22."""
    return {path.stem: path.read_text().strip() for path in sorted((HERE / "queries").glob("q*.sql"))}
