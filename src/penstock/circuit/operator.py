"""What an operator is: deltas in, a delta out, state as an argument.

An operator keeps nothing between steps. It reads arrangements as they were before the epoch, and
returns the batches to append to those that it owns: the executor appends them when the whole epoch
has succeeded. So an epoch that fails leaves no trace, and the same operator runs on the whole state
in this process or on a range of hashes in a Spark task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout
from penstock.zset.zset import ZSet

Delta: TypeAlias = ZSet | Batch | None
Route: TypeAlias = tuple[int, ...] | None  # None, or none given: a row may stay where it is
Result: TypeAlias = tuple[Delta, Sequence[Batch | None]]


class Operator(Protocol):
    """One incremental operator."""

    @property
    def name(self) -> str: ...

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Of the arrangements that it owns."""
        ...

    @property
    def routes(self) -> tuple[Route, ...]:
        """For each input the columns whose hash says where a row must be: an exchange."""
        ...

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        """The output's change for the inputs' changes; `state`: owned arrangements, then those read."""
        ...

    def seed(self) -> ZSet | None:
        """What the operator gives for empty inputs (a global aggregate has a row even then)."""
        ...

    def law(self) -> str:
        """The merge law of its state with its version, or the reason for having none, from laws.py."""
        ...


class Stateless:
    """What operators without state have in common."""

    layouts: tuple[Layout, ...] = ()
    routes: tuple[Route, ...] = ()

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return "stateless"
