"""From a plan to circuit nodes: one place that knows which operator maintains which plan node.

Nodes are shared: equal plans are one node, equal arrangements are one arrangement, within a view
and among views. A build adds nothing to the circuit: it returns the new nodes, and the registry is
updated when the view has been filled without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.base.errors import NotMaintainable
from penstock.circuit.build_join import Path, PathStep, plan_paths
from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.estimate import Estimator
from penstock.circuit.operator import Operator
from penstock.circuit.operators.aggregate import EXTREMES, Aggregate, AggregateInput
from penstock.circuit.operators.arrange import Arrange
from penstock.circuit.operators.constant import Constant
from penstock.circuit.operators.filter import Filter
from penstock.circuit.operators.look_up import LookUp
from penstock.circuit.operators.map import Map
from penstock.circuit.operators.match_join import MatchJoin
from penstock.circuit.operators.multiplicity import Multiplicity
from penstock.circuit.operators.not_in_join import NotInJoin
from penstock.circuit.operators.presence_join import PresenceJoin
from penstock.circuit.operators.threshold_join import ThresholdJoin
from penstock.circuit.operators.top_k import TopK
from penstock.circuit.operators.union import Union
from penstock.evaluate.render import readable
from penstock.evaluate.spoken_names import SpokenNames
from penstock.plan import nodes as p
from penstock.plan.expr import Call, Col, Const, Expr, columns_of, rewrite_columns
from penstock.plan.show import text
from penstock.plan.thresholds import threshold
from penstock.state.arrangement import Arrangement
from penstock.zset.types import BOOLEAN, SqlType


@dataclass(frozen=True)
class ArrangementKey:
    """What makes two arrangements the same: the input, the key, and where NULLs are left out.

    For a bare table `plan` is None and the columns are the table's, so that views which need other
    columns of the table by the same key share (and widen) one arrangement."""

    source: int
    key: tuple[int, ...]
    not_null: tuple[int, ...]
    plan: p.Node | None = None


@dataclass
class Registry:
    """Which plans and arrangements the circuit has already."""

    plans: dict[object, int] = field(default_factory=dict)
    arrangements: dict[ArrangementKey, int] = field(default_factory=dict)
    columns: dict[int, list[int]] = field(default_factory=dict)  # table columns of a table's arrangement

    def copy(self) -> Registry:
        return Registry(
            dict(self.plans), dict(self.arrangements), {k: list(v) for k, v in self.columns.items()}
        )

    def forget(self, ids: set[int]) -> None:
        self.plans = {k: v for k, v in self.plans.items() if v not in ids}
        self.arrangements = {k: v for k, v in self.arrangements.items() if v not in ids}
        self.columns = {k: v for k, v in self.columns.items() if k not in ids}


@dataclass(frozen=True)
class Source:
    """A table or materialized view that plans scan."""

    node: int
    types: tuple[SqlType, ...]
    names: tuple[str, ...]


class Builder:
    """Builds one view."""

    def __init__(
        self, circuit: Circuit, registry: Registry, sources: Callable[[str], Source], estimator: Estimator
    ) -> None:
        self._circuit = circuit
        self._estimator = estimator
        self._sources = sources
        self.registry = registry.copy()
        self.new: dict[int, CircuitNode] = {}
        self.widened: dict[int, CircuitNode] = {}
        self._spoken = SpokenNames()

    # -- nodes -----------------------------------------------------------------------------

    def node(self, id: int) -> CircuitNode:
        return self.new.get(id) or self.widened.get(id) or self._circuit.nodes[id]

    def _add(
        self,
        operator: Operator,
        inputs: Sequence[int],
        reads: Sequence[int],
        types: Sequence[SqlType],
        names: Sequence[str],
        label: str,
    ) -> int:
        id = self._circuit.reserve()
        owned = [
            Arrangement(f"{operator.name}_{id}" + (f".{i}" if i else ""), x)
            for i, x in enumerate(operator.layouts)
        ]
        self.new[id] = CircuitNode(
            id, operator, tuple(inputs), tuple(reads), tuple(types), tuple(names), label, owned
        )
        return id

    def _shared(self, key: object, make: Callable[[], int]) -> int:
        found = self.registry.plans.get(key)
        if found is None:
            found = self.registry.plans[key] = make()
        return found

    def build(self, plan: p.Node) -> int:
        """The number of the node that maintains this plan."""
        return self._shared(plan, lambda: self._make(plan))

    def _make(self, plan: p.Node) -> int:
        for kind, method in _METHODS:
            if isinstance(plan, kind):
                return method(self, plan)
        raise NotMaintainable(f"{type(plan).__name__} cannot be maintained incrementally yet")

    def _of(
        self, plan: p.Node, operator: Operator, inputs: Sequence[int], reads: Sequence[int], label: str
    ) -> int:
        return self._add(operator, inputs, reads, plan.schema.types, plan.schema.names, label)

    # -- plan nodes ------------------------------------------------------------------------

    def _scan(self, plan: p.Scan) -> int:
        source = self._sources(plan.table)
        if plan.columns == tuple(range(len(source.types))):
            return source.node
        exprs = [Col(source.types[c], c) for c in plan.columns]
        return self._of(
            plan, Map(exprs, source.names), [source.node], [], f"{plan.table}: {', '.join(plan.names)}"
        )

    def _values(self, plan: p.Values) -> int:
        return self._of(plan, Constant(plan.types, plan.rows), [], [], f"{len(plan.rows)} rows")

    def _project(self, plan: p.Project) -> int:
        operator = Map(plan.exprs, self._spoken.of(plan.input))
        return self._of(plan, operator, [self.build(plan.input)], [], ", ".join(text(e) for e in plan.exprs))

    def _filter(self, plan: p.Filter) -> int:
        operator = Filter(plan.predicate, self._spoken.of(plan.input))
        return self._of(plan, operator, [self.build(plan.input)], [], text(plan.predicate))

    def _union(self, plan: p.Union) -> int:
        return self._of(plan, Union(), [self.build(x) for x in plan.parts], [], "all")

    def _distinct(self, plan: p.Distinct) -> int:
        # Those that are not nested are in normal form here (plan/rules/group_intervals.py).
        _refuse_intervals(
            "DISTINCT (or UNION)", [type for type in plan.schema.types if type.id != "INTERVAL"]
        )
        operator = Multiplicity("distinct", plan.schema.types, 1)
        return self._of(plan, operator, [self.build(plan.input)], [], "")

    def _set_op(self, plan: p.SetOp) -> int:
        name = plan.kind + (" all" if plan.all else "")
        _refuse_intervals(name.upper(), plan.schema.types)
        operator = Multiplicity(name, plan.schema.types, 2)
        return self._of(plan, operator, [self.build(plan.left), self.build(plan.right)], [], "")

    def _top_k(self, plan: p.TopK) -> int:
        operator = TopK(plan.schema.types, plan.order, plan.limit, plan.offset)
        order = ", ".join(f"#{k.column}{' desc' if k.descending else ''}" for k in plan.order) or "whole row"
        label = f"limit {plan.limit} offset {plan.offset} by {order}"
        return self._of(plan, operator, [self.build(plan.input)], [], label)

    def _aggregate(self, plan: p.Aggregate) -> int:
        types = plan.input.schema.types
        names, spoken = plan.input.schema.names, self._spoken.of(plan.input)
        inputs, keys, all_names = [self.build(plan.input)], [plan.keys], [spoken]
        branches: dict[tuple[Expr, Expr | None], int] = {}
        aggs = []
        for agg in plan.aggs:
            if not agg.distinct or agg.name in EXTREMES:
                aggs.append(AggregateInput(agg, agg.arg, agg.filter, 0))
                continue
            assert agg.arg is not None
            place = branches.get((agg.arg, agg.filter))
            if place is None:
                place = branches[agg.arg, agg.filter] = len(inputs)
                inputs.append(self.build(_distinct_branch(plan, agg)))
                keys.append(tuple(range(len(plan.keys))))
                all_names.append((*(spoken[k] for k in plan.keys), "value"))
            aggs.append(AggregateInput(agg, Col(agg.arg.type, len(plan.keys)), None, place))
        operator = Aggregate([types[k] for k in plan.keys], keys, aggs, all_names)
        shown = [
            f"{a.name}({'distinct ' if a.distinct else ''}{text(a.arg) if a.arg else '*'})" for a in plan.aggs
        ]
        by = ", ".join(names[k] for k in plan.keys) or "()"
        return self._of(plan, operator, inputs, [], f"{', '.join(shown)} by {by}")

    # -- joins -----------------------------------------------------------------------------

    def arrange(self, plan: p.Node, key: Sequence[int], not_null: Sequence[int]) -> tuple[int, list[int]]:
        """An arrangement of a plan by these columns: its node, and where each column stands in it."""
        width = len(plan.schema.types)
        if isinstance(plan, p.Scan):
            return self._arrange_table(plan, key, not_null)
        name = ArrangementKey(self.build(plan), tuple(key), tuple(not_null), plan)
        found = self.registry.arrangements.get(name)
        if found is None:
            operator = Arrange(plan.schema.types, key, not_null)
            label = "by " + (", ".join(plan.schema.names[k] for k in key) or "()")
            found = self._of(plan, operator, [self.build(plan)], [], label)
            self.registry.arrangements[name] = found
        return found, list(range(width))

    def _arrange_table(
        self, plan: p.Scan, key: Sequence[int], not_null: Sequence[int]
    ) -> tuple[int, list[int]]:
        source = self._sources(plan.table)
        name = ArrangementKey(
            source.node, tuple(plan.columns[k] for k in key), tuple(plan.columns[k] for k in not_null)
        )
        found = self.registry.arrangements.get(name)
        if found is None:
            found = self._arrange_columns(
                source, plan.table, name, list(dict.fromkeys((*name.key, *plan.columns)))
            )
            self.registry.arrangements[name] = found
        missing = [c for c in plan.columns if c not in self.registry.columns[found]]
        if missing:
            self._widen(found, source, plan.table, name, self.registry.columns[found] + missing)
        columns = self.registry.columns[found]
        return found, [columns.index(c) for c in plan.columns]

    def _arrange_columns(self, source: Source, table: str, name: ArrangementKey, columns: list[int]) -> int:
        id = self._circuit.reserve()
        self.new[id] = self._table_arrangement(id, source, table, name, columns)
        return id

    def _table_arrangement(
        self, id: int, source: Source, table: str, name: ArrangementKey, columns: list[int]
    ) -> CircuitNode:
        types = [source.types[c] for c in columns]
        operator = Arrange(
            types, [columns.index(k) for k in name.key], [columns.index(k) for k in name.not_null], columns
        )
        label = f"{table} by " + (", ".join(source.names[k] for k in name.key) or "()")
        self.registry.columns[id] = columns
        owned = [Arrangement(f"arrange_{id}", x) for x in operator.layouts]
        names = tuple(source.names[c] for c in columns)
        return CircuitNode(id, operator, (source.node,), (), tuple(types), names, label, owned)

    def _widen(self, id: int, source: Source, table: str, name: ArrangementKey, columns: list[int]) -> None:
        """Give an arrangement more columns, at its end: whoever reads it finds its own in their place."""
        node = self._table_arrangement(id, source, table, name, columns)
        (self.new if id in self.new else self.widened)[id] = node

    def _multi_join(self, plan: p.MultiJoin) -> int:
        paths = plan_paths(plan, self._estimator)
        ends = []
        for path in paths:
            part = plan.parts[path.start]
            offset = path.offsets[path.start]
            current = self.build(part)
            have = [offset + i for i in range(len(part.schema.types))]
            for step in path.steps:
                current, have = self._look_up(plan, path, step, current, have)
            ends.append(self._select(current, have, range(len(plan.schema.types)), plan))
        if len(ends) == 1:
            return ends[0]
        return self._of(plan, Union(), ends, [], f"join of {len(plan.parts)} inputs: delta paths")

    def _look_up(
        self, plan: p.MultiJoin, path: Path, step: PathStep, current: int, have: list[int]
    ) -> tuple[int, list[int]]:
        part = plan.parts[step.part]
        offset = path.offsets[step.part]
        arranged, places = self.arrange(part, step.key, step.not_null)
        after = have + [offset + i for i in range(len(part.schema.types))]
        place = {position: i for i, position in enumerate(after)}
        names, spoken = plan.schema.names, self._spoken.of(plan)
        filters = tuple(rewrite_columns(f, lambda c: Col(c.type, place[c.index])) for f in step.filters)
        probe = tuple(have.index(position) for position in step.probe)
        nullable = tuple(probe[i] for i, k in enumerate(step.key) if k in step.not_null)
        signature = ("look_up", current, arranged, step.sees_new, probe, nullable, tuple(places), filters)

        def make() -> int:
            said = [spoken[a] for a in after]
            operator = LookUp(probe, nullable, places, filters, said)
            types = [plan.schema.types[a] for a in after]
            by = " and ".join(
                f"{names[a]} = {part.schema.names[b]}" for a, b in zip(step.probe, step.key, strict=True)
            )
            where = " and ".join(readable(f, said) for f in filters)
            label = f"{by or 'every row'}{where and f' where {where}'} ({'new' if step.sees_new else 'old'})"
            inputs = [current, arranged] if step.sees_new else [current]
            return self._add(operator, inputs, [arranged], types, [names[a] for a in after], label)

        return self._shared(signature, make), after

    def _select(self, current: int, have: list[int], wanted: Sequence[int], plan: p.Node) -> int:
        positions = [have.index(w) for w in wanted]
        if positions == list(range(len(have))):
            return current
        types, names = plan.schema.types, plan.schema.names

        def make() -> int:
            exprs = [Col(types[w], i) for w, i in zip(wanted, positions, strict=True)]
            return self._of(plan, Map(exprs, [names[h] for h in have]), [current], [], "columns in order")

        return self._shared(("select", current, tuple(positions)), make)

    def _join(self, plan: p.Join) -> int:
        if plan.kind == "inner":
            return self._inner(plan)
        if plan.kind == "right":
            return self._right(plan)
        if plan.kind in ("semi", "anti", "mark"):
            return self._matched(plan, plan.kind, plan.schema.types, plan.schema.names)
        # left, single, full: the inner join, and the rows without a match padded with NULLs
        parts = [self._inner(plan)]
        kind = "single" if plan.kind == "single" else "anti"
        left, right = plan.left.schema, plan.right.schema
        unmatched = self._matched(plan, kind, left.types, left.names)
        parts.append(
            self._padded(plan, unmatched, [Col(t, i) for i, t in enumerate(left.types)], right.types, True)
        )
        if plan.kind == "full":
            flipped = _flipped(plan)
            other = self._matched(flipped, "anti", right.types, right.names)
            parts.append(
                self._padded(plan, other, [Col(t, i) for i, t in enumerate(right.types)], left.types, False)
            )
        return self._of(plan, Union(), parts, [], f"{plan.kind} join")

    def _inner(self, plan: p.Join) -> int:
        width = len(plan.left.schema.types)
        equalities = tuple((k.left, width + k.right, k.null_safe) for k in plan.keys)
        filters = (plan.residual,) if plan.residual is not None else ()
        return self.build(p.MultiJoin((plan.left, plan.right), equalities, filters))

    def _right(self, plan: p.Join) -> int:
        swapped = _flipped(plan)
        left = p.Join("left", swapped.left, swapped.right, swapped.keys, swapped.residual)
        width = len(plan.right.schema.types)
        types = left.schema.types
        order = [*range(width, len(types)), *range(width)]
        exprs = tuple(Col(types[i], i) for i in order)
        return self.build(p.Project(left, exprs, plan.schema.names))

    def _padded(
        self, plan: p.Join, rows: int, columns: Sequence[Expr], others: Sequence[SqlType], first: bool
    ) -> int:
        padding: list[Expr] = [Const(t, None) for t in others]
        exprs = [*columns, *padding] if first else [*padding, *columns]
        return self._of(plan, Map(exprs, ()), [rows], [], "padded with NULLs")

    def _matched(self, plan: p.Join, kind: str, types: Sequence[SqlType], names: Sequence[str]) -> int:
        signature = ("matched", kind, plan.left, plan.right, plan.keys, plan.residual, plan.marks)
        return self._shared(signature, lambda: self._make_matched(plan, kind, types, names))

    def _make_matched(self, plan: p.Join, kind: str, types: Sequence[SqlType], names: Sequence[str]) -> int:
        left_key, right_key = [k.left for k in plan.keys], [k.right for k in plan.keys]
        not_null = [i for i, k in enumerate(plan.keys) if not k.null_safe]
        label = _condition_label(plan)
        left, right = self.build(plan.left), self.build(plan.right)
        bound = threshold(plan) if kind == "semi" else None
        if bound is not None:
            compared = ThresholdJoin(
                types,
                bound.value,
                bound.comparison,
                bound.bound,
                self._spoken.of(plan.left),
                self._spoken.of(plan.right),
            )
            return self._add(compared, [left, right], [], types, names, label)
        equality = (
            _plain_equality(plan) if kind == "mark" and not plan.keys and plan.residual is None else None
        )
        if equality is not None:
            a, b = equality
            arranged, places = self.arrange(plan.left, [a], [])
            not_in = NotInJoin(plan.left.schema.types[a], a, b, places)
            return self._add(not_in, [left, right], [arranged], types, names, label)
        condition = _all(([plan.residual] if plan.residual is not None else []) + list(plan.marks))
        left_arranged, places = self.arrange(plan.left, left_key, [left_key[i] for i in not_null])
        if condition is None and kind != "mark":
            key_types = [plan.left.schema.types[k] for k in left_key]
            presence = PresenceJoin(kind, key_types, left_key, right_key, not_null, places)
            return self._add(presence, [left, right, left_arranged], [left_arranged], types, names, label)
        right_arranged, right_places = self.arrange(plan.right, right_key, [right_key[i] for i in not_null])
        width = len(plan.left.schema.types)
        if condition is not None:
            condition = rewrite_columns(
                condition,
                lambda c: c if c.index < width else Col(c.type, width + right_places[c.index - width]),
            )
        all_names = [*self._spoken.of(plan.left), *self.node(right_arranged).names]
        for place, name in zip(right_places, self._spoken.of(plan.right), strict=True):
            all_names[width + place] = name
        match = MatchJoin(
            kind,
            plan.left.schema.types,
            left_key,
            [right_places[k] for k in right_key],
            not_null,
            places,
            condition,
            all_names,
        )
        reads = [left_arranged, right_arranged]
        return self._add(match, [left, right_arranged], reads, types, names, label)


def _refuse_intervals(name: str, types: Sequence[SqlType]) -> None:
    """Equal ones may be written in several ways, and rows are told apart by how they are written."""
    for type in types:
        if type.id == "INTERVAL":
            raise NotMaintainable(
                f"{name} of intervals cannot be maintained yet",
                hint="Give them as numbers: extract(epoch FROM ...) has the seconds.",
            )
        _refuse_intervals(name, [child for _, child in type.children])


def _distinct_branch(plan: p.Aggregate, agg: p.Agg) -> p.Node:
    """The distinct (key, argument) pairs that a DISTINCT aggregate counts."""
    assert agg.arg is not None
    base: p.Node = plan.input if agg.filter is None else p.Filter(plan.input, agg.filter)
    types = plan.input.schema.types
    exprs = (*(Col(types[k], k) for k in plan.keys), agg.arg)
    names = tuple(f"c{i}" for i in range(len(exprs)))
    return p.Distinct(p.Project(base, exprs, names))


def _flipped(plan: p.Join) -> p.Join:
    """The same join seen from the right."""
    left, right = len(plan.left.schema.types), len(plan.right.schema.types)

    def swap(c: Col) -> Expr:
        return Col(c.type, c.index + right if c.index < left else c.index - left)

    keys = tuple(p.JoinKey(k.right, k.left, k.null_safe) for k in plan.keys)
    residual = rewrite_columns(plan.residual, swap) if plan.residual is not None else None
    return p.Join(plan.kind, plan.right, plan.left, keys, residual)


def _plain_equality(plan: p.Join) -> tuple[int, int] | None:
    """The two columns, where a mark join's only condition is left column = right column."""
    if len(plan.marks) != 1:
        return None
    mark = plan.marks[0]
    width = len(plan.left.schema.types)
    if not (isinstance(mark, Call) and mark.name == "=" and all(isinstance(a, Col) for a in mark.args)):
        return None
    a, b = sorted(columns_of(mark))
    return (a, b - width) if a < width <= b else None


def _all(terms: Sequence[Expr]) -> Expr | None:
    if not terms:
        return None
    return terms[0] if len(terms) == 1 else Call(BOOLEAN, "and", tuple(terms))


def _condition_label(plan: p.Join) -> str:
    left, right = plan.left.schema.names, plan.right.schema.names
    terms = [
        f"{left[k.left]} {'is not distinct from' if k.null_safe else '='} {right[k.right]}" for k in plan.keys
    ]
    terms += [text(e) for e in ([plan.residual] if plan.residual is not None else []) + list(plan.marks)]
    return " and ".join(terms) or "any row"


_METHODS: tuple[tuple[type[p.Node], Callable[[Builder, Any], int]], ...] = (
    (p.Scan, Builder._scan),
    (p.Values, Builder._values),
    (p.Project, Builder._project),
    (p.Filter, Builder._filter),
    (p.Union, Builder._union),
    (p.Distinct, Builder._distinct),
    (p.SetOp, Builder._set_op),
    (p.TopK, Builder._top_k),
    (p.Aggregate, Builder._aggregate),
    (p.MultiJoin, Builder._multi_join),
    (p.Join, Builder._join),
)
