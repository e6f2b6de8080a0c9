"""TPC-H: a tick of 1,000 changed rows for each of the 22 queries, against DuckDB's recomputation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measure import p50_ms, say, seconds
from bench.report import Figure, Section
from bench.scale import CHANGED_ROWS, SEED, Scale
from bench.tpch_data import Data, make_files, tables_of
from penstock import Flow

SPECIFICATION = Path(__file__).parent.parent / "tests" / "tpch"
WARM_UP_TICKS = 1
RECOMPUTES_PER_TICK = 2
SIGNIFICANT_DIGITS = 9


def measure(scale: Scale, folder: Path, pathway_python: str | None) -> Section:
    say(f"TPC-H: making the data, scale factor {scale.tpch_factor:g}")
    schema = (SPECIFICATION / "schema.sql").read_text()
    data = Data(make_files(scale.tpch_factor, folder), schema, SEED)
    statements = {table: text for text in schema.split(";") for table in tables_of(text.split("(")[0])}
    ours_ms: dict[str, float] = {}
    peer_ms: dict[str, float] = {}
    for file in sorted((SPECIFICATION / "queries").glob("q*.sql")):
        query = file.read_text().strip().rstrip(";")
        ours_ms[file.stem], peer_ms[file.stem] = measure_query(data, statements, query, scale)
        ratio = peer_ms[file.stem] / ours_ms[file.stem]
        say(
            f"TPC-H: {file.stem}: {ours_ms[file.stem]:.2f} ms, DuckDB {peer_ms[file.stem]:.1f} ms, {ratio:.1f}x faster"
        )
    ratios = {name: peer_ms[name] / ours_ms[name] for name in ours_ms}
    return Section(figures(ours_ms, peer_ms, ratios, scale), details(ours_ms, peer_ms, ratios))


def measure_query(data: Data, statements: dict[str, str], query: str, scale: Scale) -> tuple[float, float]:
    """Milliseconds of a tick and of a recomputation, the median of several, taken in turns."""
    tables = tables_of(query)
    ours: list[float] = []
    theirs: list[float] = []
    with Flow() as flow:
        for table in tables:
            flow.sql(statements[table])
        flow.sql(f"CREATE MATERIALIZED VIEW answer AS {query}")
        for table in tables:
            flow.tick(table, data.arrow(table))
        for number in range(WARM_UP_TICKS + scale.tpch_ticks):
            changes = data.change(tables, CHANGED_ROWS)
            our_s = seconds(flow.tick, changes)
            their_s = [seconds(recompute, data, query) for _ in range(RECOMPUTES_PER_TICK)]
            if number >= WARM_UP_TICKS:
                ours.append(our_s)
                theirs += their_s
        if comparable(flow.snapshot("answer")) != comparable(recompute(data, query)):
            raise AssertionError(f"the view is not what DuckDB answers:\n{query}")
    return p50_ms(ours), p50_ms(theirs)


def recompute(data: Data, query: str) -> pa.Table:
    return data.database.sql(query).to_arrow_table()


def comparable(table: pa.Table) -> list[str]:
    """The rows in a fixed order, floats to nine digits."""
    columns = [[_shown(value) for value in column.to_pylist()] for column in table.columns]
    return sorted(map(repr, zip(*columns, strict=True)))


def _shown(value: object) -> str:
    return f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else str(value)


def figures(
    ours: dict[str, float], peer: dict[str, float], ratios: dict[str, float], scale: Scale
) -> tuple[Figure, ...]:
    """The slowest of the 22 and their median."""
    slowest = min(ratios, key=ratios.__getitem__)
    title = f"TPC-H, {CHANGED_ROWS:,} changed rows"
    middle = float(np.median(list(ratios.values())))
    our_middle, peer_middle = (float(np.median(list(times.values()))) for times in (ours, peer))
    worst = Figure(
        f"{title}: least gain ({slowest})", "DuckDB recompute", ours[slowest], peer[slowest], "ms",
        ratios[slowest], at_least=1,
    )  # fmt: skip
    median = Figure(
        f"{title}: median gain of {len(ratios)}", "DuckDB recompute", our_middle, peer_middle, "ms", middle,
        at_least=10,
    )  # fmt: skip
    return (worst, median)


def details(ours: dict[str, float], peer: dict[str, float], ratios: dict[str, float]) -> str:
    lines = [f"TPC-H, a tick of {CHANGED_ROWS:,} changed rows against recomputing (times faster):", ""]
    for name in ours:
        bar = "#" * min(40, round(ratios[name]))
        lines.append(f"  {name}  {ours[name]:8.2f} ms  {peer[name]:8.1f} ms  {ratios[name]:7.1f}x  {bar}")
    return "\n".join(lines) + "\n"
