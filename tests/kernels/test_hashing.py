"""The hash of a row is the same alone, among a few and among many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernels.hashing import hash_columns, is_exact
from penstock.zset import types as t
from penstock.zset.column import Column, from_pylist

TEXTS = ["", "a", "éé", "x" * 8, "y" * 9, "z" * 64, "long" * 40, None, "\0"]
COLUMNS = {
    "integers": from_pylist(t.BIGINT, [0, 1, -1, 2**63 - 1, -(2**63), None, 7, 8, 9]),
    "small": from_pylist(t.SMALLINT, [0, 1, -1, 300, -300, None, 7, 8, 9]),
    "unsigned": from_pylist(t.by_name("UBIGINT") or t.BIGINT, [0, 1, 2**64 - 1, 2**63, 5, None, 7, 8, 9]),
    "booleans": from_pylist(t.BOOLEAN, [True, False, None] * 3),
    "floats": from_pylist(t.DOUBLE, [0.0, -0.0, float("nan"), float("inf"), 1.5, None, -7.25, 1e300, 5e-324]),
    "narrow floats": from_pylist(
        t.FLOAT, [0.0, -0.0, float("nan"), float("inf"), 1.5, None, -7.25, 3.0, 0.5]
    ),
    "wide": from_pylist(t.HUGEINT, [0, 1, -1, 2**70, -(2**70), None, 7, 2**63, 9]),
    "texts": from_pylist(t.VARCHAR, TEXTS),
    "bytes": from_pylist(t.BLOB, [None if x is None else x.encode() for x in TEXTS]),
    "lists": from_pylist(t.list_of(t.BIGINT), [[1], [], None, [1, 2], [None], [3], [4], [5], [6]]),
}


@pytest.mark.parametrize(
    "names", [*[(n,) for n in COLUMNS], ("integers", "texts"), ("floats", "wide", "lists")]
)
def test_alone_among_a_few_and_among_many(names: tuple[str, ...]) -> None:
    columns = [COLUMNS[n] for n in names]
    count = len(columns[0])
    many = hash_columns(columns, count)
    for size in (1, 2, 3, 4):
        for start in range(count - size + 1):
            few = hash_columns([c.slice(start, start + size) for c in columns], size)
            assert few.dtype == np.uint64
            assert few.tolist() == many[start : start + size].tolist()


def test_equal_hashes_prove_equal_values_only_for_one_number_without_nulls() -> None:
    number = Column(t.BIGINT, np.arange(3))
    assert is_exact([number])
    assert not is_exact([number, number])
    assert not is_exact([COLUMNS["integers"]])
    assert not is_exact([COLUMNS["wide"]])
    assert not is_exact([Column(t.VARCHAR, pa.array(["a"], pa.large_string()))])
