"""What an operator is: deltas in, a delta out, state as an argument.

An operator keeps nothing between steps. It reads arrangements as they were before the epoch, and
returns the batches to append to those that it owns: the executor appends them when the whole epoch
has succeeded. So an epoch that fails leaves no trace, and the same operator runs on the whole state
in this process or on a range of hashes in a Spark task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout
from penstock.zset.zset import ZSet

Delta: TypeAlias = ZSet | Batch | None
Route: TypeAlias = tuple[int, ...] | None  # None, or none given: a row may stay where it is
Result: TypeAlias = tuple[Delta, Sequence[Batch | None]]


class Recipe(NamedTuple):
    """What an operator was made of: enough to make the same one in another process."""

    name: str  # of the class
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Operator(Protocol):
    """One incremental operator."""

    @property
    def recipe(self) -> Recipe: ...

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

    def passes_on(self, width: int) -> bool:
        """Whether it gives what it is given, if that has so many columns: then there is no step to take."""
        ...

    def seed(self) -> ZSet | None:
        """What the operator gives for empty inputs (a global aggregate has a row even then)."""
        ...

    def law(self) -> str:
        """The merge law of its state with its version, or the reason for having none, from laws.py."""
        ...


class Recorded:
    """What all operators have in common: each keeps the arguments that it was made with.

    >>> class Twice(Recorded):
    ...     def __init__(self, columns, by=2):
    ...         pass
    >>> Twice([1, 2], by=3).recipe
    Recipe(name='Twice', args=((1, 2),), kwargs={'by': 3})
    """

    recipe: Recipe

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self.recipe = Recipe(cls.__name__, _fixed(args), {k: _fixed(v) for k, v in kwargs.items()})
        return self

    def passes_on(self, width: int) -> bool:
        return False


def _fixed(value: Any) -> Any:
    """Lists as tuples: what the caller does with a list afterwards must not change the recipe."""
    return tuple([_fixed(v) for v in value]) if isinstance(value, (list, tuple)) else value


class Stateless(Recorded):
    """What operators without state have in common."""

    layouts: tuple[Layout, ...] = ()
    routes: tuple[Route, ...] = ()

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return "stateless"
