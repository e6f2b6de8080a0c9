"""What compiled code must refuse or survive: odd memory, columns that forget, streams that fail, calls that are wrong."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from native.any_columns import laid_out
from native.both_ways import both, needs_kernels, same_array, same_column, text_bytes
from penstock import native
from penstock.engine import accept, ingest
from penstock.kernels.floatsum import FloatSum
from penstock.kernels.hashing import hash_columns
from penstock.kernels.order import sorted_hashes
from penstock.kernels.search import lower_bounds
from penstock.state.batch_file import MappedFile, StoredBatch, describe, serialise
from penstock.state.batch_range import BatchRange
from penstock.zset import types as t
from penstock.zset.column import Column, from_pylist
from penstock.zset.comparing import equal_at
from penstock.zset.taking import gather_columns, take_columns
from penstock.zset.types import Schema

pytestmark = needs_kernels
ROWS = np.arange(6)
HASHES = ROWS.astype(np.uint64)
TEXTS = ["a", "", None, "bb", "a", "é"]
DTYPE = np.dtype(np.int64)
COPY, DECIMAL, TEXT32, TEXT64, BITS = 1, 2, 3, 4, 5


def texts(values: list[str | None] = TEXTS) -> Column:
    return from_pylist(t.VARCHAR, values)


def across_words(values: np.ndarray) -> np.ndarray:
    """The same numbers at an address that is no multiple of their size."""
    raw = np.zeros(values.nbytes + 1, np.uint8)
    found = raw[1:].view(values.dtype)
    found[:] = values
    assert not found.flags.aligned
    return found


ODD_NUMBERS = {
    "across words": across_words(ROWS * 3),
    "swapped": (ROWS * 3).astype(">i8"),
    "swapped floats": (ROWS * 1.5).astype(">f8"),
    "no stride": np.broadcast_to(np.int64(7), 6),
    "backwards": (ROWS * 3)[::-1],
    "long long": ROWS.astype(np.longlong),
    "read only": np.frombuffer((ROWS * 3).tobytes(), np.int64),
}


@pytest.mark.parametrize("name", ODD_NUMBERS)
def test_odd_numbers(name: str) -> None:
    """Byte-swapped numbers were compared and hashed as they lie in memory."""
    odd = Column(t.BIGINT, ODD_NUMBERS[name])
    usual = Column(t.BIGINT, np.array(ODD_NUMBERS[name].tolist(), ODD_NUMBERS[name].dtype.newbyteorder("=")))
    same_array(*both(lambda: equal_at([odd], ROWS, [usual], ROWS)))
    assert equal_at([odd], ROWS, [usual], ROWS).all()
    same_array(*both(lambda: hash_columns([odd], 6)))
    compiled, plain = both(lambda: take_columns([odd], ROWS[::-1].copy()))
    same_column(compiled[0], plain[0])


@pytest.mark.parametrize("name", ["across words", "swapped", "long long", "backwards"])
def test_odd_row_numbers(name: str) -> None:
    rows = np.array([3, 1, 1, 0, 2, 5])
    odd = {
        "across words": across_words(rows),
        "swapped": rows.astype(">i8"),
        "long long": rows.astype(np.longlong),
    }
    index = odd.get(name, rows[::-1])
    columns = [
        Column(t.BIGINT, ROWS * 3),
        *([texts()] if name != "swapped" else []),
    ]  # Arrow takes no swapped ones
    for a, b in zip(*both(lambda: take_columns(columns, index)), strict=True):
        same_column(a, b)
    same_array(*both(lambda: equal_at(columns, index, columns, ROWS)))


def test_odd_hashes() -> None:
    hashes = np.array([5, 2**63, 5, 1, 2**64 - 1, 0], np.uint64)
    for odd in (across_words(hashes), hashes[::-1], np.repeat(hashes, 2)[::2]):
        ascending = np.sort(odd)
        odd_ascending = across_words(ascending)
        for a, b in zip(*both(lambda odd=odd: sorted_hashes(odd)), strict=True):
            same_array(a, b)
        same_array(*both(lambda odd=odd, found=odd_ascending: lower_bounds(found, odd)))
        compiled, plain = both(lambda odd=odd: accept._sorted_by_key(odd, np.broadcast_to(np.int64(1), 6)))
        same_array(compiled[0], plain[0])


def test_numbers_of_one_width_and_two_kinds_are_not_the_same() -> None:
    signed = Column(t.BIGINT, np.array([-1, 1, 2]))
    unsigned = Column(t.UBIGINT, np.array([2**64 - 1, 1, 2], np.uint64))
    same_array(*both(lambda: equal_at([signed], ROWS[:3], [unsigned], ROWS[:3])))
    assert equal_at([signed], ROWS[:3], [unsigned], ROWS[:3]).tolist() == [False, True, True]


def test_row_numbers_outside() -> None:
    for columns in ([texts()], [texts(), Column(t.BIGINT, ROWS)]):
        for rows in (np.array([0, 6]), np.array([0, 2**62]), np.array([-(2**63), 0])):
            for work in (
                lambda c=columns, r=rows: take_columns(c, r),
                lambda c=columns, r=rows: equal_at(c, r, c, r),
            ):
                with pytest.raises(IndexError):
                    work()


def test_text_of_other_arrays_than_usual() -> None:
    """Arrays of 32-bit offsets and in chunks are not what compiled code reads: the plain way has them."""
    usual = texts().values
    _, offsets, data = pa.array(["ab", "c", "", "d", "e", "f"], pa.large_string()).buffers()
    moved = pa.py_buffer(b"x" + offsets.to_pybytes()).slice(1)
    across = pa.Array.from_buffers(pa.large_string(), 6, [None, moved, data])
    for array in (usual.cast(pa.string()), usual.cast(pa.large_binary()), across):
        column = Column(t.VARCHAR, array)
        same_array(*both(lambda column=column: equal_at([column], ROWS, [column], ROWS[::-1].copy())))
    chunked = Column(t.VARCHAR, pa.chunked_array([usual]))
    with pytest.raises(TypeError):
        chunked.text_buffers()


@pytest.mark.parametrize(
    "array", [pa.array([], pa.large_string()), pa.array(["a"] * 9, pa.large_string())[9:]]
)
def test_no_rows(array: pa.Array) -> None:
    none = np.zeros(0, np.int64)
    for empty in (array, pa.Array.from_buffers(pa.large_string(), 0, [None, None, pa.py_buffer(b"")])):
        columns = [Column(t.VARCHAR, empty), Column(t.BIGINT, none)]
        for a, b in zip(*both(lambda c=columns: take_columns(c, none)), strict=True):
            same_column(a, b)
        same_array(*both(lambda c=columns: equal_at(c, none, c, none)))


def test_empty_texts_without_bytes() -> None:
    offsets = pa.py_buffer(np.zeros(7, np.int64))
    nothing = pa.py_buffer(b"")
    column = Column(t.VARCHAR, pa.Array.from_buffers(pa.large_string(), 6, [None, offsets, nothing]))
    compiled, plain = both(lambda: take_columns([column], ROWS))
    same_column(compiled[0], plain[0])
    same_array(*both(lambda: hash_columns([column], 6)))
    assert equal_at([column], ROWS, [texts([""] * 6)], ROWS).all()


def test_what_lies_under_a_null_is_not_taken() -> None:
    """It would be kept in memory and in files, though nobody can see it."""
    column = laid_out(t.VARCHAR, ["a", None, "b", None, "c", None] * 2, "filled", 6)
    assert text_bytes(column.values) > 30
    compiled, plain = both(lambda: take_columns([column], ROWS))
    assert text_bytes(compiled[0].values) == text_bytes(plain[0].values) == 3
    compiled, plain = both(lambda: gather_columns([[column], [texts()]], [ROWS, ROWS]))
    assert text_bytes(compiled[0].values) == text_bytes(plain[0].values) == 3 + text_bytes(texts().values)


# -- addresses outlive nothing ---------------------------------------------------------------------


def file_of(values: list[str]) -> pa.Buffer:
    count = len(values)
    return serialise(np.arange(count, dtype=np.uint64), [texts(list(values))], (np.ones(count, np.int64),))


def test_a_file_that_is_mapped_anew_lies_elsewhere() -> None:
    """A stored column forgets its values when too many files are open. The addresses of its text were kept."""
    first, second = file_of(["aa", "bb", "cc"]), file_of(["xx", "yy", "zz"])
    files = iter([first, second, first, second])

    def opened(batch: StoredBatch) -> MappedFile:
        data = next(files)
        return MappedFile(describe("f", data, 3), data)

    stored = StoredBatch(describe("f", first, 3), [t.VARCHAR], opened)
    rows = ROWS[:3]
    for columns in (stored.columns, BatchRange(stored, 0, 2**64).columns):
        for expected in (["aa", "bb", "cc"], ["xx", "yy", "zz"]):
            if columns is stored.columns:
                stored.release()
            else:
                columns = BatchRange(stored, 0, 2**64).columns
                stored.release()
            for _ in range(2):  # told, and remembered
                assert equal_at(columns, rows, [texts(list(expected))], rows).all()
            assert hash_columns(columns, 3).tolist() == hash_columns([texts(list(expected))], 3).tolist()


class Forgetful(Column):
    """A column that has other values each time, and keeps what it told of the first ones."""

    @property
    def values(self) -> Any:
        return pa.array(["x", "y"], pa.large_string())


def test_what_was_told_of_other_values_is_not_used() -> None:
    column = Forgetful.__new__(Forgetful)
    column._text = (None, 8, 8, 8, 0, 2)  # addresses that would be the end of the process
    column.type = t.VARCHAR
    assert equal_at([column], ROWS[:2], [texts(["x", "z"])], ROWS[:2]).tolist() == [True, False]


def test_what_is_told_of_text_keeps_the_text() -> None:
    column = texts()
    told = column.text_buffers()
    assert told[0] is column.values
    assert told == column._text


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_does_not_have_the_addresses_of_its_original(copied: Any) -> None:
    column = texts()
    assert equal_at([column], ROWS, [column], ROWS).all()
    made = copied(column)
    assert not hasattr(made, "_text")
    assert type(made) is Column
    same_column(made, column)
    later = take_columns([column], ROWS)
    assert equal_at([made], ROWS, later, ROWS).all()


# -- intake ----------------------------------------------------------------------------------------


def test_more_chunks_than_compiled_code_counts() -> None:
    for chunks in (255, 256, 257, 300):
        data = pa.concat_tables([pa.table({"a": [i], "b": [str(i)]}) for i in range(chunks)])
        schema = Schema(("a", "b"), (t.BIGINT, t.VARCHAR))
        compiled, plain = both(
            lambda data=data, schema=schema: ingest.to_zset(data, ingest.Matching(schema, "t"), [None, None])
        )
        for a, b in zip(compiled.columns, plain.columns, strict=True):
            same_column(a, b)


def test_columns_of_rows_that_are_a_slice() -> None:
    """As other libraries may hand them over: the rows have an offset, and so have their columns."""
    numbers, words = pa.array([*range(9), None])[1:], pa.array([None, *"abcdefghi"])[1:]
    whole = pa.StructArray.from_arrays([numbers, words], ["a", "b"])
    stream = pa.chunked_array([whole.slice(2, 3), whole.slice(7)]).__arrow_c_stream__()
    plan = ((0, COPY, DTYPE, 0), (1, TEXT32, DTYPE, 0))
    (values, valid), (offsets, data, _, nulls) = native.kernels.intake(stream, plan)
    assert values.tolist() == [3, 4, 5, 8, 0]
    assert valid.tolist() == [True, True, True, True, False]
    assert (data, nulls, offsets.tolist()) == (b"cdehi", 0, [0, 1, 2, 3, 4, 5])


def test_numbers_under_a_null_become_zero() -> None:
    bits = pa.py_buffer(bytes([0b010101]))
    numbers = pa.Array.from_buffers(pa.int64(), 6, [bits, pa.py_buffer(ROWS + 7)])
    flags = pa.Array.from_buffers(pa.bool_(), 6, [bits, pa.py_buffer(bytes([0b111111]))])
    data = pa.table({"a": numbers, "b": flags, "c": pa.array([None, 1, 2, 3, 4, 5])})
    known = Schema(("a", "b", "c"), (t.BIGINT, t.BOOLEAN, t.BIGINT))
    for rows in (data, data.slice(0, 1), data.slice(1, 5), data.slice(2, 1)):
        compiled, plain = both(
            lambda rows=rows: ingest.to_zset(rows, ingest.Matching(known, "t"), [None] * 3)
        )
        for a, b in zip(compiled.columns, plain.columns, strict=True):
            same_column(a, b)
        assert (compiled.columns[2].valid is None) == (rows["c"].null_count == 0)


def test_streams_that_are_not_as_expected() -> None:
    plan = ((0, COPY, DTYPE, 0),)
    take = native.kernels.intake

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise ValueError("no more")

    schema = pa.schema([("a", pa.int64())])
    assert take(pa.RecordBatchReader.from_batches(schema, failing()).__arrow_c_stream__(), plan) is None
    capsule = pa.table({"a": [1, 2]}).__arrow_c_stream__()
    assert pa.RecordBatchReader._import_from_c_capsule(capsule).read_all().num_rows == 2
    with pytest.raises(ValueError, match="has been read"):
        take(capsule, plan)
    encoded = pa.table({"a": pa.array(["x", "y"]).dictionary_encode()})
    assert take(encoded.__arrow_c_stream__(), ((0, TEXT32, DTYPE, 0),)) is None
    assert take(pa.table({"a": [[1], [2]]}).__arrow_c_stream__(), plan) is None
    assert take(pa.table({"a": [1]}).__arrow_c_stream__(), ((1, COPY, DTYPE, 0),)) is None
    assert take(pa.table({"a": [1]}).__arrow_c_stream__(), ((0, TEXT64, DTYPE, 0),)) is None
    with pytest.raises(ValueError):
        take(pa.array([1]).__arrow_c_array__()[0], plan)


# -- calls that are wrong --------------------------------------------------------------------------


def NOTHING(key: Any, width: int) -> tuple[int, ...]:
    return (0,) * width


# A count by the first value of a row: all that step_groups takes but for the rows.
STEP: tuple[Any, ...] = ((0,), (("r", -1),), (("c", (0,), None),), {}, NOTHING)


def wrong_calls() -> list[tuple[str, tuple[Any, ...]]]:
    """Calls that end in an error, or in none, and keep nothing."""
    number, text, nested = Column(t.BIGINT, ROWS), texts(), from_pylist(t.list_of(t.BIGINT), [[1]] * 6)
    hashes = ROWS.astype(np.uint64)
    stream = pa.table({"a": [1, 2]}).__arrow_c_stream__
    return [
        ("take", ([number, nested], ROWS)),
        ("take", ([number, text], ROWS + 9)),
        ("take", ([text, number, 3], ROWS)),
        ("take", (7, ROWS)),
        ("take", ([text], [1, 2])),
        ("take", ([text],)),
        ("take", ([Column(t.BIGINT, ROWS.astype(object))], ROWS)),
        ("take", ([Column(t.BIGINT, ROWS, np.ones(2, np.bool_))], ROWS)),
        ("take", ([Column(t.BIGINT, np.array(["abc"] * 6, "S3"))], ROWS)),
        ("take", ([Column(t.BIGINT, ROWS.astype(np.float16))], ROWS)),
        ("take", ([Column(t.BIGINT, ROWS.astype(np.complex64))], ROWS)),
        ("take", ([Column(t.BIGINT, ROWS.reshape(2, 3))], ROWS)),
        ("equal", ([number], ROWS, [text], ROWS)),
        ("equal", ([number], ROWS, [number, text], ROWS)),
        ("equal", ([number], ROWS, [number], ROWS[:2])),
        ("equal", ([number], ROWS, [nested], ROWS)),
        ("equal", ([number, Column(t.BIGINT, ROWS[:2])], None, [number, number], None)),
        ("equal", ([number], ROWS + 1, [number], ROWS)),
        ("lower_bounds", (hashes, ROWS)),
        ("lower_bounds", (ROWS, hashes)),
        ("lower_bounds", (hashes,)),
        ("probe", (hashes, [number], [(hashes, [text])], False)),
        ("probe", (hashes, [number], [(hashes, [number]), (hashes, [number, number])], True)),
        ("probe", (hashes[:2], [number], [(hashes, [number])], False)),
        ("probe", (hashes, [number], [(hashes[:2], [number])], False)),
        ("probe", (hashes, [number], [(hashes, 5)], False)),
        ("probe", (hashes, [number], [(hashes, [number])] * 65, False)),
        ("probe", (hashes, [number], [(ROWS, [number])], False)),
        ("probe", (hashes, [number], (hashes, [number]), False)),
        ("gather", ([[text], [text, number]], ROWS % 2, ROWS)),
        ("gather", ([[text, Column(t.BIGINT, ROWS[:2])]], ROWS * 0, ROWS)),
        ("gather", ([[text], [texts(["a"])]], ROWS % 2, ROWS)),
        ("gather", ([[text], [text]], ROWS, ROWS)),
        ("gather", ([[text], [text]], ROWS - 1, ROWS)),
        ("gather", ([[number], [text]], ROWS % 2, ROWS)),
        ("gather", ([[hashes], [ROWS]], ROWS % 2, ROWS)),
        ("gather", ([[number]], ROWS[:2] * 0, ROWS)),
        ("gather", ([], ROWS, ROWS)),
        ("gather", ([[number, FloatSum((), np.zeros((6, 0), np.int64))]], ROWS * 0, ROWS)),
        ("merge_order", ([hashes, hashes[::-1].copy()],)),
        ("merge_order", ([hashes, ROWS],)),
        ("merge_order", ([hashes] * 65,)),
        ("hash", ([number], 5, 64, 1)),
        ("hash", ([number, nested], 6, 64, 1)),
        ("hash", ([number], "six", 64, 1)),
        ("hash", ([], -1, 64, 1)),
        ("sort", (ROWS,)),
        ("by_key", (hashes, ROWS[:2])),
        ("by_key", (hashes, hashes)),
        ("intake", (stream(), ((0, COPY, DTYPE, 0), (1, COPY, DTYPE)))),
        ("intake", (stream(), ((0, COPY, "int64", 0),))),
        ("intake", (stream(), ((0, COPY, np.dtype(object), 0),))),
        ("intake", (stream(), ((0, BITS, DTYPE, 0),))),
        ("intake", (stream(), ((0, 99, DTYPE, 0),))),
        ("intake", (stream(), [])),
        ("intake", (7, ())),
        ("plain_dicts", (({"a": 1},), ("a",), b"8", "_weight", 9)),
        ("plain_dicts", ([{"a": 1}], ("a",), b"88", "_weight", 9)),
        ("plain_dicts", ([{"a": 1}], ("a",), b"8", "_weight", 2**70)),
        ("plain_dicts", ([{"a": 1}], ("a",), b"8", [], 9)),
        ("dicts", ([(1,)], [1], ("a", "b"), "_weight")),
        ("dicts", ([[1]], [1], ("a",), "_weight")),
        ("dicts", ([(1,)], [], ("a",), "_weight")),
        ("dicts", ([(1,), (2,)], [1, 1], ([],), "_weight")),
        ("add_groups", ({}, {}, ())),
        ("add_groups", ({}, {}, [((1,), (1,)), 5])),
        ("add_groups", ({(1,): (1, 2)}, {}, [((1,), (1,))])),
        ("add_groups", ({(1,): 5}, {}, [((1,), (1,))])),
        ("add_groups", ({(1,): ("a",)}, {}, [((1,), (1,))])),
        ("add_groups", ({}, {}, [([], (1,))])),
        ("step_groups", ([(1,)], [], *STEP)),
        ("step_groups", ([5], [1], *STEP)),
        ("step_groups", ([()], [1], *STEP)),
        ("step_groups", ([(1,)], ["a"], *STEP)),
        ("step_groups", ([([],)], [1], *STEP)),
        ("step_groups", ([(1,)], [1], (-1,), *STEP[1:])),
        ("step_groups", ([(1,)], [1], ("a",), *STEP[1:])),
        ("step_groups", ([(1,)], [1], (0,), (), *STEP[2:])),
        ("step_groups", ([(1,)], [1], (0,), (5,), *STEP[2:])),
        ("step_groups", ([(1,)], [1], (0,), (("x", 0),), *STEP[2:])),
        ("step_groups", ([(1,)], [1], (0,), (("r", -1), ("s", 1)), *STEP[2:])),
        ("step_groups", ([("a",)], [1], (0,), (("r", -1), ("q", 0)), *STEP[2:])),
        ("step_groups", ([(1,)], [1], *STEP[:2], (5,), {}, NOTHING)),
        ("step_groups", ([(1,)], [1], *STEP[:2], (("c", (7,), None),), {}, NOTHING)),
        ("step_groups", ([(1,)], [1], *STEP[:2], (("s", (0, 7), None),), {}, NOTHING)),
        ("step_groups", ([(1,)], [1], *STEP[:2], (("?", (0,), None),), {}, NOTHING)),
        ("step_groups", ([(1,)], [1], *STEP[:3], {(1,): ("a",)}, NOTHING)),
        ("step_groups", ([(1,)], [1], *STEP[:3], {(1,): ()}, NOTHING)),
        ("step_groups", ([(1,)], [1], *STEP[:3], {}, 5)),
    ]


RIGHT_CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("take", ([Column(t.BIGINT, ROWS), texts(), from_pylist(t.DOUBLE, [1.5, None] * 3)], ROWS)),
    ("take", ([texts(["a"] * 6)], ROWS)),
    ("equal", ([texts()], ROWS, [texts()], ROWS)),
    ("equal", ([texts()], None, [texts()], None)),
    ("lower_bounds", (ROWS.astype(np.uint64), ROWS.astype(np.uint64))),
    ("probe", (HASHES, [texts()], [(HASHES, [texts()]), (HASHES, [texts()])], True)),
    ("probe", (HASHES, [texts()], [(HASHES + np.uint64(9), [texts()])], False)),
    (
        "gather",
        ([[ROWS, texts(), Column(t.BIGINT, ROWS)], [ROWS, texts(), Column(t.BIGINT, ROWS)]], ROWS % 2, ROWS),
    ),
    ("merge_order", ([HASHES, HASHES],)),
    ("hash", ([Column(t.BIGINT, ROWS), texts()], 6, 64, 2**64 - 1)),
    ("hash", ([texts(["long" * 99] * 6)], 6, 64, 2**64 - 1)),
    ("sort", (ROWS.astype(np.uint64),)),
    ("by_key", (ROWS.astype(np.uint64), ROWS)),
    ("plain_dicts", ([{"a": 1, "b": "x"}, {"b": "y", "a": 2, "_weight": -1}], ("a", "b"), b"8s", "_weight", 9)),
    ("plain_dicts", ([{"a": 1}, {"a": "x"}], ("a",), b"8", "_weight", 9)),
    ("dicts", ([(1, "a"), (None, "b")], [1, -1], ("x", "y"), "_weight")),
    ("add_groups", ({}, {(1,): (5, 6)}, [((1,), (0, 0)), ((2,), (0, 1))])),
    (
        "step_groups",
        ([(1, None), (1, 5), (2, 7)], [1, -1, 2], (0,), (("r", -1), ("c", 1), ("s", 1), ("q", 1), ("t", 1)),
         (("c", (0,), None), ("s", (1, 2), sum), ("?", (3, 4), sum)), {(1,): (3, 3, 3, 3, 3)}, NOTHING),
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(wrong_calls())))
def test_a_wrong_call_is_an_error(number: int) -> None:
    name, arguments = wrong_calls()[number]
    with pytest.raises((TypeError, ValueError, IndexError, AttributeError, OverflowError)):
        getattr(native.kernels, name)(*arguments)


def test_no_columns_hash_alike() -> None:
    assert native.kernels.hash([], 5, 64, 2**64 - 1).tolist() == [0] * 5


def watched(arguments: tuple[Any, ...]) -> list[Any]:
    """The objects of a call whose references are counted."""
    found: list[Any] = [None, DTYPE, *arguments]
    for one in found:  # which grows meanwhile
        if isinstance(one, (list, tuple)):
            found += one
        elif isinstance(one, Column):
            found.append(one.values)
    return found


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_calls_keep_no_references(wrong: bool) -> None:
    """None was kept once for each column without NULLs."""
    for name, arguments in wrong_calls() if wrong else RIGHT_CALLS:
        call, objects = getattr(native.kernels, name), watched(arguments)

        def repeat(times: int, call: Any = call, arguments: tuple[Any, ...] = arguments) -> None:
            for _ in range(times):
                try:
                    call(*arguments)
                except Exception:
                    continue

        repeat(3)
        before = [sys.getrefcount(x) for x in objects]
        repeat(200)
        after = [sys.getrefcount(x) for x in objects]
        grown = [b - a for a, b in zip(before, after, strict=True)]
        assert max(grown) < 100, (name, grown)
