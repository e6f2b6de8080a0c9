"""Each compiled inner loop gives what numpy and Arrow give in its place, to the bit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.any_columns import TYPES, VALUES, a_column, columns, types_any, types_few
from native.both_ways import both, hashes_of, needs_kernels, plainly, same_array, same_column, text_bytes
from penstock.engine import accept, ingest
from penstock.kernels.hashing import hash_columns
from penstock.kernels.order import sorted_hashes
from penstock.kernels.search import lower_bounds
from penstock.state.arrangement import Found, probe_batches
from penstock.state.batch import Batch, Layout, build, merge
from penstock.zset import types as t
from penstock.zset.column import Column, from_pylist
from penstock.zset.comparing import equal_at
from penstock.zset.taking import gather_columns, take_columns
from penstock.zset.types import Schema, SqlType

pytestmark = needs_kernels
examples = settings(max_examples=70, deadline=None)
few_examples = settings(max_examples=7, deadline=None)
each_type = pytest.mark.parametrize("type", TYPES, ids=str)
counts = st.sampled_from((0, 1, 2, 5, 6, 17, 40))
bits = st.sampled_from((None, None, 0, 1, 3))
others = st.lists(types_any, max_size=2)  # the types of more columns
MANY = 20_000  # rows: other threads may run meanwhile


def rows_of(count: int, size: int, seed: int) -> np.ndarray:
    """Row numbers within a column of `count` rows."""
    return np.random.default_rng(seed).integers(0, count, size if count else 0)


@each_type
@few_examples
@given(data=st.data())
def test_take(type: SqlType, data: st.DataObject) -> None:
    count = data.draw(counts)
    given_columns = data.draw(columns(count, type))
    rows = rows_of(count, data.draw(counts), data.draw(st.integers(0, 99)))
    compiled, plain = both(lambda: take_columns(given_columns, rows))
    for a, b in zip(compiled, plain, strict=True):
        same_column(a, b)
        if a.type.kind != "arrow":
            assert a.values.flags.writeable
        elif a.type.arrow in (pa.large_string(), pa.large_binary()) and len(rows) > 1:
            assert text_bytes(a.values) == text_bytes(b.values), "nothing lies under a NULL"


@each_type
@few_examples
@given(data=st.data())
def test_equal(type: SqlType, data: st.DataObject) -> None:
    kinds = [type, *data.draw(others)]
    left_count, right_count, size = data.draw(counts), data.draw(counts), data.draw(counts)
    left = [data.draw(a_column(type, left_count)) for type in kinds]
    right = [data.draw(a_column(type, right_count)) for type in kinds]
    size = size if left_count and right_count else 0
    a, b = rows_of(left_count, size, 1), rows_of(right_count, size, 2)
    compiled, plain = both(lambda: equal_at(left, a, right, b))
    same_array(compiled, plain)
    assert compiled.flags.writeable  # grouping writes into it


@st.composite
def hashes(draw: st.DrawFn) -> np.ndarray:
    """Spread evenly, alike in part, in one corner, or all alike."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from((0, 1, 2, 3, 24, 25, 100, 300, 3000)))
    found = chance.integers(0, 2**64 - 1, count, np.uint64, endpoint=True)
    match draw(st.sampled_from(("even", "few", "corner", "top", "alike", "ends"))):
        case "few":
            found &= np.uint64(7 << 61)
        case "corner":
            found >>= np.uint64(50)
        case "top":
            found |= np.uint64(2**63 + 2**62)
        case "alike":
            found[:] = found[:1]
        case "ends":
            found[::3], found[1::3] = 0, 2**64 - 1
    return found


@examples
@given(hashes(), hashes())
def test_lower_bounds(found: np.ndarray, others: np.ndarray) -> None:
    found = np.sort(found)
    one = np.uint64(1)
    needles = np.concatenate((others, found, found + one, found - one))
    compiled, plain = both(lambda: lower_bounds(found, needles))
    same_array(compiled, plain)
    same_array(compiled, found.searchsorted(needles))


def same_found(compiled: list[Found], plain: list[Found]) -> None:
    assert len(compiled) == len(plain)
    for (batch, *ours), (other, *theirs) in zip(compiled, plain, strict=True):
        assert batch is other
        for a, b in zip(ours, theirs, strict=True):
            same_array(a, b)


@each_type
@few_examples
@given(data=st.data(), colliding=bits)
def test_probe(type: SqlType, data: st.DataObject, colliding: int | None) -> None:
    kinds = [type, *data.draw(others)]
    key = tuple(range(data.draw(st.integers(1, len(kinds)))))
    layout = Layout(tuple(kinds), key, unique=data.draw(st.booleans()))
    wanted, first = data.draw(counts), data.draw(st.booleans())
    with hashes_of(colliding):
        batches = data.draw(some_batches(layout))
        keys = [data.draw(a_column(kinds[k], wanted)) for k in layout.compared]
        needles = hash_columns([keys[k] for k in layout.key], wanted)
        compiled, plain = both(lambda: probe_batches(layout, batches, needles, keys, first))
    same_found(compiled, plain)


@st.composite
def some_batches(draw: st.DrawFn, layout: Layout) -> list[Batch]:
    """Up to four batches of a layout, made without compiled code."""
    batches = []
    for count in draw(st.lists(counts, min_size=1, max_size=4)):
        stored = tuple([draw(a_column(type, count)) for type in layout.types])
        weights = np.array([draw(st.sampled_from((-1, 1))) for _ in range(2)])
        with plainly():
            batches.append(build(layout, stored, (np.resize(weights, count),)))
    return batches


@each_type
@few_examples
@given(data=st.data(), colliding=bits, cancel=st.booleans())
def test_merge(type: SqlType, data: st.DataObject, colliding: int | None, cancel: bool) -> None:
    kinds = [type, *data.draw(others)]
    key = tuple(range(data.draw(st.integers(1, len(kinds)))))
    layout = Layout(tuple(kinds), key, unique=data.draw(st.booleans()))
    with hashes_of(colliding):
        batches = data.draw(some_batches(layout))
        compiled, plain = both(lambda: merge(layout, batches, cancel))
    same_array(compiled.hashes, plain.hashes)
    same_array(compiled.weights, plain.weights)
    for a, b in zip(compiled.columns, plain.columns, strict=True):
        same_column(a, b)


@each_type
@few_examples
@given(data=st.data())
def test_gather(type: SqlType, data: st.DataObject) -> None:
    kinds = [type, *data.draw(others)]
    sizes = data.draw(st.lists(counts, min_size=1, max_size=4))
    sources = [[data.draw(a_column(kind, size)) for kind in kinds] for size in sizes]
    rows = [rows_of(size, data.draw(counts), 1) for size in sizes]
    compiled, plain = both(lambda: gather_columns(sources, rows))
    for a, b in zip(compiled, plain, strict=True):
        same_column(a, b)
        if a.type.arrow in (pa.large_string(), pa.large_binary()) and len(a):
            assert text_bytes(a.values) == text_bytes(b.values), "nothing lies under a NULL"


@each_type
@few_examples
@given(data=st.data(), colliding=bits)
def test_hash(type: SqlType, data: st.DataObject, colliding: int | None) -> None:
    count = data.draw(counts)
    given_columns = data.draw(columns(count, type))
    with hashes_of(colliding):
        compiled, plain = both(lambda: hash_columns(given_columns, count))
    same_array(compiled, plain)
    assert compiled.flags.writeable


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_hash_of_each_type_is_the_one_of_the_state_format(type: SqlType) -> None:
    values = [*VALUES[type], None] * 3
    column = from_pylist(type, values)
    compiled, plain = both(lambda: hash_columns([column], len(column)))
    same_array(compiled, plain)
    few = [int(hash_columns([from_pylist(type, [v])], 1)[0]) for v in values]
    assert compiled.tolist() == few


@examples
@given(hashes(), st.booleans())
def test_sort(given_hashes: np.ndarray, gaps: bool) -> None:
    found = given_hashes[::2] if gaps else given_hashes
    compiled, plain = both(lambda: sorted_hashes(found))
    for a, b in zip(compiled, plain, strict=True):
        same_array(a, b)
        assert a.flags.writeable  # sort_rows writes into it


@examples
@given(hashes(), st.lists(st.sampled_from((-1, 1, 1, 2, -2, 0)), min_size=1, max_size=30), st.booleans())
def test_by_key(found: np.ndarray, pattern: list[int], tidy: bool) -> None:
    if tidy and len(found) > 1:  # pairs of one row that goes and one that comes
        found = np.repeat(np.unique(found), 2)
        weights = np.tile(np.array([1, -1]), len(found))[: len(found)]
    else:
        weights = np.resize(np.array(pattern), len(found))

    def work() -> tuple[np.ndarray, np.ndarray, bool]:
        order, starts, known = accept._sorted_by_key(found, weights)
        if known is None:
            batch = accept.Batch(found[order], (), (weights[order],))
            known = accept._is_tidy(batch, starts)
        return order, starts, known

    compiled, plain = both(work)
    same_array(compiled[0], plain[0])
    same_array(compiled[1], plain[1])
    assert compiled[2] == plain[2]
    assert not tidy or len(found) <= 1 or compiled[2]


@pytest.mark.parametrize("size", [2, 3])
def test_every_small_delta_is_tidy_or_not(size: int) -> None:
    for weights in product((-1, 0, 1, 2), repeat=size):
        found, given_weights = np.full(size, 7, np.uint64), np.array(weights)
        order, starts, tidy = accept._sorted_by_key(found, given_weights)
        with plainly():
            expected = accept._sorted_by_key(found, given_weights)
        same_array(order, expected[0])
        same_array(starts, expected[1])
        batch = accept.Batch(found, (), (given_weights[order],))
        assert tidy == accept._is_tidy(batch, starts), weights


# Arrow type -> the SQL type of the table's column, and values
GIVEN: dict[pa.DataType, tuple[SqlType, tuple[Any, ...]]] = {
    **{type.arrow: (type, VALUES[type]) for type in TYPES},
    pa.string(): (t.VARCHAR, VALUES[t.VARCHAR]),
    pa.binary(): (t.BLOB, VALUES[t.BLOB]),
    pa.string_view(): (t.VARCHAR, VALUES[t.VARCHAR]),
    pa.dictionary(pa.int8(), pa.string()): (t.VARCHAR, VALUES[t.VARCHAR]),
    pa.int16(): (t.BIGINT, (-1, 0, 1)),
    pa.date64(): (t.DATE, VALUES[t.DATE]),
    pa.decimal128(30, 2): (t.decimal(5, 2), VALUES[t.decimal(5, 2)]),
    pa.decimal128(12, 2): (t.decimal(38, 2), VALUES[t.decimal(5, 2)]),
    pa.decimal128(4, 1): (t.decimal(9, 3), tuple(VALUES[t.decimal(20, 1)])),
}


@st.composite
def a_delta(draw: st.DrawFn) -> tuple[Schema, pa.Table | pa.RecordBatch]:
    """A table of our types, and rows for it from Arrow: sliced, in chunks, with weights."""
    count = draw(st.sampled_from((0, 1, 6, 30)))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = draw(st.lists(st.sampled_from(list(GIVEN)), min_size=1, max_size=5))
    arrays = []
    for kind in kinds:
        pool = list(GIVEN[kind][1]) + [None] * draw(st.integers(0, 2))
        arrays.append(pa.array([pool[i] for i in chance.integers(0, len(pool), count + 9).tolist()], kind))
    names = [f"c{i}" for i in range(len(kinds))]
    if draw(st.booleans()):
        weights = pa.array(
            chance.choice([-2, -1, 0, 1, 1, 1], count + 9), draw(st.sampled_from((pa.int64(), pa.int8())))
        )
        arrays, names = [*arrays, weights], [*names, "_weight"]
    schema = Schema(tuple(n for n in names if n != "_weight"), tuple(GIVEN[k][0] for k in kinds))
    rows = pa.record_batch(arrays, names).slice(draw(st.integers(0, 9)), count)
    match draw(st.sampled_from(("batch", "table", "chunks", "of a struct"))):
        case "batch":
            return schema, rows
        case "of a struct":
            whole = pa.record_batch(arrays, names).to_struct_array()
            return schema, pa.RecordBatch.from_struct_array(whole.slice(4, count))
        case "table":
            return schema, pa.table(rows)
    cut = count // 3
    parts = [pa.table(rows.slice(0, cut)), pa.table(rows.slice(cut, 0)), pa.table(rows.slice(cut))]
    return schema, pa.concat_tables(parts)


@examples
@given(a_delta())
def test_intake(delta: tuple[Schema, pa.Table | pa.RecordBatch]) -> None:
    schema, data = delta
    compiled, plain = both(
        lambda: ingest.to_zset(data, ingest.Matching(schema, "t"), [None] * len(schema.types))
    )
    for a, b in zip(compiled.columns, plain.columns, strict=True):
        same_column(a, b)
    same_array(np.asarray(compiled.weights), np.asarray(plain.weights))


def test_intake_refuses_what_does_not_fit_as_the_plain_way_does() -> None:
    data = pa.table({"d": pa.array([1000.00, 1.0, 2.0, 3.0, 4.0]).cast(pa.decimal128(30, 2))})
    schema = Schema(("d",), (t.decimal(5, 2),))

    def work() -> str:
        with pytest.raises(ingest.TypeMismatch) as raised:
            ingest.to_zset(data, ingest.Matching(schema, "t"), [None])
        return str(raised.value)

    compiled, plain = both(work)
    assert compiled == plain


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_many_rows_at_once(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(types_few, min_size=1, max_size=3, unique=True))
    left, right = ([data.draw(a_column(type, MANY)) for type in kinds] for _ in range(2))
    rows = rows_of(MANY, MANY, 1)

    def work() -> list[np.ndarray]:
        found = [equal_at(left, rows, right, rows), hash_columns(left, MANY)]
        place = lower_bounds(np.sort(found[1]), hash_columns(right, MANY))
        return [*found, place]

    compiled, plain = both(work)
    for a, b in zip(compiled, plain, strict=True):
        same_array(a, b)
    for taken in (
        both(lambda: take_columns(left, rows)),
        both(lambda: gather_columns([left, right], [rows, rows[::2].copy()])),
    ):
        for x, y in zip(*taken, strict=True):
            same_column(x, y)


def test_keys_of_many_rows() -> None:
    layout = Layout((t.BIGINT, t.VARCHAR), (0, 1))
    numbers = np.arange(MANY) % 6_000
    texts = pa.array([f"text {i}" for i in (numbers % 100).tolist()], pa.large_string())
    stored = (Column(t.BIGINT, numbers), Column(t.VARCHAR, texts))
    batch = build(layout, stored, (np.ones(MANY, np.int64),))
    keys = [c.slice(5_000, 17_000) for c in stored]
    needles = hash_columns(keys, 12_000)
    compiled, plain = both(lambda: probe_batches(layout, [batch, batch], needles, keys))
    assert len(compiled[0][1]) > 30_000  # more than there was room for at first
    same_found(compiled, plain)


@pytest.mark.parametrize("many", [64, 65])
def test_more_batches_than_compiled_code_takes_at_once(many: int) -> None:
    layout = Layout((t.BIGINT,), (0,))
    stored = [(Column(t.BIGINT, np.arange(i, i + 6)),) for i in range(many)]
    batches = [build(layout, columns, (np.ones(6, np.int64),)) for columns in stored]
    keys = stored[3]
    needles = hash_columns(keys, 6)
    same_found(*both(lambda: probe_batches(layout, batches, needles, keys)))
    same_found(*both(lambda: probe_batches(layout, batches, needles, keys, first=True)))
    compiled, plain = both(lambda: merge(layout, batches))
    same_column(compiled.columns[0], plain.columns[0])


def test_batches_in_no_order_are_sorted() -> None:
    layout = Layout((t.BIGINT,), (0,))
    parts = [np.array([5, 1, 3, 3, 9], np.uint64), np.array([2, 2, 1, 0, 7], np.uint64)]
    batches = [Batch(h, (Column(t.BIGINT, h.astype(np.int64)),), (np.ones(5, np.int64),)) for h in parts]
    compiled, plain = both(lambda: merge(layout, batches))
    assert compiled.hashes.tolist() == sorted([*parts[0].tolist(), *parts[1].tolist()])
    same_array(compiled.hashes, plain.hashes)
    same_column(compiled.columns[0], plain.columns[0])
