"""TPC-H: a tick of 1,000 changed rows for each of the 22 queries, against DuckDB's recomputation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measure import p50_ms, say, seconds
from bench.report import Figure, Section
from bench.scale import CHANGED_ROWS, SEED, Scale, Settings
from bench.tpch_data import Data, make_files, tables_of
from penstock import Flow

SPECIFICATION = Path(__file__).parent.parent / "tests" / "tpch"
WARM_UP_TICKS = 1
RECOMPUTES_PER_TICK = 2
SIGNIFICANT_DIGITS = 9


@dataclass(frozen=True)
class Query:
    """What was measured for one query, in milliseconds, and whether the view was right in the end.

    `tables_ms` is a tick of the same size after the view has been dropped: what the tables alone cost.
    """

    name: str
    tick_ms: float
    tables_ms: float
    recompute_ms: float
    right: bool

    @property
    def times_faster(self) -> float:
        """The whole tick, tables and view, against DuckDB's recomputation alone."""
        return self.recompute_ms / self.tick_ms

    def __str__(self) -> str:
        ours = f"tick {self.tick_ms:6.1f} ms (tables alone {self.tables_ms:6.1f})"
        gain = f"DuckDB recompute {self.recompute_ms:6.1f} ms  {self.times_faster:6.1f}x"
        return f"{self.name}  {ours}  {gain}" + ("" if self.right else "  WRONG")


def measure(settings: Settings) -> Section:
    scale = settings.scale
    say(f"TPC-H: making the data, scale factor {scale.tpch_factor:g}")
    schema = (SPECIFICATION / "schema.sql").read_text()
    data = Data(make_files(scale.tpch_factor, settings.folder), schema, SEED)
    statements = {table: text for text in schema.split(";") for table in tables_of(text.split("(")[0])}
    queries = []
    for file in sorted((SPECIFICATION / "queries").glob("q*.sql")):
        if int(file.stem[1:]) not in settings.queries:
            continue
        query = file.read_text().strip().rstrip(";")
        queries.append(measure_query(data, statements, file.stem, query, scale))
        say(f"TPC-H: {queries[-1]}")
    text = "\n".join(f"  {query}" for query in queries)
    title = f"TPC-H, a tick of {CHANGED_ROWS:,} changed rows against recomputing it all:"
    wrong = tuple(f"TPC-H {query.name} is not what DuckDB answers" for query in queries if not query.right)
    return Section(figures(queries), f"{title}\n\n{text}\n", wrong)


def measure_query(data: Data, statements: dict[str, str], name: str, query: str, scale: Scale) -> Query:
    """Ticks and recomputations, the median of several, taken in turns."""
    tables = tables_of(query)
    times: dict[str, list[float]] = {"tick": [], "tables": [], "recompute": []}
    with Flow() as flow:
        for table in tables:
            flow.sql(statements[table])
            flow.tick(table, data.arrow(table))
        flow.sql(f"CREATE MATERIALIZED VIEW answer AS {query}")
        for number in range(WARM_UP_TICKS + scale.tpch_ticks):
            changes = data.change(tables, CHANGED_ROWS)
            tick_s = seconds(flow.tick, changes)
            data.apply(changes)
            recompute_s = [seconds(recompute, data, query) for _ in range(RECOMPUTES_PER_TICK)]
            if number >= WARM_UP_TICKS:
                times["tick"].append(tick_s)
                times["recompute"] += recompute_s
        right = comparable(flow.snapshot("answer")) == comparable(recompute(data, query))
        flow.sql("DROP MATERIALIZED VIEW answer")
        for _ in range(scale.tpch_ticks):
            changes = data.change(tables, CHANGED_ROWS)
            times["tables"].append(seconds(flow.tick, changes))
            data.apply(changes)
    medians = {kind: p50_ms(values) for kind, values in times.items()}
    return Query(name, medians["tick"], medians["tables"], medians["recompute"], right)


def recompute(data: Data, query: str) -> pa.Table:
    return data.database.sql(query).to_arrow_table()


def comparable(table: pa.Table) -> list[str]:
    """The rows in a fixed order, floats to nine digits."""
    columns = [[_shown(value) for value in column.to_pylist()] for column in table.columns]
    return sorted(map(repr, zip(*columns, strict=True)))


def _shown(value: object) -> str:
    return f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else str(value)


def figures(queries: list[Query]) -> tuple[Figure, ...]:
    """The query that gains least, and the median of all."""
    title = f"TPC-H, {CHANGED_ROWS:,} changed rows"
    peer = "DuckDB recompute"
    least = min(queries, key=lambda query: query.times_faster)
    ours, theirs, gain = (
        float(np.median([getattr(query, field) for query in queries]))
        for field in ("tick_ms", "recompute_ms", "times_faster")
    )
    return (
        Figure(
            f"{title}: least gain ({least.name})", peer, least.tick_ms, least.recompute_ms, "ms",
            least.times_faster, at_least=1,
        ),
        Figure(f"{title}: median gain of {len(queries)}", peer, ours, theirs, "ms", gain, at_least=10),
    )  # fmt: skip
