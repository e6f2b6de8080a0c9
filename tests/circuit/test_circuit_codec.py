"""A circuit by itself through JSON, and what is not a circuit."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import random
from contextlib import suppress
from typing import Any

import pytest

import penstock
from penstock.base.errors import PenstockError
from penstock.circuit import operators
from penstock.circuit.build import Registry
from penstock.circuit.circuit import Circuit
from penstock.circuit.codec import OPERATORS, decode_circuit, encode_circuit
from penstock.circuit.operator import Recorded
from penstock.plan.codec import from_bytes, to_bytes
from tests.circuit.same import same_circuit, same_registry
from tpch import data


def test_every_operator_is_in_the_list() -> None:
    found = {
        value
        for module in pkgutil.iter_modules(operators.__path__)
        for value in vars(importlib.import_module(f"{operators.__name__}.{module.name}")).values()
        if isinstance(value, type) and "step" in vars(value) and "law" in dir(value)
    }
    assert found == set(OPERATORS)
    assert all(issubclass(cls, Recorded) for cls in OPERATORS)


@pytest.mark.parametrize("share", [True, False])
def test_the_circuit_of_all_tpch_views(share: bool) -> None:
    flow = penstock.Flow(share_arrangements=share)
    for statement in data.statements():
        flow.sql(statement)
    for name, query in data.queries().items():
        flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    core = flow._core
    written = to_bytes(encode_circuit(core.circuit, core.registry))
    circuit, registry = decode_circuit(from_bytes(written))
    assert same_circuit(core.circuit, circuit)
    assert same_registry(core.registry, registry)
    assert to_bytes(encode_circuit(circuit, registry)) == written
    assert len(written) < 1_000_000  # it was 340 kB
    flow.close()


def small_circuit() -> Any:
    flow = penstock.Flow()
    flow.sql(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, g TEXT, x DOUBLE); CREATE TABLE u (id INTEGER, y INTEGER)"
    )
    flow.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT g, max(x) AS m, count(DISTINCT y) AS n FROM t JOIN u USING (id) GROUP BY g"
    )
    flow.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT id FROM t WHERE x NOT IN (SELECT y FROM u) ORDER BY x LIMIT 3"
    )
    written = encode_circuit(flow._core.circuit, flow._core.registry)
    flow.close()
    return written


def test_an_operator_that_is_not_in_the_list_is_not_written() -> None:
    class Union(Recorded):  # the name alone is not enough
        pass

    circuit, registry = decode_circuit(small_circuit())
    next(iter(circuit.nodes.values())).operator = Union()  # type: ignore[assignment]
    with pytest.raises(PenstockError, match="operator Union cannot be stored"):
        encode_circuit(circuit, registry)


def test_an_empty_circuit() -> None:
    circuit, registry = decode_circuit(encode_circuit(Circuit(), Registry()))
    assert not circuit.nodes
    assert circuit.last == 0
    assert registry == Registry()


def places(json: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as its container and key."""
    found = []
    pairs = json.items() if isinstance(json, dict) else enumerate(json)
    for key, value in pairs:
        found.append((json, key))
        if isinstance(value, (dict, list)):
            found += places(value)
    return found


def test_whatever_is_changed_in_it_it_is_read_or_refused() -> None:
    whole = small_circuit()
    chance = random.Random(1)
    refused = 0
    for _ in range(400):
        damaged = copy.deepcopy(whole)
        container, key = chance.choice(places(damaged))
        change = chance.choice((None, -1, 10**6, "x", [], {}, {"r": 0}, [1, 2, 3], True, 0.5))
        container[key] = change
        refused += 1
        with suppress(PenstockError):
            decode_circuit(damaged)
            refused -= 1
    assert refused > 100
