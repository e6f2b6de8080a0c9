"""How large the measurements are: the scale that the targets are for, and a small one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scale:
    """Sizes of one run."""

    name: str
    nodes: int
    edges: int
    tpch_factor: float
    tpch_ticks: int
    growth_rows: tuple[int, ...]
    shared_rows: int
    rounds: int  # turns that we and a peer take in a measurement of latency


FULL = Scale("full", 1_000_000, 10_000_000, 1, 7, (10_000, 1_000_000, 10_000_000), 1_000_000, 8)
SMALL = Scale("small", 10_000, 100_000, 0.05, 3, (10_000, 100_000, 1_000_000), 50_000, 4)


@dataclass(frozen=True)
class Settings:
    """What a section of the benchmark is told."""

    scale: Scale
    folder: Path  # for data that can be used again, and for results
    pathway_python: str | None  # the Python of an environment that has Pathway, if there is one
    queries: frozenset[int]  # of TPC-H


CHANGED_ROWS = 1_000  # of a TPC-H change
SEED = 7
