"""Values and plans through JSON: exactly what they were, shared as they were, or an error of ours."""

from __future__ import annotations

import json
import math
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import CorruptState, PenstockError
from penstock.plan import codec
from penstock.plan.codec import decode, encode, from_bytes, to_bytes
from penstock.plan.expr import Call, Col, Const
from penstock.plan.nodes import Node, Project, Scan, Union
from penstock.plan.tree import walk
from penstock.zset.types import BIGINT, BOOLEAN, DOUBLE, Schema, decimal, list_of, struct_of
from tests.circuit.same import same


def through(value: Any) -> Any:
    data = to_bytes(encode(value))
    found = decode(from_bytes(data))
    assert to_bytes(encode(found)) == data
    return found


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.text(st.characters(categories=["Cs", "Lu"]))
)  # fmt: skip
RECORDS = st.builds(Const, st.sampled_from([BIGINT, DOUBLE, decimal(12, 2)]), SCALARS) | st.builds(
    Col, st.just(list_of(struct_of((("a", BIGINT), ("", BOOLEAN))))), st.integers(0)
)
VALUES = st.recursive(
    SCALARS | RECORDS | st.frozensets(st.text()) | st.sets(st.integers()),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner)
    ),
)


@given(VALUES)
def test_every_value_comes_back_as_it_was(value: Any) -> None:
    assert same(through(value), value)


@pytest.mark.parametrize(
    "value",
    [
        0.0, -0.0, 5e-324, math.inf, -math.inf, math.nan, struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0],
        1, 1.0, True, 2**63, -(2**63) - 1, 10**5000, "\ud83d\ude00", "\ud800", "\x00", "😀", b"", (), [], {},
    ],
    ids=lambda v: repr(v)[:30] if not isinstance(v, int) else hex(v)[:20],
)  # fmt: skip
def test_single_values(value: Any) -> None:
    assert same(through(value), value)


def test_constants_that_are_equal_in_python_stay_apart() -> None:
    values = tuple(Const(DOUBLE, v) for v in (1, 1.0, True, 0.0, -0.0, False, math.nan, None))
    assert same(through(values), values)


def test_derived_fields_of_types_are_made_again() -> None:
    found = through(Schema(("a",), (decimal(30, 2),)))
    assert (found.types[0].kind, found.types[0].arrow) == ("wide", decimal(30, 2).arrow)


def test_where_a_call_stands_in_the_text_is_kept() -> None:
    assert through(Call(BIGINT, "abs", (Col(BIGINT, 0),), 7)).position == 7


def test_shared_nodes_are_written_once_and_come_back_shared() -> None:
    node: Node = Scan("t", (0,), ("a",), (BIGINT,))
    for _ in range(200):  # as a tree: 2 to the 200 nodes
        node = Union((node, node))
    written = encode(node)
    assert len(written["records"]) == 202  # with the type
    found = decode(from_bytes(to_bytes(written)))
    assert len(list(walk(found))) == 201


def test_plans_deeper_than_the_stack_of_python() -> None:
    expr: Any = Col(BIGINT, 0)
    for _ in range(5000):
        expr = Call(BIGINT, "abs", (expr,))
    found = decode(encode(Project(Scan("t", (0,), ("a",), (BIGINT,)), (expr,), ("x",))))
    depth, inner = 0, found.exprs[0]
    while isinstance(inner, Call):
        depth, inner = depth + 1, inner.args[0]
    assert depth == 5000


@dataclass(frozen=True)
class Stranger:
    x: int


@pytest.mark.parametrize("value", [Stranger(1), (Stranger(1),), object(), {BIGINT}, complex(1), Const])
def test_what_is_not_in_the_lists_is_not_written(value: Any) -> None:
    with pytest.raises(PenstockError, match="cannot be stored"):
        encode(value)


@pytest.mark.parametrize(
    ("records", "value", "message"),
    [
        ([{"is": "Stranger", "x": 1}], None, "unknown class Stranger"),
        ([{"is": ["Col"], "x": 1}], None, "unknown class"),
        ([{"x": 1}], None, 'no member "is"'),
        ([{"is": "OrderKey", "column": 1}], None, "fields of one: .*descending"),
        ([{"is": "SqlType", "id": "NEW", "width": 0, "scale": 0, "children": []}], None, "cannot be read"),
        ([{"is": "Col", "type": {"r": 0}, "index": 0}], None, "cannot be read"),
        ([], {"r": 0}, "cannot be read"),
        ([], {"r": -1}, "cannot be read"),
        ([], {"eval": "1"}, "unknown kind eval"),
        ([], {"int": "1", "float": "2"}, "not one"),
        ([], {"int": 5}, "cannot be read"),
        ([], {"float": "00"}, "cannot be read"),
        ([], {"bytes": "!"}, "cannot be read"),
        ([], {"dict": [[1]]}, "cannot be read"),
        ([], {"list": 5}, "array"),
        (5, None, "array"),
    ],
)
def test_what_is_not_in_the_lists_is_not_read(records: Any, value: Any, message: str) -> None:
    with pytest.raises(CorruptState, match=message):
        decode({"format": 1, "records": records, "value": value})


def test_other_formats_and_other_bytes_are_refused() -> None:
    with pytest.raises(CorruptState, match="format 99"):
        decode({**encode(1), "format": 99})
    with pytest.raises(CorruptState, match="not JSON"):
        from_bytes(b"\xff{")
    with pytest.raises(CorruptState, match="no member"):
        decode([])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["is", "r", "int", "float", "text", "bytes", "list", "dict", "set", "x", "type"]),
            inner,
        )
    ),
)


@given(JSON, JSON)
def test_whatever_json_comes_it_is_read_or_refused(records: Any, value: Any) -> None:
    with suppress(CorruptState):
        decode({"format": codec.FORMAT, "records": records, "value": json.loads(json.dumps(value))})
