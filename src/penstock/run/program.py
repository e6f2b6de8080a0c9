"""A program: what the tasks of one epoch are told, as data that any process can read.

It has the steps of the circuit that a change can reach, cut into waves at the exchanges; the edges over
which deltas go from wave to wave; and for each piece of state its batches: names of files, or the rows
themselves where they are few. Everybody runs the same program, each on a range of hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from penstock.circuit.codec import make_operator
from penstock.circuit.operator import Operator, Recipe
from penstock.run.ranges import Ranges
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout
from penstock.state.batch_file import FileRef
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class Edge:
    """A node's delta on its way to a later wave: by the hash of these columns, or within its partition."""

    producer: int
    wave: int
    columns: tuple[int, ...] | None
    types: tuple[SqlType, ...]
    layout: Layout | None = None  # of the batches that it carries, where it carries batches
    combine: int | None = None  # the node whose partial measures cross it instead of rows
    consolidate: bool = False  # equal rows cross it as one
    spread: bool = False  # rows of a key that many have may go anywhere: see run/hot_keys.py


@dataclass(frozen=True)
class Step:
    """A node to run. Inputs come over edges, or (None) from a node of the same wave."""

    node: int
    recipe: Recipe
    wave: int
    inputs: tuple[int, ...]
    edges: tuple[int | None, ...]
    state: tuple[str, ...]  # the pieces that it reads: its own, then others'
    owned: tuple[str, ...]  # those that it appends to; none where it only works something out again
    whole: bool = False  # it wants all rows in one place, and sees all state there
    first: bool = False  # it begins: its state is empty, and its seed is part of what it gives
    label: str = ""


@dataclass(frozen=True)
class Stored:
    """A node that gives everything a piece of state holds."""

    node: int
    slot: str
    arranged: bool  # as a batch, and not as rows


class Source(Protocol):
    """A table whose rows come from elsewhere, not yet checked. See `engine.frames`."""

    @property
    def node(self) -> int: ...

    @property
    def key_node(self) -> int | None: ...

    @property
    def edge(self) -> int: ...

    @property
    def slot(self) -> str: ...

    @property
    def rows_at_once(self) -> int: ...

    @property
    def needs_state(self) -> bool:
        """Whether rows are checked against the table's: then each has to come to the partition of its hash."""
        ...

    def rows(self, data: pa.Table) -> ZSet:
        """What was given, as rows of the table."""
        ...

    def accept(self, rows: ZSet, state: Arrangement) -> tuple[ZSet, Batch]:
        """The checked delta, and the same arranged as the table's state is."""
        ...


@dataclass(frozen=True)
class Program:
    """The tasks of one epoch. `outputs` are the nodes whose rows are wanted, and how those are called."""

    ranges: Ranges
    steps: tuple[Step, ...]
    edges: tuple[Edge, ...]
    state: Mapping[str, tuple[FileRef | bytes, ...]]
    layouts: Mapping[str, Layout]
    outputs: Mapping[int, str]
    stored: tuple[Stored, ...] = ()
    sources: tuple[Source, ...] = ()
    given: tuple[tuple[int, int], ...] = ()  # nodes whose delta is sent, and over which edge
    merges: tuple[str, ...] = ()  # pieces of state to put together
    types: Mapping[str, tuple[SqlType, ...]] = field(default_factory=dict)  # of the outputs

    @property
    def begins_with_rows(self) -> bool:
        """Whether nothing before the first exchange reads state: then that is done wherever the rows are.

        Tasks that read rows have them in pieces and in an order that may be another one the next time. So what is
        dealt out by how many rows of a piece have a key is not sent off by them."""
        if self.stored or self.merges or any(source.needs_state for source in self.sources):
            return False
        return not (self.sources and any(e.spread and not self._waves.get(e.producer) for e in self.edges))

    @cached_property
    def _waves(self) -> dict[int, int]:
        return {step.node: step.wave for step in self.steps}

    @cached_property
    def last_wave(self) -> int:
        return max([0, *(s.wave for s in self.steps), *(e.wave for e in self.edges)])

    @cached_property
    def operators(self) -> dict[int, Operator]:
        """The operators, made when they are first needed: once in a process that runs many tasks."""
        return {step.node: make_operator(step.recipe) for step in self.steps}

    @cached_property
    def sent(self) -> dict[int, list[int]]:
        """For each node the edges that its delta goes over."""
        found: dict[int, list[int]] = {}
        for number, edge in enumerate(self.edges):
            found.setdefault(edge.producer, []).append(number)
        return found

    def __getstate__(self) -> dict[str, object]:
        """What was given: operators, once made, are functions of this process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def steps_of(self, wave: int) -> Sequence[Step]:
        return [step for step in self.steps if step.wave == wave]
