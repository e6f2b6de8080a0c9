"""The delta paths of a join: for each input, the order in which the others are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.circuit.estimate import Estimator
from penstock.plan.expr import Call, Col, Expr, columns_of
from penstock.plan.nodes import MultiJoin
from penstock.zset.types import BOOLEAN


@dataclass(frozen=True)
class PathStep:
    """Look up one part. Positions are in the join's concatenated columns unless said otherwise."""

    part: int
    key: tuple[int, ...]  # columns of the part
    not_null: tuple[int, ...]  # those of them that NULL does not match
    probe: tuple[int, ...]  # the positions that each is equal to
    sees_new: bool
    filters: tuple[Expr, ...]  # that can be checked after this step


@dataclass(frozen=True)
class Path:
    start: int
    offsets: tuple[int, ...]  # where each part's columns begin
    steps: tuple[PathStep, ...]


def plan_paths(join: MultiJoin, estimator: Estimator) -> list[Path]:
    """One path for each part.

    A path sees the epoch's new rows of the parts before it in a fixed ranking, and the old rows of those
    after it. The largest part ranks last: when a view is filled, only the last path finds anything,
    so it is the one from the largest part into the smaller ones.
    """
    offsets = []
    total = 0
    for part in join.parts:
        offsets.append(total)
        total += len(part.schema.types)
    rows = [estimator.rows(part) for part in join.parts]
    ranking = sorted(range(len(join.parts)), key=lambda i: (rows[i], i))
    rank = {part: i for i, part in enumerate(ranking)}
    return [_path(join, start, tuple(offsets), rank, estimator) for start in range(len(join.parts))]


def _path(
    join: MultiJoin, start: int, offsets: tuple[int, ...], rank: dict[int, int], estimator: Estimator
) -> Path:
    part_of = [i for i, part in enumerate(join.parts) for _ in part.schema.types]
    bound = {start}
    order: list[int] = []
    while len(bound) < len(join.parts):
        chosen = _next_part(join, bound, part_of, offsets, estimator)
        order.append(chosen)
        bound.add(chosen)
    steps: list[PathStep] = []
    bound = {start}
    waiting = list(join.filters)
    for part in order:
        keys = _keys(join, bound, part, part_of, offsets)
        surplus = _surplus(join, bound, part, part_of, keys, offsets)
        bound = bound | {part}
        ready = surplus + [f for f in waiting if {part_of[c] for c in columns_of(f)} <= bound]
        waiting = [f for f in waiting if f not in ready]
        steps.append(
            PathStep(
                part,
                tuple(k for k, _, _ in keys),
                tuple(k for k, _, null_safe in keys if not null_safe),
                tuple(position for _, position, _ in keys),
                rank[part] < rank[start],
                tuple(ready),
            )
        )
    return Path(start, offsets, tuple(steps))


def _next_part(
    join: MultiJoin, bound: set[int], part_of: Sequence[int], offsets: Sequence[int], estimator: Estimator
) -> int:
    """The part to look up next: the one that is expected to multiply the rows least."""

    def cost(part: int) -> tuple[float, float, int]:
        columns = [k for k, _, _ in _keys(join, bound, part, part_of, offsets)]
        plan = join.parts[part]
        return estimator.matches(plan, columns), estimator.rows(plan), part

    return min((i for i in range(len(join.parts)) if i not in bound), key=cost)


def _keys(
    join: MultiJoin, bound: set[int], part: int, part_of: Sequence[int], offsets: Sequence[int]
) -> list[tuple[int, int, bool]]:
    """(column of the part, position it equals, null-safe), sorted so that equal keys are equal tuples."""
    found: dict[int, tuple[int, int, bool]] = {}
    for a, b, null_safe in join.equalities:
        for mine, theirs in ((a, b), (b, a)):
            if part_of[mine] == part and part_of[theirs] in bound:
                column = mine - offsets[part]
                found.setdefault(column, (column, theirs, null_safe))
    return [found[c] for c in sorted(found)]


def _surplus(
    join: MultiJoin,
    bound: set[int],
    part: int,
    part_of: Sequence[int],
    keys: Sequence[tuple[int, int, bool]],
    offsets: Sequence[int],
) -> list[Expr]:
    """Equalities that the key does not say, as filters: a column that must equal two others is in the key
    with one of them, and nothing else makes sure of the second."""
    said = {(offsets[part] + column, position, null_safe) for column, position, null_safe in keys}
    types = join.schema.types
    found: list[Expr] = []
    for a, b, null_safe in join.equalities:
        for mine, theirs in ((a, b), (b, a)):
            is_here = part_of[mine] == part and part_of[theirs] in bound
            if is_here and (mine, theirs, null_safe) not in said:
                name = "is_not_distinct" if null_safe else "="
                found.append(Call(BOOLEAN, name, (Col(types[mine], mine), Col(types[theirs], theirs))))
    return found
