"""A few rows as tuples: compiled code gives what plain Python gives, object for object."""

from __future__ import annotations

import random
from typing import Any

import pytest

from native.both_ways import both, hashes_of, needs_kernels, plainly
from penstock.base.limits import WEIGHT_MAX
from penstock.circuit.operators.aggregate import Aggregate, AggregateInput
from penstock.engine.plain_dicts import PlainDicts
from penstock.plan.expr import Col
from penstock.plan.nodes import Agg
from penstock.state.arrangement import Arrangement
from penstock.state.few_groups import FewGroups
from penstock.zset import types as t
from penstock.zset.export_few import dicts_of_few
from penstock.zset.few import NAN, Few
from penstock.zset.types import Schema, SqlType

pytestmark = needs_kernels

INTEGERS = tuple(SqlType(f"{sign}{size}INT") for sign in ("", "U") for size in ("TINY", "SMALL", "BIG"))
INTEGERS += (t.INTEGER, SqlType("UINTEGER"))


class Text(str):
    """A text of a class of its own."""


class Whole(int):
    """An integer of a class of its own."""


def shown(rows: Few | None) -> Any:
    """Values with their classes: True is not 1 here, and -0.0 not 0.0."""
    if rows is None:
        return None
    return [[(type(v), repr(v)) for v in row] for row in rows.rows], rows.counts, rows.types


# -- dicts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_integers_at_the_ends_of_their_ranges(type: SqlType) -> None:
    dicts = PlainDicts(Schema(("a",), (type,)))
    ends = [
        sign * 2**bits + more
        for bits in (7, 8, 15, 16, 31, 32, 63, 64)
        for more in (-1, 0, 1)
        for sign in (1, -1)
    ]
    taken = 0
    for value in (*ends, 0, 2**200, -(2**200)):
        compiled, plain = both(lambda value=value: shown(dicts.take([{"a": value}])))
        assert compiled == plain, value
        taken += compiled is not None
    assert taken > 3


VALUES = (0, 1, -1, 2**63, True, False, 1.5, -0.0, float("nan"), float("inf"), "a", "", "ä", "\x00", "\ud800", None,
          b"a", Text("a"), Whole(1), [1])  # fmt: skip
WEIGHTS = (
    1,
    -1,
    3,
    0,
    WEIGHT_MAX,
    WEIGHT_MAX + 1,
    -WEIGHT_MAX,
    -WEIGHT_MAX - 1,
    2**70,
    True,
    1.0,
    None,
    "1",
    Whole(1),
)


@pytest.mark.parametrize(
    "type", [*INTEGERS, t.BOOLEAN, t.DOUBLE, t.FLOAT, t.VARCHAR, t.DATE, t.BLOB], ids=str
)
def test_values_of_every_class(type: SqlType) -> None:
    dicts = PlainDicts(Schema(("a", "b"), (t.BIGINT, type)))
    for value in VALUES:
        compiled, plain = both(lambda value=value: shown(dicts.take([{"b": value, "a": 1}])))
        assert compiled == plain, value


@pytest.mark.parametrize("weight", WEIGHTS, ids=repr)
def test_weights_of_every_class(weight: Any) -> None:
    dicts = PlainDicts(Schema(("a",), (t.BIGINT,)))
    compiled, plain = both(lambda: shown(dicts.take([{"a": 1}, {"_weight": weight, "a": 2}])))
    assert compiled == plain


def test_names_that_are_not_the_tables() -> None:
    schema = Schema(("a", "b"), (t.BIGINT, t.VARCHAR))
    given: list[list[Any]] = [
        [], [{}], [{"a": 1}], [{"a": 1, "b": "x", "c": 2}], [{"A": 1, "b": "x"}], [{"a": 1, "c": "x"}],
        [{"a": 1, "_weight": 1}], [{"a": 1, "b": "x", "_weight": 2}], [{"b": "x", "a": 1}, {"a": 1}],
        [{"a": 1, "b": "x"}, 5], [(1, "x")], [{"a": 1, 3: "x"}], [{Text("a"): 1, "b": "x"}],
    ]  # fmt: skip
    for rows in given:
        compiled, plain = both(lambda rows=rows: shown(PlainDicts(schema).take(rows)))
        assert compiled == plain, rows


def test_a_column_that_is_called_weight_is_left_to_the_general_way() -> None:
    dicts = PlainDicts(Schema(("a", "_weight"), (t.BIGINT, t.BIGINT)))
    for row in ({"a": 1, "_weight": 2}, {"a": 1, "_weight": 2, "b": 3}):
        assert both(lambda row=row: dicts.take([row])) == (None, None)


class Rude(str):
    """A name that empties the dict, and the list, while it is compared."""

    given: Any = ()

    def __hash__(self) -> int:
        return hash("b")

    def __eq__(self, other: object) -> bool:
        for one in self.given:
            one.clear()
        return False


def test_a_name_that_changes_what_is_read() -> None:
    dicts = PlainDicts(Schema(("a", "b"), (t.BIGINT, t.BIGINT)))
    name = Rude("z")
    rows: list[Any] = [{"a": 1, name: 2}]
    name.given = (rows, rows[0])
    assert dicts.take(rows) is None


def test_dicts_of_rows() -> None:
    rows = Few((t.BIGINT, t.VARCHAR, t.DOUBLE), [(1, "a", -0.0), (None, None, NAN)], [1, -2])
    for names in (("a", "b", "c"), ("a", "b", "_weight"), ("", " ", "ä")):
        compiled, plain = both(lambda names=names: repr(dicts_of_few(rows, names, "_weight")))
        assert compiled == plain


# -- groups ------------------------------------------------------------------------------------------


def aggregate(keys: list[int], types: list[SqlType]) -> Aggregate:
    """Aggregates of all kinds of measures over two integers and a truth, which follow the keys."""
    n = len(types)
    whole, small, truth = Col(t.HUGEINT, n), Col(t.BIGINT, n + 1), Col(t.BOOLEAN, n + 2)
    aggs = [
        Agg("count_star", None, t.BIGINT), Agg("count", small, t.BIGINT), Agg("sum", small, t.HUGEINT),
        Agg("sum", whole, t.HUGEINT), Agg("avg", small, t.DOUBLE), Agg("bool_or", truth, t.BOOLEAN),
        Agg("var_pop", small, t.DOUBLE),
    ]  # fmt: skip
    inputs = [AggregateInput(agg, agg.arg, None, 0) for agg in aggs]
    names = [f"c{i}" for i in range(n + 3)]
    return Aggregate([types[k] for k in keys], [keys], inputs, [names])


KEYS: dict[str, tuple[list[SqlType], list[Any]]] = {
    "none": ([], [()]),
    "integer": ([t.BIGINT], [(1,), (2,), (-(2**63),), (None,)]),
    "text": ([t.VARCHAR], [("a",), ("",), ("ä",), (None,)]),
    "float": ([t.DOUBLE], [(0.0,), (-0.0,), (NAN,), (1.5,), (None,)]),
    "two": ([t.BOOLEAN, t.INTEGER], [(True, 1), (False, 1), (None, 1), (True, None)]),
}


@pytest.mark.parametrize("bits", [None, 1])
@pytest.mark.parametrize("kind", KEYS)
def test_groups_step_the_same_both_ways(kind: str, bits: int | None) -> None:
    types, keys = KEYS[kind]
    chance = random.Random(7)
    width = (*types, t.HUGEINT, t.BIGINT, t.BOOLEAN)
    with hashes_of(bits):
        operator = aggregate(list(range(len(types))), types)
        assert operator._few is not None
        assert operator._few._compiled is not None
        compiled, plain = (Arrangement("groups", operator.layouts[0]) for _ in range(2))
        for _ in range(300):
            rows = [
                (*chance.choice(keys), chance.choice((None, 0, 2**62, -(2**62))), chance.choice((None, 0, 5, -7)),
                 chance.choice((True, False, None)))
                for _ in range(chance.randint(1, 4))
            ]  # fmt: skip
            delta = Few(width, rows, [chance.choice((1, 1, 2, -1)) for _ in rows])
            ours, [added] = operator.step([delta], [compiled])
            with plainly():
                theirs, [also] = operator.step([delta], [plain])
            assert_same_step(ours, added, theirs, also)
            compiled.append(added)
            with plainly():
                plain.append(also)
            assert compiled.young.changes == plain.young.changes
            assert compiled.young.known == plain.young.known
            if chance.random() < 0.1:
                assert len(compiled.batches) == len(plain.batches)  # which makes batches of what is young


def assert_same_step(ours: Any, added: Any, theirs: Any, also: Any) -> None:
    assert shown(ours) == shown(theirs)
    assert isinstance(added, FewGroups)
    assert isinstance(also, FewGroups)
    assert repr(list(added.groups)) == repr(list(also.groups))


def test_a_sum_beyond_its_type_is_refused_both_ways() -> None:
    big = Col(t.HUGEINT, 0)
    operator = Aggregate([], [[]], [AggregateInput(Agg("sum", big, t.HUGEINT), big, None, 0)], [["a"]])
    messages = []
    for way in (None, plainly()):
        delta = Few((t.HUGEINT,), [(2**126,), (2**126,)], [1, 1])
        with pytest.raises(Exception) as raised:  # the same one, whatever it is
            if way is None:
                operator.step([delta], [Arrangement("groups", operator.layouts[0])])
            else:
                with way:
                    operator.step([delta], [Arrangement("groups", operator.layouts[0])])
        messages.append((raised.type, str(raised.value)))
    assert messages[0] == messages[1]
    assert messages[0][0].__module__.startswith("penstock")


def test_what_a_search_raises_goes_on_to_the_caller() -> None:
    from penstock.native import kernels

    def find(key: Any, width: int) -> Any:
        raise RuntimeError(f"no {key} of {width}")

    arguments = ([(1,)], [1], (0,), (("r", -1),), (("c", (0,), None),))
    with pytest.raises(RuntimeError, match=r"no \(1,\) of 1"):
        kernels.step_groups(*arguments, {}, find)
    with pytest.raises(TypeError, match="tuple"):
        kernels.step_groups(*arguments, {}, lambda *_: [1])
    with pytest.raises(TypeError):
        kernels.step_groups(*arguments, {}, lambda *_: (1, 2))
