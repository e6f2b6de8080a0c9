"""Three-valued logic, CASE, COALESCE and IN: what is evaluated only on the rows that reach it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.compare import from_arrow_bool
from penstock.evaluate.forms import Builder, Compiler, Eval, is_valid_at, masked, one_null, pick, spread
from penstock.plan.expr import Call, Const, Expr, columns_of
from penstock.zset.column import Column, nulls
from penstock.zset.types import BOOLEAN, SqlType


def build_not(call: Call, compiler: Compiler) -> Eval | None:
    child = compiler.compile(call.args[0])

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        values = ~a.values
        return Column(BOOLEAN, values if a.valid is None else values & a.valid, a.valid)

    return run


def build_is_null(call: Call, compiler: Compiler) -> Eval | None:
    child = compiler.compile(call.args[0])
    return lambda columns, count: Column(BOOLEAN, child(columns, count).is_null())


def build_is_not_null(call: Call, compiler: Compiler) -> Eval | None:
    child = compiler.compile(call.args[0])
    return lambda columns, count: Column(BOOLEAN, ~child(columns, count).is_null())


def build_and(call: Call, compiler: Compiler) -> Eval | None:
    return _connective(call, compiler, decided=False)


def build_or(call: Call, compiler: Compiler) -> Eval | None:
    return _connective(call, compiler, decided=True)


def _connective(call: Call, compiler: Compiler, decided: bool) -> Eval:
    """AND is decided by one FALSE, OR by one TRUE; later arguments see only undecided rows."""
    terms = [(compiler.compile(a), compiler.total(a), sorted(columns_of(a))) for a in call.args]
    first = terms[0][0]
    one_result = Column(BOOLEAN, np.array((decided,)))

    def run_one(columns: Sequence[Column]) -> Column:
        unknown = None
        for term, _, _ in terms:
            found = term(columns, 1)
            if found.valid is not None and not found.valid.item():
                unknown = found
            elif found.values.item() is decided:
                return one_result
        return found if unknown is None else unknown

    def run(columns: Sequence[Column], count: int) -> Column:
        if count == 1:
            return run_one(columns)
        result = first(columns, count)
        for term, total, needed in terms[1:]:
            if total:
                result = _combine(result, term(columns, count), decided)
                continue
            result = spread(result, count)
            open_rows = _undecided(result, decided)
            rows = np.flatnonzero(open_rows)
            if len(rows) == count:
                result = _combine(result, term(columns, count), decided)
            elif len(rows):
                found = spread(term(pick(columns, needed, rows), len(rows)), len(rows))
                result = _combine(result, _scattered(found, rows, count, decided), decided)
        return result

    return run


def _undecided(column: Column, decided: bool) -> np.ndarray:
    settled = column.values if decided else ~column.values
    return ~settled if column.valid is None else ~(settled & column.valid)


def _scattered(found: Column, rows: np.ndarray, count: int, decided: bool) -> Column:
    """The found rows in their places; elsewhere the deciding value, which changes nothing there."""
    values = np.full(count, decided)
    values[rows] = found.values
    if found.valid is None:
        return Column(BOOLEAN, values)
    valid = np.ones(count, np.bool_)
    valid[rows] = found.valid
    return Column(BOOLEAN, values, valid)


def _combine(a: Column, b: Column, decided: bool) -> Column:
    values = (a.values | b.values) if decided else (a.values & b.values)
    if a.valid is None and b.valid is None:
        return Column(BOOLEAN, values)
    known_a = np.True_ if a.valid is None else a.valid
    known_b = np.True_ if b.valid is None else b.valid
    if decided:  # the value under a NULL is False, so a TRUE is always a known one
        valid = (known_a & known_b) | a.values | b.values
    else:
        valid = (known_a & known_b) | (known_a & ~a.values) | (known_b & ~b.values)
    return masked(BOOLEAN, values, valid)


class _Pieces:
    """Collects the results of branches, each for some of the rows."""

    def __init__(self, type: SqlType, count: int) -> None:
        self.type, self.count = type, count
        self.rows: list[np.ndarray] = []
        self.found: list[Column] = []

    def add(self, rows: np.ndarray, column: Column) -> None:
        self.rows.append(rows)
        self.found.append(column)

    def column(self) -> Column:
        if self.type.kind == "arrow":
            return self._arrow()
        values = np.zeros(self.count, self.type.numpy)
        valid = None
        for rows, found in zip(self.rows, self.found, strict=True):
            if found.values.dtype == object and values.dtype != object:
                values = values.astype(object)
            values[rows] = found.values
            if found.valid is not None:
                valid = np.ones(self.count, np.bool_) if valid is None else valid
                valid[rows] = found.valid
        return Column(self.type, values, valid)

    def _arrow(self) -> Column:
        if not self.found:
            return Column(self.type, pa.array([], self.type.arrow))
        parts = [spread(f, len(r)).values for f, r in zip(self.found, self.rows, strict=True)]
        order = np.empty(self.count, np.int64)
        order[np.concatenate(self.rows)] = np.arange(self.count)
        return Column(self.type, pa.concat_arrays(parts).take(pa.array(order)))


def build_case(call: Call, compiler: Compiler) -> Eval | None:
    def prepared(expr: Expr) -> tuple[Eval, list[int]]:
        return compiler.compile(expr), sorted(columns_of(expr))

    *pairs, last = call.args
    branches = [(prepared(pairs[i]), prepared(pairs[i + 1])) for i in range(0, len(pairs), 2)]
    otherwise, otherwise_needs = prepared(last)

    def run_one(columns: Sequence[Column]) -> Column:
        for (when, _), (then, _) in branches:
            if when(columns, 1).values.item():  # the value under a NULL is False
                return then(columns, 1)
        return otherwise(columns, 1)

    def run(columns: Sequence[Column], count: int) -> Column:
        if count == 1:
            return run_one(columns)
        pieces = _Pieces(call.type, count)
        rest = np.arange(count)
        for (when, when_needs), (then, then_needs) in branches:
            at_rest = columns if len(rest) == count else pick(columns, when_needs, rest)
            hit = spread(when(at_rest, len(rest)), len(rest)).values
            rows = rest[hit]
            if len(rows):
                at_rows = columns if len(rows) == count else pick(columns, then_needs, rows)
                pieces.add(rows, then(at_rows, len(rows)))
                rest = rest[~hit]
            if not len(rest):
                return pieces.column()
        at_rest = columns if len(rest) == count else pick(columns, otherwise_needs, rest)
        pieces.add(rest, otherwise(at_rest, len(rest)))
        return pieces.column()

    return run


def build_coalesce(call: Call, compiler: Compiler) -> Eval | None:
    terms = [(compiler.compile(a), sorted(columns_of(a))) for a in call.args]

    def run(columns: Sequence[Column], count: int) -> Column:
        if count == 1:
            for term, _ in terms:
                found = term(columns, 1)
                if is_valid_at(found):
                    break
            return found
        pieces = _Pieces(call.type, count)
        rest = np.arange(count)
        for term, needed in terms:
            if not len(rest):
                break
            at_rest = columns if len(rest) == count else pick(columns, needed, rest)
            found = spread(term(at_rest, len(rest)), len(rest))
            valid = found.validity()
            if valid is None:
                pieces.add(rest, found)
                return pieces.column()
            pieces.add(rest[valid], found.filter(valid))
            rest = rest[~valid]
        pieces.add(rest, nulls(call.type, len(rest)))
        return pieces.column()

    return run


def build_nullif(call: Call, compiler: Compiler) -> Eval | None:
    """NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END."""
    a, b = call.args
    same = Call(BOOLEAN, "=", (a, b), call.position)
    return compiler.compile(Call(call.type, "case", (same, Const(call.type, None), a), call.position))


def in_builder(negated: bool) -> Builder:
    """IN and NOT IN over constants; other lists are a chain of OR."""

    def build(call: Call, compiler: Compiler) -> Eval | None:
        found = _in_constants(call, compiler) or _in_chain(call, compiler)
        if found is None or not negated:
            return found
        plain = found

        def run(columns: Sequence[Column], count: int) -> Column:
            a = plain(columns, count)
            values = ~a.values
            return Column(BOOLEAN, values if a.valid is None else values & a.valid, a.valid)

        return run

    return build


def _in_chain(call: Call, compiler: Compiler) -> Eval | None:
    needle, *items = call.args
    equalities = tuple(Call(BOOLEAN, "=", (needle, item)) for item in items)
    chain = equalities[0] if len(equalities) == 1 else Call(BOOLEAN, "or", equalities)
    return compiler.compile(chain)


def _in_constants(call: Call, compiler: Compiler) -> Eval | None:
    needle, *items = call.args
    type = needle.type
    if type.is_float or not all(isinstance(i, Const) and i.type == type for i in items):
        return None
    if type.kind == "arrow" and type.id != "VARCHAR":
        return None
    known = [i.value for i in items if isinstance(i, Const) and i.value is not None]
    has_null = len(known) < len(items)
    child = compiler.compile(needle)
    members = frozenset(known)
    null = one_null(BOOLEAN)
    if type.kind == "arrow":
        lookup = pa.array(known, type.arrow)
    else:
        fits = type.kind == "fixed" or all(abs(v) < 2**63 for v in known)
        lookup = np.array(known, type.numpy if fits else object)

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        if len(a.values) == 1:
            if not is_valid_at(a):
                return null
            value = a.values[0].as_py() if type.kind == "arrow" else a.values.item()
            hit = value in members
            return null if has_null and not hit else Column(BOOLEAN, np.array((hit,)))
        if type.kind == "arrow":
            hits = from_arrow_bool(pc.is_in(a.values, value_set=lookup)).values
            valid = a.validity()
        else:
            hits, valid = np.isin(a.values, lookup), a.valid
        if has_null:
            valid = hits if valid is None else hits & valid
        return masked(BOOLEAN, hits, valid)

    return run
