"""Columns of awkward values: extremes, NULL, NaN, infinities, and random ones from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.evaluate.arithmetic import bounds
from penstock.zset.column import Column, from_pylist, narrow, with_nulls
from penstock.zset.types import SqlType

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "UINTEGER", "UBIGINT", "HUGEINT")
DECIMALS = (
    "DECIMAL(4,1)",
    "DECIMAL(9,2)",
    "DECIMAL(15,2)",
    "DECIMAL(18,4)",
    "DECIMAL(25,3)",
    "DECIMAL(38,6)",
)
FLOATS = ("FLOAT", "DOUBLE")
NUMBERS = (*INTEGERS, *DECIMALS, *FLOATS)

TEXTS = (
    "",
    "a",
    "abc",
    "ABC def",
    "  pad ",
    "%",
    "a_b%c",
    "straße",
    "ÀÉ日本",
    "x\0y",
    "a\nb",
    "a\\b",
    "zz'\"zz",
    "aaa",
)
DOUBLES = (0.0, -0.0, 1.0, -1.5, 2.5, 0.5, -0.5, 1e300, -1e300, 1e-300, float("inf"), float("-inf"), float("nan"),
           127.5, 127.4, -128.5, -128.6, 2147483647.5, 9.2e18, 9.3e18, 1e19, 0.1, 2.675, 1234567.125)  # fmt: skip


def numbers(type: SqlType, count: int, seed: int) -> Column:
    """Half of them extreme or small, one in eight NULL."""
    rng = random.Random(f"{type} {seed}")
    valid = np.array([rng.random() > 0.12 for _ in range(count)])
    if type.is_float:
        values = [
            rng.choice(DOUBLES) if rng.random() < 0.6 else rng.uniform(-1000, 1000) for _ in range(count)
        ]
        with np.errstate(all="ignore"):
            return with_nulls(type, np.array(values).astype(type.numpy), valid)
    low, high = bounds(type)
    held = np.empty(count, object)
    held[:] = [_integer(rng, low, high) for _ in range(count)]
    values = narrow(held) if type.kind == "wide" else held.astype(type.numpy)
    return with_nulls(type, values, valid)


def _integer(rng: random.Random, low: int, high: int) -> int:
    pick = rng.random()
    if pick < 0.25:
        return max(low, min(high, rng.choice((low, low + 1, high, high - 1, 0, 1, -1, 2, -7, 10))))
    if pick < 0.6:
        return max(low, min(high, rng.randint(-1000, 1000)))
    if pick < 0.8:
        return rng.randint(max(low, -(3 * 10**9)), min(high, 3 * 10**9))
    return rng.randint(low, high)


def texts(type: SqlType, count: int, seed: int, among: Sequence[str] = TEXTS) -> Column:
    rng = random.Random(f"text {seed}")
    items = [None if rng.random() < 0.12 else rng.choice(among) for _ in range(count)]
    return Column(type, pa.array(items, type.arrow))


def chosen(type: SqlType, count: int, seed: int, among: Sequence[Any]) -> Column:
    """From these Python values and NULL."""
    rng = random.Random(f"{type} {seed}")
    return from_pylist(type, [None if rng.random() < 0.12 else rng.choice(among) for _ in range(count)])
