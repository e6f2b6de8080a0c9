"""The degree distribution: load and one-edge changes, against Pathway and against bare numpy."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from bench import pathway
from bench.measure import p50_ms, p99_ms, say, seconds
from bench.report import Figure, Section
from bench.sampling import where_the_time_goes
from bench.scale import SEED, Scale, Settings
from bench.sketch import DegreeSketch
from bench.state import arrow_bytes, figure, state_bytes
from penstock import Flow

QUERY = """
    SELECT degree, COUNT(*) AS nodes
    FROM (SELECT src, COUNT(*) AS degree FROM edges GROUP BY src) AS degrees
    GROUP BY degree"""
SCHEMA = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
CHANGES_PER_ROUND = 100
ISOLATED_PER_ROUND = 40
PAUSE_S = 0.01  # between changes that come one by one
SAMPLED_TICKS = 4_000


class Ours:
    """The flow, and one-edge changes to it."""

    def __init__(self, scale: Scale, edges: pa.Table) -> None:
        self.random = np.random.default_rng(SEED + 1)
        self.nodes = scale.nodes
        self.edges = scale.edges
        self.flow = Flow()
        self.flow.register_source("edges", SCHEMA, key=None)
        self.flow.register_view("distribution", QUERY)
        self.load_s = seconds(self.flow.tick, "edges", edges)

    def edge(self) -> pa.RecordBatch:
        self.edges += 1
        src, dst = self.random.integers(0, self.nodes, (2, 1))
        return pa.record_batch([pa.array(src), pa.array(dst)], schema=SCHEMA)

    def changes(self, count: int) -> list[float]:
        """Seconds of each tick of one edge."""
        edges = [self.edge() for _ in range(count)]
        return [seconds(self.flow.tick, "edges", edge) for edge in edges]

    def changes_delivered(self, count: int, pause_s: float) -> list[float]:
        """Seconds of each tick of one edge until a watch has handed out the change of the view.

        As in Pathway, the edge comes as Python values and the rows of the view come out as dicts.
        """
        found = []
        watch = self.flow.watch("distribution")
        deltas = iter(watch)
        self.edges += count
        for src, dst in self.random.integers(0, self.nodes, (count, 2)).tolist():
            if pause_s:  # even a sleep of 0 s is one: the processor is idle for a moment, and cold after it
                time.sleep(pause_s)
            began = time.perf_counter()
            self.flow.tick("edges", [{"src": src, "dst": dst}])
            rows = next(deltas).to_pylist()
            found.append(time.perf_counter() - began)
            assert rows
        watch.close()
        return found

    def wrong(self) -> tuple[str, ...]:
        """What is wrong with the distribution, if it does not count every edge that was loaded or added."""
        rows = self.flow.snapshot("distribution").to_pylist()
        counted = sum(row["degree"] * row["nodes"] for row in rows)
        return (
            () if counted == self.edges else (f"the distribution counts {counted} edges, not {self.edges}",)
        )


def measure(settings: Settings) -> Section:
    scale = settings.scale
    random = np.random.default_rng(SEED)
    src, dst = random.integers(0, scale.nodes, (2, scale.edges))
    edges = pa.table([src, dst], schema=SCHEMA)
    say(f"degree distribution: loading {scale.edges:,} edges")
    ours = Ours(scale, edges)
    say(f"degree distribution: loaded in {ours.load_s:.2f} s")
    held = edges.nbytes + arrow_bytes(ours.flow, "distribution")
    memory = figure("bytes of state: degree distribution", state_bytes(ours.flow), held, scale.edges)
    figures = [
        *against_pathway(ours, edges, settings),
        against_sketch(ours, src, scale),
        memory,
    ]
    wrong = ours.wrong()
    say("degree distribution: where the time of a one-row tick goes")
    prepared = [ours.edge() for _ in range(SAMPLED_TICKS)]
    profile = where_the_time_goes(lambda i: ours.flow.tick("edges", prepared[i]), SAMPLED_TICKS)
    ours.flow.close()
    return Section(tuple(figures), profile, wrong)


def against_sketch(ours: Ours, src: np.ndarray, scale: Scale) -> Figure:
    """One-edge ticks and the same in bare numpy, in turns."""
    say("degree distribution: one-edge changes, in turns with the numpy sketch")
    sketch = DegreeSketch()
    sketch.step(src)
    our_s: list[float] = []
    sketch_s: list[float] = []
    for _ in range(4 * scale.rounds):
        our_s += ours.changes(CHANGES_PER_ROUND)
        nodes = ours.random.integers(0, scale.nodes, (CHANGES_PER_ROUND, 1))
        sketch_s += [seconds(sketch.step, node) for node in nodes]
    our_ms, sketch_ms = p50_ms(our_s), p50_ms(sketch_s)
    say(f"degree distribution: p99 {p99_ms(our_s):.3f} ms, sketch {p99_ms(sketch_s):.3f} ms")
    ratio = our_ms / sketch_ms
    return Figure("one edge changes: a tick, p50", "bare numpy", our_ms, sketch_ms, "ms", ratio, at_most=3)


def against_pathway(ours: Ours, edges: pa.Table, settings: Settings) -> list[Figure]:
    """The load, and one-edge changes in turns: alone (10 ms apart) and one right after the other."""
    scale, python = settings.scale, settings.pathway_python
    if python is None:
        say("degree distribution: no Pathway here, its lines are left out")
        return []
    files = write_json_lines(edges, settings.folder / f"edges-{scale.edges}")
    say("degree distribution: Pathway loads the same edges")
    peer_load_s = min(pathway.load_s(python, files, scale.edges, threads=2) for _ in range(2))
    say(f"degree distribution: Pathway loaded in {peer_load_s:.2f} s; now one-edge changes in turns")
    apart: tuple[list[float], list[float]] = ([], [])
    close: tuple[list[float], list[float]] = ([], [])
    with pathway.PathwayChanges(python, files, scale.edges, scale.nodes) as theirs:
        for _ in range(scale.rounds):
            apart[0].extend(ours.changes_delivered(ISOLATED_PER_ROUND, PAUSE_S))
            apart[1].extend(theirs.changes(ISOLATED_PER_ROUND, PAUSE_S))
            close[0].extend(ours.changes_delivered(CHANGES_PER_ROUND, 0))
            close[1].extend(theirs.changes(CHANGES_PER_ROUND, 0))
    rate, peer_rate = scale.edges / ours.load_s, scale.edges / peer_load_s
    found = [
        Figure(
            "degree distribution: load", "Pathway", rate, peer_rate, "rows/s", rate / peer_rate, at_least=3
        )
    ]
    for name, (our_s, peer_s) in {"10 ms apart": apart, "back to back": close}.items():
        our_ms, peer_ms = p50_ms(our_s), p50_ms(peer_s)
        say(f"degree distribution: {name}: p99 {p99_ms(our_s):.3f} ms, Pathway {p99_ms(peer_s):.3f} ms")
        title = f"one edge changes, {name}, p50"
        found.append(Figure(title, "Pathway", our_ms, peer_ms, "ms", our_ms / peer_ms, at_most=0.25))
    return found


def write_json_lines(edges: pa.Table, folder: Path) -> Path:
    """The edges as one file of JSON lines, which is what Pathway reads fastest."""
    folder.mkdir(parents=True, exist_ok=True)
    database = duckdb.connect(":memory:")
    database.register("edges", edges)
    database.execute(f"COPY (FROM edges) TO '{folder}/edges.jsonl' (FORMAT json)")
    return folder
