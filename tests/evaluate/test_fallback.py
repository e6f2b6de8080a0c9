"""What is not ours goes through DuckDB and comes back as the same values and types."""

from __future__ import annotations

import datetime as dt
import os
import threading

import pytest

from evaluate.agreement import bound, check, type_of
from evaluate.values import chosen, numbers, texts
from penstock.base.errors import InvalidValue, PenstockError
from penstock.evaluate.compile import compile_expr
from penstock.evaluate.fallback import compile_fallback
from penstock.evaluate.render import constant_sql, readable, render
from penstock.plan.expr import Call, Col, Const
from penstock.zset.column import Column, from_pylist
from penstock.zset.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INTEGER,
    INTERVAL,
    JSON,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    SqlType,
    decimal,
    list_of,
    map_of,
    struct_of,
)  # fmt: skip

DEFINITION = (
    "s VARCHAR, n BIGINT, d DECIMAL(38,6), h HUGEINT, t TIMESTAMP, j JSON, u UUID, f DOUBLE, l INTEGER[]"
)


def _columns() -> list[Column]:
    moments = (dt.datetime(2024, 2, 29, 13, 5, 7), dt.datetime(1969, 12, 31, 23, 59, 59))
    documents = ('{"a": {"b": [1, 2, null]}, "c": "x"}', "[1, 2]", "null", '{"a": 1}')
    ids = ("8c3a2b1e-0000-4000-8000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff")
    return [
        texts(VARCHAR, 30, 1),
        chosen(BIGINT, 30, 2, (-5, 0, 1, 2, 3)),
        numbers(type_of("DECIMAL(38,6)"), 30, 3),
        numbers(HUGEINT, 30, 4),
        chosen(TIMESTAMP, 30, 5, moments),
        chosen(JSON, 30, 6, documents),
        chosen(UUID, 30, 7, ids),
        numbers(DOUBLE, 30, 8),
        chosen(list_of(INTEGER), 30, 9, ([1, 2, 3], [], [None, 5])),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "regexp_replace(s, '[aeiou]', '<\\0>', 'g')", "regexp_matches(s, '^a.*c$')", "regexp_extract(s, '([a-z]+)', 1)",
        "strftime(t, '%Y-%m-%d %H:%M')", "md5(s)", "sha256(s)", "reverse(s)", "repeat(s, 2)", "lpad(s, 5, '*')",
        "split_part(s, 'b', 1)", "string_split(s, 'b')", "ascii(s)", "unicode(s)", "translate(s, 'abc', 'xyz')",
        "concat_ws('-', s, n)", "format('{} is {}', s, n)", "printf('%d', n)", "levenshtein(s, 'abc')", "hex(s)",
        "j->'a'", "j->>'c'", "json_extract(j, '$.a.b[1]')", "json_array_length(j)", "json_type(j)", "u", "u::VARCHAR",
        "h + 1", "h::VARCHAR", "d::VARCHAR", "h::DOUBLE", "d * 1.5", "sqrt(f)", "exp(f)", "ln(f)", "sin(f)",
        "power(f, 2)", "f::VARCHAR", "atan2(f, 1)", "isnan(f)", "bit_count(n)", "n << 2", "n & 3", "xor(n, 5)",
        "l[1]", "list_value(n, 1)", "len(l)", "list_contains(l, 2)", "array_to_string(l, ',')", "list_sort(l)", "l || [7]",
        "{'a': n, 'b': s}", "{'a': n, 'b': s}.b", "map([1, 2], [n, 3])", "t - TIMESTAMP '2024-01-01'", "to_days(n::INTEGER)",
        "age(t, TIMESTAMP '2000-01-01')", "make_date(2024, 1, 1) + n::INTEGER", "last_day(t)", "dayname(t)",
        "epoch_ms(t)", "t::TIME", "encode(s)", "from_base64(to_base64(encode(s)))", "TRY(n // 0)", "NULL", "typeof(s)",
        "coalesce(regexp_extract(s, 'b'), s)", "lower(md5(s)) || 'x'", "length(reverse(s)) + n", "hash(1) IS NOT NULL",
        "greatest(s, 'b')", "json_object('k', n)", "row(n, s)", "[n, n + 1]::BIGINT[2]",
    ],
)  # fmt: skip
def test_function(sql: str) -> None:
    check(DEFINITION, _columns(), sql)


CONSTANTS: list[tuple[SqlType, object]] = [
    (BIGINT, -(2**63)), (INTEGER, 5), (HUGEINT, 10**37), (decimal(38, 6), -(10**37)), (decimal(4, 1), 15), (BOOLEAN, True),
    (DOUBLE, float("nan")), (DOUBLE, float("-inf")), (DOUBLE, 1e-320), (FLOAT, 0.10000000149011612), (DOUBLE, 1e300),
    (VARCHAR, "it's \0 'quoted'\n日本"), (VARCHAR, ""), (JSON, '{"a": 1}'), (UUID, "8c3a2b1e-0000-4000-8000-000000000001"),
    (BLOB, b"\x00\xff'"), (DATE, -1), (DATE, 2**31 - 1), (TIMESTAMP, -1), (TIMESTAMP, -(2**63 - 1)), (TIMESTAMPTZ, 10**15),
    (TIME, 86_399_999_999), (INTERVAL, (14, -3, 7)), (NULL, None), (BIGINT, None), (list_of(INTEGER), (1, None, 3)),
    (list_of(VARCHAR), ()), (struct_of((("a", BIGINT), ('q"t', VARCHAR))), (1, "x")), (map_of(VARCHAR, BIGINT), (("k", 1),)),
    (list_of(list_of(DATE)), ((1, 2), ())), (list_of(decimal(9, 2)), (150,)),
]  # fmt: skip


@pytest.mark.parametrize(("type", "value"), CONSTANTS)
def test_constants_survive_rendering(type: SqlType, value: object) -> None:
    from penstock.zset.column import constant, equal_rows

    expr = Const(type, value)
    column = compile_fallback(expr, lambda: "it")([], 3)
    assert column.type == type
    assert len(column) == 3
    assert equal_rows(column, constant(type, value, 3)).all(), constant_sql(type, value)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_without_columns(count: int) -> None:
    run = compile_expr(Call(VARCHAR, "md5", (Const(VARCHAR, "x"),)))
    assert run([], count).to_pylist() == ["9dd4e461268c8034f5c8564e155c67a6"] * count


def test_errors_say_the_expression() -> None:
    run, _ = bound("amount VARCHAR, rate DOUBLE", "CAST(amount AS INTEGER)")
    columns = [from_pylist(VARCHAR, ["x"]), from_pylist(DOUBLE, [-1.0])]
    with pytest.raises(
        InvalidValue, match=r"could not convert string 'x' to INTEGER in CAST\(amount AS INTEGER\)"
    ):
        run(columns, 1)
    run, _ = bound("amount VARCHAR, rate DOUBLE", "sqrt(rate)")
    with pytest.raises(PenstockError, match="square root of a negative number in sqrt"):
        run(columns, 1)


def test_order_is_kept() -> None:
    run, _ = bound("n BIGINT", "reverse(n::VARCHAR)")
    column = from_pylist(BIGINT, range(10_000))
    assert run([column], 10_000).to_pylist() == [str(i)[::-1] for i in range(10_000)]


def test_every_thread_and_fork_has_its_own_connection() -> None:
    run, _ = bound("n BIGINT", "bit_count(n)")
    column = from_pylist(BIGINT, [7])
    found: list[int] = []

    def work() -> None:
        found.extend(run([column], 1).to_pylist()[0] for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 80
    child = os.fork()
    if child == 0:
        os._exit(0 if run([column], 1).to_pylist() == [3] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_readable() -> None:
    price, tax = Col(decimal(12, 2), 0), Col(decimal(12, 2), 1)
    one = Const(decimal(12, 2), 100)
    total = Call(decimal(18, 4), "*", (price, Call(decimal(13, 2), "+", (one, tax))))
    assert readable(total, ["price", "tax"]) == "price * (1.00 + tax)"
    case = Call(
        BOOLEAN, "case", (Call(BOOLEAN, "is_null", (price,)), Const(BOOLEAN, True), Const(BOOLEAN, None))
    )
    assert readable(case, ["price"]) == "CASE WHEN price IS NULL THEN TRUE ELSE NULL END"
    assert render(total, "c{}".format) == '"*"(c0, "+"(\'1.00\'::DECIMAL(12,2), c1))'
